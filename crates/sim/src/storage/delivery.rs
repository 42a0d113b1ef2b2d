//! What storage tells the driver of a request.

use foreread_policy::RequestId;

use crate::outcome::violation::Violation;

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
