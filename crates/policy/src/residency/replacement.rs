//! In which order folios leave that have been read to their end: S3-FIFO, or LRU to compare with.
//!
//! ```text
//!                          nobody read it again
//!   read to its end --> small ------------------> gone, remembered for a while (ghost)
//!                         |                           | fetched and read once more
//!                         | somebody did              v
//!                         +-----------------------> main ---> gone
//!                                                   ^   | nobody since it last came by
//!                                                   +---+ somebody did
//! ```
//!
//! Most of what is read is read once; it leaves through `small`, a tenth of the memory, and takes nothing from what is read
//! again and again. A loop over more than there is memory for keeps what fits, where LRU keeps nothing. Origin: S3-FIFO
//! (Yang et al., SOSP 2023), with the counts of up to three uses and the tenth as published.

use alloc::collections::{BTreeMap, VecDeque};

use crate::collections::hash_table::HashTable;
use crate::units::{FileId, RequestId};

/// What leaves first of what has been read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replacement {
    /// What was read once before what was read again.
    #[default]
    S3Fifo,
    /// What was not read for longest.
    Lru,
}

impl Replacement {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::S3Fifo, Self::Lru];

    /// Its name in logs and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::S3Fifo => "s3-fifo",
            Self::Lru => "lru",
        }
    }
}

/// A folio: its file, its first page, and the request that brought it.
pub(crate) type Key = (FileId, u64, RequestId);

/// What is known of the uses of one folio. Kept with the folio.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    /// S3-FIFO: how often it was read again since it last came by, up to [`TIMES_MAX`].
    times: u8,
    /// S3-FIFO: it is in the main queue.
    main: bool,
    /// It was not asked for, but came along with what was.
    around: bool,
    /// LRU: when it was read last, in reads.
    at: u64,
}

/// What became of the folios that have left the small queue, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Passage {
    /// Bytes that had been read again, and all.
    again: u64,
    all: u64,
    folios: u64,
}

impl Passage {
    /// Counts a folio of `bytes`, of which `again` had been read again. What was long ago counts less and less.
    fn count(&mut self, again: u64, bytes: u64) {
        self.again += again.min(bytes);
        self.all += bytes;
        self.folios += 1;
        if self.all > PASSAGE_BYTES {
            self.again /= 2;
            self.all /= 2;
            self.folios /= 2;
        }
    }

    /// How much of it had been read again, in thousandths.
    fn again_per_mille(self) -> Option<u64> {
        if self.all < PASSAGE_BYTES / 4 { None } else { Some(self.again * 1000 / self.all) }
    }

    /// Bytes of a folio.
    fn folio_bytes(self) -> u64 {
        self.all.checked_div(self.folios).unwrap_or(u64::MAX)
    }
}

/// Looks up folios by key.
pub(crate) trait Folios {
    /// The uses and the bytes of a folio, if it is there and has been read to its end.
    fn used(&mut self, key: Key) -> Option<(&mut Uses, u64)>;
}

/// What leaves, and what must be noticed again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This folio goes.
    Evict(Key),
    /// It stays; its next use is to be told.
    Clear(Key),
}

/// The folios that have been read, in order.
#[derive(Debug)]
pub(crate) enum Order {
    S3Fifo(S3Fifo),
    Lru(Lru),
}

impl Order {
    pub(crate) fn new(replacement: Replacement) -> Self {
        match replacement {
            Replacement::S3Fifo => Self::S3Fifo(S3Fifo::default()),
            Replacement::Lru => Self::Lru(Lru::default()),
        }
    }

    /// A folio of `bytes` has been read to its end, or has come `around` one that was asked for.
    pub(crate) fn insert(&mut self, key: Key, uses: &mut Uses, bytes: u64, around: bool) {
        *uses = Uses { around, ..Uses::default() };
        match self {
            Self::S3Fifo(fifo) => fifo.insert(key, uses, bytes),
            Self::Lru(lru) => lru.insert(key, uses),
        }
    }

    /// Whether what comes along with reads is used clearly more than what takes the same room: what was read once.
    pub(crate) fn prefers_nearby(&self) -> bool {
        let Self::S3Fifo(fifo) = self else { return false };
        match (fifo.around.again_per_mille(), fifo.asked.again_per_mille()) {
            (Some(around), Some(asked)) => around >= asked + AROUND_PER_MILLE,
            _ => false,
        }
    }

    /// It was read again. Whether its next use is to be told as well.
    pub(crate) fn touch(&mut self, key: Key, uses: &mut Uses) -> bool {
        match self {
            Self::S3Fifo(_) => {
                uses.times = (uses.times + 1).min(TIMES_MAX);
                uses.times < TIMES_MAX
            }
            Self::Lru(lru) => {
                lru.order.remove(&uses.at);
                lru.insert(key, uses);
                true
            }
        }
    }

    /// It is gone, for whatever reason.
    pub(crate) fn remove(&mut self, uses: Uses, bytes: u64) {
        match self {
            Self::S3Fifo(fifo) => *fifo.bytes_of(uses.main) -= bytes,
            Self::Lru(lru) => {
                lru.order.remove(&uses.at);
            }
        }
    }

    /// The next step towards room. `None` if there is nothing left to evict. The folio to evict is still to be removed.
    pub(crate) fn next(&mut self, folios: &mut impl Folios) -> Option<Step> {
        match self {
            Self::S3Fifo(fifo) => fifo.next(folios),
            Self::Lru(lru) => lru.order.first_key_value().map(|(_, &key)| Step::Evict(key)),
        }
    }

    /// Forgets entries of folios that are gone, if they are many: `there` is how many folios there are, `names` how many of the gone
    /// may be remembered even so.
    pub(crate) fn forget_stale(&mut self, there: usize, names: usize, folios: &mut impl Folios) {
        if let Self::S3Fifo(fifo) = self {
            for (main, queue) in [(false, &mut fifo.small), (true, &mut fifo.main)] {
                if queue.len() > 2 * there + STALE_MAX {
                    queue.retain(|&key| folios.used(key).is_some_and(|(uses, _)| uses.main == main));
                }
            }
            fifo.ghosts.truncate(there.max(names));
        }
    }
}

/// Two queues, and the names of what left the first one.
#[derive(Debug, Default)]
pub(crate) struct S3Fifo {
    /// Each folio is in one queue, once. May name folios that are gone.
    small: VecDeque<Key>,
    main: VecDeque<Key>,
    small_bytes: u64,
    main_bytes: u64,
    ghosts: Ghosts,
    /// Of what was asked for, and of what came along.
    asked: Passage,
    around: Passage,
}

impl S3Fifo {
    fn insert(&mut self, key: Key, uses: &mut Uses, bytes: u64) {
        uses.main = self.ghosts.take((key.0, key.1));
        let queue = if uses.main { &mut self.main } else { &mut self.small };
        queue.push_back(key);
        *self.bytes_of(uses.main) += bytes;
    }

    fn bytes_of(&mut self, main: bool) -> &mut u64 {
        if main { &mut self.main_bytes } else { &mut self.small_bytes }
    }

    fn next(&mut self, folios: &mut impl Folios) -> Option<Step> {
        loop {
            let all_bytes = self.small_bytes + self.main_bytes;
            let main = self.small.is_empty() || (self.small_bytes * SMALL_SHARE < all_bytes && !self.main.is_empty());
            let key = if main { self.main.pop_front() } else { self.small.pop_front() }?;
            let Some((uses, bytes)) = folios.used(key).filter(|(uses, _)| uses.main == main) else { continue };
            if !main {
                let times = u64::from(uses.times);
                if uses.around {
                    // What comes along may be held in larger pieces than what is asked for: each use is of one such.
                    self.around.count(times.saturating_mul(self.asked.folio_bytes()), bytes);
                } else {
                    self.asked.count(bytes * times.min(1), bytes);
                }
            }
            if uses.times == 0 {
                if !main {
                    self.ghosts.push((key.0, key.1));
                }
                return Some(Step::Evict(key));
            }
            let untold = uses.times == TIMES_MAX;
            self.main.push_back(key);
            if main {
                uses.times -= 1;
            } else {
                *uses = Uses { main: true, times: 0, around: false, ..*uses };
                self.small_bytes -= bytes;
                self.main_bytes += bytes;
            }
            if untold {
                return Some(Step::Clear(key));
            }
        }
    }
}

/// Names of folios that left without having been read again, the oldest first.
#[derive(Debug, Default)]
struct Ghosts {
    /// May hold names that have been taken.
    order: VecDeque<(FileId, u64)>,
    names: HashTable<bool>,
}

impl Ghosts {
    fn push(&mut self, name: (FileId, u64)) {
        if !core::mem::replace(self.names.entry(name.0, name.1), true) {
            self.order.push_back(name);
        }
    }

    fn take(&mut self, name: (FileId, u64)) -> bool {
        self.names.remove(name.0, name.1).is_some()
    }

    fn truncate(&mut self, most: usize) {
        while self.order.len() > most {
            if let Some(name) = self.order.pop_front() {
                self.names.remove(name.0, name.1);
            }
        }
    }
}

/// The folios by the number of their last read.
#[derive(Debug, Default)]
pub(crate) struct Lru {
    order: BTreeMap<u64, Key>,
    reads: u64,
}

impl Lru {
    fn insert(&mut self, key: Key, uses: &mut Uses) {
        self.reads += 1;
        uses.at = self.reads;
        self.order.insert(self.reads, key);
    }
}

/// Uses that are counted: as published. More keeps what was hot once for longer.
const TIMES_MAX: u8 = 3;

/// `small` is a tenth, as published: smaller and what is read again soon leaves before that, larger and less is left to `main`.
const SMALL_SHARE: u64 = 10;

/// What has left `small` is remembered for 32 MiB: enough folios for a ratio, few enough to follow what programs do.
const PASSAGE_BYTES: u64 = 32 << 20;

/// By how much more of it must be used, in thousandths: what it costs to fetch 64 KiB along with 64 KiB, where fetching those apart costs
/// eight times as much.
const AROUND_PER_MILLE: u64 = 125;

/// Entries of folios that are gone, besides as many again as there are folios.
const STALE_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use super::*;

    const FILE: FileId = FileId(1);

    /// A cache of `capacity` folios of one page, keyed by page.
    struct Cache {
        order: Order,
        folios: Map,
        capacity: usize,
        told: BTreeSet<u64>,
        next: u64,
    }

    #[derive(Default)]
    struct Map(BTreeMap<Key, Uses>);

    impl Folios for Map {
        fn used(&mut self, key: Key) -> Option<(&mut Uses, u64)> {
            self.0.get_mut(&key).map(|uses| (uses, 1))
        }
    }

    impl Cache {
        fn new(replacement: Replacement, capacity: usize) -> Self {
            Self { order: Order::new(replacement), folios: Map::default(), capacity, told: BTreeSet::new(), next: 0 }
        }

        /// Whether `page` was there.
        fn read(&mut self, page: u64) -> bool {
            if let Some((&key, uses)) = self.folios.0.iter_mut().find(|(key, _)| key.1 == page) {
                if self.told.insert(page) && self.order.touch(key, uses) {
                    self.told.remove(&page);
                }
                return true;
            }
            while self.folios.0.len() >= self.capacity {
                match self.order.next(&mut self.folios).expect("something can go") {
                    Step::Evict(key) => {
                        let uses = self.folios.0.remove(&key).expect("what goes is there");
                        self.order.remove(uses, 1);
                        self.told.remove(&key.1);
                    }
                    Step::Clear(key) => assert!(self.told.remove(&key.1), "cleared what was not told"),
                }
            }
            self.next += 1;
            let key = (FILE, page, RequestId(self.next));
            let mut uses = Uses::default();
            self.order.insert(key, &mut uses, 1, false);
            self.folios.0.insert(key, uses);
            self.order.forget_stale(self.folios.0.len(), 0, &mut self.folios);
            false
        }

        fn hits(&mut self, pages: impl Iterator<Item = u64>) -> usize {
            pages.filter(|&page| self.read(page)).count()
        }
    }

    #[test]
    fn the_least_recently_read_leaves_first() {
        let mut cache = Cache::new(Replacement::Lru, 3);
        assert_eq!(cache.hits([1, 2, 3, 1, 1].into_iter()), 2);
        assert_eq!(cache.hits([4].into_iter()), 0);
        let left: Vec<u64> = cache.folios.0.keys().map(|key| key.1).collect();
        assert_eq!(left, [1, 3, 4]);
    }

    #[test]
    fn a_loop_that_does_not_fit_keeps_what_does() {
        let round = |n: u64| (0..n * 150).map(|read| read % 150);
        assert_eq!(Cache::new(Replacement::Lru, 100).hits(round(20)), 0);
        let hits = Cache::new(Replacement::S3Fifo, 100).hits(round(20));
        assert!(hits > 20 * 150 / 3, "{hits} of {}", 20 * 150);
    }

    #[test]
    fn what_is_read_once_takes_nothing_from_what_is_read_again() {
        let mut cache = Cache::new(Replacement::S3Fifo, 100);
        for _ in 0..3 {
            cache.hits(0..50);
        }
        cache.hits(1_000..5_000);
        assert_eq!(cache.hits(0..50), 50);
    }

    #[test]
    fn names_of_the_gone_are_bounded() {
        let mut cache = Cache::new(Replacement::S3Fifo, 100);
        cache.hits(0..10_000);
        let Order::S3Fifo(fifo) = &cache.order else { unreachable!() };
        assert!(fifo.ghosts.names.len() <= 100 && fifo.ghosts.order.len() <= 100);
        assert!(fifo.small.len() + fifo.main.len() <= 100);
    }
}
