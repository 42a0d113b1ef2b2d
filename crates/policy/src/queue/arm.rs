//! Arm: whether a disk's arm would have something else to do than to read ahead, and whether it
//! moves meanwhile.
//!
//! ```text
//!   reads that wait   |----|  |----|  |----|   |----|     between them nothing is waited for: as
//!                          ^^      ^^      ^^^^            much time is there to read ahead in
//!
//!   requests          a a a a b a a a a a c a a           it stays: what follows the last request
//!                                                          costs the same when it is asked for
//!                     a a a b b b c c a a a               it returns: a request that is there
//!                                                          before the last is served keeps it
//!                     a b c a b c a b c                   it moves: what is read along with a
//!                                                          request spares a positioning
//! ```
//!
//! A disk serves one request at a time. What it reads ahead delays what is asked for meanwhile,
//! unless nothing is.
//!
//! *Invariant:* integers only; the same events give the same answers.
//!
//! The file does not decide how far a stream is ahead (`read::path::limits`). Source:
//! docs/decisions/0096.

use crate::units::{Extent, FileId, Nanos};

/// What an arm has to do for reads that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// There is time in which no read waits.
    Not,
    /// It stays with one stream, and no other one has requests.
    Stays,
    /// It stays with a stream for some requests, if they are there in time, and then moves.
    Returns,
    /// It moves for each request.
    Moves,
}

/// What is known of a disk's arm.
#[derive(Debug)]
pub(crate) struct Arm {
    since: Nanos,
    /// Time in which a read waited, and in which none did: the latest counts most.
    waited: Nanos,
    free: Nanos,
    /// Where the last request ended.
    at: Option<(FileId, u64)>,
    /// How many of the last requests began elsewhere, in parts of [`ONE`].
    moves: u64,
    /// The same of those beside which others had requests.
    shared: u64,
}

impl Default for Arm {
    fn default() -> Self {
        Self { since: Nanos(0), waited: Nanos(0), free: Nanos(0), at: None, moves: ONE / 2, shared: ONE / 2 }
    }
}

impl Arm {
    /// The time is `now`; until now reads waited, or none did.
    pub(crate) fn passed(&mut self, now: Nanos, waits: bool) {
        let passed = now.since(self.since).min(HORIZON);
        self.since = now;
        let time = if waits { &mut self.waited } else { &mut self.free };
        time.0 += passed.0;
        if self.waited.0 + self.free.0 > HORIZON.0 {
            (self.waited.0, self.free.0) = (self.waited.0 / 2, self.free.0 / 2);
        }
    }

    /// A request for `extent` starts; others than its reader have requests as well, or not.
    pub(crate) fn starts(&mut self, file: FileId, extent: Extent, is_shared: bool) {
        let moves = self.at.is_some_and(|at| at != (file, extent.start));
        self.at = Some((file, extent.end));
        for (average, is) in [(&mut self.moves, moves), (&mut self.shared, is_shared)] {
            *average -= *average / AVERAGE_OF;
            *average += if is { ONE / AVERAGE_OF } else { 0 };
        }
    }

    /// Whether there is time in which no read waits.
    pub(crate) fn has_time(&self) -> bool {
        self.free.0 * TIME_PART >= self.waited.0 + self.free.0
    }

    /// What it has to do.
    pub(crate) fn state(&self) -> Busy {
        if self.has_time() {
            Busy::Not
        } else if self.moves.max(self.shared) * STAYS_PART < ONE {
            Busy::Stays
        } else if self.moves * STAYS_PART < ONE * (STAYS_PART - 1) {
            Busy::Returns
        } else {
            Busy::Moves
        }
    }
}

/// Time over which is looked whether reads wait, and the longest pause that counts: 4 s. Lower: a
/// loader that reads for half a second and then works for longer counts as one that does nothing
/// else. Higher: after a pause a program that only reads is read ahead for in vain for longer.
/// Source: a guess; the pauses of loaders in `crates/sim/tests/disks.rs` are 1.5 s.
const HORIZON: Nanos = Nanos::from_millis(4_000);

/// The part of the time in which no read waits, at least, where the arm reads ahead: an eighth.
/// Lower: what is read ahead delays a reader that does next to nothing between its reads. Higher:
/// one that works for less than that finds nothing there. Source: a guess, not measured; a mount
/// needs 50 to 100 us from an answer to the next read, and a positioning takes 7 ms.
const TIME_PART: u64 = 8;

/// All requests, in the unit of those that move the arm. Lower: a few do not show. Higher: no
/// effect. Source: chosen here.
const ONE: u64 = 1 << 16;

/// Requests over which that is averaged. Lower: one jump of a reader counts as many. Higher:
/// a second reader is noticed later. Source: a guess, not measured.
const AVERAGE_OF: u64 = 16;

/// The arm stays if fewer than one request in so many moves it, and moves if all but one in so
/// many do. Lower: of two readers with large requests each counts as alone. Higher: a reader that
/// jumps now and then is read ahead for as if there were others. Source: docs/decisions/0096; of a
/// video player's requests one in twenty jumps, of readers beside each other one in three, of two
/// hundred slow readers nearly all.
const STAYS_PART: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads that take `wait` ms each, and as long as `works` between them.
    fn arm(wait: u64, works: u64) -> Arm {
        let mut arm = Arm::default();
        let mut now = Nanos(0);
        for _ in 0..1_000 {
            for (takes, waits) in [(wait, true), (works, false)] {
                now = Nanos(now.0 + Nanos::from_millis(takes).0);
                arm.passed(now, waits);
            }
        }
        arm
    }

    #[test]
    fn there_is_time_where_a_reader_works_on_what_it_has_read() {
        assert!(Arm::default().has_time(), "nothing has waited yet");
        assert!(!arm(9, 0).has_time() && !arm(9, 1).has_time());
        assert!(arm(9, 2).has_time() && arm(0, 9).has_time());
        let mut arm = arm(9, 0);
        arm.passed(Nanos(u64::MAX), false);
        assert!(arm.has_time(), "it was idle for long");
    }

    #[test]
    fn an_arm_stays_that_one_stream_moves_now_and_then() {
        let request = |file, at: u64| (FileId(file), Extent::new(at * 32, at * 32 + 32));
        let state = |is_shared, requests: &mut dyn Iterator<Item = (FileId, Extent)>| {
            let mut arm = arm(9, 0);
            requests.for_each(|(file, extent)| arm.starts(file, extent, is_shared));
            arm.state()
        };
        assert_eq!(state(false, &mut (0..100).map(|at| request(1, at))), Busy::Stays);
        assert_eq!(state(true, &mut (0..100).map(|at| request(1, at))), Busy::Returns, "others wait");
        assert_eq!(state(false, &mut (0..100).map(|at| request(1, at + at / 20 * 1_000))), Busy::Stays);
        assert_eq!(state(true, &mut (0..100).map(|at| request(at / 3 % 2, at))), Busy::Returns);
        assert_eq!(state(true, &mut (0..100).map(|at| request(at % 2, at / 2))), Busy::Moves);
        assert_eq!(state(false, &mut [].into_iter()), Busy::Returns, "nothing is known");
        assert_eq!(arm(9, 9).state(), Busy::Not);
    }
}
