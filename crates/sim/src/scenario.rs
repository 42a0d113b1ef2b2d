//! From a workload to a world: the device, the policy and the readers that its file names.

use std::fmt;
use std::str::FromStr;

use foreread_device::latency::{FirstByte, SlowTail};
use foreread_device::object_store;
use foreread_device::{Profile, Rate};
use foreread_policy::{Options, PAGE_BYTES, ReadPath, Replacement};
use foreread_workload::{Descriptor, Device, Op, Pattern, Workload};

use crate::baseline::{Amp, Baseline, Fixed, Linux, Linux2620, NoReadahead, OnDemand2007};
use crate::policy::{Grain, Policy};
use crate::profile;
use crate::storage::Storage;
use crate::tally::Tally;
use crate::violation::Violation;
use crate::world::{Front, Readers, Start, World};

/// A policy that can be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PolicyName {
    /// The one that serves real reads.
    Foreread,
    /// Reads are fetched as they are.
    None,
    /// Aligned blocks of one size.
    Fixed,
    /// Two windows, strictly sequential.
    Linux2620,
    /// On-demand readahead, first form.
    OnDemand2007,
    /// On-demand readahead, today's form.
    Linux,
    /// Adaptive multi-stream prefetching.
    Amp,
    /// What serves real reads, with the least recently used page leaving first.
    ForereadLru,
}

impl PolicyName {
    /// Every policy, in the order of a report.
    pub const ALL: &[Self] = &[
        Self::Foreread,
        Self::Linux,
        Self::Amp,
        Self::OnDemand2007,
        Self::Linux2620,
        Self::Fixed,
        Self::None,
        Self::ForereadLru,
    ];

    /// Its name in workloads, on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foreread => "foreread",
            Self::None => "none",
            Self::Fixed => "fixed",
            Self::Linux2620 => "linux-2.6.20",
            Self::OnDemand2007 => "on-demand-2007",
            Self::Linux => "linux",
            Self::Amp => "amp",
            Self::ForereadLru => "foreread-lru",
        }
    }

    /// One of its kind, with `memory_bytes` for pages and, where it has a largest window, `max` pages of that, in front of
    /// storage that is `rotational` or not.
    fn policy(self, memory_bytes: u64, max: u64, rotational: bool) -> Box<dyn Policy> {
        let pages = memory_bytes / PAGE_BYTES;
        let foreread = |replacement| {
            let options = Options { capacity_bytes: memory_bytes, readahead: true, replacement, rotational };
            Box::new(ReadPath::new(options))
        };
        match self {
            Self::Foreread => foreread(Replacement::default()),
            Self::ForereadLru => foreread(Replacement::Lru),
            Self::None => Box::new(Baseline::new(pages, || NoReadahead)),
            Self::Fixed => Box::new(Baseline::new(pages, move || Fixed { block_pages: max })),
            Self::Linux2620 => Box::new(Baseline::new(pages, move || Linux2620::new(max))),
            Self::OnDemand2007 => Box::new(Baseline::new(pages, move || OnDemand2007::new(max))),
            Self::Linux => Box::new(Baseline::new(pages, move || Linux::new(max))),
            Self::Amp => Box::new(Baseline::new(pages, move || Amp::new(max))),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for PolicyName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let known = || Self::ALL.iter().map(|policy| policy.as_str()).collect::<Vec<_>>().join(", ");
        let found = Self::ALL.iter().find(|policy| policy.as_str() == name);
        found.copied().ok_or_else(|| Error::NoPolicy { name: name.to_owned(), known: known() })
    }
}

/// What keeps a workload from being simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A policy that nobody knows.
    #[error("no policy is called {name}; known: {known}")]
    NoPolicy {
        /// The name.
        name: String,
        /// Those that are known.
        known: String,
    },
    /// A device that nobody knows.
    #[error("no device is called {name}; known: {known}")]
    NoDevice {
        /// The name.
        name: String,
        /// Those that are known.
        known: String,
    },
    /// The policy did what it must not.
    #[error("{policy} broke the contract of policies")]
    Violation {
        /// Which one.
        policy: PolicyName,
        /// How.
        #[source]
        violation: Violation,
    },
}

/// The reads of all readers. A reader has one read at a time.
pub enum Reads<'w> {
    /// Those of each reader, in order.
    Each(Vec<Box<dyn Iterator<Item = Op> + 'w>>),
    /// Those of so many readers in the order of time, each with its reader. None starts before its time, nor before the one before it
    /// of the same reader is done.
    Together(u32, Box<dyn Iterator<Item = (u32, Op)> + 'w>),
}

/// What is simulated.
pub struct Scenario<'w> {
    /// Bytes of each file; its place is its number.
    pub sizes: Vec<u64>,
    /// What is read.
    pub reads: Reads<'w>,
    /// Whether all readers of a file share one descriptor.
    pub descriptor: Descriptor,
    /// How readers keep time.
    pub pattern: Pattern,
    /// No read starts at this time or later, in ns.
    pub until_ns: u64,
    /// Bytes that hold pages.
    pub memory_bytes: u64,
    /// The largest window of policies that have a fixed one, in bytes.
    pub readahead_max_bytes: u64,
    /// Where the files are.
    pub device: Profile,
    /// What the kernel's page cache holds, where programs read through a mount; `None` where they use the library.
    pub page_cache_bytes: Option<u64>,
    /// Whether to keep what pictures are made of.
    pub picture: bool,
}

impl<'w> Scenario<'w> {
    /// That of a workload; `device` takes the place of its own.
    pub fn of(workload: &'w Workload, device: Option<&Profile>) -> Result<Self, Error> {
        let operations = |thread| Box::new(workload.operations(thread)) as Box<dyn Iterator<Item = Op>>;
        Ok(Self {
            sizes: vec![workload.files.size_bytes; workload.files.count as usize],
            reads: Reads::Each((0..workload.threads).map(operations).collect()),
            descriptor: workload.descriptor(),
            pattern: workload.pattern,
            until_ns: workload.duration_ns,
            memory_bytes: workload.mount.memory_bytes,
            readahead_max_bytes: workload.simulate.readahead_max_bytes.unwrap_or(READAHEAD_MAX_BYTES),
            device: device.map_or_else(|| profile_of(&workload.device), |profile| Ok(profile.clone()))?,
            page_cache_bytes: None,
            picture: false,
        })
    }

    /// The same, read through a mount: the kernel's page cache and readahead are in front of policies that serve one.
    #[must_use]
    pub fn through_mount(self, workload: &Workload) -> Self {
        let cgroup = workload.mount.cgroup_bytes.map(|bytes| bytes.saturating_sub(self.memory_bytes));
        Self { page_cache_bytes: Some(cgroup.unwrap_or(PAGE_CACHE_BYTES)), ..self }
    }

    /// Runs it under `policy` to its end.
    pub fn run(self, policy: PolicyName) -> Result<Tally, Error> {
        let max = self.readahead_max_bytes.div_ceil(PAGE_BYTES);
        let mut boxed = policy.policy(self.memory_bytes, max, self.device.is_rotational());
        let mut storage = Storage::new(self.device, &self.sizes);
        let rules = Readers { pattern: self.pattern, until_ns: self.until_ns };
        let serves_mounts = boxed.grain() == Grain::Folio;
        let mut front =
            Front { piece_pages: serves_mounts.then_some(MOUNT_PIECE_PAGES), piece_ns: 0, page_ns: PAGE_NS };
        if let Some(bytes) = self.page_cache_bytes.filter(|_| serves_mounts) {
            let of_mount = Front { piece_pages: None, piece_ns: MOUNT_PIECE_NS, page_ns: 0 };
            let mut mount = World::new(boxed, storage, of_mount, rules, self.sizes.clone());
            if self.picture {
                mount = mount.with_picture();
            }
            storage = Storage::Mount(Box::new(mount));
            boxed = Box::new(Baseline::new(bytes / PAGE_BYTES, || Linux::new(MOUNT_PIECE_PAGES)));
            front.piece_pages = None;
        }
        let files = self.sizes.len() as u32;
        let own = |reader| (self.descriptor != Descriptor::Shared).then_some(reader * files);
        let start = |(reader, operations)| Start { operations, own_descriptors: own(reader) };
        let mut world = World::new(boxed, storage, front, rules, self.sizes);
        if self.picture {
            world = world.with_picture();
        }
        let ran = match self.reads {
            Reads::Each(readers) => world.run((0..).zip(readers).map(start).collect(), None),
            Reads::Together(readers, reads) => {
                let none = || Box::new(std::iter::empty()) as Box<dyn Iterator<Item = Op>>;
                world.run((0..readers).map(|reader| start((reader, none()))).collect(), Some(reads))
            }
        };
        ran.map_err(|violation| Error::Violation { policy, violation })
    }
}

/// Runs `workload` under `policy` to its end; `device` takes the place of its own.
pub fn simulate(workload: &Workload, policy: PolicyName, device: Option<&Profile>) -> Result<Tally, Error> {
    Scenario::of(workload, device)?.run(policy)
}

fn profile_of(device: &Device) -> Result<Profile, Error> {
    match device {
        Device::Store(store) => Ok(Profile::ObjectStore(object_store::Config {
            first_byte: FirstByte {
                slow: store.slow.map_or(SlowTail::default(), |slow| SlowTail {
                    per_million: 1_000_000 / slow.one_in,
                    multiplier: slow.times,
                }),
                ..FirstByte::fixed(store.first_byte_ns)
            },
            connection_rate: Rate::per_second(store.connection_bytes_per_s),
            total_rate: Rate::per_second(store.total_bytes_per_s.unwrap_or(MACHINE_BYTES_PER_S)),
            ..object_store::Config::default()
        })),
        Device::Profile(name) | Device::Emulated(name) => {
            let known = || profile::TEXTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            profile::find(name).ok_or_else(|| Error::NoDevice { name: name.clone(), known: known() })
        }
        other => {
            let known = profile::TEXTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(Error::NoDevice { name: format!("{other:?}").to_lowercase(), known })
        }
    }
}

/// What a kernel's largest window is by default, 128 KiB.
const READAHEAD_MAX_BYTES: u64 = 128 << 10;

/// The largest read that a mount is asked for: 128 KiB.
pub(crate) const MOUNT_PIECE_PAGES: u64 = 32;

/// What it takes to bring a kernel's request to a mount and the answer back. So a file that is resident is read at 1.6 GB/s, as it is
/// on two cores.
const MOUNT_PIECE_NS: u64 = 120_000;

/// What the kernel of a machine with memory to spare keeps of files, 16 GiB.
const PAGE_CACHE_BYTES: u64 = 16 << 30;

/// Copying a page to a program: 6 GB/s.
pub(crate) const PAGE_NS: u64 = 680;

/// What a small machine carries where the store itself has no limit: what 16 connections of a bare client reach on two cores.
const MACHINE_BYTES_PER_S: u64 = 900_000_000;
