//! What storage tells a driver about a request.

use foreread_policy::RequestId;

use crate::outcome::violation::Violation;

/// A result, or a part of one.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// Its head has come: the first byte follows.
    Head(RequestId),
    /// The next bytes of it have come.
    Bytes(RequestId, u64),
    /// It is refused, and may be made again after this many nanoseconds.
    Refused(RequestId, u64),
    /// The policy of a mount has broken a rule.
    Broken(Violation),
}
