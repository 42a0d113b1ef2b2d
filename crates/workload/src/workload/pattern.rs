//! The order in which a thread reads.

pub(crate) mod disk_tree;
pub(crate) mod region;

use serde::Serialize;

use disk_tree::DiskTree;
use region::Region;

/// The order in which a thread reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Pattern {
    /// From the start to the end.
    Sequential {
        /// Bytes of a read.
        record_bytes: u32,
        /// Times that each file is read, one after the other; at least 1.
        passes: u32,
    },
    /// From the last record to the first.
    Backward {
        /// Bytes of a read.
        record_bytes: u32,
    },
    /// The first bytes of every stride, forward.
    Strided {
        /// Bytes of a read.
        record_bytes: u32,
        /// From the start of one read to the start of the next; at least the record.
        stride_bytes: u64,
    },
    /// From the start to the end; the threads take records in turn.
    Dealt {
        /// Bytes of a read.
        record_bytes: u32,
        /// Whether the threads share one descriptor.
        descriptor: Descriptor,
    },
    /// Several sequential streams in turn, each through its own part of the file, on one
    /// descriptor.
    Interleaved {
        /// Bytes of a read.
        record_bytes: u32,
        /// At least 2.
        streams: u32,
    },
    /// Records in random order.
    Random {
        /// Bytes of a read, and its alignment.
        record_bytes: u32,
        /// Whether a record may be read again.
        repeats: bool,
        /// Adjacent records read one after the other, mostly by as many threads at the same time.
        run: u32,
        /// Times that all records are read, each time in another order; at least 1.
        passes: u32,
        /// Whether the threads share one descriptor.
        descriptor: Descriptor,
        /// Time from one read to the next, and to the first; `None`: as soon as the last one is
        /// done.
        period_ns: Option<u64>,
    },
    /// From the start to the end, one record a period, as a media player reads.
    Slow {
        /// Bytes of a read.
        record_bytes: u32,
        /// Time from one read to the next.
        period_ns: u64,
        /// Time from the start of one thread to the start of the next; 0: all at once.
        start_every_ns: u64,
        /// Whether a late reader reads faster until it is on time again; otherwise its delay
        /// stays.
        catches_up: bool,
    },
    /// Random records, many of them in a few hot areas, some followed by the next record, as a
    /// database reads a table. The threads share one descriptor.
    Hot {
        /// Bytes of a read, and its alignment.
        record_bytes: u32,
        /// Number of hot areas, at random positions.
        areas: u32,
        /// Bytes of each.
        area_bytes: u64,
        /// Percentage of reads in hot areas.
        hot_percent: u8,
        /// Percentage of reads that are followed by the next record.
        follow_percent: u8,
    },
    /// The hot files, one after the other, several times; each of the others once; then the hot
    /// ones again as many times. Every file from the start to the end.
    Scan {
        /// Bytes of a read.
        record_bytes: u32,
        /// The first so many files are hot; at least 1, and not all.
        hot: u32,
        /// Times that they are read before the others, and after them; at least 1.
        passes: u32,
    },
    /// Pages of a mapping touched in random order, none twice.
    MmapRandom {
        /// Bytes from one candidate to the next; one byte in each is touched.
        record_bytes: u32,
    },
    /// Programs walk a tree of directories. It has no reads of its own.
    DiskTree(DiskTree),
    /// Threads touch memory larger than its budget. It has no reads.
    Region(Region),
    /// From the top of the tree, depth first; each directory is listed to its end before its
    /// entries are visited.
    Walk {
        /// What is read of each entry.
        visit: Visit,
    },
    /// Every file whole, in a random order that is the same in each epoch; the threads take
    /// batches in turn. The kernel's caches are dropped before the second epoch and each later
    /// one.
    Epochs {
        /// Bytes of a read.
        record_bytes: u32,
        /// Files of a batch.
        batch: u32,
        /// Epochs; at least 2. The last one counts.
        passes: u32,
    },
}

/// What a walk does with each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "visit", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Visit {
    /// Nothing, as `find`: the listing tells the type of each entry.
    Names,
    /// Reads the attributes of each entry, as `ls -lR`.
    Attributes,
    /// Opens each file, reads it to its end and closes it, as `grep -r`.
    Contents {
        /// Bytes of a read.
        record_bytes: u32,
    },
}

/// Whether threads that read the same file read it through the same open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Descriptor {
    /// One for all threads.
    Shared,
    /// One for each thread.
    Own,
}

/// Bytes of a block of a directory, and of a page.
const BLOCK_BYTES: u32 = 4096;

impl Pattern {
    /// Bytes of a read; 0 where no file is read.
    pub fn record_bytes(&self) -> u32 {
        match *self {
            Pattern::Sequential { record_bytes, .. }
            | Pattern::Hot { record_bytes, .. }
            | Pattern::Backward { record_bytes }
            | Pattern::Dealt { record_bytes, .. }
            | Pattern::Strided { record_bytes, .. }
            | Pattern::Interleaved { record_bytes, .. }
            | Pattern::Random { record_bytes, .. }
            | Pattern::Slow { record_bytes, .. }
            | Pattern::Scan { record_bytes, .. }
            | Pattern::Epochs { record_bytes, .. }
            | Pattern::Walk { visit: Visit::Contents { record_bytes } }
            | Pattern::MmapRandom { record_bytes } => record_bytes,
            Pattern::DiskTree(_) | Pattern::Region(_) => BLOCK_BYTES,
            Pattern::Walk { visit: Visit::Names | Visit::Attributes } => 0,
        }
    }

    /// Whether it has a world of its own in virtual time, and no reads of files.
    pub fn is_no_reads(&self) -> bool {
        matches!(self, Pattern::DiskTree(_) | Pattern::Region(_))
    }

    /// Whether all threads read through one descriptor of each file.
    pub fn descriptor(&self) -> Descriptor {
        match *self {
            Pattern::Random { descriptor, .. } | Pattern::Dealt { descriptor, .. } => descriptor,
            Pattern::MmapRandom { .. } | Pattern::Hot { .. } => Descriptor::Shared,
            _ => Descriptor::Own,
        }
    }

    /// The delay of all further reads of a thread, after a read that was done `behind_ns` after it
    /// was due.
    pub fn delay_ns(&self, behind_ns: u64) -> u64 {
        match *self {
            Pattern::Slow { period_ns, catches_up: false, .. } => behind_ns.saturating_sub(period_ns),
            _ => 0,
        }
    }

    /// The time between two reads, where the pattern has a rate.
    pub fn period_ns(&self) -> Option<u64> {
        match *self {
            Pattern::Slow { period_ns, .. } => Some(period_ns),
            Pattern::Random { period_ns, .. } => period_ns,
            _ => None,
        }
    }
}
