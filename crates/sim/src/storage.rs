//! Storage as a driver sees it: reads of extents go in, bytes come out.

pub(crate) mod blocks;
pub(crate) mod delivery;
pub(crate) mod mount;
pub mod profile;
pub(crate) mod scheduler;

use foreread_device::Profile;
use foreread_device::object_store::{self, ObjectStore};
use foreread_policy::RequestId;

use blocks::{Asked, Blocks};
use delivery::Delivery;
use mount::Mount;

/// A device model with files on it, or a mount in front of one.
pub(crate) enum Storage {
    Store(ObjectStore),
    Blocks(Blocks),
    Mount(Box<dyn Mount>),
}

impl Storage {
    /// The device of a profile, with files of these sizes.
    pub(crate) fn new(profile: Profile, sizes: &[u64], asked: Asked) -> Self {
        if let Profile::ObjectStore(config) = profile {
            return Self::Store(ObjectStore::new(config));
        }
        let device = profile.block_device().expect("every other model is a block device");
        Self::Blocks(Blocks::new(device, sizes, asked))
    }

    /// Asks for `bytes` at `offset` of the file at place `file`, on behalf of the open file
    /// `context`.
    pub(crate) fn read(&mut self, now_ns: u64, request: RequestId, context: u32, file: usize, offset: u64, bytes: u64) {
        let id = request.0;
        match self {
            Self::Store(store) => store.handle(now_ns, object_store::Event::Request { id, bytes, slowdown: 1 }),
            Self::Mount(mount) => mount.request(now_ns, request, file, offset, bytes),
            Self::Blocks(blocks) => blocks.read(now_ns, request, context, file, offset, bytes),
        }
    }

    /// Cancels a request.
    pub(crate) fn cancel(&mut self, now_ns: u64, request: RequestId) {
        let id = request.0;
        match self {
            Self::Store(store) => store.handle(now_ns, object_store::Event::Cancel { id }),
            Self::Mount(_) => unreachable!("a kernel cancels no readahead"),
            Self::Blocks(blocks) => blocks.cancel(now_ns, request),
        }
    }

    /// An object store becomes another one. Other devices stay as they are.
    pub(crate) fn change(&mut self, now_ns: u64, config: object_store::Config) {
        if let Self::Store(store) = self {
            store.handle(now_ns, object_store::Event::Tick);
            store.become_other(config);
        }
    }

    /// The open file `context` was closed.
    pub(crate) fn close(&mut self, now_ns: u64, context: u32) {
        if let Self::Blocks(blocks) = self {
            blocks.close(now_ns, context);
        }
    }

    /// The driver has taken in `bytes`: as many more may be sent.
    pub(crate) fn taken(&mut self, now_ns: u64, request: RequestId, bytes: u64) {
        let id = request.0;
        match self {
            Self::Store(store) => store.handle(now_ns, object_store::Event::Taken { id, bytes }),
            Self::Mount(_) => {}
            Self::Blocks(blocks) => blocks.taken(now_ns, request, bytes),
        }
    }

    /// Does everything due by `now_ns`.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        match self {
            Self::Store(store) => store.handle(now_ns, object_store::Event::Tick),
            Self::Mount(mount) => mount.advance(now_ns),
            Self::Blocks(blocks) => blocks.advance(now_ns),
        }
    }

    /// The next delivery; call until `None`.
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
            Self::Blocks(blocks) => blocks.poll().map(|(request, bytes)| Delivery::Bytes(request, bytes)),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        match self {
            Self::Store(store) => store.next_deadline(),
            Self::Mount(mount) => mount.next_deadline(),
            Self::Blocks(blocks) => blocks.next_deadline(),
        }
    }
}
