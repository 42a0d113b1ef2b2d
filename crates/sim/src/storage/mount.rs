//! A mount as the storage of a kernel: the interface between the world above and the world below.

use foreread_policy::RequestId;

use super::delivery::Delivery;
use crate::outcome::tally::Tally;
use crate::outcome::violation::Violation;

/// A world that serves the requests of another one.
pub(crate) trait Mount {
    /// The kernel asks for `bytes` at `offset` of the file at place `file`.
    fn request(&mut self, now_ns: u64, request: RequestId, file: usize, offset: u64, bytes: u64);

    /// Does everything due by `now_ns`.
    fn advance(&mut self, now_ns: u64);

    /// The next delivery; call until `None`.
    fn poll(&mut self) -> Option<Delivery>;

    /// The time of the next event.
    fn next_deadline(&self) -> Option<u64>;

    /// Closes and forgets every file, where faults are simulated: nothing may be left behind.
    fn close(&mut self) -> Result<(), Violation>;

    /// The tally of its run.
    fn told(self: Box<Self>) -> Tally;
}
