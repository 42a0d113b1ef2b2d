//! Device models as the driver sees them: reads of extents go in, bytes come out.

use foreread_device::disk::{self, Disk};
use foreread_device::object_store::{self, ObjectStore};
use foreread_policy::{Extent, FileId, PAGE_BYTES, RequestId};

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Its first byte is near.
    Head(RequestId),
    /// The next bytes of it have come.
    Bytes(RequestId, u64),
    /// It is refused, and may be made again after this many nanoseconds.
    Refused(RequestId, u64),
}

/// A device model with files on it.
#[derive(Debug)]
pub(crate) enum Storage {
    Store(ObjectStore),
    Disk { disk: Disk, layout: Layout, sizes: std::collections::BTreeMap<u64, u64> },
}

/// Where files lie on a disk: one after the other.
#[derive(Debug)]
pub(crate) struct Layout {
    starts: Vec<u64>,
}

impl Layout {
    pub(crate) fn of(sizes: impl Iterator<Item = u64>) -> Self {
        let starts = sizes.scan(0, |next, size| {
            let start = *next;
            *next += size.next_multiple_of(PAGE_BYTES);
            Some(start)
        });
        Self { starts: starts.collect() }
    }
}

impl Storage {
    /// Asks for `bytes` from `extent` of `file` on.
    pub(crate) fn read(&mut self, now_ns: u64, request: RequestId, file: FileId, extent: Extent, bytes: u64) {
        match self {
            Self::Store(store) => {
                store.handle(now_ns, object_store::Event::Request { id: request.0, bytes, slowdown: 1 });
            }
            Self::Disk { disk, layout, sizes } => {
                let offset = layout.starts[file.0 as usize] + extent.start * PAGE_BYTES;
                sizes.insert(request.0, bytes);
                disk.handle(now_ns, disk::Event::Read { id: request.0, offset, bytes });
            }
        }
    }

    /// The request is not wanted any more.
    pub(crate) fn cancel(&mut self, now_ns: u64, request: RequestId) {
        match self {
            Self::Store(store) => store.handle(now_ns, object_store::Event::Cancel { id: request.0 }),
            Self::Disk { disk, sizes, .. } => {
                sizes.remove(&request.0);
                disk.handle(now_ns, disk::Event::Cancel { id: request.0 });
            }
        }
    }

    /// `bytes` of what came have been taken in: there is room for as many more on the way.
    pub(crate) fn taken(&mut self, now_ns: u64, request: RequestId, bytes: u64) {
        if let Self::Store(store) = self {
            store.handle(now_ns, object_store::Event::Taken { id: request.0, bytes });
        }
    }

    /// Does what is due until `now_ns`.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        match self {
            Self::Store(store) => store.handle(now_ns, object_store::Event::Tick),
            Self::Disk { disk, .. } => disk.handle(now_ns, disk::Event::Tick),
        }
    }

    /// What has come, until `None`.
    pub(crate) fn poll(&mut self) -> Option<Delivery> {
        match self {
            Self::Store(store) => store.poll_action().map(|action| match action {
                object_store::Action::Head { id, .. } => Delivery::Head(RequestId(id)),
                object_store::Action::Body { id, bytes, .. } => Delivery::Bytes(RequestId(id), bytes),
                object_store::Action::Refuse { id, retry_after_ns, .. } => {
                    Delivery::Refused(RequestId(id), retry_after_ns)
                }
            }),
            Self::Disk { disk, sizes, .. } => disk
                .poll_action()
                .map(|disk::Action::Done { id, .. }| Delivery::Bytes(RequestId(id), sizes.remove(&id).unwrap_or(0))),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        match self {
            Self::Store(store) => store.next_deadline(),
            Self::Disk { disk, .. } => disk.next_deadline(),
        }
    }
}
