//! Device models as the driver sees them: reads of extents go in, bytes come out.

use std::collections::BTreeMap;

use foreread_device::Profile;
use foreread_device::array::Array;
use foreread_device::block::{self, BlockDevice};
use foreread_device::disk::Disk;
use foreread_device::flash::Flash;
use foreread_device::object_store::{self, ObjectStore};
use foreread_policy::{PAGE_BYTES, RequestId};

use crate::violation::Violation;
use crate::world::World;

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// Its first byte is near.
    Head(RequestId),
    /// The next bytes of it have come.
    Bytes(RequestId, u64),
    /// It is refused, and may be made again after this many nanoseconds.
    Refused(RequestId, u64),
    /// The policy in front of what is mounted has broken a rule.
    Broken(Violation),
}

/// A device model with files on it, or a mount in front of one.
pub(crate) enum Storage {
    Store(ObjectStore),
    Blocks(Blocks),
    Mount(Box<World<'static>>),
}

/// A block device, and which bytes of it each file has.
#[derive(Debug)]
pub(crate) struct Blocks {
    device: Box<dyn BlockDevice>,
    layout: Layout,
    /// The most that is asked for at once; `None` for all of a request.
    piece_bytes: Option<u64>,
    going: BTreeMap<u64, Going>,
}

/// A request of which a piece is being read, or waits to be taken.
#[derive(Debug)]
struct Going {
    /// Where the next piece begins, and how much there is from there on.
    offset: u64,
    rest: u64,
    /// Of the last one what has not been taken.
    piece: u64,
}

impl Blocks {
    /// Asks for the next piece.
    fn go_on(&mut self, now_ns: u64, id: u64) {
        let Some(going) = self.going.get_mut(&id) else { return };
        let bytes = going.rest.min(self.piece_bytes.unwrap_or(u64::MAX));
        self.device.handle(now_ns, block::Event::Read { id, offset: going.offset, bytes });
        (going.offset, going.rest, going.piece) = (going.offset + bytes, going.rest - bytes, bytes);
    }
}

/// Where files lie on a disk: one after the other.
#[derive(Debug)]
struct Layout {
    starts: Vec<u64>,
}

impl Layout {
    fn of(sizes: impl Iterator<Item = u64>) -> Self {
        let starts = sizes.scan(0, |next, size| {
            let start = *next;
            *next += size.next_multiple_of(PAGE_BYTES);
            Some(start)
        });
        Self { starts: starts.collect() }
    }
}

impl Storage {
    /// The device of that profile, with files of these sizes.
    /// A block device reads requests that are longer than `piece_bytes` a piece at a time.
    pub(crate) fn new(profile: Profile, sizes: &[u64], piece_bytes: Option<u64>) -> Self {
        let device: Box<dyn BlockDevice> = match profile {
            Profile::ObjectStore(config) => return Self::Store(ObjectStore::new(config)),
            Profile::Disk(config) => Box::new(Disk::new(config)),
            Profile::Array(config) => Box::new(Array::new(config)),
            Profile::Flash(config) => Box::new(Flash::new(config)),
            other => unreachable!("a model without a storage: {other:?}"),
        };
        Self::Blocks(Blocks { device, layout: Layout::of(sizes.iter().copied()), piece_bytes, going: BTreeMap::new() })
    }

    /// Asks for `bytes` at `offset` of the file at place `file`.
    pub(crate) fn read(&mut self, now_ns: u64, request: RequestId, file: usize, offset: u64, bytes: u64) {
        let id = request.0;
        match self {
            Self::Store(store) => store.handle(now_ns, object_store::Event::Request { id, bytes, slowdown: 1 }),
            Self::Mount(mount) => mount.request(now_ns, request, file, offset, bytes),
            Self::Blocks(blocks) => {
                let offset = blocks.layout.starts[file] + offset;
                blocks.going.insert(id, Going { offset, rest: bytes, piece: 0 });
                blocks.go_on(now_ns, id);
            }
        }
    }

    /// The request is not wanted any more.
    pub(crate) fn cancel(&mut self, now_ns: u64, request: RequestId) {
        let id = request.0;
        match self {
            Self::Store(store) => store.handle(now_ns, object_store::Event::Cancel { id }),
            Self::Mount(_) => unreachable!("a kernel gives up no readahead"),
            Self::Blocks(blocks) => {
                blocks.going.remove(&id);
                blocks.device.handle(now_ns, block::Event::Cancel { id });
            }
        }
    }

    /// `bytes` of what came have been taken in: there is room for as many more on the way.
    pub(crate) fn taken(&mut self, now_ns: u64, request: RequestId, bytes: u64) {
        let id = request.0;
        match self {
            Self::Store(store) => store.handle(now_ns, object_store::Event::Taken { id, bytes }),
            Self::Mount(_) => {}
            Self::Blocks(blocks) => {
                if let Some(going) = blocks.going.get_mut(&id) {
                    going.piece = going.piece.saturating_sub(bytes);
                    if going.piece == 0 && going.rest > 0 {
                        blocks.go_on(now_ns, id);
                    } else if going.piece == 0 {
                        blocks.going.remove(&id);
                    }
                }
            }
        }
    }

    /// Does what is due until `now_ns`.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        match self {
            Self::Store(store) => store.handle(now_ns, object_store::Event::Tick),
            Self::Mount(mount) => mount.advance(now_ns),
            Self::Blocks(blocks) => blocks.device.handle(now_ns, block::Event::Tick),
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
            Self::Mount(mount) => mount.poll(),
            Self::Blocks(blocks) => {
                let block::Action::Done { id, .. } = blocks.device.poll_action()?;
                Some(Delivery::Bytes(RequestId(id), blocks.going.get(&id).map_or(0, |going| going.piece)))
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        match self {
            Self::Store(store) => store.next_deadline(),
            Self::Mount(mount) => mount.next_deadline(),
            Self::Blocks(blocks) => blocks.device.next_deadline(),
        }
    }
}
