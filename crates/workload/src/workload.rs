//! A workload: its reads, the device and memory that it reads through, and the figures that it
//! must reach.
//!
//! `workloads/README.md` describes the file; `decode.rs` reads it.

pub(crate) mod device;
pub(crate) mod files;
pub(crate) mod pattern;
pub(crate) mod simulate;
pub(crate) mod tier;
pub(crate) mod tree;

use serde::Serialize;

use crate::figure::Figure;
use device::Device;
use files::Files;
use pattern::{Descriptor, Pattern};
use simulate::Simulate;
use tier::Tier;
use tree::Tree;

/// One workload. Only [`Workload::parse`] makes it, and checks every rule that the fields name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Workload {
    /// Its name on the command line and in reports; the file's stem.
    pub name: String,
    /// One sentence: what it models.
    pub description: String,
    /// Chooses the order of random patterns.
    pub seed: u64,
    /// Readers at the same time; at least 1.
    pub threads: u32,
    /// Processes that the threads are spread over in real time, evenly; at most one a thread. More
    /// than 1 only if no two threads share a descriptor and no threads read beside.
    pub processes: u32,
    /// No operation starts later than this.
    pub duration_ns: u64,
    /// Operations of each thread at most.
    pub operations_max: Option<u64>,
    /// The files; with a tree, all files of the tree.
    pub files: Files,
    /// The directories of the files. `Some` exactly for patterns that walk; such a workload is
    /// measured through a mount, not simulated.
    pub tree: Option<Tree>,
    /// The order of the reads.
    pub pattern: Pattern,
    /// Threads that read beside and are measured apart. Threads, files and pattern are their own,
    /// the rest is this workload's.
    pub beside: Option<Box<Workload>>,
    /// The storage.
    pub device: Device,
    /// A local copy of what was read, in front of the storage. Such a workload is simulated only.
    pub tier: Option<Tier>,
    /// The mount.
    pub mount: Mount,
    /// Baselines of our own that are measured too, besides the mount without readahead.
    pub baselines: Vec<Baseline>,
    /// The expected figures, in the order of the file. Empty: reported without judgement.
    pub expect: Vec<Figure>,
    /// What is simulated, and the expected figures.
    pub simulate: Simulate,
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
    /// Limit of a memory cgroup around mount and readers, which then holds the kernel's page cache
    /// as well.
    pub cgroup_bytes: Option<u64>,
    /// A cache on a local disk, of so many bytes: the workload is read once through another mount,
    /// and then measured with what that one has kept.
    pub cache_bytes: Option<u64>,
}

impl Workload {
    /// Whether it can be simulated: it is not submitted to the library, has no tree, and no cache
    /// that an earlier mount has filled.
    pub fn is_simulated(&self) -> bool {
        !self.device.is_submitted_to() && self.tree.is_none() && self.mount.cache_bytes.is_none()
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

    /// The name of file `index`, where the workload may choose it. Without a tree all files lie in
    /// the root, since the path of a nested file costs a request for each directory.
    pub fn file_name(&self, index: u32) -> String {
        self.tree.map_or_else(|| format!("{}-{index:03}.bin", self.name), |tree| tree.file_path(index))
    }

    /// The same workload with another number of threads, which together read the same amount.
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
