//! A mount as the storage of a kernel: what the world above asks of the world below.

use foreread_policy::RequestId;

use super::delivery::Delivery;
use crate::outcome::tally::Tally;
use crate::outcome::violation::Violation;

/// A world that serves the requests of another one.
pub(crate) trait Mount {
    /// The kernel asks for `bytes` at `offset` of the file at place `file`.
    fn request(&mut self, now_ns: u64, request: RequestId, file: usize, offset: u64, bytes: u64);

    /// Does what is due until `now_ns`.
    fn advance(&mut self, now_ns: u64);

    /// What has come, until `None`.
    fn poll(&mut self) -> Option<Delivery>;

    /// When something happens next.
    fn next_deadline(&self) -> Option<u64>;

    /// Closes and forgets every file, where faults are simulated: nothing may be left behind.
    fn close(&mut self) -> Result<(), Violation>;

    /// What was counted.
    fn told(self: Box<Self>) -> Tally;
}
