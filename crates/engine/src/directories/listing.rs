//! The entries of a directory that have come so far: names and versions, in the storage's order,
//! each once.
//!
//! ```text
//!   page 0 (asked for at t0)        page 1 (t1)
//!   names  a.jpg"e71f.."b"..        one text: each name and its version's tag
//!   records [end, size, time] ..    40 bytes each
//! ```
//!
//! A name is found by bisection where the storage lists in order, else by a table of places.
//!
//! An entry keeps its place, so a reader in the middle of it misses none and sees none twice. An
//! object that is removed meanwhile is missing from the next listing. Where memory is short, pages
//! go from the first one on, and leave a name each ([`Marks`]); a reader that wants one of them
//! begins a listing of its own.

use std::sync::Arc;

use foreread_backend::lock::Mutex;
use foreread_backend::{Entry, Key, ListPage, Object, Version};
use foreread_policy::PAGE_BYTES;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::directories::listing::by_name::ByName;
use crate::directories::listing::page::{Kind, Page, Record, locate};
use crate::directories::marks::{Last, Marks};
use crate::directories::moment::{nanos, time};
use crate::directories::name::{self, identity_bytes, kind_of, order, stem_of};
use crate::error::Error;

mod by_name;
pub(crate) mod memory;
mod page;
mod renewed;

/// What a name in a directory stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A directory, by its prefix.
    Directory(String),
    /// An object, as the storage described it.
    File(Object),
}

/// One listing of one directory.
#[derive(Debug)]
pub(crate) struct Listing {
    prefix: Arc<str>,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Those with entries, so that bisection by their last names works.
    pages: Vec<Page>,
    /// When the first page was asked for.
    first: Option<Instant>,
    /// When the first page behind the last entry was asked for, if one has come without entries.
    gap: Option<Instant>,
    complete: bool,
    failed: Option<Error>,
    /// The keys so far are in ascending order.
    sorted: bool,
    /// Where names are, once they are not in order.
    by_name: ByName,
    /// Objects whose names later names may extend: a prefix of the same name comes after those.
    shadows: Vec<(String, u32)>,
    skipped: u64,
    /// The place of the first entry that is not gone.
    gone: u32,
    /// The place of the first entry that it was to bring.
    start: u32,
    marks: Marks,
    /// Entries to pass over before the first one that is taken in.
    passes: u32,
    bytes: u64,
}

/// What a listing tells of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing: it has not come that far.
    Nothing,
    /// There is no such name; when that was asked for.
    Absent(Instant),
    /// What it stands for, its place, and when that was asked for.
    Present(Node, u32, Instant),
}

/// What is known of an entry that a reader waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has come.
    There,
    /// There is no such entry: the listing ends before.
    Beyond,
    /// It had come, and is gone.
    Gone,
}

/// A page that has been taken in.
pub(crate) struct Taken {
    pub(crate) children: Vec<TakenChild>,
    /// The place of the first one.
    pub(crate) from: u32,
    /// Everything has come.
    pub(crate) last: bool,
    /// Memory that the whole listing takes, in bytes.
    pub(crate) bytes: u64,
}

/// An entry as policy is told of it: a directory by its prefix, a file by its length in pages.
pub(crate) enum TakenChild {
    Directory(String),
    /// Numbers that names have in common: its `kind`, and its `stem`.
    File {
        pages: u64,
        kind: u8,
        stem: u32,
    },
}

impl Listing {
    pub(crate) fn new(prefix: &Arc<str>) -> Arc<Self> {
        Self::rest(prefix, 0, 0, None, Marks::default())
    }

    /// The rest of a listing, without its first `gone` entries. The first `passes` entries that
    /// the storage lists are left out; `last` is the name of the entry before those, if known.
    pub(crate) fn rest(prefix: &Arc<str>, gone: u32, passes: u32, last: Option<&str>, marks: Marks) -> Arc<Self> {
        // An object and a directory of one name are one entry.
        let shadows = last.map(|last| (last.to_owned(), gone.saturating_sub(1))).into_iter().collect();
        let state = Mutex::new(State { sorted: true, gone, start: gone, marks, passes, shadows, ..State::default() });
        Arc::new(Self { prefix: Arc::clone(prefix), state, news: Notify::new() })
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn shared_prefix(&self) -> Arc<str> {
        Arc::clone(&self.prefix)
    }

    /// Whether all of it has come, or nothing more will.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.complete || state.failed.is_some()
    }

    /// Whether the entry at `place` has come, or it is known that there is none.
    pub(crate) fn has(&self, place: u32) -> bool {
        let state = self.state.lock();
        state.complete || place < state.len()
    }

    /// The place of the first entry that it was to bring.
    pub(crate) fn start(&self) -> u32 {
        self.state.lock().start
    }

    /// When its first page was asked for, once that has come.
    pub(crate) fn requested(&self) -> Option<Instant> {
        self.state.lock().first
    }

    /// Whether the first of the entries that it was to bring has come, or there is none.
    pub(crate) fn has_begun(&self) -> bool {
        let state = self.state.lock();
        state.complete || state.start < state.len()
    }

    /// A place from which the storage can be asked for what follows, `place` or one before it, and
    /// the entry before that.
    pub(crate) fn before(&self, place: u32) -> Option<(u32, Last)> {
        let state = self.state.lock();
        let kept = place.checked_sub(1).filter(|&before| (state.gone..state.len()).contains(&before));
        match kept {
            Some(before) => {
                let (page, at) = locate(&state.pages, before);
                let (name, slash) = page.key(at);
                state.sorted.then(|| (place, Last { name: name.to_owned(), directory: slash }))
            }
            None => state.marks.before(place),
        }
    }

    /// Where entries are, those included that are kept.
    pub(crate) fn marks(&self) -> Marks {
        let state = self.state.lock();
        let mut marks = state.marks.clone();
        for page in state.pages.iter().filter(|_| state.sorted) {
            marks.add(page.end(), page.key(page.records.len() - 1));
        }
        marks
    }

    /// The places between which an entry of this name would be, if it is gone or has not come
    /// again; `None` if that is not known, or the entries that are kept tell of the name.
    pub(crate) fn gone_part(&self, name: &str) -> Option<(u32, u32)> {
        let state = self.state.lock();
        let (from, to) = state.marks.around(name).filter(|_| state.sorted)?;
        let kept = state.pages.first().zip(state.pages.last().and_then(Page::last));
        let Some((first, last)) = kept else { return Some((from, to)) };
        if order((name, true), first.key(0)).is_lt() {
            Some((from.min(state.gone), to.min(state.gone)))
        } else if order((name, false), last).is_gt() && !state.complete {
            Some((from.max(state.len()), to.max(state.len())))
        } else {
            None
        }
    }

    /// The places at which an entry of this name would be, as a file and as a directory, and when
    /// it was asked for what is there. Among longer names that begin with this one, other entries
    /// lie between the two. Nothing where that is not known.
    pub(crate) fn would_be_at(&self, name: &str) -> impl Iterator<Item = (u32, Instant)> + use<> {
        let state = self.state.lock();
        let place = |slash: bool| {
            let key = (name, slash);
            let at = state.pages.partition_point(|page| page.last().is_none_or(|last| order(last, key).is_lt()));
            let last = state.pages.last().filter(|_| state.complete);
            let place = state.pages.get(at).map(|page| page.first).or(last.map(|page| page.end() - 1));
            let told = state.find(key).err().flatten();
            place.zip(told).filter(|_| state.sorted && state.gone == 0)
        };
        [place(false), place(true)].into_iter().flatten()
    }

    /// Takes in the next page, which was asked for at `requested`. The readers are to be woken.
    pub(crate) fn take(&self, page: ListPage, requested: Instant) -> Taken {
        let state = &mut *self.state.lock();
        let first = state.len();
        let (mut text, mut records) = (String::new(), Vec::with_capacity(page.entries.len()));
        let mut children = Vec::with_capacity(page.entries.len());
        let last = state.pages.iter().rev().find_map(Page::last);
        let mut before = last.map(|(name, slash)| (name.to_owned(), slash));
        for entry in page.entries {
            let key = entry.key();
            let Some(name) = name::of_key(&self.prefix, key) else {
                state.skipped += 1;
                continue;
            };
            state.shadows.retain(|(shadow, _)| name.starts_with(shadow.as_str()));
            if let Some(&(_, place)) = state.shadows.iter().find(|(shadow, _)| shadow == name) {
                // An empty object with something below it is the mark of a directory.
                if matches!(entry, Entry::Prefix(_)) && place >= first {
                    let record: &mut Record = &mut records[(place - first) as usize];
                    if record.size == 0 {
                        record.kind = Kind::Mark;
                        children[(place - first) as usize] = TakenChild::Directory(key.to_owned());
                    }
                } else if matches!(entry, Entry::Prefix(_)) {
                    state.mark_directory(place);
                }
                continue;
            }
            if state.passes > 0 {
                state.passes -= 1;
                if matches!(entry, Entry::Object(_)) {
                    state.shadows.push((name.to_owned(), first.saturating_sub(1)));
                }
                continue;
            }
            let place = first + records.len() as u32;
            let slash = matches!(entry, Entry::Prefix(_));
            state.sorted &= before.is_none_or(|(before, slashed)| order((&before, slashed), (name, slash)).is_lt());
            before = Some((name.to_owned(), slash));
            text.push_str(name);
            let name_end = text.len() as u32;
            let (kind, size, modified) = match &entry {
                Entry::Prefix(prefix) => {
                    children.push(TakenChild::Directory(prefix.clone()));
                    (Kind::Directory, 0, None)
                }
                Entry::Object(Object { version, .. }) => {
                    state.shadows.push((name.to_owned(), place));
                    text.push_str(version.tag.as_deref().unwrap_or_default());
                    let pages = version.size.div_ceil(PAGE_BYTES);
                    children.push(TakenChild::File { pages, kind: kind_of(name), stem: stem_of(name) });
                    (Kind::File { tagged: version.tag.is_some() }, version.size, version.modified.and_then(nanos))
                }
            };
            records.push(Record { name_end, tag_end: text.len() as u32, kind, confirmed: 0, size, modified });
        }
        state.first.get_or_insert(requested);
        let gap = *state.gap.get_or_insert(requested);
        if !records.is_empty() {
            let (text, records) = (text.into_boxed_str(), records.into_boxed_slice());
            state.push(Page { requested, gap, first, text, records, identity_bytes: 0 }, self.prefix.len());
            state.gap = None;
            let State { pages, marks, gone, .. } = state;
            if let Some(last) = pages.last() {
                marks.came(*gone, last.end(), last.key(last.records.len() - 1));
            }
        }
        if !state.sorted {
            state.by_name.add(&state.pages);
        }
        let bytes = state.memory();
        state.complete = page.continuation.is_none();
        if state.complete {
            state.shadows = Vec::new();
            if state.skipped > 0 {
                let (skipped, prefix) = (state.skipped, &*self.prefix);
                tracing::warn!(skipped, prefix, "objects whose names POSIX cannot express are not shown");
            }
        }
        Taken { children, from: first, last: state.complete, bytes }
    }

    /// The place of the first entry that is not gone.
    pub(crate) fn gone(&self) -> u32 {
        self.state.lock().gone
    }

    /// The file at `place` was read at `at`, in the version that the listing tells.
    pub(crate) fn confirm(&self, place: u32, at: Instant) {
        let state = &mut *self.state.lock();
        let found = state.pages.partition_point(|page| page.end() <= place);
        let Some(page) = state.pages.get_mut(found).filter(|page| page.first <= place) else { return };
        let since = at.saturating_duration_since(page.requested).as_millis();
        let confirmed = u32::try_from(since).unwrap_or(u32::MAX - 1) + 1;
        let record = &mut page.records[(place - page.first) as usize];
        record.confirmed = record.confirmed.max(confirmed);
    }

    /// Nothing more will come.
    pub(crate) fn fail(&self, error: Error) {
        self.state.lock().failed = Some(error);
        self.news.notify_waiters();
    }

    /// Wakes the readers that wait, to ask again.
    pub(crate) fn wake(&self) {
        self.news.notify_waiters();
    }

    /// Waits until the entry at `place` has come, or it is known that there is none. Calls `ask`
    /// whenever more entries are needed.
    pub(crate) async fn wait(&self, place: u32, ask: impl Fn()) -> Result<Standing, Error> {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            // From here on no notification is missed.
            news.as_mut().enable();
            if let Some(there) = self.state.lock().standing(place) {
                return there;
            }
            ask();
            news.await;
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.state.lock().failed.is_some()
    }

    /// Calls `visit` with the entries from `place` on that have come, until it returns `false`.
    /// Returns `false`, without a call, if the entry at `place` is gone.
    pub(crate) fn visit(&self, place: u32, mut visit: impl FnMut(u32, &str, Node, Instant) -> bool) -> bool {
        let state = self.state.lock();
        if place < state.gone {
            return false;
        }
        let from = state.pages.partition_point(|page| page.end() <= place);
        for page in &state.pages[from..] {
            for at in place.saturating_sub(page.first) as usize..page.records.len() {
                let node = self.node(page, at);
                if !visit(page.first + at as u32, page.name(at), node, page.told(at)) {
                    return true;
                }
            }
        }
        true
    }

    /// Whether it has a directory of this name.
    pub(crate) fn names(&self, name: &str) -> bool {
        matches!(self.look_up(name), Said::Present(Node::Directory(_), ..))
    }

    /// The prefixes of the directories in it, from the entry `from` on and before `to`.
    pub(crate) fn directories(&self, from: u32, to: u32) -> Vec<String> {
        let mut prefixes = Vec::new();
        self.visit(from.max(self.gone()), |place, _, node, _| {
            prefixes.extend(match node {
                Node::Directory(prefix) if place < to => Some(prefix),
                _ => None,
            });
            place < to
        });
        prefixes
    }

    /// The entry at `place`.
    pub(crate) fn entry(&self, place: u32) -> Option<Node> {
        let mut found = None;
        self.visit(place, |_, _, node, _| {
            found = Some(node);
            false
        });
        found
    }

    /// What it tells of `name`, as far as it has come.
    pub(crate) fn look_up(&self, name: &str) -> Said {
        let state = self.state.lock();
        let found = |page: &Page, at: usize| Said::Present(self.node(page, at), page.first + at as u32, page.told(at));
        if !state.sorted {
            if let Some((page, at)) = state.by_name.find(name, &state.pages) {
                return found(page, at);
            }
            return match state.first {
                Some(first) if state.complete && state.gone == 0 => Said::Absent(first),
                _ => Said::Nothing,
            };
        }
        let (object, prefix) = (state.find((name, false)), state.find((name, true)));
        match (object, prefix) {
            // An empty object with something below it is the mark of a directory.
            (Ok((page, at)), _) if page.records[at].size > 0 || page.records[at].kind == Kind::Mark => found(page, at),
            (_, Ok((page, at))) | (Ok((page, at)), Err(Some(_))) => found(page, at),
            (Ok(_) | Err(_), Err(None)) | (Err(None), Err(_)) => Said::Nothing,
            (Err(Some(object)), Err(Some(prefix))) => Said::Absent(object.min(prefix)),
        }
    }

    /// Whether `count` entries from `from` on have the same names and kinds in both.
    pub(crate) fn is_like(&self, other: &Self, from: u32, count: u32) -> bool {
        let mut mine = Vec::with_capacity(count as usize);
        self.visit(from, |place, name, node, _| {
            if place < from + count {
                mine.push((name.to_owned(), matches!(node, Node::Directory(_))));
            }
            place + 1 < from + count
        });
        let (mut same, mut seen) = (true, 0);
        other.visit(from, |place, name, node, _| {
            let Some((own, directory)) = mine.get((place - from) as usize) else { return false };
            same = own == name && *directory == matches!(node, Node::Directory(_));
            seen += 1;
            same
        });
        same && seen == mine.len() && seen == count as usize
    }

    fn node(&self, page: &Page, at: usize) -> Node {
        let (name, record) = (page.name(at), page.records[at]);
        match record.kind {
            Kind::Directory | Kind::Mark => Node::Directory(format!("{}{name}/", self.prefix)),
            Kind::File { tagged } => {
                let tag = tagged.then(|| page.text[record.name_end as usize..record.tag_end as usize].into());
                let modified = record.modified.map(time);
                let key = Key::new(format!("{}{name}", self.prefix));
                Node::File(Object { key, version: Version { size: record.size, tag, modified } })
            }
        }
    }
}

impl State {
    /// Whether there is an entry at `place`, if that is known.
    fn standing(&self, place: u32) -> Option<Result<Standing, Error>> {
        if place < self.gone {
            return Some(Ok(Standing::Gone));
        }
        if place < self.len() {
            return Some(Ok(Standing::There));
        }
        // It came before an earlier listing was replaced by this one, which is not near it yet.
        if !self.complete && self.marks.before(place).is_some_and(|(mark, _)| mark > self.len()) {
            return Some(Ok(Standing::Gone));
        }
        if self.complete {
            return Some(Ok(Standing::Beyond));
        }
        self.failed.clone().map(Err)
    }

    /// Whether all of it has come, and the entry before this place is the last one.
    fn ends_at(&self, place: u32) -> bool {
        self.complete && self.len() == place
    }

    fn len(&self) -> u32 {
        self.pages.last().map_or(self.gone, Page::end)
    }

    /// Adds a page, which is not empty. A very long one becomes several, which can go one by one.
    fn push(&mut self, page: Page, prefix_len: usize) {
        let before = self.pages.len();
        if page.records.len() <= RECORDS_MAX {
            self.pages.push(page);
        } else {
            let (mut text_from, mut first) = (0, page.first);
            for (nth, records) in page.records.chunks(RECORDS_MAX).enumerate() {
                let text_end = records.last().map_or(text_from, |last| last.tag_end);
                let text = page.text[text_from as usize..text_end as usize].into();
                let moved = |record: &Record| Record {
                    name_end: record.name_end - text_from,
                    tag_end: record.tag_end - text_from,
                    ..*record
                };
                let gap = if nth == 0 { page.gap } else { page.requested };
                let records: Box<[Record]> = records.iter().map(moved).collect();
                let count = records.len() as u32;
                self.pages.push(Page { requested: page.requested, gap, first, text, records, identity_bytes: 0 });
                (text_from, first) = (text_end, first + count);
            }
        }
        for page in &mut self.pages[before..] {
            let is_directory = |&at: &usize| !matches!(page.records[at].kind, Kind::File { .. });
            let directories = (0..page.records.len()).filter(is_directory);
            page.identity_bytes = directories.map(|at| identity_bytes(prefix_len + page.name(at).len() + 1)).sum();
        }
        self.bytes += self.pages[before..].iter().map(Page::bytes).sum::<u64>();
    }

    /// Where a key is, in a sorted listing; or when its absence was asked for, if it would have
    /// come.
    fn find(&self, key: (&str, bool)) -> Result<(&Page, usize), Option<Instant>> {
        let at = self.pages.partition_point(|page| page.last().is_none_or(|last| order(last, key).is_lt()));
        let is_before = |page: &Page| page.records.is_empty() || order(key, page.key(0)).is_lt();
        if self.gone > 0 && at == 0 && self.pages.first().is_none_or(is_before) {
            // It may have been before the first entry that is left.
            return Err(None);
        }
        match self.pages.get(at) {
            Some(page) => page.find(key).map(|at| (page, at)).ok_or(Some(page.gap)),
            None if self.complete => Err(self.gap.or(self.pages.last().map(|page| page.requested))),
            None => Err(None),
        }
    }

    /// The empty object at `place` turns out to be the mark of a directory. Readers that have seen
    /// it have seen the name.
    fn mark_directory(&mut self, place: u32) {
        let at = self.pages.partition_point(|page| page.end() <= place);
        if let Some(page) = self.pages.get_mut(at).filter(|page| page.first <= place) {
            let record = &mut page.records[(place - page.first) as usize];
            if record.size == 0 {
                record.kind = Kind::Mark;
            }
        }
    }
}

/// Entries of a page that is kept as one. Lower: more pages to search. Higher: more is forgotten
/// at a time where memory is short, and a page longer than that stays whole.
const RECORDS_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::page::NAMES_READ;
    use super::*;

    /// A listing of these names, in pages of a thousand.
    fn listing(names: &[String]) -> (Arc<Listing>, u64) {
        let listing = Listing::new(&Arc::from("d/"));
        let mut bytes = 0;
        let pages = names.chunks(1000);
        for (at, names) in (1..).zip(pages.clone()) {
            let version = Version { size: 1, tag: None, modified: None };
            let entry =
                |name: &String| Entry::Object(Object { key: Key::new(format!("d/{name}")), version: version.clone() });
            let continuation = (at < pages.len()).then(String::new);
            let page = ListPage { entries: names.iter().map(entry).collect(), continuation };
            bytes = listing.take(page, Instant::now()).bytes;
        }
        (listing, bytes)
    }

    #[test]
    fn a_look_up_reads_few_names_however_long_the_listing_and_whatever_its_order() {
        let mut names: Vec<_> = (0..100_000u32).map(|n| format!("{:08x}", n.wrapping_mul(0x9e37_79b1))).collect();
        for sorts in [false, true] {
            if sorts {
                names.sort();
            }
            let (listing, bytes) = listing(&names);
            assert!(bytes < 100_000 * 64, "{bytes} bytes");
            NAMES_READ.set(0);
            for (place, name) in (0..).zip(&names).step_by(997) {
                assert!(matches!(listing.look_up(name), Said::Present(_, at, _) if at == place), "{name}");
                assert!(matches!(listing.look_up(&format!("{name}x")), Said::Absent(_)), "{name}x");
            }
            // Each answer makes the entry's key of its name.
            let most = if sorts { 2 * 2 * 24 } else { 2 * 3 };
            let each = NAMES_READ.get() / (100_000 / 997);
            assert!(each <= most, "{each} names for two look-ups, sorted: {sorts}");
        }
    }

    /// A store may answer with pages of which nothing is shown, between others and at the end.
    #[test]
    fn pages_without_entries_hide_no_name_and_tell_when_absence_was_asked_for() {
        let listing = Listing::new(&Arc::from("d/"));
        let began = Instant::now();
        let at = |second: usize| began + Duration::from_secs(second as u64);
        let pages = ["", "b", "", "", "d", "", ""];
        for (second, name) in pages.iter().enumerate() {
            let version = Version { size: 1, tag: None, modified: None };
            let object = Entry::Object(Object { key: Key::new(format!("d/{name}")), version });
            let entries = if name.is_empty() { Vec::new() } else { vec![object] };
            let continuation = (second + 1 < pages.len()).then(String::new);
            listing.take(ListPage { entries, continuation }, at(second));
        }
        for (name, place) in [("b", 0), ("d", 1)] {
            assert!(matches!(listing.look_up(name), Said::Present(_, found, _) if found == place), "{name}");
        }
        for (name, second) in [("a", 0), ("c", 2), ("e", 5)] {
            assert_eq!(listing.look_up(name), Said::Absent(at(second)), "{name}");
        }
        // Its last page is asked for again, which ends the listing.
        let version = Version { size: 1, tag: None, modified: None };
        let entries = vec![Entry::Object(Object { key: Key::new("d/d"), version })];
        let last = Last { name: "b".to_owned(), directory: false };
        let page = ListPage { entries, continuation: None };
        assert_eq!(listing.renew((1, 2), Some(&last), page, at(9)).len(), 1);
        for (name, second) in [("a", 0), ("c", 9), ("e", 9)] {
            assert_eq!(listing.look_up(name), Said::Absent(at(second)), "{name}");
        }
    }

    /// Its file would be before all names, and its directory behind them.
    #[test]
    fn a_name_that_others_begin_with_would_be_at_two_places() {
        let names: Vec<_> = (0..3_000).map(|n| format!("run-{n:04}")).collect();
        let (listing, _) = listing(&names);
        let places = |name: &str| listing.would_be_at(name).map(|(place, _)| place).collect::<Vec<_>>();
        assert_eq!(places("run"), [0, 2_999]);
        assert_eq!([places("run-1500x"), places("run-1999x")], [[1_000; 2], [2_000; 2]]);
        assert_eq!(places("a"), [0; 2]);
    }

    #[test]
    fn of_two_entries_with_one_name_the_first_answers_wherever_order_ends() {
        let names = ["b", "c", "a", "c", "b"].map(String::from);
        let (listing, _) = listing(&names);
        for (name, place) in [("b", 0), ("c", 1), ("a", 2)] {
            assert!(matches!(listing.look_up(name), Said::Present(_, at, _) if at == place), "{name}");
        }
    }

    /// A hostile storage's pages: a line an entry, an empty line between pages.
    #[test]
    fn fuzz_pages_of_a_listing() {
        let seeds: [&[u8]; 6] = [
            b"d/a\n\n\n\n",
            b"d/a\n\n\nd/b\n\n",
            b"d/a\nd/b/\nd/c\n\nd/c/\nd/d\n",
            b"d/b\nd/a\n\nd/a\nd/\nd/../\nx\n",
            b"d/a\nd/a/\nd/a-\nd/a/\n",
            b"d/e 0\nd/e/\nd/f\n\nd/e/\n",
        ];
        foreread_fuzz::fuzz("pages of a listing", &seeds, &["d/", "\n\n", "/\n", "d/a", "d/a/\n", " 0\n"], |text| {
            let text = String::from_utf8_lossy(text);
            let pages: Vec<_> = text.split("\n\n").collect();
            let listing = Listing::new(&Arc::from("d/"));
            let (mut kept, requested) = (0, Instant::now());
            for (at, page) in (1..).zip(&pages) {
                let entry = |line: &str| {
                    let (key, size) = line.strip_suffix(" 0").map_or((line, 1), |key| (key, 0));
                    let version = Version { size, tag: (key.len() % 2 == 0).then(|| "t".into()), modified: None };
                    if key.ends_with('/') {
                        Entry::Prefix(key.to_owned())
                    } else {
                        Entry::Object(Object { key: Key::new(key), version })
                    }
                };
                let continuation = (at < pages.len()).then(String::new);
                let taken =
                    listing.take(ListPage { entries: page.lines().map(entry).collect(), continuation }, requested);
                assert_eq!((taken.from, taken.last), (kept, at == pages.len()));
                kept += taken.children.len() as u32;
            }
            let mut shown = Vec::new();
            listing.visit(0, |place, name, _, _| {
                assert_eq!(place as usize, shown.len());
                assert!(name::is_possible(name), "{name:?}");
                shown.push(name.to_owned());
                true
            });
            assert_eq!(shown.len() as u32, kept);
            for name in &shown {
                assert!(matches!(listing.look_up(name), Said::Present(..)), "{name:?} is shown, and there");
                let longer = format!("{name}\u{1}");
                assert!(shown.contains(&longer) || matches!(listing.look_up(&longer), Said::Absent(_)));
            }
        });
    }
}
