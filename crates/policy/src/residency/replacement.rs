//! The order in which Used folios are evicted: S3-FIFO, or LRU to compare with.
//!
//! ```text
//!   read to its end         neither
//!   or fetched nearby ──> small ───────────> evicted, its name remembered for a while (ghost)
//!                           │
//!                           │ read again, or it came back after
//!                           v less than the oldest in main waits
//!                          main ──(not read since it last came by)──> evicted, remembered too
//!                           ^ │
//!                           └─┘ read since: to the end of the queue
//! ```
//!
//! Most folios are read once. They leave through `small`, at first a tenth of the Used bytes, and
//! evict nothing that is read again and again.
//!
//! Names of both queues are remembered. If a folio comes back soon after it left `small`, a
//! slightly larger `small` would still hold it; the same is true of `main`. So a folio that comes
//! back moves the border between the two by its own bytes, in favour of the queue that it left.
//!
//! A folio that comes back is read every so many evicted bytes. It takes the place of the oldest
//! of `main` only if that one has not been read for longer. So a loop over more than the memory
//! keeps the part that fits: all its folios come back after one round, so none has waited longer
//! than another. LRU keeps nothing of such a loop.
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
//! than published (docs/decisions/0016); the moving border, docs/decisions/0053, after ARC
//! (Megiddo and Modha, FAST 2003), and the comparison of waiting times, after LIRS (Jiang and
//! Zhang, SIGMETRICS 2002); the comparison of hot blocks, docs/decisions/0010.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

use crate::units::{FileId, RequestId};

mod ghosts;

use ghosts::{Ghosts, Left};

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
    /// S3-FIFO: pages read again that are not counted in `times`.
    pages: u32,
    /// S3-FIFO: it is in the main queue.
    main: bool,
    /// It was fetched with a hot block; no read asked for it.
    nearby: bool,
    /// S3-FIFO: after how many evicted bytes it came back, if its name was remembered.
    back_after: Option<u64>,
    /// When it was read last as far as that is known: LRU in reads, S3-FIFO in evicted bytes.
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
    S3Fifo(Box<S3Fifo>),
    Lru(Lru),
}

impl Order {
    pub(crate) fn new(replacement: Replacement) -> Self {
        match replacement {
            Replacement::S3Fifo => Self::S3Fifo(Box::default()),
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

    /// `pages` of a folio, of `of` pages, were read again. Returns whether its next use is to be
    /// reported as well.
    pub(crate) fn touch(&mut self, key: Key, uses: &mut Uses, pages: u64, of: u64) -> bool {
        match self {
            Self::S3Fifo(fifo) => {
                uses.at = fifo.evicted_bytes;
                let pages = u64::from(uses.pages) + pages;
                let counts = pages * USE_SHARE >= of;
                uses.pages = if counts { 0 } else { pages as u32 };
                uses.times = (uses.times + u8::from(counts)).min(TIMES_MAX);
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
    /// `names` the number of evicted folios that may be remembered however few there are.
    pub(crate) fn forget_stale(&mut self, there: usize, names: usize, folios: &mut impl Folios) {
        if let Self::S3Fifo(fifo) = self {
            for (main, queue) in [(false, &mut fifo.small), (true, &mut fifo.main)] {
                if queue.len() > 2 * there + STALE_MAX {
                    queue.retain(|&key| folios.used(key).is_some_and(|(uses, _)| uses.main == main));
                }
            }
            let most = names.max(there * NAMES_PER_FOLIO);
            fifo.left_small.truncate(most);
            fifo.left_main.truncate(most / MAIN_NAMES_SHARE);
        }
    }
}

/// Two queues, and the names of folios that were evicted from them.
#[derive(Debug)]
pub(crate) struct S3Fifo {
    /// Each folio is in one of the two queues, once. They may name folios that are gone.
    small: VecDeque<Key>,
    main: VecDeque<Key>,
    small_bytes: u64,
    main_bytes: u64,
    /// `main` takes every folio that comes back: it has room, and none was evicted from it since.
    main_fills: bool,
    /// The part of all bytes that `small` holds before it is evicted from, of [`ONE`].
    small_share: u64,
    /// Names of folios that were not read again.
    left_small: Ghosts,
    /// Names of folios that had been, and were not since.
    left_main: Ghosts,
    /// Bytes evicted from both queues so far: the clock of waiting times.
    evicted_bytes: u64,
    /// Use of the folios that reads asked for.
    asked: Passage,
    /// Use of the folios that came with hot blocks.
    nearby: Passage,
}

impl Default for S3Fifo {
    fn default() -> Self {
        Self {
            small: VecDeque::new(),
            main: VecDeque::new(),
            small_bytes: 0,
            main_bytes: 0,
            main_fills: true,
            small_share: SMALL_SHARE,
            left_small: Ghosts::default(),
            left_main: Ghosts::default(),
            evicted_bytes: 0,
            asked: Passage::default(),
            nearby: Passage::default(),
        }
    }
}

impl S3Fifo {
    fn insert(&mut self, key: Key, uses: &mut Uses, bytes: u64) {
        let name = (key.0, key.1);
        let (left_small, left_main) = (self.left_small.take(name), self.left_main.take(name));
        uses.at = self.evicted_bytes;
        uses.back_after = left_small.or(left_main).map(|left| self.evicted_bytes - left.read_at);
        self.move_border(left_small, left_main, bytes);
        self.small.push_back(key);
        self.small_bytes += bytes;
    }

    fn bytes_of(&mut self, main: bool) -> &mut u64 {
        if main { &mut self.main_bytes } else { &mut self.small_bytes }
    }

    /// A folio of `bytes` comes back that has left one of the queues.
    fn move_border(&mut self, left_small: Option<Left>, left_main: Option<Left>, bytes: u64) {
        let all_bytes = (self.small_bytes + self.main_bytes).max(1);
        let soon = |left: Left| left.evicted_since <= all_bytes / SOON_SHARE;
        let step = u64::try_from(u128::from(bytes) * u128::from(ONE) / u128::from(all_bytes)).unwrap_or(ONE).min(ONE);
        let mut share = self.small_share;
        if left_small.is_some_and(soon) {
            share += step;
        }
        if left_main.is_some_and(soon) {
            share = share.saturating_sub(step);
        }
        self.small_share = share.clamp(SMALL_SHARE_MIN, ONE - SMALL_SHARE_MIN);
    }

    /// The bytes that `small` holds before it is evicted from.
    fn small_bytes_min(&self) -> u64 {
        let all_bytes = u128::from(self.small_bytes + self.main_bytes);
        (all_bytes * u128::from(self.small_share) / u128::from(ONE)) as u64
    }

    fn next(&mut self, folios: &mut impl Folios) -> Option<Step> {
        loop {
            let main = self.small.is_empty() || (self.small_bytes < self.small_bytes_min() && !self.main.is_empty());
            let key = if main { self.main.pop_front() } else { self.small.pop_front() }?;
            let Some((&mut uses, bytes)) = folios.used(key).filter(|(uses, _)| uses.main == main) else { continue };
            if !main {
                self.count(uses, bytes);
            }
            let stays = uses.times > 0 || (!main && self.is_admitted(uses, bytes, folios));
            let (uses, _) = folios.used(key)?;
            if !stays {
                self.evicted_bytes += bytes;
                self.main_fills &= !main;
                let left = if main { &mut self.left_main } else { &mut self.left_small };
                left.push((key.0, key.1), bytes, uses.at);
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

    /// Counts how a folio of `bytes` was used that leaves `small`.
    fn count(&mut self, uses: Uses, bytes: u64) {
        let times = u64::from(uses.times);
        if uses.nearby {
            // A folio fetched nearby may be larger than a requested one: each use counts as one of
            // the latter's size.
            self.nearby.count(times.saturating_mul(self.asked.folio_bytes()), bytes);
        } else {
            self.asked.count(bytes * times.min(1), bytes);
        }
    }

    /// Whether a folio of `bytes` that came back, and was not read again in `small`, goes to
    /// `main`: there is room, or the oldest there has not been read for longer than the folio was
    /// away.
    fn is_admitted(&mut self, uses: Uses, bytes: u64, folios: &mut impl Folios) -> bool {
        let Some(back_after) = uses.back_after else { return false };
        let (least, all_bytes) = (self.small_bytes_min(), self.small_bytes + self.main_bytes);
        self.main_fills |= self.small_bytes >= least + all_bytes / FILL_SHARE;
        if self.main_fills && self.small_bytes - bytes >= least {
            return true;
        }
        while let Some(&oldest) = self.main.front() {
            if let Some((oldest, _)) = folios.used(oldest).filter(|(uses, _)| uses.main) {
                return self.evicted_bytes - oldest.at > back_after;
            }
            self.main.pop_front();
        }
        true
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

/// Divisor of a folio's pages: so many are read again in one use of it. Lower: a folio that is
/// used in small parts leaves sooner, and its hot parts come back alone. Higher: a small hot part
/// keeps a large folio. Source: measured, docs/decisions/0053.
const USE_SHARE: u64 = 2;

/// The whole, of which shares are parts. Lower: the border moves in coarser steps. Higher: in
/// finer ones. Source: the definition of the unit.
const ONE: u64 = 1 << 32;

/// The part of the Used bytes that `small` holds at first before it is evicted from, of [`ONE`]: a
/// tenth. Lower: a folio that is read again soon is evicted before that, until the border has
/// moved. Higher: less is left to `main`. Source: S3-FIFO, as published.
const SMALL_SHARE: u64 = ONE / 10;

/// The least part that either queue keeps, of [`ONE`]: a fiftieth. Lower: the other one is taken
/// for the better for longer after the program has changed. Higher: what is read once takes room
/// from what is read often. Source: measured on recorded reads, docs/decisions/0053: with a tenth
/// hit rates are up to one point lower.
const SMALL_SHARE_MIN: u64 = ONE / 50;

/// Divisor of the Used bytes: a folio that comes back after fewer evicted bytes moves the border.
/// Lower: loops over more than the memory count as uses soon after, and lose the part that is
/// kept. Higher: too few folios count. Source: measured, docs/decisions/0053.
const SOON_SHARE: u64 = 4;

/// Divisor of the Used bytes: `main` takes all folios that come back again once `small` has so
/// many more than its part. Lower: room that `main` has lost stays lost for longer. Higher: where
/// folios arrive in batches, `small` swings by a batch, and `main` is evicted from and filled
/// again with each: a loop keeps nothing. Source: measured, docs/decisions/0053.
const FILL_SHARE: u64 = 8;

/// Names that are remembered for each folio there is. Lower: a loop over twice the memory is not
/// seen while `main` is full of what is not read any more. Higher: 70 bytes each, of the 512 that
/// a folio is charged beside its pages. Source: derived: such a loop comes back after as many
/// folios as there are, twice, less those in `small`.
const NAMES_PER_FOLIO: usize = 2;

/// Divisor of the names that are remembered of folios that left `main`. Lower: more memory for
/// names that came back too late to move the border. Higher: some that come back soon are
/// forgotten. Source: [`SOON_SHARE`].
const MAIN_NAMES_SHARE: usize = 4;

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
        /// Folios evicted at once when there is no room.
        batch: usize,
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
            Self {
                order: Order::new(replacement),
                folios: Map::default(),
                capacity,
                told: BTreeSet::new(),
                next: 0,
                batch: 1,
            }
        }

        /// Reads `page`; returns whether it was a hit.
        fn read(&mut self, page: u64) -> bool {
            if let Some((&key, uses)) = self.folios.0.iter_mut().find(|(key, _)| key.1 == page) {
                if self.told.insert(page) && self.order.touch(key, uses, 1, 1) {
                    self.told.remove(&page);
                }
                return true;
            }
            let most = if self.folios.0.len() < self.capacity { self.capacity } else { self.capacity - self.batch + 1 };
            while self.folios.0.len() >= most {
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
    fn folios_read_again_soon_take_the_room_of_folios_that_were_read_often_before() {
        let mut cache = Cache::new(Replacement::S3Fifo, 100);
        // What the program reads often fills the main queue; then it reads other folios, each
        // again after twenty others.
        for _ in 0..6 {
            cache.hits(0..90);
        }
        let then = |n: u64| (0..n).flat_map(|read| [1_000 + read, 1_000 + read.saturating_sub(20)]);
        cache.hits(then(2_000)); // the border moves
        let hits = cache.hits(then(4_000).skip(4_000));
        assert!(hits > 1_800, "{hits} of 2000 that were read before");
    }

    #[test]
    fn a_loop_over_twice_the_memory_finds_nearly_half_in_it() {
        let hits = Cache::new(Replacement::S3Fifo, 100).hits((0..200 * 20).map(|read| read % 200));
        assert!(hits > 200 * 20 * 2 / 5, "{hits} of {}", 200 * 20);
    }

    #[test]
    fn a_loop_keeps_its_part_where_room_is_made_in_batches() {
        let mut cache = Cache { batch: 10, ..Cache::new(Replacement::S3Fifo, 100) };
        let hits = cache.hits((0..200 * 20).map(|read| read % 200));
        assert!(hits > 200 * 20 / 3, "{hits} of {}", 200 * 20);
    }

    #[test]
    fn a_loop_takes_the_room_of_what_is_not_read_any_more() {
        let mut cache = Cache::new(Replacement::S3Fifo, 100);
        for _ in 0..10 {
            cache.hits(0..95);
        }
        cache.hits((0..200 * 5).map(|read| 1_000 + read % 200));
        let hits = cache.hits((0..200 * 10).map(|read| 1_000 + read % 200));
        assert!(hits > 200 * 10 * 2 / 5, "{hits} of {}", 200 * 10);
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
        assert!(fifo.left_small.len() <= 200 && fifo.left_main.len() <= 50);
        assert!(fifo.small.len() + fifo.main.len() <= 100);
    }
}
