//! The rotational position: when a sector comes below the head.
//!
//! ```text
//!   head ── seek ──> track of the sector ── the platter turns on ──> sector
//!             longer with distance          up to a turn, depending on when the seek ends
//! ```
//!
//! Each track begins where the one before ends, as skewed tracks do for a reader that goes on
//! without a break; so a position is an angle.

/// The arm and the platter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rotation {
    pub(super) nearest_ns: u64,
    pub(super) farthest_ns: u64,
    pub(super) turn_ns: u64,
    pub(super) capacity_bytes: u64,
    pub(super) track_bytes: u64,
}

impl Rotation {
    /// Time of the seek from the head to `offset` at `now_ns`, and of the wait after it.
    pub(super) fn reach_ns(self, now_ns: u64, head: u64, offset: u64) -> (u64, u64) {
        let seek_ns = if head / self.track_bytes == offset / self.track_bytes { 0 } else { self.seek_ns(head, offset) };
        let turn_ns = self.turn_ns.max(1);
        let angle_ns = u128::from(offset % self.track_bytes) * u128::from(turn_ns) / u128::from(self.track_bytes);
        let there_ns = (now_ns + seek_ns) % turn_ns;
        (seek_ns, (angle_ns as u64 + turn_ns - there_ns) % turn_ns)
    }

    /// The seek grows with the square root of the distance.
    pub(super) fn seek_ns(self, from: u64, to: u64) -> u64 {
        let far = (u128::from(from.abs_diff(to)) << 32) / u128::from(self.capacity_bytes.max(1));
        let root_q16 = far.min(1 << 32).isqrt() as u64;
        self.nearest_ns + ((self.farthest_ns.saturating_sub(self.nearest_ns) * root_q16) >> 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROTATION: Rotation = Rotation {
        nearest_ns: 800_000,
        farthest_ns: 14_000_000,
        turn_ns: 8_000_000,
        capacity_bytes: 1 << 37,
        track_bytes: 1 << 19,
    };

    #[test]
    fn a_sector_half_a_track_ahead_comes_after_half_a_turn() {
        assert_eq!(ROTATION.reach_ns(0, 0, 1 << 18), (0, 4_000_000));
        assert_eq!(ROTATION.reach_ns(6_000_000, 0, 1 << 18), (0, 6_000_000));
    }

    #[test]
    fn a_sector_that_has_just_passed_costs_nearly_a_turn() {
        let (seek_ns, wait_ns) = ROTATION.reach_ns(0, 0, 1 << 19);
        assert!((800_000..900_000).contains(&seek_ns));
        assert_eq!(wait_ns, 8_000_000 - seek_ns);
    }
}
