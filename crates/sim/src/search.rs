//! A search for bugs: each seed is a mix of files, readers, memory, device and faults, the same
//! one each time.
//!
//! ```text
//!   Mixed    a few readers that change their patterns, in up to five files of any size
//!   Heads    hundreds of small files, of which readers take the first bytes and go on
//!   Crowd    up to 300 readers whose reads overlap in one small part of a file
//!   Slow     up to 200 streams in one large file, each slower than the link could bring it
//! ```
//!
//! The rules that must hold in every mix are those of [`Violation`]: no request past the end of a
//! file, no page requested twice, no more resident than the budget, every reader gets its bytes or
//! an error, no read starves, a forgotten file is not fetched and has no pages. In half
//! of the seeds the budget changes and files are prefetched and discarded (`world/orders`).

use foreread_device::latency::{FirstByte, SlowTail, Spread};
use foreread_device::{Profile, Random, Rate, object_store};
use foreread_policy::{Extent, Options, PAGE_BYTES, ReadPath, Replacement};
use foreread_workload::Op;

use crate::baseline::Baseline;
use crate::baseline::linux::Linux;
use crate::outcome::tally::Tally;
use crate::outcome::violation::Violation;
use crate::storage::Storage;
use crate::storage::blocks::Asked;
use crate::storage::profile;
use crate::world::World;
use crate::world::fate::{Faults, Rates};
use crate::world::front::{Front, MOUNT_PIECE_PAGES, PAGE_NS, PIECE_BYTES};
use crate::world::orders::Orders;
use crate::world::reader::Start;
use crate::world::tier::Tier;

/// Runs the scenario of `seed`, with faults or without. The error is the rule that it broke.
pub fn run(seed: u64, faults: bool) -> Result<Tally, Violation> {
    let mut random = Random::new(seed);
    let kind = [Kind::Mixed, Kind::Mixed, Kind::Heads, Kind::Crowd, Kind::Slow][random.below(5) as usize];
    let sizes = kind.sizes(&mut random);
    let memory_bytes = MEMORY_BYTES_MIN << random.below(3);
    let replacement = if random.chance(500_000) { Replacement::S3Fifo } else { Replacement::Lru };
    let readahead = random.chance(900_000);
    let rotational = random.chance(500_000);
    let fair_queue = random.chance(800_000);
    let mut tiers = Random::new(seed ^ TIERS);
    let tier = tiers.chance(300_000);
    let bypass = tiers.chance(800_000);
    let capacity_bytes = memory_bytes;
    let options = Options { capacity_bytes, readahead, replacement, rotational, fair_queue, tier, bypass };
    let policy = ReadPath::new(options);
    let device = device(&mut random);
    let piece_bytes = random.chance(800_000).then_some(PIECE_BYTES);
    let storage = Storage::new(device, &sizes, Asked { piece_bytes, ..Asked::default() });
    let piece_pages = random.chance(700_000).then_some(MOUNT_PIECE_PAGES);
    let readers = kind.operations(&mut random, &sizes).into_iter().zip(0_u32..).map(|(operations, number)| {
        let descriptors = DESCRIPTORS_MAX * number;
        Start::new(Box::new(operations.into_iter()), Some(descriptors))
    });
    let readers: Vec<Start<'static>> = readers.collect();
    let rates = if faults { rates(&mut random) } else { Rates::default() };
    let front = Front { piece_pages, piece_ns: 0, page_ns: PAGE_NS };
    let world = World::new(Box::new(policy), storage, front, u64::MAX, sizes.clone());
    let world = world.with_faults(Faults::new(rates, random.next_u64()), memory_bytes / PAGE_BYTES);
    let world = if rotational { world } else { world.with_patience(PATIENCE) };
    let world = if tier { world.with_tier(tier_of(&mut tiers, &sizes, faults)) } else { world };
    let mut orders = Random::new(seed ^ ORDERS);
    let world = if orders.chance(500_000) {
        world.with_orders(Orders {
            rate: 1 << orders.below(18),
            budget_bytes: (MEMORY_BYTES_MIN, 4 * MEMORY_BYTES_MIN),
            random: orders,
        })
    } else {
        world
    };
    if random.chance(300_000) {
        let page_cache = Box::new(Baseline::new(1 << (8 + random.below(10)), || Linux::new(MOUNT_PIECE_PAGES)));
        return World::new(page_cache, Storage::Mount(Box::new(world)), front, u64::MAX, sizes).run(readers, None);
    }
    world.run(readers, None)
}

/// A tier on a disk of its own, which has some of the files from the start; with faults, some of
/// it is gone when it is asked for.
fn tier_of(random: &mut Random, sizes: &[u64], faults: bool) -> Tier {
    let built_in = ["hdd-w1", "sata-ssd-2011", "nvme"][random.below(3) as usize];
    let disk = profile::find(built_in).unwrap_or_else(|| unreachable!("{built_in} is built in"));
    let longest = 1 << random.below(13);
    let mut warm_of = |&bytes: &u64| {
        let (pages, mut at, mut warm) = (bytes.div_ceil(PAGE_BYTES), 0, Vec::new());
        while at < pages && warm.len() < WARM_MAX {
            let (from, len) = (at + random.below(longest), 1 + random.below(longest));
            let extent = Extent::new(from, (from + len).min(pages));
            warm.extend(Some(extent).filter(|extent| !extent.is_empty()));
            at = from + len;
        }
        warm
    };
    let warm = sizes.iter().map(&mut warm_of).collect();
    let gone = if faults { 1 << random.below(18) } else { 0 };
    let tier = Tier::new(Storage::new(disk, sizes, Asked::default()), warm);
    let tier = tier.with_gone(gone, Random::new(random.next_u64()));
    if random.chance(500_000) { tier.with_size(TIER_BYTES_MIN << random.below(4)) } else { tier }
}

/// What the readers of a seed have in common.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Mixed,
    Heads,
    Crowd,
    Slow,
}

impl Kind {
    /// The lengths of the files, in bytes.
    fn sizes(self, random: &mut Random) -> Vec<u64> {
        match self {
            Self::Mixed => (0..=random.below(4)).map(|_| size(random)).collect(),
            Self::Heads => {
                let most = 1 << (12 + random.below(8));
                (0..50 + random.below(400)).map(|_| 1 + random.below(most)).collect()
            }
            Self::Crowd => vec![1 << (20 + random.below(8))],
            Self::Slow => vec![1 << (26 + random.below(6))],
        }
    }

    /// The reads of each reader.
    fn operations(self, random: &mut Random, sizes: &[u64]) -> Vec<Vec<Op>> {
        match self {
            Self::Mixed => (0..=random.below(READERS_MAX)).map(|_| operations(random, sizes)).collect(),
            Self::Heads => (0..=random.below(4)).map(|_| heads(random, sizes)).collect(),
            Self::Crowd => {
                let longest = 1 << (12 + random.below(10));
                (0..=random.below(CROWD_MAX)).map(|_| overlapping(random, sizes[0], longest)).collect()
            }
            Self::Slow => {
                let streams = 1 + random.below(STREAMS_MAX);
                let (record, pause_ns) = (1 << (12 + random.below(6)), random.below(1_000_000_000));
                (0..streams).map(|nth| slow(sizes[0], sizes[0] / streams * nth, record, pause_ns)).collect()
            }
        }
    }
}

/// The first bytes of each file, and now and then the last ones.
fn heads(random: &mut Random, sizes: &[u64]) -> Vec<Op> {
    let (len, tails) = (1 + random.below(1 << 16), random.chance(300_000));
    let mut all = Vec::new();
    for (file, &size) in (0..).zip(sizes) {
        let len = len.min(size);
        all.push(Op { file, offset: 0, len: len as u32, not_before_ns: 0 });
        if tails {
            all.push(Op { file, offset: size - len, len: len as u32, not_before_ns: 0 });
        }
    }
    all
}

/// Random reads that overlap with those of others.
fn overlapping(random: &mut Random, size: u64, longest: u64) -> Vec<Op> {
    let read = |_| {
        let len = (1 + random.below(longest)).min(size);
        Op { file: 0, offset: random.below(size - len + 1), len: len as u32, not_before_ns: 0 }
    };
    (0..20).map(read).collect()
}

/// A stream from `start`, with a pause after each record.
fn slow(size: u64, start: u64, record: u64, pause_ns: u64) -> Vec<Op> {
    let records = (0..30).map(|nth| (nth * pause_ns, start + nth * record));
    let within = records.take_while(|&(_, at)| at + record <= size);
    within.map(|(not_before_ns, offset)| Op { file: 0, offset, len: record as u32, not_before_ns }).collect()
}

/// From one byte to a gibibyte, each magnitude equally likely.
fn size(random: &mut Random) -> u64 {
    let most = 1 << random.below(31);
    1 + random.below(most)
}

/// A store of any speed, or a built-in block device.
fn device(random: &mut Random) -> Profile {
    if random.chance(300_000) {
        let built_in = ["hdd-w1", "fc-array-10", "sata-ssd-2011", "nvme"][random.below(4) as usize];
        return profile::find(built_in).unwrap_or_else(|| unreachable!("{built_in} is built in"));
    }
    let first_byte = FirstByte {
        base_ns: 1 << random.below(28),
        spread: Spread::LogNormal(100 + random.below(300) as u32),
        slow: SlowTail { per_million: random.below(50_000) as u32, multiplier: 20 },
    };
    Profile::ObjectStore(object_store::Config {
        first_byte,
        connection_rate: Rate::per_second(1 << (20 + random.below(8))),
        total_rate: Rate::per_second(1 << (22 + random.below(9))),
        seed: random.next_u64(),
        ..object_store::Config::default()
    })
}

fn rates(random: &mut Random) -> Rates {
    let mut rate = || if random.chance(500_000) { 0 } else { 1 << random.below(17) };
    Rates { failed: rate(), broken: rate(), lost: rate() / 4, replaced: rate() / 16, released: rate() / 4 }
}

/// The reads of a reader that changes its pattern now and then.
fn operations(random: &mut Random, sizes: &[u64]) -> Vec<Op> {
    let mut all = Vec::new();
    let (mut file, mut at, mut record, mut step, mut pause_ns, mut now_ns) = (0, 0u64, 1, 0i64, 0, 0u64);
    let many = random.below(OPERATIONS_MAX);
    while (all.len() as u64) < many {
        if all.is_empty() || random.chance(30_000) {
            file = random.below(sizes.len() as u64) as u32;
            let longest = 1 << random.below(21);
            record = 1 + random.below(longest);
            at = random.below(sizes[file as usize]);
            step = match random.below(5) {
                0 => record as i64,
                1 => -(record as i64),
                2 => (record * (2 + random.below(16))) as i64,
                3 => random.below(1 << 20) as i64 - (1 << 19),
                _ => 0,
            };
            pause_ns = if random.chance(300_000) { random.below(100_000_000) } else { 0 };
        }
        let size = sizes[file as usize];
        // Step 0: a random position.
        at = if step == 0 { random.below(size) } else { at.wrapping_add_signed(step) % size };
        let len = record.min(size - at) as u32;
        now_ns += pause_ns;
        all.push(Op { file, offset: at, len, not_before_ns: if pause_ns > 0 { now_ns } else { 0 } });
    }
    all
}

/// How many times the memory and what waits may arrive before a read has memory, in front of a
/// store. A disk serves queues in slices, so there a read may wait for those of hundreds of
/// others. Lower: a read counts as one that starves while it waits for the end of a long request,
/// which shares a slow link with hundreds of others. Higher: one that starves is found later.
/// Source: one of 6,000 runs has more than 8, of a read far behind the start of its request.
const PATIENCE: u64 = 16;

/// Tells the draws of orders from those of the scenario.
const ORDERS: u64 = 0x6f72_6465_7273;

/// Tells the draws of tiers from those of the scenario.
const TIERS: u64 = 0x0074_6965_7273;

/// The smallest tier that has a size, in bytes: two segments.
const TIER_BYTES_MIN: u64 = 2 << 20;

/// Runs of pages of one file that a tier has from the start, at most.
const WARM_MAX: usize = 1_000;

/// Smallest budget of an engine, in bytes.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

const READERS_MAX: u64 = 12;

const CROWD_MAX: u64 = 300;

const STREAMS_MAX: u64 = 200;

/// Files that a reader opens at most; each open has a descriptor of its own.
const DESCRIPTORS_MAX: u32 = 1 << 12;

const OPERATIONS_MAX: u64 = 400;
