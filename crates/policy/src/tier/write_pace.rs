//! When the next write to a cache's disk begins.
//!
//! ```text
//!   reads      ....rrrrrrrrrrrrrrrrrrrrrr.........
//!   writes     wwww|    |wwww|    |wwww|    |wwwwwww      half of the time while reads are there
//!                   rests
//! ```
//!
//! Readers wait for reads, and for no write. So while reads are at the disk, a write rests for as
//! long as the last one took. What finds the queue full meanwhile is not kept, or later.
//!
//! The file does not know what is written, or how much. Source: docs/decisions/0078.

use crate::units::Nanos;

/// The pace of the writes to one disk.
#[derive(Debug, Default, Clone, Copy)]
pub struct WritePace {
    /// When the last one ended, and how long it took.
    ended: Nanos,
    took_ns: u64,
}

impl WritePace {
    /// A write took from `began` to `ended`.
    pub fn wrote(&mut self, began: Nanos, ended: Nanos) {
        (self.ended, self.took_ns) = (ended, ended.since(began).0);
    }

    /// When the next one may begin, if so many `reads` are at the disk from now until then.
    pub fn begins_at(&self, now: Nanos, reads: usize) -> Nanos {
        if reads == 0 {
            return now;
        }
        let rests = self.took_ns.saturating_mul(RESTS).min(RESTS_MAX_NS);
        Nanos(now.0.max(self.ended.0 + rests))
    }
}

/// How many times as long as it wrote a disk rests from writes. Lower: reads find it writing more
/// often. Higher: less of what is read is kept. Source: a guess: each has half.
const RESTS: u64 = 1;

/// The longest rest, in ns: 100 ms. Lower: a slow disk is given a larger share. Higher: after one
/// write that hung, nothing is kept for as long. Source: a guess: 1 MiB at 10 MB/s.
const RESTS_MAX_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_have_half_of_the_time_while_reads_are_there() {
        let mut pace = WritePace::default();
        pace.wrote(Nanos(1_000), Nanos(6_000));
        assert_eq!(pace.begins_at(Nanos(6_000), 0), Nanos(6_000));
        assert_eq!(pace.begins_at(Nanos(6_000), 3), Nanos(11_000));
        assert_eq!(pace.begins_at(Nanos(12_000), 3), Nanos(12_000), "it has rested");
    }

    #[test]
    fn a_write_that_hung_is_no_reason_to_rest_for_as_long() {
        let mut pace = WritePace::default();
        pace.wrote(Nanos(0), Nanos::from_millis(30_000));
        assert_eq!(pace.begins_at(Nanos::from_millis(30_000), 1), Nanos::from_millis(30_100));
    }
}
