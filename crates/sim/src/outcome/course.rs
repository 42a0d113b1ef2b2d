//! The course of a run: bytes by time, and the figures of a span in which it is steady.
//!
//! ```text
//!   bytes  |  ..##|######|######|######|    |..####|      bins of equal length
//!          0     from          until   ^ pause
//!                |<-- steady -->|                          bytes and times of each reader
//! ```
//!
//! It is kept beside the tally where a scenario asks for it: a tally counts in whole seconds, and
//! most links are filled within one.

use hdrhistogram::Histogram;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// Length of a bin, in ns.
    pub bin_ns: u64,
    /// The span that counts as steady: reads that are done from the first time on and before the
    /// second, in ns.
    pub steady_ns: (u64, u64),
    /// No read starts from the first time on and before the second, in ns: it starts then.
    pub pause_ns: Option<(u64, u64)>,
}

/// Bytes of reads by time.
#[derive(Debug, Clone)]
pub struct Course {
    watch: Watch,
    bins: Vec<u64>,
    /// Bytes of each reader in the steady span.
    steady_bytes: Vec<u64>,
    took_ns: Histogram<u64>,
    /// The most that was charged to the budget, in bytes.
    charged_max_bytes: u64,
    /// Pages fetched ahead, and neither read nor dropped at the end.
    ahead_pages: u64,
}

impl Course {
    pub(crate) fn new(watch: Watch, readers: usize) -> Self {
        let took_ns = Histogram::new(TOOK_DIGITS).expect("1 to 5 digits");
        Self { watch, bins: Vec::new(), steady_bytes: vec![0; readers], took_ns, charged_max_bytes: 0, ahead_pages: 0 }
    }

    pub(crate) fn pause_ns(&self) -> Option<(u64, u64)> {
        self.watch.pause_ns
    }

    pub(crate) fn read(&mut self, reader: usize, bytes: u64, began_ns: u64, done_ns: u64) {
        let bin = (done_ns / self.watch.bin_ns) as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += bytes;
        if (self.watch.steady_ns.0..self.watch.steady_ns.1).contains(&done_ns) {
            self.steady_bytes[reader] += bytes;
            self.took_ns.saturating_record(done_ns.saturating_sub(began_ns));
        }
    }

    pub(crate) fn charged(&mut self, bytes: u64) {
        self.charged_max_bytes = self.charged_max_bytes.max(bytes);
    }

    pub(crate) fn ended(&mut self, ahead_pages: u64) {
        self.ahead_pages = ahead_pages;
    }

    /// Bytes a second of all readers in the steady span.
    pub fn steady_rate(&self) -> f64 {
        let (from, until) = self.watch.steady_ns;
        self.steady_bytes.iter().sum::<u64>() as f64 * 1e9 / (until - from).max(1) as f64
    }

    /// Bytes of all readers in the bins from `from_ns` on and before `until_ns`.
    pub fn bytes_between(&self, from_ns: u64, until_ns: u64) -> u64 {
        let (first, end) = (from_ns.div_ceil(self.watch.bin_ns) as usize, (until_ns / self.watch.bin_ns) as usize);
        self.bins.iter().take(end).skip(first).sum()
    }

    /// Jain's index of the bytes of each reader in the steady span: 1 where all have as much, one
    /// over the number of readers where one has everything.
    pub fn fairness(&self) -> f64 {
        let sum: f64 = self.steady_bytes.iter().map(|&bytes| bytes as f64).sum();
        let squares: f64 = self.steady_bytes.iter().map(|&bytes| (bytes as f64).powi(2)).sum();
        if squares == 0.0 { 0.0 } else { sum * sum / (self.steady_bytes.len() as f64 * squares) }
    }

    /// Bytes of the slowest reader over those of the fastest, in the steady span.
    pub fn slowest_of_fastest(&self) -> f64 {
        let least = self.steady_bytes.iter().min().copied().unwrap_or(0);
        least as f64 / self.steady_bytes.iter().max().copied().unwrap_or(0).max(1) as f64
    }

    /// The time that this percentage of reads in the steady span did not exceed, in ns.
    pub fn took_percentile_ns(&self, percentile: f64) -> u64 {
        self.took_ns.value_at_percentile(percentile)
    }

    /// The most that was charged to the budget at any time, in bytes.
    pub fn charged_max_bytes(&self) -> u64 {
        self.charged_max_bytes
    }

    /// Pages fetched ahead, and neither read nor dropped at the end of the run.
    pub fn ahead_pages(&self) -> u64 {
        self.ahead_pages
    }

    /// The time from `from_ns` until `bins` bins in a row have `bytes` together, at the end of the
    /// last of them, in ns; `None` if they never have.
    pub fn reaches_ns(&self, from_ns: u64, bins: usize, bytes: u64) -> Option<u64> {
        let first = (from_ns / self.watch.bin_ns) as usize;
        let after = self.bins.get(first..)?;
        let last = (0..after.len())
            .find(|&last| after[(last + 1).saturating_sub(bins)..=last].iter().sum::<u64>() >= bytes)?;
        Some((last as u64 + 1) * self.watch.bin_ns)
    }

    /// The last time from which on each `bins` bins in a row, up to `until_ns`, have `bytes`
    /// together, counted from `from_ns`, in ns; `None` if the last of them have less.
    pub fn settles_ns(&self, from_ns: u64, until_ns: u64, bins: usize, bytes: u64) -> Option<u64> {
        let (first, end) = ((from_ns / self.watch.bin_ns) as usize, (until_ns / self.watch.bin_ns) as usize);
        let after = self.bins.get(first..end.min(self.bins.len()))?;
        let windows = after.len().checked_sub(bins)? + 1;
        let short = (0..windows).rev().find(|&at| after[at..at + bins].iter().sum::<u64>() < bytes);
        match short {
            Some(last) if last + 1 == windows => None,
            Some(last) => Some((last + 1 + bins) as u64 * self.watch.bin_ns),
            None => Some(0),
        }
    }
}

/// Significant digits of read times. Lower: percentiles are coarser than a tenth of them. Higher:
/// more memory. Source: chosen here.
const TOOK_DIGITS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_until_a_rate_is_reached_and_kept() {
        let watch = Watch { bin_ns: 10, steady_ns: (20, 60), pause_ns: None };
        let mut course = Course::new(watch, 2);
        for (reader, done_ns) in [(0, 5), (0, 25), (1, 29), (0, 35), (1, 45), (0, 55), (1, 75)] {
            course.read(reader, 100, done_ns - 4, done_ns);
        }
        assert_eq!(course.reaches_ns(0, 1, 200), Some(30));
        assert_eq!(course.reaches_ns(0, 2, 300), Some(40));
        assert_eq!(course.reaches_ns(30, 1, 200), None);
        assert_eq!(course.settles_ns(0, 60, 1, 100), Some(30));
        assert_eq!(course.settles_ns(0, 70, 1, 100), None);
        assert_eq!((course.bytes_between(20, 40), course.bytes_between(25, 45)), (300, 100));
        assert!((course.steady_rate() - 500.0 * 1e9 / 40.0).abs() < 1.0);
        assert!((course.slowest_of_fastest() - 2.0 / 3.0).abs() < 1e-9);
        assert!((course.fairness() - 25.0 / 26.0).abs() < 1e-9);
    }
}
