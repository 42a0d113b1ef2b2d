//! Readers of files, in a store that answers after 30 ms, sends 80 MB/s a request and 900 MB/s in
//! all, unless another device is named.

use foreread_device::latency::FirstByte;
use foreread_device::{Profile, Rate, object_store};
use foreread_policy::{Extent, PAGE_BYTES};
use foreread_sim::{Beside, Busy, Chunk, PolicyName, Reads, Scenario, Tally, Tiered};
use foreread_workload::{Descriptor, Op, Pattern};

pub(crate) const MIB: u64 = (1 << 20) / PAGE_BYTES;

/// What is read, with how much memory, and what is in front of the store.
pub(crate) struct Readers {
    pub(crate) memory_bytes: u64,
    pub(crate) file_pages: u64,
    /// Of each reader its file, what it reads in order, and the time between two reads in ns.
    pub(crate) each: Vec<(u64, Vec<Extent>, u64)>,
    /// The first of the readers that read as long as those before do, and are counted apart.
    pub(crate) beside: Option<usize>,
    /// The largest window of a kernel, where programs read through its page cache.
    pub(crate) kernel_window_bytes: Option<u64>,
    pub(crate) tier: Option<Tiered>,
    /// Where the chunks of each file lie, if its files say so.
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) busy: Option<Busy>,
    /// Reads that a reader makes at once; then it waits until that time has passed.
    pub(crate) batch: u64,
    pub(crate) device: Profile,
    pub(crate) policy: PolicyName,
}

impl Readers {
    pub(crate) fn new(memory_bytes: u64, file_pages: u64, each: Vec<(u64, Vec<Extent>, u64)>) -> Self {
        let device = Profile::ObjectStore(object_store::Config {
            first_byte: FirstByte::fixed(30_000_000),
            connection_rate: Rate::per_second(80_000_000),
            total_rate: Rate::per_second(900_000_000),
            ..object_store::Config::default()
        });
        let (beside, kernel_window_bytes, tier, batch, policy) = (None, None, None, 1, PolicyName::Foreread);
        let (chunks, busy) = (Vec::new(), None);
        Self { memory_bytes, file_pages, each, beside, kernel_window_bytes, tier, chunks, busy, batch, device, policy }
    }

    /// Runs all readers to their ends.
    pub(crate) fn run(self) -> Tally {
        let period_ns = self.each.iter().map(|(_, _, period_ns)| *period_ns).max().unwrap_or(0);
        let pattern = match period_ns {
            0 => Pattern::Sequential { record_bytes: 1 << 20, passes: 1 },
            _ => Pattern::Slow { record_bytes: 128 << 10, period_ns, start_every_ns: 0, catches_up: false },
        };
        let files = self.each.iter().map(|(file, ..)| file + 1).max().unwrap_or(0);
        let operations = |(file, reads, period_ns): (u64, Vec<Extent>, u64)| {
            let op = move |(number, read): (u64, Extent)| Op {
                file: file as u32,
                offset: read.start * PAGE_BYTES,
                len: (read.pages() * PAGE_BYTES) as u32,
                not_before_ns: number / self.batch * period_ns,
            };
            Box::new((0..).zip(reads).map(op)) as Box<dyn Iterator<Item = Op>>
        };
        let scenario = Scenario {
            sizes: vec![self.file_pages * PAGE_BYTES; files as usize],
            extent_bytes: None,
            reads: Reads::Each(self.each.into_iter().map(operations).collect()),
            tree: None,
            region: None,
            descriptor: Descriptor::Own,
            pattern,
            beside: self.beside.map(|first| Beside { first, descriptor: Descriptor::Own, pattern }),
            until_ns: u64::MAX,
            memory_bytes: self.memory_bytes,
            readahead_max_bytes: 128 << 10,
            device: self.device,
            page_cache_bytes: self.kernel_window_bytes.map(|_| 16 << 30),
            kernel_window_bytes: self.kernel_window_bytes.unwrap_or(128 << 10),
            picture: false,
            changes: Vec::new(),
            watch: None,
            tier: self.tier,
            chunks: self.chunks,
            busy: self.busy,
        };
        scenario.run(self.policy).unwrap_or_else(|error| panic!("{error:?}"))
    }
}

/// The pages from `from` to `to`, `step` a read.
pub(crate) fn forward(from: u64, to: u64, step: u64) -> Vec<Extent> {
    (from..to).step_by(step as usize).map(|start| Extent::new(start, (start + step).min(to))).collect()
}
