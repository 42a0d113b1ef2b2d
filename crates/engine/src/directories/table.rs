//! The directories that are known: by prefix and by number, each with its latest listing.
//!
//! ```text
//!   prefix ── identify ──> DirId ──> Known: the latest chain, and when files were confirmed
//!                            │
//!   dropped ── no listing leads to it any more ──> forgotten
//!
//!   replaced, trimmed, released ──> gone: pages whose directories are let go, some at a time
//!                              └──> changed: listings of which policy is to be told
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use foreread_backend::{Key, Object};
use foreread_policy::{Child, DirId};
use tokio::time::Instant;

use crate::directories::chain::Chain;
use crate::directories::listing::memory::Gone;
use crate::directories::listing::{Listing, Node, Said, TakenChild};
use crate::directories::marks::Last;
use crate::directories::name;
use crate::directories::parted::Parted;

/// The directories that are known.
pub(crate) struct DirectoryTable {
    by_prefix: Parted<Arc<str>, DirId>,
    known: Parted<DirId, Known>,
    next: u64,
    /// Listings that are not the latest of their directories, and that policy knows.
    older: BTreeMap<u64, Weak<Chain>>,
    next_chain: u64,
    /// Those that may take more or less than policy was told.
    changed: Vec<Arc<Chain>>,
    /// Pages that are forgotten, and whose directories may be let go.
    gone: VecDeque<Gone>,
    /// How long what is known may be believed.
    ttl: Duration,
    /// Since when: what was asked for before is not believed.
    since: Option<Instant>,
    /// Whether the storage can be asked for what follows a key.
    divisible: bool,
    /// Listings of which entries are gone: their readers look again, once no lock is held.
    pub(super) woken: Vec<Arc<Listing>>,
}

/// One directory that has a number.
struct Known {
    prefix: Arc<str>,
    /// The latest listing.
    chain: Option<Arc<Chain>>,
}

/// What a name is now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Named {
    /// What it stands for.
    pub node: Node,
    /// How long that may still be believed; zero if the storage was asked for this name alone.
    pub believed: Duration,
}

/// Why it is not known what a name is.
pub(crate) enum Unknown {
    /// The storage has to be asked.
    Nothing,
    /// This listing is in flight, and will tell.
    Listing(Arc<Chain>),
    /// It was this entry when that was last believed. If the file is in flight, it will tell.
    Old(DirId, u32),
    /// It was not there when that was last believed. The pages with these entries are in flight,
    /// and will tell.
    Absent(DirId, Vec<u32>),
}

impl DirectoryTable {
    pub(crate) fn new(ttl: Duration, divisible: bool) -> Self {
        Self {
            by_prefix: Parted::default(),
            known: Parted::default(),
            next: 0,
            older: BTreeMap::new(),
            next_chain: 0,
            changed: Vec::new(),
            gone: VecDeque::new(),
            ttl,
            since: None,
            divisible,
            woken: Vec::new(),
        }
    }

    /// Believes what is known for so long from now on.
    pub(crate) fn set_ttl(&mut self, ttl: Duration) {
        self.ttl = ttl;
    }

    /// Whether what was asked for at `at` may still be believed.
    pub(crate) fn is_fresh(&self, at: Instant) -> bool {
        !self.ttl.is_zero() && at.elapsed() <= self.ttl && self.since.is_none_or(|since| at >= since)
    }

    /// How long what was asked for at `at` may still be believed.
    fn believed(&self, at: Instant) -> Duration {
        if self.is_fresh(at) { self.ttl.saturating_sub(at.elapsed()) } else { Duration::ZERO }
    }

    /// What was asked for before this moment is not believed from now on.
    pub(crate) fn believe_from(&mut self, since: Instant) {
        self.since = Some(since);
    }

    /// The number of a directory that has one.
    pub(crate) fn number(&self, prefix: &str) -> Option<DirId> {
        self.by_prefix.get(prefix).copied()
    }

    /// The number of a directory, and whether it is new.
    pub(crate) fn identify(&mut self, prefix: &str) -> (DirId, bool) {
        if let Some(&dir) = self.by_prefix.get(prefix) {
            return (dir, false);
        }
        self.next += 1;
        let (dir, prefix) = (DirId(self.next), Arc::<str>::from(prefix));
        self.by_prefix.insert(Arc::clone(&prefix), dir);
        self.known.insert(dir, Known { prefix, chain: None });
        (dir, true)
    }

    /// The latest listing of a directory.
    pub(crate) fn chain(&self, dir: DirId) -> Option<Arc<Chain>> {
        self.known.get(&dir)?.chain.clone()
    }

    /// Whether `chain` is the latest listing of its directory.
    pub(crate) fn is_latest(&self, chain: &Arc<Chain>) -> bool {
        self.known.get(&chain.dir).and_then(|known| known.chain.as_ref()).is_some_and(|last| Arc::ptr_eq(last, chain))
    }

    /// A number for a listing of `dir`.
    fn number_chain(&mut self, dir: DirId) -> (DirId, u64) {
        self.next_chain += 1;
        (dir, self.next_chain)
    }

    /// What `chain` takes may have changed.
    pub(crate) fn changed(&mut self, chain: &Arc<Chain>) {
        self.changed.push(Arc::clone(chain));
    }

    /// The next listing that is not the latest of its directory and takes other than policy was
    /// told: its number, and what it takes.
    pub(crate) fn next_changed(&mut self) -> Option<(u64, u64)> {
        while let Some(chain) = self.changed.pop() {
            let is_latest = self.is_latest(&chain);
            if !is_latest && !chain.is_held() {
                self.cut(&chain.listing, u32::MAX);
            }
            let Some(bytes) = chain.outdated(is_latest) else { continue };
            match bytes {
                0 => drop(self.older.remove(&chain.number)),
                _ => drop(self.older.insert(chain.number, Arc::downgrade(&chain))),
            }
            return Some((chain.number, bytes));
        }
        None
    }

    /// Forgets what has come of a listing that is not the latest of its directory.
    pub(crate) fn release(&mut self, number: u64) {
        if let Some(chain) = self.older.remove(&number).and_then(|chain| chain.upgrade()) {
            self.let_go_of(&chain);
        }
    }

    fn let_go_of(&mut self, chain: &Chain) {
        if let Some(gone) = chain.release() {
            self.gone.push_back(gone);
            self.woken.push(Arc::clone(&chain.listing));
        }
    }

    /// A listing for a reader that was given the entries before `place` of `chain`, of which
    /// `last` is the last one, if that is known, and that goes on by itself.
    pub(crate) fn resume(&mut self, chain: &Arc<Chain>, place: u32, last: Option<Last>) -> Arc<Chain> {
        let number = self.number_chain(chain.dir);
        // What was released tells no place.
        let marks = chain.listing.before(place).is_none().then(|| self.chain(chain.dir)).flatten();
        let before = marks.as_ref().unwrap_or(chain);
        let rest = Chain::rest(number, &before.listing, place, last, self.divisible);
        rest.hold();
        chain.unhold();
        self.changed.extend([Arc::clone(chain), Arc::clone(&rest)]);
        rest
    }

    /// A new listing of `dir` that has not been asked for. `along`: it will come with others.
    pub(crate) fn begin(&mut self, dir: DirId, along: bool) -> Arc<Chain> {
        let number = self.number_chain(dir);
        let known = self.known.get_mut(&dir);
        // A number that is not known names nothing: policy does not ask for such a directory.
        debug_assert!(known.is_some(), "{dir:?} has no name");
        let prefix = known.as_ref().map_or_else(|| Arc::from(NOWHERE), |known| Arc::clone(&known.prefix));
        let latest = known.as_ref().and_then(|known| known.chain.clone());
        // While the latest has one before it, what has come of it is like that, which knows more.
        let before = latest.as_ref().and_then(|latest| latest.forget_before()).or_else(|| latest.clone());
        self.changed.extend(latest);
        self.changed.extend(before.clone());
        let chain = Chain::new(number, &prefix, before, along, self.divisible);
        if let Some(known) = known {
            known.chain = Some(Arc::clone(&chain));
        }
        chain
    }

    /// A new listing of `dir` that begins with the entry at `from`, in place of the latest one. A
    /// reader that is in the middle of that lists the rest again.
    pub(crate) fn begin_from(&mut self, dir: DirId, from: u32) -> Option<Arc<Chain>> {
        let number = self.number_chain(dir);
        let known = self.known.get_mut(&dir)?;
        let before = known.chain.take()?;
        let chain = Chain::rest(number, &before.listing, from, None, self.divisible);
        known.chain = Some(Arc::clone(&chain));
        self.forget(before);
        Some(chain)
    }

    /// `chain` is no longer the latest listing of its directory, and nothing of it is kept.
    fn forget(&mut self, chain: Arc<Chain>) {
        for listing in chain.listings() {
            self.cut(&listing, u32::MAX);
        }
        self.changed.extend(chain.forget_before());
        self.changed.push(chain);
    }

    /// What `name` in `dir` is, and its place if there is one. `again`: what was in flight for it
    /// has come, or will not.
    pub(crate) fn look_up(&self, dir: DirId, name: &str, again: bool) -> (Result<Option<Named>, Unknown>, Option<u32>) {
        let Some(chain) = self.known.get(&dir).and_then(|known| known.chain.as_ref()) else {
            return (Err(Unknown::Nothing), None);
        };
        let said = chain.look_up(name);
        let place = if let Said::Present(_, place, _) = said { Some(place) } else { None };
        (self.judge(dir, chain, said, again), place)
    }

    fn judge(&self, dir: DirId, chain: &Arc<Chain>, said: Said, again: bool) -> Result<Option<Named>, Unknown> {
        match said {
            Said::Absent(at) if self.is_fresh(at) => Ok(None),
            Said::Present(node, place, at) => {
                let at = at.max(self.seen_inside(&node).unwrap_or(at));
                let believed = self.believed(at);
                match believed.is_zero() {
                    false => Ok(Some(Named { node, believed })),
                    // If its own listing is in flight, that will tell whether the directory is
                    // there.
                    true if !again => match self.inside(&node) {
                        Some(below) if self.will_tell(&below) && below.is_busy() => Err(Unknown::Listing(below)),
                        _ => Err(Unknown::Old(dir, place)),
                    },
                    true => Err(Unknown::Nothing),
                }
            }
            Said::Nothing if !again && self.will_tell(chain) => Err(Unknown::Listing(Arc::clone(chain))),
            Said::Absent(_) | Said::Nothing => Err(Unknown::Nothing),
        }
    }

    /// The parent of a directory, and between which of its places that one would be, if that is
    /// among those that are gone.
    pub(crate) fn gone_part_of(&self, prefix: &str) -> Option<(DirId, (u32, u32))> {
        let (parent, name) = name::split(prefix.strip_suffix('/')?);
        let dir = self.number(parent)?;
        Some((dir, self.known.get(&dir)?.chain.as_ref()?.listing.gone_part(name)?))
    }

    /// Whether `chain` has begun lately and has brought nothing yet.
    pub(crate) fn will_tell(&self, chain: &Chain) -> bool {
        !chain.listing.has_begun() && self.is_fresh(chain.began)
    }

    /// An entry as policy is told of it.
    pub(crate) fn child(&mut self, child: &TakenChild) -> Child {
        match child {
            TakenChild::Directory(prefix) => Child::Directory(self.identify(prefix).0),
            TakenChild::File { pages, kind, stem } => Child::File { pages: *pages, kind: *kind, stem: *stem },
        }
    }

    /// The latest listing of a directory.
    fn inside(&self, node: &Node) -> Option<Arc<Chain>> {
        let Node::Directory(prefix) = node else { return None };
        self.chain(*self.by_prefix.get(prefix.as_str())?)
    }

    /// When the directory's own listing last showed an entry in it: it is there.
    fn seen_inside(&self, node: &Node) -> Option<Instant> {
        let (mut seen, chain) = (None, self.inside(node)?);
        chain.listing.visit(chain.listing.gone(), |_, _, _, at| {
            seen = Some(at);
            false
        });
        seen
    }

    /// What the listing says of an object, and when that was last confirmed.
    pub(crate) fn find(&self, key: &Key) -> Option<(Node, Instant)> {
        self.said(key).map(|(node, _, at)| (node, at))
    }

    /// The directory that an object is in, and its place there.
    pub(crate) fn place(&self, key: &Key) -> Option<(DirId, u32)> {
        let (_, place, _) = self.said(key)?;
        let (prefix, _) = name::split(key.as_str());
        Some((*self.by_prefix.get(prefix)?, place))
    }

    /// Whether policy has not heard of the entry that `key` is.
    pub(crate) fn is_untold(&self, key: &Key) -> bool {
        let Some((dir, place)) = self.place(key) else { return false };
        self.known.get(&dir).and_then(|known| known.chain.as_ref()).is_some_and(|chain| !chain.is_told(place))
    }

    fn said(&self, key: &Key) -> Option<(Node, u32, Instant)> {
        let (prefix, name) = name::split(key.as_str());
        let known = self.known.get(self.by_prefix.get(prefix)?)?;
        match known.chain.as_ref()?.look_up(name) {
            Said::Present(node, place, at) => Some((node, place, at)),
            Said::Nothing | Said::Absent(_) => None,
        }
    }

    /// `object` was read, `at` this moment. If the listing still has it at `place`, in this
    /// version, that is confirmed. Another listing may have another file there by now.
    pub(crate) fn confirm(&self, dir: DirId, place: u32, object: &Object, at: Instant) {
        if let Some(chain) = self.known.get(&dir).and_then(|known| known.chain.as_ref()) {
            chain.confirm(place, object, at);
        }
    }

    /// Drops the entries of `dir` before `to`.
    pub(crate) fn trim(&mut self, dir: DirId, to: u32) {
        let Some(chain) = self.chain(dir) else { return };
        for listing in chain.listings() {
            self.cut(&listing, to);
        }
    }

    /// Drops what is known of `dir`. A reader that is in the middle of it lists the rest again.
    /// `kept` tells of which directories more is known.
    pub(crate) fn drop(&mut self, dir: DirId, kept: impl Fn(DirId) -> bool) {
        let Some(known) = self.known.get_mut(&dir) else { return };
        let (chain, prefix) = (known.chain.take(), Arc::clone(&known.prefix));
        if let Some(chain) = chain {
            self.forget(chain);
        }
        self.let_go(&prefix, &kept);
    }

    /// Entries of `listing` before `to` are given back.
    fn cut(&mut self, listing: &Arc<Listing>, to: u32) {
        if let Some(gone) = listing.trim(to) {
            self.gone.push_back(gone);
            self.woken.push(Arc::clone(listing));
        }
    }

    /// Drops all listings, and keeps the numbers. A reader that is in the middle of one lists the
    /// rest again.
    pub(crate) fn forget_listings(&mut self) {
        let chains: Vec<_> = self.known.values_mut().filter_map(|known| known.chain.take()).collect();
        for chain in chains {
            self.forget(chain);
        }
        let older: Vec<_> = std::mem::take(&mut self.older).into_values().collect();
        for chain in older.iter().filter_map(Weak::upgrade) {
            self.let_go_of(&chain);
            self.changed.push(chain);
        }
    }

    /// The directories that have numbers, in the order of those.
    pub(crate) fn identities(&self) -> Vec<(DirId, Arc<str>)> {
        let mut all: Vec<_> = self.known.iter().map(|(&dir, known)| (dir, Arc::clone(&known.prefix))).collect();
        all.sort_unstable_by_key(|&(dir, _)| dir);
        all
    }

    /// A reader of `chain`, which is not the latest listing of its directory, goes on at `place`.
    pub(crate) fn passed(&mut self, chain: &Arc<Chain>, place: u32) {
        self.cut(&chain.listing, place);
        self.changed(chain);
    }

    /// The listing before the latest one of `dir` is forgotten. A reader in it keeps it.
    pub(crate) fn replaced(&mut self, chain: &Chain) {
        self.changed.extend(chain.forget_before());
    }

    /// Lets the numbers of directories go to which only forgotten pages led, but goes through no
    /// more than so many entries. Returns whether there are more. `kept` tells of which
    /// directories more is known.
    pub(crate) fn sweep(&mut self, most: usize, kept: impl Fn(DirId) -> bool) -> bool {
        let mut left = most;
        while let Some(mut gone) = self.gone.pop_front() {
            left = gone.directories(left, |prefix| self.let_go(prefix, &kept));
            if !gone.is_over() {
                self.gone.push_front(gone);
                return true;
            }
        }
        false
    }

    /// Forgets the number of a directory of which nothing is known, and that no listing names.
    fn let_go(&mut self, prefix: &str, kept: &impl Fn(DirId) -> bool) {
        let Some(&dir) = self.by_prefix.get(prefix) else { return };
        let is_known = kept(dir) || self.known.get(&dir).is_some_and(|known| known.chain.is_some());
        if is_known || self.is_listed(prefix) {
            return;
        }
        self.known.remove(&dir);
        self.by_prefix.remove(prefix);
    }

    /// Whether the listing of its parent names the directory.
    fn is_listed(&self, prefix: &str) -> bool {
        let (parent, name) = name::split(prefix.strip_suffix('/').unwrap_or(prefix));
        let above = self.by_prefix.get(parent).and_then(|parent| self.known.get(parent));
        above.and_then(|above| above.chain.as_ref()).is_some_and(|chain| chain.names(name))
    }
}

/// A prefix that no object has: a name in it would begin with a slash.
const NOWHERE: &str = "//";

#[cfg(test)]
mod tests {
    use foreread_backend::{Entry, ListPage, Version};

    use super::*;

    fn object(key: &str, size: u64) -> Object {
        Object { key: Key::new(key), version: Version { size, tag: None, modified: None } }
    }

    fn listed(table: &mut DirectoryTable, dir: DirId, objects: &[Object], at: Instant) {
        let chain = table.begin(dir, false);
        let entries = objects.iter().cloned().map(Entry::Object).collect();
        chain.listing.take(ListPage { entries, continuation: None }, at);
        chain.forget_before();
    }

    /// A directory of many is forgotten: their numbers go, some at a time, but for one of which
    /// policy knows more and one with a listing of its own.
    #[test]
    fn numbers_of_a_forgotten_directory_go_a_part_at_a_time() {
        let mut table = DirectoryTable::new(Duration::from_secs(1), true);
        let (above, _) = table.identify("above/");
        let chain = table.begin(above, false);
        let prefixes: Vec<String> = (0..3000).map(|n| format!("above/{n:04}/")).collect();
        let entries = prefixes.iter().cloned().map(Entry::Prefix).collect();
        chain.listing.take(ListPage { entries, continuation: None }, Instant::now());
        let numbers: Vec<DirId> = prefixes.iter().map(|prefix| table.identify(prefix).0).collect();
        table.begin(numbers[7], true);
        let kept = numbers[11];
        table.drop(above, |dir| dir == kept);
        let mut steps = 1;
        while table.sweep(1000, |dir| dir == kept) {
            steps += 1;
            let left = prefixes.iter().filter(|prefix| table.number(prefix).is_some()).count();
            assert!(left + steps * 1000 >= 3000, "{left} are left after {steps} steps");
        }
        assert!((3..=4).contains(&steps), "{steps} steps");
        let left: Vec<&str> = prefixes.iter().map(|p| &**p).filter(|prefix| table.number(prefix).is_some()).collect();
        assert_eq!(left, [&*prefixes[7], &*prefixes[11]]);
    }

    /// A file is fetched ahead; meanwhile the directory is listed again, and has another file, or
    /// another version, at the same place.
    #[test]
    fn a_file_that_comes_after_a_new_listing_confirms_no_other() {
        let mut table = DirectoryTable::new(Duration::from_secs(1), true);
        let (dir, _) = table.identify("d/");
        let long_ago = Instant::now();
        let lately = long_ago + Duration::from_mins(1);
        let (a, b, newer) = (object("d/a", 1), object("d/b", 1), object("d/a", 2));
        for now in [std::slice::from_ref(&b), std::slice::from_ref(&newer)] {
            listed(&mut table, dir, std::slice::from_ref(&a), long_ago);
            listed(&mut table, dir, now, long_ago);
            table.confirm(dir, 0, &a, lately);
            let (_, at) = table.find(&now[0].key).expect("it is listed");
            assert_eq!(at, long_ago, "{} is not what was read", now[0].key);
        }
        table.confirm(dir, 0, &newer, lately);
        assert_eq!(table.find(&newer.key).expect("it is listed").1, lately);
    }

    /// A listing is asked for before the one that was asked for before it has come, or that has
    /// failed: what was known stays, and the places of its entries.
    #[test]
    fn a_listing_that_brought_nothing_does_not_hide_the_one_before_it() {
        let mut table = DirectoryTable::new(Duration::from_secs(1), true);
        let (dir, _) = table.identify("d/");
        let objects = [object("d/a", 1), object("d/b", 1)];
        listed(&mut table, dir, &objects, Instant::now());
        table.begin(dir, false);
        let latest = table.begin(dir, false);
        let (_, place) = table.place(&objects[1].key).expect("it was listed");
        assert_eq!(place, 1);
        let entries = objects.iter().cloned().map(Entry::Object).collect();
        let taken = latest.listing.take(ListPage { entries, continuation: None }, Instant::now());
        assert!(latest.is_like_before(&taken));
    }
}
