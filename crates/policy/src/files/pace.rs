//! When a stream's next part may be submitted: parts are spaced at the rate at which the stream is
//! read.
//!
//! ```text
//!   bursts  |####    |    ####|####    |    all parts of a window arrive together, then nothing:
//!                                           memory for all of each part
//!   paced   |#..#..#.|.#..#..#|..#..#..|    one after another: half of each part at any time
//!
//!   measuring ──(250 ms with the window as large as it may be)──> settled: parts are spaced
//!       ^──────────────────────(the window could grow)───────────────┘
//! ```
//!
//! When the part that a reader waited for has come, the parts requested along with it have come
//! too. The reader reads them at the speed of memory, requests as many again in one burst, and
//! waits for those: bursts keep themselves up. Where memory holds less than a window of whole
//! parts, requests then wait for memory, and the link idles.
//!
//! *Invariant:* half of a window is never held back (`window` asks only beyond that). A pace
//! measured too low could otherwise become the limit that it measures.
//!
//! The file sets no timer: a part that is held back is submitted at the next event of its file
//! after it is due. Source: docs/decisions/0005; the pacing of TCP, which spreads a window over a
//! round trip for the same reason. The horizon is that of docs/decisions/0008.

use crate::units::Nanos;

/// The pace of one stream.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// When the present measurement began.
    since: Nanos,
    /// Pages that had been read then.
    from: u64,
    /// How long the measurement before took.
    span: Nanos,
    /// The window has been as large as it may be since then. Before that, the rate is that of the
    /// window.
    settled: bool,
    /// The reader's rate with a settled window; 0 while it is not known.
    pages_per_s: u64,
    /// The reader's rate in pages a second with any window; `None` while it is not known.
    rate: Option<u64>,
    /// When it was read last, and how many pages had been read then.
    last: (Nanos, u64),
    /// Pages that had been read when it was last silent for longer than the horizon.
    burst_from: u64,
    /// Pages that it reads between two such silences.
    burst: u64,
    /// When the next part is due.
    next: Nanos,
    held_back: bool,
}

impl Pace {
    /// The pace of a stream that has read `seen` pages.
    pub(crate) fn new(now: Nanos, seen: u64) -> Self {
        Self {
            since: now,
            from: seen,
            span: Nanos(0),
            settled: false,
            pages_per_s: 0,
            rate: None,
            last: (now, seen),
            burst_from: seen,
            burst: 0,
            next: now,
            held_back: false,
        }
    }

    /// The reader has read `seen` pages.
    pub(crate) fn progressed(&mut self, now: Nanos, seen: u64) {
        let (last, before) = core::mem::replace(&mut self.last, (now, seen));
        if now.since(last).0 > HORIZON_S * SECOND_NS {
            self.burst = before.saturating_sub(self.burst_from).max(self.burst / 2);
            self.burst_from = before;
        }
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
        (self.since, self.from, self.span, self.settled) = (now, seen, Nanos(elapsed), true);
    }

    /// The pages that a reader that has read `seen` reaches before long. `None` while its rate is
    /// not known. More pages ahead are of no use, however often it waited. What it has read since
    /// the rate was measured counts as well, as if the next span took as long: while a window
    /// grows, each round trip brings several times as much as the one before. A span that is
    /// longer than a round trip does not count in this way: its readers wait for each other, not
    /// for a link to be filled.
    ///
    /// A reader that is silent for longer than the horizon, as of one stream of a thousand, reads
    /// as much at a go when it comes again as it did before.
    pub(crate) fn horizon(&self, seen: u64) -> Option<u64> {
        let grown = if self.span > ROUND_TRIP_MAX { 0 } else { seen.saturating_sub(self.from) };
        let at_least = grown * SECOND_NS / self.span.0.max(1);
        self.rate.map(|rate| rate.max(at_least).saturating_mul(HORIZON_S).max(self.burst))
    }

    /// Pages a second of the reader, once that is known.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// The window could still grow.
    pub(crate) fn unsettle(&mut self) {
        self.settled = false;
    }

    /// Whether a part has to wait. If so, the stream is [due](Pace::due) later.
    pub(crate) fn holds_back(&mut self, now: Nanos) -> bool {
        self.held_back = self.pages_per_s > 0 && now < self.next;
        self.held_back
    }

    /// Whether a part was held back and its time has come.
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

    /// A part of `pages` has been submitted.
    pub(crate) fn submitted(&mut self, now: Nanos, pages: u64) {
        if let Some(spacing) = (pages * SECOND_NS * 100 / GAIN_PERCENT).checked_div(self.pages_per_s) {
            // One part may catch up: otherwise each delay would slow the stream. Those that came
            // early, in the half that is not held back, delay the next one no further.
            self.next = Nanos(self.next.0.clamp(now.0.saturating_sub(spacing), now.0) + spacing);
        }
    }
}

/// Time over which progress is measured: 250 ms. Lower: a burst counts as the rate; a part of 8
/// MiB takes 105 ms at 80 MB/s. Higher: the pace follows a change of the rate later. Source:
/// docs/decisions/0005.
pub(crate) const INTERVAL: Nanos = Nanos::from_millis(250);

/// Percent of the reader's rate at which parts are submitted. Lower: a reader or link that speeds
/// up is followed too slowly; at 105 this costs 2 %. Higher: bursts pass; at 150 this costs 5 %
/// where memory holds two thirds of a window. Source: docs/decisions/0005, measured with
/// `sequential-1m`.
const GAIN_PERCENT: u64 = 115;

/// Seconds of reading that a window covers at most. Lower: the window does not cover a slow store,
/// or the queue of a disk that two hundred streams share. Higher: slow readers that once waited
/// hold memory that other streams lack. Source: docs/decisions/0008.
const HORIZON_S: u64 = 10;

/// The longest span whose reader may be one that waits for round trips: 1 s. Lower: a start on a
/// slow link is held to the window of a round trip before. Higher: a stream that waits for others,
/// and reads what has come in a burst, is given a window as long as the burst is fast; without a
/// bound `fio-stream` has 79 MB/s in place of 99. Source: docs/decisions/0061.
const ROUND_TRIP_MAX: Nanos = Nanos::from_millis(1_000);

/// Nanoseconds in a second. Lower: measured rates are too low. Higher: they are too high. Source:
/// the definition of the unit.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// The settled pace of a reader of 1000 pages a second.
    fn settled() -> Pace {
        let mut pace = Pace::new(Nanos(0), 0);
        pace.progressed(Nanos::from_millis(250), 100);
        pace.progressed(Nanos::from_millis(1250), 1100);
        pace
    }

    #[test]
    fn parts_are_spaced_fifteen_percent_faster_than_they_are_read() {
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
    fn the_horizon_follows_a_reader_whose_window_grows() {
        let mut pace = Pace::new(Nanos(0), 0);
        pace.progressed(Nanos::from_millis(400), 40);
        assert_eq!(pace.horizon(40), Some(1_000), "ten seconds at 100 pages a second");
        assert_eq!(pace.horizon(60), Some(1_000), "20 pages in such a span: 50 a second, or more");
        assert_eq!(pace.horizon(240), Some(5_000), "200 pages in such a span: 500 a second, or more");
        pace.progressed(Nanos::from_millis(5_400), 240);
        let horizon = pace.horizon(240);
        assert_eq!(pace.horizon(5_400), horizon, "a burst after a wait of 5 s is no higher rate");
    }

    #[test]
    fn the_horizon_of_a_reader_that_comes_seldom_is_what_it_reads_at_a_go() {
        let mut pace = Pace::new(Nanos(0), 0);
        for nth in 0..4 {
            for piece in 1..=8 {
                pace.progressed(Nanos::from_millis(60_000 * (nth + 1) + piece), 256 * nth + 32 * piece);
            }
        }
        assert_eq!(pace.rate(), Some(3));
        assert_eq!(pace.horizon(1_024), Some(256), "not the thirty that it reads in ten seconds");
    }

    #[test]
    fn a_released_part_is_not_due() {
        let mut pace = settled();
        for _ in 0..2 {
            pace.submitted(Nanos::from_millis(1250), 1000);
        }
        assert!(pace.holds_back(Nanos::from_millis(1250)));
        pace.release();
        assert!(!pace.due(Nanos::from_millis(9999)));
    }
}
