//! The order in which Used folios are evicted: S3-FIFO, or LRU to compare with.
//!
//! ```text
//!                            not read again
//!   read to its end ──> small ────────────> evicted, its name remembered for a while (ghost)
//!   or fetched nearby     │                     │ fetched and read once more
//!                         │ read again          v
//!                         └──────────────────> main ──(not read since it last came by)──> evicted
//!                                               ^ │
//!                                               └─┘ read since: to the end of the queue
//! ```
//!
//! Most folios are read once. They leave through `small`, a tenth of the Used bytes, and evict
//! nothing that is read again and again. A loop over more than the memory keeps the part that
//! fits, where LRU keeps nothing.
//!
//! What has left `small` is also counted by its use, apart for folios that were requested and for
//! those that came with a hot block: `prefers_nearby` compares the two.
//!
//! *Invariants:* a folio is in one queue, once; an entry of a folio that is gone is skipped. The
//! number of entries and of names is bounded.
//!
//! The file does not know folios in flight, unread or read in part (`budget`), and does not see
//! plain hits: the driver reports a touch only while the folio's bit is clear. Source: S3-FIFO
//! (Yang et al., SOSP 2023), with up to three counted uses and the tenth as published; more names
//! than published (docs/decisions/0016); the comparison of hot blocks, docs/decisions/0010.

use alloc::collections::{BTreeMap, VecDeque};

use crate::collections::hash_table::HashTable;
use crate::units::{FileId, RequestId};

/// Which Used folio is evicted first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replacement {
    /// Folios read once before folios read again.
    #[default]
    S3Fifo,
    /// The folio that was read longest ago.
    Lru,
}

impl Replacement {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::S3Fifo, Self::Lru];

    /// Its name in logs and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::S3Fifo => "s3-fifo",
            Self::Lru => "lru",
        }
    }
}

/// The identity of a folio: its file, its first page, and the request that brought it.
pub(crate) type Key = (FileId, u64, RequestId);

/// What is known of the uses of one folio. Kept with the folio, and changed here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    /// S3-FIFO: how often it was read again since it last came by, up to [`TIMES_MAX`].
    times: u8,
    /// S3-FIFO: it is in the main queue.
    main: bool,
    /// It was fetched with a hot block; no read asked for it.
    nearby: bool,
    /// LRU: when it was read last, in reads.
    at: u64,
}

/// How the folios that have left the small queue were used, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Passage {
    /// Bytes of folios that had been read again.
    again: u64,
    /// Bytes of all folios.
    all: u64,
    /// The number of folios.
    folios: u64,
}

impl Passage {
    /// Counts a folio of `bytes`, of which `again` had been read again. Older counts lose weight.
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

    /// The part that had been read again, per mille. `None` while too little has passed.
    fn again_per_mille(self) -> Option<u64> {
        if self.all < PASSAGE_BYTES / 4 { None } else { Some(self.again * 1000 / self.all) }
    }

    /// The mean bytes of a folio.
    fn folio_bytes(self) -> u64 {
        self.all.checked_div(self.folios).unwrap_or(u64::MAX)
    }
}

/// Looks up folios by key.
pub(crate) trait Folios {
    /// The uses and the bytes of a folio, if it is there, Used, and may be evicted.
    fn used(&mut self, key: Key) -> Option<(&mut Uses, u64)>;
}

/// One step towards room.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This folio is to be evicted.
    Evict(Key),
    /// This folio stays; its next use is to be reported.
    Clear(Key),
}

/// The Used folios, in the order of their eviction.
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

    /// A folio of `bytes` is Used from now on: read to its end, or fetched `nearby` a random read.
    pub(crate) fn insert(&mut self, key: Key, uses: &mut Uses, bytes: u64, nearby: bool) {
        *uses = Uses { nearby, ..Uses::default() };
        match self {
            Self::S3Fifo(fifo) => fifo.insert(key, uses, bytes),
            Self::Lru(lru) => lru.insert(key, uses),
        }
    }

    /// Whether folios fetched with hot blocks are used clearly more than requested folios, most of
    /// which are read once and take the same room.
    pub(crate) fn prefers_nearby(&self) -> bool {
        let Self::S3Fifo(fifo) = self else { return false };
        match (fifo.nearby.again_per_mille(), fifo.asked.again_per_mille()) {
            (Some(nearby), Some(asked)) => nearby >= asked + NEARBY_PER_MILLE,
            _ => false,
        }
    }

    /// A folio was read again. Returns whether its next use is to be reported as well.
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

    /// A folio was removed, for any reason.
    pub(crate) fn remove(&mut self, uses: Uses, bytes: u64) {
        match self {
            Self::S3Fifo(fifo) => *fifo.bytes_of(uses.main) -= bytes,
            Self::Lru(lru) => {
                lru.order.remove(&uses.at);
            }
        }
    }

    /// A folio that was passed over, because it might not be evicted, may be again.
    pub(crate) fn put_back(&mut self, key: Key, uses: Uses) {
        if let Self::S3Fifo(fifo) = self {
            if uses.main { fifo.main.push_back(key) } else { fifo.small.push_back(key) }
        }
    }

    /// The next step towards room, or `None` if nothing is left to evict. The caller removes the
    /// folio to evict.
    pub(crate) fn next(&mut self, folios: &mut impl Folios) -> Option<Step> {
        match self {
            Self::S3Fifo(fifo) => fifo.next(folios),
            Self::Lru(lru) => lru.order.values().find(|&&key| folios.used(key).is_some()).map(|&key| Step::Evict(key)),
        }
    }

    /// Forgets entries of folios that are gone, if they are many. `there` is the number of folios,
    /// `names` the number of evicted folios that may be remembered even if that is more.
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

/// Two queues, and the names of folios that were evicted from the first.
#[derive(Debug, Default)]
pub(crate) struct S3Fifo {
    /// Each folio is in one of the two queues, once. They may name folios that are gone.
    small: VecDeque<Key>,
    main: VecDeque<Key>,
    small_bytes: u64,
    main_bytes: u64,
    ghosts: Ghosts,
    /// Use of the folios that reads asked for.
    asked: Passage,
    /// Use of the folios that came with hot blocks.
    nearby: Passage,
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
                if uses.nearby {
                    // A folio fetched nearby may be larger than a requested one: each use counts
                    // as one of the latter's size.
                    self.nearby.count(times.saturating_mul(self.asked.folio_bytes()), bytes);
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
                *uses = Uses { main: true, times: 0, nearby: false, ..*uses };
                self.small_bytes -= bytes;
                self.main_bytes += bytes;
            }
            if untold {
                return Some(Step::Clear(key));
            }
        }
    }
}

/// Names of folios evicted without having been read again, the oldest first.
#[derive(Debug, Default)]
struct Ghosts {
    /// May hold names that were taken out of `names`.
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

/// Uses of a folio that are counted at most. Lower: hot folios are told from warm ones less well.
/// Higher: a folio that was hot once is kept for longer. Source: S3-FIFO, as published.
const TIMES_MAX: u8 = 3;

/// Divisor of the Used bytes: `small` holds one part in this many, a tenth, before it is evicted
/// from. Lower: less is left to `main`. Higher: a folio that is read again soon is evicted before
/// that. Source: S3-FIFO, as published.
const SMALL_SHARE: u64 = 10;

/// Bytes that have left `small` after which the counts of their use are halved: 32 MiB. Lower: too
/// few folios for a ratio. Higher: the ratio follows a change of the program later. Source: a
/// guess, not measured.
const PASSAGE_BYTES: u64 = 32 << 20;

/// How much more folios of hot blocks must be used than requested ones, per mille of their bytes:
/// an eighth. Lower: blocks are fetched that save less than they cost. Higher: fewer hot blocks
/// are fetched once half of the memory is used. Source: derived: the cost of fetching 64 KiB
/// together with 64 KiB, where fetching them apart costs eight times as much; docs/decisions/0010
/// (`iozone-random` falls to .92 of the best without the comparison).
const NEARBY_PER_MILLE: u64 = 125;

/// Entries of folios that are gone, allowed in each queue beside one for each folio there is.
/// Lower: queues are cleaned more often while there are few folios. Higher: more memory for
/// entries. Source: a guess, not measured.
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

        /// Reads `page`; returns whether it was a hit.
        fn read(&mut self, page: u64) -> bool {
            if let Some((&key, uses)) = self.folios.0.iter_mut().find(|(key, _)| key.1 == page) {
                if self.told.insert(page) && self.order.touch(key, uses) {
                    self.told.remove(&page);
                }
                return true;
            }
            while self.folios.0.len() >= self.capacity {
                match self.order.next(&mut self.folios).expect("a folio can be evicted") {
                    Step::Evict(key) => {
                        let uses = self.folios.0.remove(&key).expect("an evicted folio is resident");
                        self.order.remove(uses, 1);
                        self.told.remove(&key.1);
                    }
                    Step::Clear(key) => assert!(self.told.remove(&key.1), "cleared a bit that is not set"),
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
    fn lru_evicts_the_least_recently_read() {
        let mut cache = Cache::new(Replacement::Lru, 3);
        assert_eq!(cache.hits([1, 2, 3, 1, 1].into_iter()), 2);
        assert_eq!(cache.hits([4].into_iter()), 0);
        let left: Vec<u64> = cache.folios.0.keys().map(|key| key.1).collect();
        assert_eq!(left, [1, 3, 4]);
    }

    #[test]
    fn s3_fifo_keeps_a_part_of_a_loop_that_does_not_fit() {
        let round = |n: u64| (0..n * 150).map(|read| read % 150);
        assert_eq!(Cache::new(Replacement::Lru, 100).hits(round(20)), 0);
        let hits = Cache::new(Replacement::S3Fifo, 100).hits(round(20));
        assert!(hits > 20 * 150 / 3, "{hits} of {}", 20 * 150);
    }

    #[test]
    fn folios_read_once_do_not_evict_those_read_again() {
        let mut cache = Cache::new(Replacement::S3Fifo, 100);
        for _ in 0..3 {
            cache.hits(0..50);
        }
        cache.hits(1_000..5_000);
        assert_eq!(cache.hits(0..50), 50);
    }

    #[test]
    fn names_of_evicted_folios_are_bounded() {
        let mut cache = Cache::new(Replacement::S3Fifo, 100);
        cache.hits(0..10_000);
        let Order::S3Fifo(fifo) = &cache.order else { unreachable!() };
        assert!(fifo.ghosts.names.len() <= 100 && fifo.ghosts.order.len() <= 100);
        assert!(fifo.small.len() + fifo.main.len() <= 100);
    }
}
