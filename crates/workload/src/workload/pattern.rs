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
        /// How often each file is read, one time after the other; at least 1.
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
    /// From the start to the end, the threads taking records in turn.
    Dealt {
        /// Bytes of a read.
        record_bytes: u32,
        /// Whether the threads share one.
        descriptor: Descriptor,
    },
    /// Several sequential streams in turn, each through its own part of the file, all on one descriptor.
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
        /// Whether a record may come again; otherwise none comes twice.
        repeats: bool,
        /// So many records that lie side by side are read one after the other, most often by as many threads at the same time.
        run: u32,
        /// Whether the threads share one.
        descriptor: Descriptor,
        /// From one read to the next, and to the first; `None` for as soon as the last one is done.
        period_ns: Option<u64>,
    },
    /// From the start to the end, a record a period, as a player does.
    Slow {
        /// Bytes of a read.
        record_bytes: u32,
        /// From one read to the next.
        period_ns: u64,
        /// From the start of one thread to the start of the next; 0 for all at once.
        start_every_ns: u64,
        /// Whether a reader that was late reads faster until it is on time again; otherwise it stays as late as it is.
        catches_up: bool,
    },
    /// Random records of which many lie in a few areas, and some are followed by the next one, as a database reads a table. The
    /// threads share one descriptor.
    Hot {
        /// Bytes of a read, and its alignment.
        record_bytes: u32,
        /// How many areas are hot. They lie at random places.
        areas: u32,
        /// Bytes of each.
        area_bytes: u64,
        /// How many of a hundred reads go there.
        hot_percent: u8,
        /// After how many of a hundred reads the next record is read too.
        follow_percent: u8,
    },
    /// Pages of a mapping touched in random order, none twice.
    MmapRandom {
        /// Bytes from one candidate to the next; one byte in each is touched.
        record_bytes: u32,
    },
    /// Programs go through a tree of directories. It has no reads of its own.
    DiskTree(DiskTree),
    /// Threads touch memory of which not all has room. It has no reads.
    Region(Region),
    /// From the top of the tree, depth first, each directory read to its end before anything in it is looked at.
    Walk {
        /// What is looked at.
        visit: Visit,
    },
    /// Every file whole in a random order that is the same each time, of which the threads take batches in turn. All caches of the kernel
    /// are dropped before the second time and each that follows.
    Epochs {
        /// Bytes of a read.
        record_bytes: u32,
        /// Files of a batch.
        batch: u32,
        /// How often; at least 2. The last one counts.
        passes: u32,
    },
}

/// What a walk does with what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "visit", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Visit {
    /// Nothing, as `find` does: a directory tells of itself what its entries are.
    Names,
    /// The attributes of each entry are asked for, as `ls -lR` does.
    Attributes,
    /// Each file is opened, read to its end and closed, as `grep -r` does.
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

/// What a file system reads of a directory at a time, and a page.
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

    /// By how much later than planned all further reads of a thread are due, after one that was done `behind_ns` after it was due.
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
