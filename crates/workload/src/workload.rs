//! A workload: what is read, on what device, with how much memory, and what must come out of it.
//!
//! The form of the file is described in `workloads/README.md`; `decode.rs` reads it.

use std::num::NonZeroU32;

use serde::Serialize;

use crate::decode;
use crate::disk_tree::DiskTree;
use crate::error::Error;
use crate::figure::Figure;
use crate::operation::{Op, Operations};
use crate::region::Region;
use crate::tree::{Batches, Tree};

/// One workload. Made by [`Workload::parse`] only, which has checked every rule that is named at the fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Workload {
    /// Its name on the command line and in reports; the file's stem.
    pub name: String,
    /// One sentence: what it is a model of.
    pub description: String,
    /// Chooses the order of random patterns.
    pub seed: u64,
    /// Readers at the same time; at least 1.
    pub threads: u32,
    /// In how many processes the threads run when the workload runs in real time, as many in each or one more; at most as many as there
    /// are threads. More than 1 only where no two threads share a descriptor and nobody reads beside.
    pub processes: u32,
    /// No operation starts later than this.
    pub duration_ns: u64,
    /// Operations of each thread at most.
    pub operations_max: Option<u64>,
    /// What is read; where there is a tree, all of its files.
    pub files: Files,
    /// The directories that the files lie in. `Some` for patterns that walk, and for them only; such a workload is measured through a mount,
    /// not simulated.
    pub tree: Option<Tree>,
    /// In which order.
    pub pattern: Pattern,
    /// Who reads at the same time and is measured apart: threads, files and pattern are its own, the rest is this workload's.
    pub beside: Option<Box<Workload>>,
    /// From what.
    pub device: Device,
    /// Through what.
    pub mount: Mount,
    /// What else of this project's own is measured on it, beside the mount without readahead.
    pub baselines: Vec<Baseline>,
    /// What must come out of it, in the order of the file. Empty: reported without judgement.
    pub expect: Vec<Figure>,
    /// What is simulated, and what must come of that.
    pub simulate: Simulate,
}

/// A workload in virtual time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Simulate {
    /// Names of the policies to compare, in the order of a report. Empty: those of the simulator's choice.
    pub policies: Vec<String>,
    /// Numbers of threads, each simulated apart; together they read as much each time. Empty: the workload's own.
    pub threads: Vec<u32>,
    /// How many seeds are simulated, from the workload's own on; figures are their means. At least 1.
    pub seeds: u32,
    /// The largest window of the policies that have a fixed one.
    pub readahead_max_bytes: Option<u64>,
    /// What must come out of each policy's run.
    pub expect: Vec<(String, Vec<Figure>)>,
    /// How policies must compare.
    pub ratios: Vec<Ratio>,
    /// What a simulation through a mount must come to, over what is measured.
    pub predict: Vec<Figure>,
}

impl Default for Simulate {
    fn default() -> Self {
        Self {
            policies: Vec::new(),
            threads: Vec::new(),
            seeds: 1,
            readahead_max_bytes: None,
            expect: Vec::new(),
            ratios: Vec::new(),
            predict: Vec::new(),
        }
    }
}

/// A figure of one policy over the same figure of another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Ratio {
    /// The one.
    pub policy: String,
    /// The other, or `best`: the best of all others.
    pub over: String,
    /// The figure, and what the ratio must be.
    pub figure: Figure,
}

/// One thread of a workload, or of what runs beside it.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// What it is a thread of.
    pub group: &'a Workload,
    /// Whether it is one of those beside.
    pub beside: bool,
    thread: u32,
    first_file: u32,
}

impl<'a> Reader<'a> {
    /// What it reads, in order. Files are numbered as in [`Workload::all_files`].
    pub fn operations(&self) -> impl Iterator<Item = Op> + 'a {
        let first_file = self.first_file;
        self.group.operations(self.thread).map(move |op| Op { file: op.file + first_file, ..op })
    }
}

/// The objects that a workload reads, all of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Files {
    /// At least 1.
    pub count: u32,
    /// Bytes of each; at least one record.
    pub size_bytes: u64,
    /// On a disk all files grew at the same time, each by so many bytes in turn; `None`: one lies after the other.
    pub extent_bytes: Option<u64>,
}

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

/// The storage that the workload is measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Device {
    /// An object store: the testbed in real time, its model in virtual time.
    Store(Store),
    /// A device model by name: virtual time only.
    Profile(String),
    /// A file of the local file system, read through the library, not through a mount.
    Local,
    /// A device model by name in real time, behind the library.
    Emulated(String),
}

impl Device {
    /// The store; `None` for a device that exists as a model only.
    pub fn store(&self) -> Option<Store> {
        match self {
            Self::Store(store) => Some(*store),
            _ => None,
        }
    }

    /// Whether reads are submitted to the library, as many at a time as there are threads, and not made through a mount.
    pub fn is_submitted_to(&self) -> bool {
        matches!(self, Self::Local | Self::Emulated(_))
    }
}

/// An object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Store {
    /// From a request to the first byte of its answer.
    pub first_byte_ns: u64,
    /// What one connection carries.
    pub connection_bytes_per_s: u64,
    /// What all connections together carry; `None`: as much as the machine does.
    pub total_bytes_per_s: Option<u64>,
    /// Requests that it works on at a time; `None`: as many as come.
    pub concurrency: Option<NonZeroU32>,
    /// One request in so many is slow, and its first byte takes so many times as long.
    pub slow: Option<Slow>,
    /// A run in which the bare client reaches less than this says more about the machine than about the mount: it is
    /// void.
    pub ceiling_min_bytes_per_s: Option<u64>,
}

/// A slow tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Slow {
    /// One request in so many, by chance.
    pub one_in: u32,
    /// How many times as long its first byte takes.
    pub times: u32,
}

/// The same mount with something switched off. Measured beside it, never judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Baseline {
    /// Without the fair queue: first come, first served.
    FairQueueOff,
}

impl Baseline {
    /// Every baseline.
    pub const ALL: &[Self] = &[Self::FairQueueOff];

    /// Its name in workloads.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FairQueueOff => "fair-queue-off",
        }
    }
}

/// The mount that the workload reads through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Mount {
    /// Its budget.
    pub memory_bytes: u64,
    /// Limit of a memory cgroup around mount and readers, which then holds the kernel's page cache as well.
    pub cgroup_bytes: Option<u64>,
}

impl Workload {
    /// Reads a workload. `file` is used in messages only.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        decode::workload(file, text)
    }

    /// What thread `thread` (below [`Workload::threads`]) reads, in order.
    pub fn operations(&self, thread: u32) -> Operations<'_> {
        debug_assert!(thread < self.threads);
        Operations::new(self, thread)
    }

    /// Which files thread `thread` reads in each epoch, in order; none for a workload without epochs.
    pub fn batches(&self, thread: u32) -> Batches {
        Batches::new(self, thread)
    }

    /// Whether it can be simulated: not what is submitted to the library, and no tree.
    pub fn is_simulated(&self) -> bool {
        !self.device.is_submitted_to() && self.tree.is_none()
    }

    /// All threads: its own, then those beside.
    pub fn readers(&self) -> impl Iterator<Item = Reader<'_>> {
        let beside = self.beside.iter().map(|beside| (&**beside, true, self.files.count));
        let groups = std::iter::once((self, false, 0)).chain(beside);
        groups.flat_map(|(group, beside, first_file)| {
            (0..group.threads).map(move |thread| Reader { group, beside, thread, first_file })
        })
    }

    /// The threads that run in process `process` (below [`Workload::processes`]): every so many-th.
    pub fn readers_of(&self, process: u32) -> impl Iterator<Item = Reader<'_>> {
        self.readers().skip(process as usize).step_by(self.processes as usize)
    }

    /// Name and size in bytes of each file: its own, then those beside.
    pub fn all_files(&self) -> impl Iterator<Item = (String, u64)> {
        let groups = std::iter::once(self).chain(self.beside.as_deref());
        groups.flat_map(|group| (0..group.files.count).map(|index| (group.file_name(index), group.files.size_bytes)))
    }

    /// Whether all threads read through one descriptor of each file.
    pub fn descriptor(&self) -> Descriptor {
        self.pattern.descriptor()
    }

    /// The name of file `index` where the workload may choose it. Without a tree all lie in the root: the path to a nested one
    /// costs a request for each directory.
    pub fn file_name(&self, index: u32) -> String {
        self.tree.map_or_else(|| format!("{}-{index:03}.bin", self.name), |tree| tree.file_path(index))
    }

    /// The same workload with another number of threads, which together read as much.
    #[must_use]
    pub fn with_threads(mut self, threads: u32) -> Self {
        let all = self.operations_max.map(|each| each * u64::from(self.threads));
        self.threads = threads.max(1);
        self.processes = self.processes.min(self.threads);
        self.operations_max = all.map(|all| all.div_ceil(u64::from(self.threads)));
        self
    }

    /// The same workload with other random numbers.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        if let Some(beside) = &mut self.beside {
            beside.seed = seed;
        }
        self
    }

    /// The same workload on a store that carries `bytes_per_s` at most; without a store, the same.
    #[must_use]
    pub fn with_total_rate(mut self, bytes_per_s: u64) -> Self {
        if let Device::Store(store) = &mut self.device {
            store.total_bytes_per_s = Some(bytes_per_s.max(1));
        }
        self
    }

    /// The same workload, cut to `duration_ns` at most.
    #[must_use]
    pub fn shortened(mut self, duration_ns: u64) -> Self {
        self.duration_ns = self.duration_ns.min(duration_ns);
        self.beside = self.beside.map(|beside| Box::new(beside.shortened(duration_ns)));
        self
    }
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
