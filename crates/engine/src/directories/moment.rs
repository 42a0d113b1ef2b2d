//! Times of objects as a listing keeps them: in eight bytes each.

use std::time::{Duration, SystemTime};

/// Nanoseconds from 1970 on.
pub(crate) fn nanos(time: SystemTime) -> Option<i64> {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_nanos().try_into().ok(),
        Err(before) => i64::try_from(before.duration().as_nanos()).ok().map(|nanos| -nanos),
    }
}

/// The time so many nanoseconds from 1970 on.
pub(crate) fn time(nanos: i64) -> SystemTime {
    let magnitude = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { SystemTime::UNIX_EPOCH - magnitude } else { SystemTime::UNIX_EPOCH + magnitude }
}
