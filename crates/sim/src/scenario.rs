//! From a workload to a run: the device, the policy and the readers that a workload names.
//!
//! A workload of reads runs in `world`, one with a tree of directories in `tree`, one with a
//! region of memory in `region`.

pub(crate) mod busy;
pub(crate) mod change;
pub(crate) mod chunk;
mod policies;

use foreread_device::latency::{FirstByte, SlowTail};
use foreread_device::object_store;
use foreread_device::{Profile, Rate};
use foreread_policy::{Chunks, Extent, PAGE_BYTES, kernel_window_bytes};
use foreread_workload::{Descriptor, Device, Op, Pattern, Reader, Workload};

use crate::baseline::Baseline;
use crate::baseline::linux::Linux;
use crate::error::Error;
use crate::outcome::course::Watch;
use crate::outcome::tally::Tally;
use crate::policy::Grain;
use crate::region::Swapped;
use crate::stack::Stack;
use crate::storage::Storage;
use crate::storage::blocks::Asked;
use crate::storage::profile;
use crate::tree::Forest;
use crate::world::World;
use crate::world::front::{Front, MOUNT_PIECE_NS, MOUNT_PIECE_PAGES, MOUNT_REQUEST_PAGES, PAGE_NS, PIECE_BYTES};
use crate::world::reader::Start;
use crate::world::tier::Tier;
use crate::world::together::Together;
use busy::Busy;
use change::Change;
use chunk::Chunk;

/// The reads of all readers. A reader has one read at a time.
pub enum Reads<'w> {
    /// The reads of each reader, in order.
    Each(Vec<Box<dyn Iterator<Item = Op> + 'w>>),
    /// How many reads each reader has, and the reads of all of them in the order of time, each
    /// with its reader. A read starts neither before its time nor before the reader's previous
    /// read is done, and the first read of a reader not before all reads of those readers are
    /// done that have none after it: a program may have waited for another one to end.
    Together(Vec<u64>, Box<dyn Iterator<Item = (u32, Op)> + 'w>),
}

impl Tiered {
    /// On its device, with files of these sizes.
    fn tier(self, sizes: &[u64]) -> Tier {
        let tier = Tier::new(Storage::new(self.device, sizes, Asked::default()), self.warm);
        match self.size_bytes {
            Some(bytes) => tier.with_size(bytes),
            None => tier,
        }
    }

    /// That of a workload, on a disk that is known by its name.
    fn of(tier: &foreread_workload::Tier, files: u32) -> Result<Self, Error> {
        let extent = |&(from, to): &(u64, u64)| Extent::new(from / PAGE_BYTES, to.div_ceil(PAGE_BYTES));
        let warm: Vec<Extent> = tier.warm.iter().map(extent).collect();
        Ok(Self { device: named(&tier.profile)?, size_bytes: tier.size_bytes, warm: vec![warm; files as usize] })
    }
}

/// Readers that read as long as the main readers do, and are counted apart.
#[derive(Debug, Clone, Copy)]
pub struct Beside {
    /// The first reader beside; all later readers are beside too.
    pub first: usize,
    /// Whether they share one descriptor of each file.
    pub descriptor: Descriptor,
    /// The pattern that says when their reads are due.
    pub pattern: Pattern,
}

/// What is simulated.
pub struct Scenario<'w> {
    /// Bytes of each file, by its number.
    pub sizes: Vec<u64>,
    /// On a disk, files grew together and got this many bytes in turn; `None`: each file is in one
    /// piece.
    pub extent_bytes: Option<u64>,
    /// The reads.
    pub reads: Reads<'w>,
    /// A tree that programs walk, and its seed; it replaces all reads.
    pub tree: Option<(Forest, u64)>,
    /// Memory that threads touch, and the seed of their touches; it replaces all reads.
    pub region: Option<(Swapped, u64)>,
    /// Whether all readers of a file share one descriptor.
    pub descriptor: Descriptor,
    /// The pattern that says when reads are due.
    pub pattern: Pattern,
    /// The readers beside the main ones.
    pub beside: Option<Beside>,
    /// No read starts at this time or later, in ns.
    pub until_ns: u64,
    /// Memory for pages, in bytes.
    pub memory_bytes: u64,
    /// The largest window of policies that have a fixed one, in bytes.
    pub readahead_max_bytes: u64,
    /// The device that holds the files.
    pub device: Profile,
    /// The kernel's page cache in bytes, where programs read through a mount; `None` where they
    /// use the library.
    pub page_cache_bytes: Option<u64>,
    /// The largest window of that kernel's readahead, in bytes.
    pub kernel_window_bytes: u64,
    /// Whether to keep the dots and curves of pictures.
    pub picture: bool,
    /// Changes of the device, in the order of time.
    pub changes: Vec<Change>,
    /// Whether to keep the course of the run.
    pub watch: Option<Watch>,
    /// A local copy of what was read once, in front of the device.
    pub tier: Option<Tiered>,
    /// Where the chunks of each file lie, if its files say so.
    pub chunks: Vec<Chunk>,
    /// The machine of the programs is busy with other work.
    pub busy: Option<Busy>,
}

/// A tier in front of the device.
#[derive(Debug, Clone)]
pub struct Tiered {
    /// The disk that it is on.
    pub device: Profile,
    /// Bytes that it holds; `None`: it keeps all that it is offered.
    pub size_bytes: Option<u64>,
    /// What it has from the start: runs of pages of each file.
    pub warm: Vec<Vec<Extent>>,
}

impl<'w> Scenario<'w> {
    /// The scenario of a workload; `device` replaces the workload's own.
    pub fn of(workload: &'w Workload, device: Option<&Profile>) -> Result<Self, Error> {
        let operations = |reader: Reader<'w>| Box::new(reader.operations()) as Box<dyn Iterator<Item = Op>>;
        let beside = workload.beside.as_ref().map(|beside| Beside {
            first: workload.threads as usize,
            descriptor: beside.descriptor(),
            pattern: beside.pattern,
        });
        Ok(Self {
            sizes: workload.all_files().map(|(_, bytes)| bytes).collect(),
            extent_bytes: workload.files.extent_bytes,
            reads: Reads::Each(workload.readers().map(operations).collect()),
            tree: Forest::of(workload).map(|forest| (forest, workload.seed)),
            region: Swapped::of(workload).map(|region| (region, workload.seed)),
            descriptor: workload.descriptor(),
            pattern: workload.pattern,
            beside,
            until_ns: workload.duration_ns,
            memory_bytes: workload.mount.memory_bytes,
            readahead_max_bytes: workload.simulate.readahead_max_bytes.unwrap_or(READAHEAD_MAX_BYTES),
            device: device.map_or_else(|| profile_of(&workload.device), |profile| Ok(profile.clone()))?,
            page_cache_bytes: None,
            kernel_window_bytes: READAHEAD_MAX_BYTES,
            picture: false,
            changes: Vec::new(),
            watch: None,
            tier: workload.tier.as_ref().map(|tier| Tiered::of(tier, workload.files.count)).transpose()?,
            chunks: Vec::new(),
            busy: None,
        })
    }

    /// Reads through a mount of root: the kernel's page cache, and readahead as far as policy asks
    /// for, stand in front of each policy that serves mounts.
    #[must_use]
    pub fn through_mount(self, workload: &Workload) -> Self {
        let cgroup = workload.mount.cgroup_bytes.map(|bytes| bytes.saturating_sub(self.memory_bytes));
        let window = kernel_window_bytes(self.memory_bytes, Chunks::None);
        Self {
            page_cache_bytes: Some(cgroup.unwrap_or(PAGE_CACHE_BYTES)),
            kernel_window_bytes: window.unwrap_or(READAHEAD_MAX_BYTES),
            ..self
        }
    }

    /// Runs to the end under the policy of `stack`, with its scheduler in front of the device.
    pub fn run(mut self, stack: impl Into<Stack>) -> Result<Tally, Error> {
        let stack = stack.into();
        if !stack.tier && self.tier.take().is_none() {
            return Err(Error::NoTier);
        }
        if let Some((forest, seed)) = &self.tree {
            return Ok(forest.run(*seed, self.device, stack));
        }
        if let Some((region, seed)) = self.region {
            return Ok(region.run(seed, self.device, stack.policy));
        }
        let max = self.readahead_max_bytes.div_ceil(PAGE_BYTES);
        let of_device = (self.device.is_rotational(), self.tier.is_some());
        let mut boxed = policies::policy(stack.policy, self.memory_bytes, max, of_device);
        if let (Some(scheduler), Profile::ObjectStore(_)) = (stack.scheduler, &self.device) {
            return Err(Error::Unscheduled { scheduler });
        }
        let serves_mounts = boxed.grain() == Grain::Folio;
        let asked = Asked {
            piece_bytes: serves_mounts.then_some(PIECE_BYTES),
            extent_bytes: self.extent_bytes,
            scheduler: stack.scheduler,
        };
        let mut storage = Storage::new(self.device, &self.sizes, asked);
        let mut front =
            Front { piece_pages: serves_mounts.then_some(MOUNT_PIECE_PAGES), piece_ns: 0, page_ns: PAGE_NS };
        if let Some(bytes) = self.page_cache_bytes.filter(|_| serves_mounts) {
            let of_mount = Front { piece_pages: None, piece_ns: MOUNT_PIECE_NS, page_ns: 0 };
            let mount = World::new(boxed, storage, of_mount, self.until_ns, self.sizes.clone());
            let mut mount = mount.with_chunks(std::mem::take(&mut self.chunks)).on(self.busy);
            if self.picture {
                mount = mount.with_picture();
            }
            if let Some(tiered) = self.tier.take() {
                mount = mount.with_tier(tiered.tier(&self.sizes));
            }
            storage = Storage::Mount(Box::new(mount));
            let window = self.kernel_window_bytes.div_ceil(PAGE_BYTES);
            let kernel = Baseline::new(bytes / PAGE_BYTES, move || Linux::new(window));
            boxed = Box::new(kernel.with_requests_of(MOUNT_REQUEST_PAGES));
            front.piece_pages = None;
        }
        let files = self.sizes.len() as u32;
        let start = |(reader, operations): (u32, _)| {
            let beside = self.beside.filter(|beside| beside.first <= reader as usize);
            let descriptor = beside.map_or(self.descriptor, |beside| beside.descriptor);
            // A shared descriptor has its file's number.
            let own_descriptors = (descriptor != Descriptor::Shared).then_some((reader + 1) * files);
            let pattern = beside.map_or(self.pattern, |beside| beside.pattern);
            Start { operations, own_descriptors, pattern, beside: beside.is_some() }
        };
        let tier = self.tier.map(|tiered| tiered.tier(&self.sizes));
        let mut world =
            World::new(boxed, storage, front, self.until_ns, self.sizes).with_chunks(self.chunks).on(self.busy);
        if let Some(tier) = tier {
            world = world.with_tier(tier);
        }
        if self.picture {
            world = world.with_picture();
        }
        world = world.with_changes(self.changes, self.watch);
        let ran = match self.reads {
            Reads::Each(readers) => world.run((0..).zip(readers).map(start).collect(), None),
            Reads::Together(reads_of, reads) => {
                let none = || Box::new(std::iter::empty()) as Box<dyn Iterator<Item = Op>>;
                let readers = (0..reads_of.len() as u32).map(|reader| start((reader, none()))).collect();
                world.run(readers, Some(Together::new(reads_of, reads)))
            }
        };
        ran.map_err(|violation| Error::Violation { policy: stack, violation })
    }
}

/// Runs `workload` to its end under a stack; `device` replaces the workload's own.
pub fn simulate(workload: &Workload, stack: impl Into<Stack>, device: Option<&Profile>) -> Result<Tally, Error> {
    Scenario::of(workload, device)?.run(stack)
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
            concurrency: store.concurrency,
            connection_rate: Rate::per_second(store.connection_bytes_per_s),
            total_rate: Rate::per_second(store.total_bytes_per_s.unwrap_or(MACHINE_BYTES_PER_S)),
            ..object_store::Config::default()
        })),
        Device::Profile(name) | Device::Emulated(name) => named(name),
        other => {
            let known = profile::TEXTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(Error::NoDevice { name: format!("{other:?}").to_lowercase(), known })
        }
    }
}

/// The built-in device of that name.
fn named(name: &str) -> Result<Profile, Error> {
    let known = || profile::TEXTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    profile::find(name).ok_or_else(|| Error::NoDevice { name: name.to_owned(), known: known() })
}

/// The largest window of kernels by default, in bytes. Origin: `read_ahead_kb` of Linux.
const READAHEAD_MAX_BYTES: u64 = 128 << 10;

/// Page cache of a machine with memory to spare, in bytes.
const PAGE_CACHE_BYTES: u64 = 16 << 30;

/// Link rate where the store has no limit, in bytes a second: what 16 connections of a bare client
/// reach on two cores.
const MACHINE_BYTES_PER_S: u64 = 900_000_000;
