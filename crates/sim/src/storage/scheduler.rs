//! Schedulers: which waiting request goes to a block device next. They are baselines below the
//! policies that are compared; the policy that serves real reads uses none.
//!
//! ```text
//!  add ──> waiting requests, by context ──next──> device ──> completed
//! ```
//!
//! A context is an open file: readers that share it are one stream to the scheduler, and a thread
//! that opened the file for itself is another.

mod cfq;
mod mq_deadline;
pub(crate) mod named;

use std::fmt;

/// A request for bytes of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// Its name, used once.
    pub(crate) id: u64,
    /// The open file that it is made for.
    pub(crate) context: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// A scheduler in virtual time. Times never go back; after every other call, call
/// [`Scheduler::next`] until `None`.
pub(crate) trait Scheduler: fmt::Debug {
    /// A request arrives.
    fn add(&mut self, now_ns: u64, request: Request);

    /// A dispatched request is done. The requests that are done with it: itself, those that it was
    /// joined with, and none that was cancelled.
    fn completed(&mut self, now_ns: u64, id: u64) -> Vec<u64>;

    /// Cancels a request. Whether the device is not to be told: it does not have the request, or
    /// has it for other requests as well. Otherwise the dispatched request has ended.
    fn cancel(&mut self, now_ns: u64, id: u64) -> bool;

    /// A context makes no more requests.
    fn closed(&mut self, now_ns: u64, context: u32);

    /// The request to dispatch now; `None` to dispatch nothing, even if requests wait.
    fn next(&mut self, now_ns: u64) -> Option<Request>;

    /// When to call [`Scheduler::next`] again even if nothing happens.
    fn next_deadline(&self) -> Option<u64>;
}
