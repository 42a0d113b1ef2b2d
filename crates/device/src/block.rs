//! What all block devices have in common: requests for bytes at a place go in, what has been done comes out.

use std::fmt::Debug;

/// A request, as named by the driver; never used again.
pub type RequestId = u64;

/// What happens to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A request for `bytes` at `offset`.
    Read {
        /// Its name.
        id: RequestId,
        /// Bytes from the start of the device.
        offset: u64,
        /// At least 1.
        bytes: u64,
    },
    /// The same for bytes that are written. Nothing that was kept ahead serves it.
    Write {
        /// Its name.
        id: RequestId,
        /// Bytes from the start of the device.
        offset: u64,
        /// At least 1.
        bytes: u64,
    },
    /// The request is not wanted any more. What the device is at is done all the same.
    Cancel {
        /// The request.
        id: RequestId,
    },
    /// Nothing but time passed.
    Tick,
}

/// What the device has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// All bytes of the request are there, or have been written.
    Done {
        /// The request.
        id: RequestId,
        /// When they were.
        at_ns: u64,
    },
}

/// A block device. Input: [`BlockDevice::handle`]; output: [`BlockDevice::poll_action`] until `None`, then
/// [`BlockDevice::next_deadline`].
pub trait BlockDevice: Debug {
    /// Takes what happened at `now_ns`, after everything that was due before.
    fn handle(&mut self, now_ns: u64, event: Event);

    /// What has been done, in the order of the times; `None` when that was all.
    fn poll_action(&mut self) -> Option<Action>;

    /// When something will be done next; `None` for an idle device.
    fn next_deadline(&self) -> Option<u64>;
}
