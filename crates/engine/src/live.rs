//! An option that is a time and may be changed while the engine runs. It is looked at without a
//! lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A time, in microseconds: one that is longer than u64 has room for is as long as that.
#[derive(Debug)]
pub(crate) struct LiveTime(AtomicU64);

impl LiveTime {
    pub(crate) fn new(time: Duration) -> Self {
        Self(AtomicU64::new(micros(time)))
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Relaxed))
    }

    pub(crate) fn set(&self, time: Duration) {
        self.0.store(micros(time), Relaxed);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_it_was_set_to_last() {
        let time = LiveTime::new(Duration::from_millis(1));
        assert_eq!(time.get(), Duration::from_millis(1));
        time.set(Duration::ZERO);
        assert!(time.get().is_zero());
        time.set(Duration::MAX);
        assert!(time.get() > Duration::from_hours(24 * 365 * 1000));
    }
}
