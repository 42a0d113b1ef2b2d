//! The page cache of a tree's world: which blocks of the disk are resident or in flight, and which
//! requests may start.
//!
//! ```text
//!   a program waits for it, or has requested it itself ─────────────────────────────> request
//!   read ahead: held back, by position ── fewer than 31 in flight, in that order ───> request
//!                                           contents: only while no other program uses the disk
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use foreread_device::Profile;
use foreread_policy::RequestId;

use super::index::BLOCK_BYTES;
use crate::stack::scheduler_name::SchedulerName;
use crate::storage::Storage;
use crate::storage::blocks::Asked;
use crate::storage::delivery::Delivery;

/// Resident blocks and blocks in flight, and the storage below.
pub(crate) struct Cache {
    storage: Storage,
    pub(crate) now_ns: u64,
    /// Requested blocks, and whether each is resident.
    blocks: HashMap<u64, bool>,
    /// Requests in flight: the program, the first block, how many, and the bytes that are missing.
    on_their_way: HashMap<RequestId, (u32, u64, u32, u64)>,
    /// Refused requests, and when each is made again.
    refused: BTreeSet<(u64, RequestId)>,
    next_request: u64,
    /// Blocks requested ahead of programs that are held back.
    listings: Held,
    contents: Held,
    /// Requests ahead of programs in flight.
    ahead: HashSet<RequestId>,
    /// Demand requests of each program in flight, and when its last one was done.
    demand: BTreeMap<u32, (u32, u64)>,
    /// Requested blocks.
    fetched: u64,
}

impl Cache {
    pub(crate) fn new(device: Profile, scheduler: Option<SchedulerName>) -> Self {
        // All blocks of the disk are those of one file.
        let storage = Storage::new(device, &[u64::MAX / 2], Asked { scheduler, ..Asked::default() });
        Self {
            storage,
            now_ns: 0,
            blocks: HashMap::new(),
            on_their_way: HashMap::new(),
            refused: BTreeSet::new(),
            next_request: 0,
            listings: Held::default(),
            contents: Held::default(),
            ahead: HashSet::new(),
            demand: BTreeMap::new(),
            fetched: 0,
        }
    }

    /// Requests made.
    pub(crate) fn requests(&self) -> u64 {
        self.next_request
    }

    pub(crate) fn fetched_blocks(&self) -> u64 {
        self.fetched
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let refused_ns = self.refused.first().map(|&(at_ns, _)| at_ns);
        [self.storage.next_deadline(), refused_ns].into_iter().flatten().min()
    }

    /// A program ends.
    pub(crate) fn close(&mut self, context: u32) {
        self.storage.close(self.now_ns, context);
    }

    /// Whether a block is resident; `None` if it is not even in flight.
    pub(crate) fn has(&self, block: u64) -> Option<bool> {
        self.blocks.get(&block).copied()
    }

    pub(crate) fn has_all(&self, at: u64, blocks: u32) -> bool {
        (at..at + u64::from(blocks)).all(|block| self.has(block) == Some(true))
    }

    /// Requests blocks ahead of a program, as soon as the disk has room.
    pub(crate) fn fetch_ahead(&mut self, context: u32, at: u64, blocks: u32, kind: Ahead) {
        let held = if kind == Ahead::Listing { &mut self.listings } else { &mut self.contents };
        for block in (at..at + u64::from(blocks)).filter(|block| !self.blocks.contains_key(block)) {
            held.blocks.entry(block).or_insert(context);
        }
        self.let_go();
    }

    /// Starts held-back requests, as many as the disk should have. A listing spares every program
    /// seeks; contents serve their own program only, and wait while other programs wait.
    fn let_go(&mut self) {
        while self.ahead.len() < AHEAD_MAX {
            let (demand, now_ns) = (&self.demand, self.now_ns);
            let silent = |&(count, last_ns): &(u32, u64)| count == 0 && last_ns + SILENT_NS <= now_ns;
            let alone = |context: u32| demand.iter().all(|(&of, other)| of == context || silent(other));
            let next = self.listings.take(|_| true).or_else(|| self.contents.take(alone));
            let Some((context, at, blocks)) = next else { return };
            let request = RequestId(self.next_request);
            if self.ask(context, at, blocks) > 0 {
                self.ahead.insert(request);
            }
        }
    }

    /// Requests the missing ones of these blocks for a program that waits for them or has asked
    /// for them itself.
    pub(crate) fn fetch(&mut self, context: u32, at: u64, blocks: u32) {
        let before = self.next_request;
        self.ask(context, at, blocks);
        self.demand.entry(context).or_default().0 += (self.next_request - before) as u32;
    }

    /// Requests those of these blocks that are neither resident nor in flight, each run as one
    /// request; returns how many.
    fn ask(&mut self, context: u32, at: u64, blocks: u32) -> u32 {
        let (mut start, end, mut asked) = (at, at + u64::from(blocks), 0);
        while start < end {
            let missing = (start..end).take_while(|block| !self.blocks.contains_key(block)).count() as u32;
            if missing == 0 {
                start += 1;
                continue;
            }
            let request = RequestId(self.next_request);
            self.next_request += 1;
            for block in start..start + u64::from(missing) {
                self.blocks.insert(block, false);
                self.listings.blocks.remove(&block);
                self.contents.blocks.remove(&block);
            }
            self.on_their_way.insert(request, (context, start, missing, u64::from(missing) * BLOCK_BYTES));
            self.make(request);
            self.fetched += u64::from(missing);
            asked += missing;
            start += u64::from(missing);
        }
        asked
    }

    fn make(&mut self, request: RequestId) {
        if let Some(&(context, at, _, bytes)) = self.on_their_way.get(&request) {
            self.storage.read(self.now_ns, request, context, 0, at * BLOCK_BYTES, bytes);
        }
    }

    /// Takes deliveries due by now; whether any request was done.
    pub(crate) fn deliver(&mut self) -> bool {
        self.storage.advance(self.now_ns);
        while let Some(&(at_ns, request)) = self.refused.first()
            && at_ns <= self.now_ns
        {
            self.refused.pop_first();
            self.make(request);
        }
        let mut came = false;
        while let Some(delivery) = self.storage.poll() {
            let (request, bytes) = match delivery {
                Delivery::Bytes(request, bytes) => (request, bytes),
                Delivery::Refused(request, after_ns) => {
                    self.refused.insert((self.now_ns + after_ns, request));
                    continue;
                }
                Delivery::Head(_) | Delivery::Broken(_) => continue,
            };
            self.storage.taken(self.now_ns, request, bytes);
            // A store sends a body in parts.
            let Some((.., missing)) = self.on_their_way.get_mut(&request) else { continue };
            *missing = missing.saturating_sub(bytes);
            if *missing > 0 {
                continue;
            }
            let Some((context, at, blocks, _)) = self.on_their_way.remove(&request) else { continue };
            if !self.ahead.remove(&request) {
                let demand = self.demand.entry(context).or_default();
                *demand = (demand.0 - 1, self.now_ns);
            }
            (at..at + u64::from(blocks)).for_each(|block| _ = self.blocks.insert(block, true));
            came = true;
        }
        if came {
            self.let_go();
        }
        came
    }
}

/// What is read ahead of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    Listing,
    Contents,
}

/// Held-back blocks by position, each with its program.
#[derive(Debug, Default)]
struct Held {
    blocks: BTreeMap<u64, u32>,
    /// The first block of the last request that was started.
    last: u64,
}

impl Held {
    /// The next run, if its program may have it: program, first block, blocks.
    fn take(&mut self, may: impl Fn(u32) -> bool) -> Option<(u32, u64, u32)> {
        let next = self.blocks.range(self.last..).next().or_else(|| self.blocks.first_key_value());
        let (&at, &context) = next.filter(|(_, context)| may(**context))?;
        let mut blocks = 0;
        while blocks < RUN_MAX && self.blocks.remove(&(at + u64::from(blocks))).is_some() {
            blocks += 1;
        }
        self.last = at;
        Some((context, at, blocks))
    }
}

/// Most requests ahead of programs in flight. Lower: the disk has less to sort; higher: a demand
/// request waits longer.
const AHEAD_MAX: usize = 31;

/// A program without a request for this long, in ns, leaves the disk to others. Lower: a copy
/// seems over between two of its windows; higher: the disk idles. Origin: as long as CFQ idles.
const SILENT_NS: u64 = 8_000_000;

/// Most blocks of a request ahead of a program: 128 KiB.
const RUN_MAX: u32 = 32;
