//! When a stream's next part may be submitted: parts are spaced at the rate at which the stream is read.
//!
//! ```text
//!   bursts  |####    |    ####|####    |    all of a window arrive together, then nothing: memory for all of each part
//!   paced   |#..#..#.|.#..#..#|..#..#..|    one after another: half of each part is there at any time
//! ```
//!
//! A reader that waited finds, once it goes on, all that was asked for along with what it waited for. It reads that at the
//! speed of memory, asks for as much again in one burst, and waits for it: bursts keep themselves up. Where memory holds
//! less than a window of whole parts, requests then stand still for want of memory and the link with them. Half a window
//! is never held back, so that a pace that is too slow cannot become the limit that it measures. Origin: the pacing of
//! TCP, which spreads a window over a round trip for the same reason.

use crate::units::Nanos;

/// The pace of one stream.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// Since when, and from how many pages on, progress is being measured.
    since: Nanos,
    from: u64,
    /// The window has been as large as it may be since then. Before, it is the window that is measured.
    settled: bool,
    /// Of a settled window; 0 while it is not known.
    pages_per_s: u64,
    /// Whatever the window; `None` while it is not known.
    rate: Option<u64>,
    /// When the next part is due.
    next: Nanos,
    held_back: bool,
}

impl Pace {
    /// The pace of a stream whose reader has read `seen` pages.
    pub(crate) fn new(now: Nanos, seen: u64) -> Self {
        Self { since: now, from: seen, settled: false, pages_per_s: 0, rate: None, next: now, held_back: false }
    }

    /// The reader has read `seen` pages.
    pub(crate) fn progressed(&mut self, now: Nanos, seen: u64) {
        let elapsed = now.since(self.since).0;
        if elapsed < INTERVAL.0 {
            return;
        }
        let measured = seen.saturating_sub(self.from) * SECOND_NS / elapsed;
        self.rate = Some(self.rate.map_or(measured, |before| u64::midpoint(before, measured)));
        self.pages_per_s = match self.pages_per_s {
            _ if !self.settled => 0,
            0 => measured,
            before => u64::midpoint(before, measured),
        };
        (self.since, self.from, self.settled) = (now, seen, true);
    }

    /// The pages that the reader comes to before long: further ahead is of no use to it, however often it had to wait. `None` while its
    /// rate is not known.
    pub(crate) fn horizon(&self) -> Option<u64> {
        self.rate.map(|rate| rate.saturating_mul(HORIZON_S))
    }

    /// The window could still grow.
    pub(crate) fn unsettle(&mut self) {
        self.settled = false;
    }

    /// Whether a part has to wait for its time. If so, the stream is [due](Pace::due) then.
    pub(crate) fn holds_back(&mut self, now: Nanos) -> bool {
        self.held_back = self.pages_per_s > 0 && now < self.next;
        self.held_back
    }

    /// A part was held back whose time has come.
    pub(crate) fn due(&self, now: Nanos) -> bool {
        self.held_back && self.next <= now
    }

    /// Whether a part is held back.
    pub(crate) fn is_held_back(&self) -> bool {
        self.held_back
    }

    /// Nothing is held back any more.
    pub(crate) fn release(&mut self) {
        self.held_back = false;
    }

    /// A part of `pages` is on its way.
    pub(crate) fn submitted(&mut self, now: Nanos, pages: u64) {
        if let Some(spacing) = (pages * SECOND_NS * 100 / GAIN_PERCENT).checked_div(self.pages_per_s) {
            // One part may catch up, or each delay would slow the stream.
            self.next = Nanos(self.next.0.max(now.0.saturating_sub(spacing)) + spacing);
        }
    }
}

/// Progress is measured over 250 ms: longer than a part of 8 MiB takes at 80 MB/s, so that bursts even out.
const INTERVAL: Nanos = Nanos::from_millis(250);

/// How much faster than the reader parts may be submitted. Lower follows a reader or link that speeds up too slowly (5 % costs 2 %),
/// higher lets bursts pass (50 % costs 5 % where memory holds two thirds of a window).
const GAIN_PERCENT: u64 = 115;

/// A reader is served this far ahead in time at most, 10 s: hundreds of round trips of a slow store, and a queue on a disk that
/// two hundred streams share. Longer holds memory that other streams lack.
const HORIZON_S: u64 = 10;

const SECOND_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A pace measured on a reader of 1000 pages a second.
    fn settled() -> Pace {
        let mut pace = Pace::new(Nanos(0), 0);
        pace.progressed(Nanos::from_millis(250), 100);
        pace.progressed(Nanos::from_millis(1250), 1100);
        pace
    }

    #[test]
    fn parts_are_spaced_a_little_closer_than_they_are_read() {
        let (mut pace, mut now) = (settled(), Nanos::from_millis(1250));
        for _ in 0..10 {
            while pace.holds_back(now) {
                now = Nanos(now.0 + 1_000_000);
            }
            pace.submitted(now, 100);
        }
        let millis = (now.0 - Nanos::from_millis(1250).0) / 1_000_000;
        // Nine times 100 ms, 15 % closer, and one part that catches up.
        assert!((690..=710).contains(&millis), "{millis}");
    }

    #[test]
    fn nothing_is_held_back_before_the_window_has_settled() {
        let mut pace = Pace::new(Nanos(0), 0);
        pace.progressed(Nanos::from_millis(250), 100);
        pace.unsettle();
        pace.progressed(Nanos::from_millis(500), 200);
        pace.submitted(Nanos::from_millis(500), 1_000_000);
        assert!(!pace.holds_back(Nanos::from_millis(500)));
    }

    #[test]
    fn what_was_released_is_not_due() {
        let mut pace = settled();
        for _ in 0..2 {
            pace.submitted(Nanos::from_millis(1250), 1000);
        }
        assert!(pace.holds_back(Nanos::from_millis(1250)));
        pace.release();
        assert!(!pace.due(Nanos::from_millis(9999)));
    }
}
