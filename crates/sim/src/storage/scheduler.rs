//! Schedulers: which of the requests that wait for a block device goes to it next. A baseline, below the policies that are compared;
//! the policy that serves real reads asks nobody.
//!
//! ```text
//!  add ──> what waits, by context ──next──> device ──> completed
//! ```
//!
//! A context is an open file: whoever shares it is one stream to the scheduler, and a helper that opened the file for itself is another.

mod cfq;
pub(crate) mod named;

use std::fmt;

/// A request for bytes of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// Its name, used once.
    pub(crate) id: u64,
    /// Who makes it.
    pub(crate) context: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Decides about requests in virtual time. Times never go back; [`Scheduler::next`] is asked after everything else until `None`.
pub(crate) trait Scheduler: fmt::Debug {
    /// A request waits.
    fn add(&mut self, now_ns: u64, request: Request);

    /// One that was given out is done.
    fn completed(&mut self, now_ns: u64, id: u64);

    /// A request is not wanted any more. Whether it still waited; one that was given out is over.
    fn cancel(&mut self, now_ns: u64, id: u64) -> bool;

    /// A context makes no more requests.
    fn closed(&mut self, now_ns: u64, context: u32);

    /// What goes to the device now; `None` if nothing should, whether or not something waits.
    fn next(&mut self, now_ns: u64) -> Option<Request>;

    /// When to be asked again even if nothing happens.
    fn next_deadline(&self) -> Option<u64>;
}
