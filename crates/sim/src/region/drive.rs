//! The device that holds evicted pages: requests for pages go in, finished requests come out.

use foreread_device::Profile;
use foreread_device::block::{Action, BlockDevice, Event};
use foreread_policy::PAGE_BYTES;

/// Requests and pages so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) reads: u64,
    pub(crate) read_pages: u64,
    pub(crate) written_pages: u64,
}

/// A device, and the names of its requests.
#[derive(Debug)]
pub(crate) struct Drive {
    device: Box<dyn BlockDevice>,
    rotational: bool,
    next: u64,
    counts: Counts,
}

impl Drive {
    /// # Panics
    ///
    /// For an object store. Workloads of regions that name one do not parse.
    pub(crate) fn new(device: Profile) -> Self {
        let rotational = device.is_rotational();
        let device = device.block_device().expect("a region's workload names a block device");
        Self { device, rotational, next: 0, counts: Counts::default() }
    }

    /// Reads `pages` of the `span` pages from `place` on; a disk reads over the rest.
    pub(crate) fn read(&mut self, now_ns: u64, place: u64, pages: u64, span: u64) -> u64 {
        self.counts.reads += 1;
        self.counts.read_pages += pages;
        let bytes = if self.rotational { span } else { pages } * PAGE_BYTES;
        let id = self.name();
        self.device.handle(now_ns, Event::Read { id, offset: place * PAGE_BYTES, bytes });
        id
    }

    /// Writes the pages from `place` on.
    pub(crate) fn write(&mut self, now_ns: u64, place: u64, pages: u64) -> u64 {
        self.counts.written_pages += pages;
        let id = self.name();
        self.device.handle(now_ns, Event::Write { id, offset: place * PAGE_BYTES, bytes: pages * PAGE_BYTES });
        id
    }

    fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// When the next request is done.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.device.next_deadline()
    }

    /// The next request that is done by `now_ns`.
    pub(crate) fn done(&mut self, now_ns: u64) -> Option<u64> {
        self.device.handle(now_ns, Event::Tick);
        self.device.poll_action().map(|Action::Done { id, .. }| id)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}
