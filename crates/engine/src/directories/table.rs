//! The directories that are known: by prefix and by number, each with its latest listing.
//!
//! ```text
//!   prefix ── identify ──> DirId ──> Known: the latest chain, and when files were confirmed
//!                            │
//!   dropped ── no listing leads to it any more ──> forgotten
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use foreread_backend::{Key, Object};
use foreread_policy::DirId;
use tokio::time::Instant;

use crate::directories::chain::Chain;
use crate::directories::listing::{Node, Said};
use crate::directories::name;

/// The directories that are known.
pub(crate) struct DirectoryTable {
    by_prefix: HashMap<Arc<str>, DirId>,
    known: HashMap<DirId, Known>,
    next: u64,
    /// How long what is known may be believed.
    ttl: Duration,
    /// Whether the storage can be asked for what follows a key.
    divisible: bool,
}

/// One directory that has a number.
struct Known {
    prefix: Arc<str>,
    /// The latest listing.
    chain: Option<Arc<Chain>>,
    /// When files of the listing were last read under the version that it tells, by their places.
    confirmed: HashMap<u32, Instant>,
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
}

impl DirectoryTable {
    pub(crate) fn new(ttl: Duration, divisible: bool) -> Self {
        Self { by_prefix: HashMap::new(), known: HashMap::new(), next: 0, ttl, divisible }
    }

    /// Whether what was asked for at `at` may still be believed.
    pub(crate) fn is_fresh(&self, at: Instant) -> bool {
        !self.ttl.is_zero() && at.elapsed() <= self.ttl
    }

    /// The number of a directory.
    pub(crate) fn identify(&mut self, prefix: &str) -> DirId {
        if let Some(&dir) = self.by_prefix.get(prefix) {
            return dir;
        }
        self.next += 1;
        let (dir, prefix) = (DirId(self.next), Arc::<str>::from(prefix));
        self.by_prefix.insert(Arc::clone(&prefix), dir);
        self.known.insert(dir, Known { prefix, chain: None, confirmed: HashMap::new() });
        dir
    }

    /// The latest listing of a directory.
    pub(crate) fn chain(&self, dir: DirId) -> Option<Arc<Chain>> {
        self.known.get(&dir)?.chain.clone()
    }

    /// Whether `chain` is the latest listing of its directory.
    pub(crate) fn is_latest(&self, chain: &Arc<Chain>) -> bool {
        self.known.get(&chain.dir).and_then(|known| known.chain.as_ref()).is_some_and(|last| Arc::ptr_eq(last, chain))
    }

    /// A new listing of `dir` that has not been asked for. `along`: it will come with others.
    pub(crate) fn begin(&mut self, dir: DirId, along: bool) -> Arc<Chain> {
        let known = self.known.get_mut(&dir);
        let prefix = known.as_ref().map_or_else(|| Arc::from(""), |known| Arc::clone(&known.prefix));
        let before = known.as_ref().and_then(|known| known.chain.as_ref()).map(|chain| Arc::clone(&chain.listing));
        let chain = Chain::new(dir, &prefix, before, along, self.divisible);
        if let Some(known) = known {
            known.chain = Some(Arc::clone(&chain));
        }
        chain
    }

    /// What `name` in `dir` is. `again`: what was in flight for it has come, or will not.
    pub(crate) fn look_up(&self, dir: DirId, name: &str, again: bool) -> Result<Option<Named>, Unknown> {
        let Some((known, chain)) = self.known.get(&dir).and_then(|known| Some((known, known.chain.as_ref()?))) else {
            return Err(Unknown::Nothing);
        };
        match chain.look_up(name) {
            Said::Absent(at) if self.is_fresh(at) => Ok(None),
            Said::Present(node, place, at) => {
                let at = known.latest(place, at).max(self.seen_inside(&node).unwrap_or(at));
                let believed = self.ttl.saturating_sub(at.elapsed());
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

    /// Whether `chain` has begun lately and has brought nothing yet.
    pub(crate) fn will_tell(&self, chain: &Chain) -> bool {
        !chain.listing.has(0) && self.is_fresh(chain.began)
    }

    /// The latest listing of a directory.
    fn inside(&self, node: &Node) -> Option<Arc<Chain>> {
        let Node::Directory(prefix) = node else { return None };
        self.chain(*self.by_prefix.get(prefix.as_str())?)
    }

    /// When the directory's own listing last showed an entry in it: it is there.
    fn seen_inside(&self, node: &Node) -> Option<Instant> {
        let mut seen = None;
        self.inside(node)?.listing.visit(0, |_, _, _, at| {
            seen = Some(at);
            false
        });
        seen
    }

    /// What the listing says of an object, and when that was last confirmed.
    pub(crate) fn find(&self, key: &Key) -> Option<(Node, Instant)> {
        let (known, node, place, at) = self.said(key)?;
        Some((node, known.latest(place, at)))
    }

    /// The directory that an object is in, and its place there.
    pub(crate) fn place(&self, key: &Key) -> Option<(DirId, u32)> {
        let (_, _, place, _) = self.said(key)?;
        let (prefix, _) = name::split(key.as_str());
        Some((*self.by_prefix.get(prefix)?, place))
    }

    fn said(&self, key: &Key) -> Option<(&Known, Node, u32, Instant)> {
        let (prefix, name) = name::split(key.as_str());
        let known = self.known.get(self.by_prefix.get(prefix)?)?;
        match known.chain.as_ref()?.look_up(name) {
            Said::Present(node, place, at) => Some((known, node, place, at)),
            Said::Nothing | Said::Absent(_) => None,
        }
    }

    /// `object` was read, `at` this moment. If the listing still has it at `place`, in this
    /// version, that is confirmed. Another listing may have another file there by now.
    pub(crate) fn confirm(&mut self, dir: DirId, place: u32, object: &Object, at: Instant) {
        let ttl = self.ttl;
        let Some(known) = self.known.get_mut(&dir) else { return };
        let entry = known.chain.as_ref().and_then(|chain| chain.entry(place));
        if !matches!(entry, Some(Node::File(listed)) if listed == *object) {
            return;
        }
        if known.confirmed.len() >= CONFIRMED_MAX {
            known.confirmed.retain(|_, at| !ttl.is_zero() && at.elapsed() <= ttl);
        }
        known.confirmed.insert(place, at);
    }

    /// The entries of `dir` have changed: no file of it is confirmed.
    pub(crate) fn unconfirm(&mut self, dir: DirId) {
        if let Some(known) = self.known.get_mut(&dir) {
            known.confirmed = HashMap::new();
        }
    }

    /// Drops what is known of `dir`, and the numbers that nothing leads to any more.
    pub(crate) fn drop(&mut self, dir: DirId) {
        let Some(known) = self.known.get_mut(&dir) else { return };
        let (chain, prefix) = (known.chain.take(), Arc::clone(&known.prefix));
        known.confirmed = HashMap::new();
        let mut orphans = Vec::new();
        if let Some(chain) = chain {
            chain.listing.visit(0, |_, _, node, _| {
                orphans.extend(if let Node::Directory(prefix) = node { Some(prefix) } else { None });
                true
            });
        }
        let (parent, _) = name::split(prefix.strip_suffix('/').unwrap_or(&prefix));
        let parent = self.by_prefix.get(parent).and_then(|parent| self.known.get(parent));
        if parent.is_none_or(|parent| parent.chain.is_none()) {
            orphans.push(prefix.to_string());
        }
        for prefix in orphans {
            if let Some(dir) = self.by_prefix.get(&*prefix)
                && self.known.get(dir).is_some_and(|known| known.chain.is_none())
            {
                self.known.remove(dir);
                self.by_prefix.remove(&*prefix);
            }
        }
    }
}

impl Known {
    /// When the entry at `place`, which was asked for at `at`, was last confirmed.
    fn latest(&self, place: u32, at: Instant) -> Instant {
        self.confirmed.get(&place).map_or(at, |confirmed| at.max(*confirmed))
    }
}

/// Confirmations of a directory before those that no longer count are removed. Lower removes more
/// often; higher costs memory, 24 bytes each.
const CONFIRMED_MAX: usize = 4096;

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

    /// A file is fetched ahead; meanwhile the directory is listed again, and has another file, or
    /// another version, at the same place.
    #[test]
    fn a_file_that_comes_after_a_new_listing_confirms_no_other() {
        let mut table = DirectoryTable::new(Duration::from_secs(1), true);
        let dir = table.identify("d/");
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
}
