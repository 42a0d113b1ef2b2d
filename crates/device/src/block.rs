//! The interface of all block devices: requests for bytes at a position go in, finished requests
//! come out.

use std::fmt::Debug;

/// A request, as named by the driver; never used again.
pub type RequestId = u64;

/// An event at the device.
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
    /// A write of `bytes` at `offset`. The buffer of the drive does not serve it.
    Write {
        /// Its name.
        id: RequestId,
        /// Bytes from the start of the device.
        offset: u64,
        /// At least 1.
        bytes: u64,
    },
    /// Cancels the request. A device that has begun it finishes it, without an action.
    Cancel {
        /// The request.
        id: RequestId,
    },
    /// Nothing but time passed.
    Tick,
}

/// A result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// All bytes of the request have been read or written.
    Done {
        /// The request.
        id: RequestId,
        /// When.
        at_ns: u64,
    },
}

/// A block device. Input: [`BlockDevice::handle`]; output: [`BlockDevice::poll_action`] until
/// `None`, then [`BlockDevice::next_deadline`].
pub trait BlockDevice: Debug {
    /// Takes an event at `now_ns`, after everything that was due before.
    fn handle(&mut self, now_ns: u64, event: Event);

    /// The next result in the order of time; call until `None`.
    fn poll_action(&mut self) -> Option<Action>;

    /// The time of the next result; `None` for an idle device.
    fn next_deadline(&self) -> Option<u64>;
}
