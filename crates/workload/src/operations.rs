//! The reads of one thread, each a pure function of its number.
//!
//! ```text
//!  sequential   0 1 2 3 4 5          a thread takes files t, t + threads, ... one after the other
//!  backward     5 4 3 2 1 0
//!  strided      0 . . 1 . . 2 . .
//!  dealt        0 2 4 | 1 3 5        two threads, which take records in turn
//!  interleaved  0 2 4 | 1 3 5        two streams, each through its own half, in turn
//!  random       4 0 5 2 1 3          a permutation over all files; threads take entries in turn
//!  in runs      4 5 | 0 1 | 2 3      the same, with adjacent records in turn (`run = 2`)
//!  hot          7 8 2 7 3 8          most in a few areas; some followed by the next record
//!  slow         0 1 2 3 4 5          as sequential; read k is due k periods after the start
//!  scan         a a | b c d | a a    hot files several times, the others once, the hot ones again
//! ```
//!
//! Together the threads read every byte at most once, and the whole of every file unless the
//! pattern leaves gaps (strided, and random where the size is no multiple of the record). Several
//! passes, random reads with repeats, hot reads and scans come back to what they have read.

pub(crate) mod batches;
mod permutation;
pub(crate) mod reader;

use serde::Serialize;

use crate::workload::Workload;
use crate::workload::pattern::Pattern;
use permutation::{Permutation, random};

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Op {
    /// Index of the file, below `files.count`.
    pub file: u32,
    /// Bytes from its start.
    pub offset: u64,
    /// Bytes to read; at least 1, and never past the end of the file.
    pub len: u32,
    /// When it is due, counted from the start of the run; it must not start before. 0 for a
    /// pattern without a rate.
    pub not_before_ns: u64,
}

impl Workload {
    /// The reads of thread `thread` (below [`Workload::threads`]), in order.
    pub fn operations(&self, thread: u32) -> Operations<'_> {
        debug_assert!(thread < self.threads);
        Operations::new(self, thread)
    }
}

/// The operations of one thread, in order. Ends with the files, or with the workload's limit on
/// operations, or where the next one would be due after the workload's duration.
#[derive(Clone, Debug)]
pub struct Operations<'a> {
    workload: &'a Workload,
    thread: u64,
    order: Option<Permutation>,
    next: u64,
}

impl<'a> Operations<'a> {
    pub(crate) fn new(workload: &'a Workload, thread: u32) -> Self {
        let order = match workload.pattern {
            Pattern::Random { repeats: false, run, .. } => {
                Some(Permutation::new(random_slots(workload) / u64::from(run), workload.seed))
            }
            Pattern::MmapRandom { .. } => Some(Permutation::new(random_slots(workload), workload.seed)),
            _ => None,
        };
        Self { workload, thread: u64::from(thread), order, next: 0 }
    }

    /// Operation `number` of this thread.
    fn at(&self, number: u64) -> Option<Op> {
        // The reads of a walk are not known in advance: the storage says what comes next.
        if self.workload.tree.is_some() || self.workload.operations_max.is_some_and(|max| number >= max) {
            return None;
        }
        let (record, size) = (u64::from(self.workload.pattern.record_bytes()), self.workload.files.size_bytes);
        let records = size.div_ceil(record);
        let op = match self.workload.pattern {
            Pattern::Sequential { passes, .. } => {
                self.walk(number, records * u64::from(passes), |step| step % records * record, 0)
            }
            Pattern::Backward { .. } => self.walk(number, records, |step| (records - 1 - step) * record, 0),
            Pattern::Strided { stride_bytes, .. } => {
                self.walk(number, size.div_ceil(stride_bytes), |step| step * stride_bytes, 0)
            }
            Pattern::Interleaved { streams, .. } => {
                self.walk(number, records, |step| interleaved(step, records, u64::from(streams)) * record, 0)
            }
            Pattern::Slow { period_ns, start_every_ns, .. } => {
                let start_ns = self.thread.checked_mul(start_every_ns)?;
                let due_ns = number.checked_mul(period_ns)?.checked_add(start_ns)?;
                self.walk(number, records, |step| step * record, due_ns)
            }
            Pattern::Scan { hot, passes, .. } => self.scan(number, records, u64::from(hot), u64::from(passes)),
            Pattern::Dealt { .. } => self.dealt(number, records),
            Pattern::Random { .. } | Pattern::MmapRandom { .. } => self.random(number),
            Pattern::Hot { .. } => self.hot(number),
            Pattern::DiskTree(_) | Pattern::Region(_) | Pattern::Walk { .. } | Pattern::Epochs { .. } => None,
        }?;
        (op.not_before_ns < self.workload.duration_ns).then_some(op)
    }

    /// Step `number` of a walk of `steps` through each of this thread's files.
    fn walk(&self, number: u64, steps: u64, offset: impl Fn(u64) -> u64, not_before_ns: u64) -> Option<Op> {
        let (count, threads) = (u64::from(self.workload.files.count), u64::from(self.workload.threads));
        // More threads than files: several read the same file, each all of it.
        let file = self.thread % count + (number / steps) * threads;
        if file >= count {
            return None;
        }
        let offset = offset(number % steps);
        let len = u64::from(self.workload.pattern.record_bytes()).min(self.workload.files.size_bytes - offset);
        Some(Op { file: file as u32, offset, len: len as u32, not_before_ns })
    }

    /// This thread's record of turn `number` through all files of `records` each.
    fn dealt(&self, number: u64, records: u64) -> Option<Op> {
        let index = number.checked_mul(u64::from(self.workload.threads))?.checked_add(self.thread)?;
        let (file, record) = (index / records, u64::from(self.workload.pattern.record_bytes()));
        if file >= u64::from(self.workload.files.count) {
            return None;
        }
        let offset = index % records * record;
        let len = record.min(self.workload.files.size_bytes - offset);
        Some(Op { file: file as u32, offset, len: len as u32, not_before_ns: 0 })
    }

    /// Read `number` of this thread, of files of `records` each, of which the first `hot` are read
    /// `passes` times before all others and after them.
    fn scan(&self, number: u64, records: u64, hot: u64, passes: u64) -> Option<Op> {
        let (count, threads) = (u64::from(self.workload.files.count), u64::from(self.workload.threads));
        let of_thread = |files: u64| files.saturating_sub(self.thread).div_ceil(threads);
        let (hot, all) = (of_thread(hot), of_thread(count));
        let (turn, before) = (number / records, hot * passes);
        let after = before + all - hot;
        let nth = match turn {
            _ if turn < before => turn % hot,
            _ if turn < after => turn - before + hot,
            _ if turn < after + before => (turn - after) % hot,
            _ => return None,
        };
        let (offset, record) = (number % records, u64::from(self.workload.pattern.record_bytes()));
        let offset = offset * record;
        let len = record.min(self.workload.files.size_bytes - offset);
        Some(Op { file: (self.thread + nth * threads) as u32, offset, len: len as u32, not_before_ns: 0 })
    }

    fn random(&self, number: u64) -> Option<Op> {
        let index = number.checked_mul(u64::from(self.workload.threads))?.checked_add(self.thread)?;
        let (run, passes) = match self.workload.pattern {
            Pattern::Random { run, passes, .. } => (u64::from(run), u64::from(passes)),
            _ => (1, 1),
        };
        let slots = random_slots(self.workload);
        if slots == 0 || index / slots >= passes {
            return None;
        }
        let (pass, index) = (index / slots, index % slots);
        let (turn, runs) = (index / run, slots / run);
        let first = match &self.order {
            Some(order) if pass == 0 => order.at(turn),
            Some(_) => Permutation::new(runs, self.workload.seed.wrapping_add(pass.wrapping_mul(PASS))).at(turn),
            None => random(self.workload.seed, turn, runs),
        };
        let slot = first * run + index % run;
        let record = self.workload.pattern.record_bytes();
        let slots_per_file = self.workload.files.size_bytes / u64::from(record);
        let period_ns = self.workload.pattern.period_ns().unwrap_or(0);
        Some(Op {
            file: (slot / slots_per_file) as u32,
            offset: (slot % slots_per_file) * u64::from(record),
            len: record,
            not_before_ns: (number + 1).checked_mul(period_ns)?,
        })
    }
}

impl Operations<'_> {
    /// Read `number` of a database: the record after the last one, one in a hot area, or any.
    fn hot(&self, number: u64) -> Option<Op> {
        let Pattern::Hot { record_bytes, areas, area_bytes, hot_percent, follow_percent } = self.workload.pattern
        else {
            return None;
        };
        // Each kind of choice has its own random numbers, and so has each thread.
        let draw = |kind: u64, number: u64, bound: u64| {
            random(self.workload.seed ^ (kind << 56) ^ (self.thread << 32), number, bound)
        };
        let wants_next = |number: u64| draw(1, number, 100) < u64::from(follow_percent);
        let follows = number > 0 && wants_next(number - 1) && (number < 2 || !wants_next(number - 2));
        let first = if follows { number - 1 } else { number };
        let slots = random_slots(self.workload);
        let area_slots = (area_bytes / u64::from(record_bytes)).clamp(1, slots);
        let slot = if draw(2, first, 100) < u64::from(hot_percent) {
            let area = draw(3, first, u64::from(areas));
            // The position of an area is the same for all threads.
            random(self.workload.seed, area, slots - area_slots + 1) + draw(4, first, area_slots)
        } else {
            draw(5, first, slots)
        };
        let slot = (slot + u64::from(follows)).min(slots - 1);
        let per_file = self.workload.files.size_bytes / u64::from(record_bytes);
        let (file, offset) = ((slot / per_file) as u32, slot % per_file * u64::from(record_bytes));
        Some(Op { file, offset, len: record_bytes, not_before_ns: 0 })
    }
}

impl Iterator for Operations<'_> {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        let op = self.at(self.next)?;
        self.next += 1;
        Some(op)
    }
}

/// Tells the order of one pass from that of the next: an odd number whose bits look random.
const PASS: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whole records in all files together.
fn random_slots(workload: &Workload) -> u64 {
    workload.files.size_bytes / u64::from(workload.pattern.record_bytes()) * u64::from(workload.files.count)
}

/// The record that step `step` of an interleaved walk reads: `streams` equal parts in turn, then
/// what is left over.
fn interleaved(step: u64, records: u64, streams: u64) -> u64 {
    let each = records / streams;
    if step < each * streams { (step % streams) * each + step / streams } else { step }
}
