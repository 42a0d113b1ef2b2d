//! One reader: its current read, its place in it, and the pages that it waits for.

use std::collections::VecDeque;

use foreread_policy::{ReadId, RequestId};
use foreread_workload::{Op, Pattern};

use crate::policy::Reading;

/// A reader before its first read.
pub(crate) struct Start<'w> {
    pub(crate) operations: Box<dyn Iterator<Item = Op> + 'w>,
    /// The descriptor of its first file; each further file gets the next number. `None`: a file's
    /// number is its descriptor.
    pub(crate) own_descriptors: Option<u32>,
    /// The pattern that says when its reads are due.
    pub(crate) pattern: Pattern,
    /// It reads as long as the main readers do, and is counted apart.
    pub(crate) beside: bool,
}

impl<'w> Start<'w> {
    /// A reader that reads as fast as it can.
    pub(crate) fn new(operations: Box<dyn Iterator<Item = Op> + 'w>, own_descriptors: Option<u32>) -> Self {
        let pattern = Pattern::Sequential { record_bytes: 1, passes: 1 };
        Self { operations, own_descriptors, pattern, beside: false }
    }
}

/// One reader.
pub(super) struct Reader<'w> {
    pub(super) operations: Box<dyn Iterator<Item = Op> + 'w>,
    /// Due reads that wait for the current one.
    pub(super) queued: VecDeque<Op>,
    pub(super) own_descriptors: Option<u32>,
    pub(super) pattern: Pattern,
    pub(super) beside: bool,
    pub(super) by: Reading,
    /// Delay of all its further reads.
    pub(super) delay_ns: u64,
    /// The current read.
    pub(super) op: Option<Op>,
    pub(super) file: Option<u32>,
    /// Of the current read: the next page to look at, the end of the piece, the end.
    pub(super) at: u64,
    pub(super) piece_end: u64,
    pub(super) end: u64,
    pub(super) began_ns: u64,
    pub(super) announced: bool,
    /// The read of policy that it waits for, and, once that is ready, from which page on.
    pub(super) waits: Option<(ReadId, Option<u64>)>,
    /// The read has memory before so many pages have arrived in the whole world.
    pub(super) until_arrived: u64,
    /// Folios that it still waits for.
    pub(super) missing: u32,
    /// Counts the reads that ended with an error: waits of an older epoch are void.
    pub(super) epoch: u32,
    /// It has no read.
    pub(super) idle: bool,
    /// In a mount: the kernel's request that it serves, and its bytes.
    pub(super) serves: Option<(RequestId, u64)>,
}

impl<'w> Reader<'w> {
    /// One that has not begun.
    pub(super) fn new(start: Start<'w>) -> Self {
        let Start { operations, own_descriptors, pattern, beside } = start;
        Self {
            pattern,
            beside,
            operations,
            queued: VecDeque::new(),
            own_descriptors,
            by: Reading { descriptor: own_descriptors.unwrap_or(0), prev: None },
            delay_ns: 0,
            op: None,
            file: None,
            at: 0,
            piece_end: 0,
            end: 0,
            began_ns: 0,
            announced: false,
            waits: None,
            until_arrived: 0,
            missing: 0,
            epoch: 0,
            idle: false,
            serves: None,
        }
    }
}
