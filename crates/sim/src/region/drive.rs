//! The device that holds what has no room: requests for pages go in, which of them are over comes out.

use foreread_device::block::{Action, BlockDevice, Event};
use foreread_device::{Profile, array, disk, flash};
use foreread_policy::PAGE_BYTES;

/// What it was asked for.
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
    /// For a store: it has no places to swap to. Workloads that name one are not parsed.
    pub(crate) fn new(device: Profile) -> Self {
        let rotational = device.is_rotational();
        let device: Box<dyn BlockDevice> = match device {
            Profile::Disk(config) => Box::new(disk::Disk::new(config)),
            Profile::Array(config) => Box::new(array::Array::new(config)),
            Profile::Flash(config) => Box::new(flash::Flash::new(config)),
            other => panic!("{other:?} is no block device"),
        };
        Self { device, rotational, next: 0, counts: Counts::default() }
    }

    /// Reads `pages` of those from `place` on, which lie within `span`: a disk passes over the rest.
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

    /// When a request is over next.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.device.next_deadline()
    }

    /// The next request that is over at `now_ns`.
    pub(crate) fn done(&mut self, now_ns: u64) -> Option<u64> {
        self.device.handle(now_ns, Event::Tick);
        self.device.poll_action().map(|Action::Done { id, .. }| id)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}
