//! Reads that come at once: a window of a kernel, whose requests overtake one another.
//!
//! ```text
//!   the end of a column      |
//!   windows         |--------+-------|        for a page in the column
//!                            |       |---|    its program came to the window before: ahead of it
//!                            |           |--| only if it has come behind the end
//! ```
//!
//! A kernel cuts a window into requests and sends them at once, whatever the window's length. It
//! sends the next window when its program comes to the last one. So two windows reach past the end
//! of what a program reads at most, and a third one shows that it goes on.
//!
//! Source: `mm/readahead.c` of Linux 6.18: the marker is the first page of a window;
//! docs/decisions/0101.

use alloc::collections::VecDeque;

use crate::units::{Extent, Nanos};

/// The bursts of reads that have left what was planned.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    /// By the chunks that they have gone through, the oldest first.
    chains: VecDeque<Chain>,
}

/// Bursts that go on from one another, through chunks that were not planned.
#[derive(Debug)]
struct Chain {
    /// The latest chunk.
    at: usize,
    /// When the latest burst began.
    began: Nanos,
    count: u32,
}

impl Bursts {
    /// A read has come into the chunk at `at`, which is not planned, from the one before it.
    pub(super) fn came(&mut self, now: Nanos, at: usize) {
        let Some(chain) = self.chains.iter_mut().find(|chain| chain.at == at || chain.at + 1 == at) else {
            if self.chains.len() >= CHAINS_KEPT {
                self.chains.pop_front();
            }
            return self.chains.push_back(Chain { at, began: now, count: 1 });
        };
        let since = now.0.saturating_sub(chain.began.0);
        if since > OVER.0 {
            (chain.began, chain.count) = (now, 1);
        } else if since > BURST.0 {
            (chain.began, chain.count) = (now, chain.count + 1);
        }
        chain.at = at;
    }

    /// Whether more have come to the chunk at `at` than a kernel sends by itself.
    pub(super) fn show(&self, at: usize) -> bool {
        self.chains.iter().any(|chain| chain.at == at && chain.count > WINDOWS_PAST)
    }

    /// Memory that it takes beside itself, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.chains.capacity() * size_of::<Chain>()
    }
}

/// Reads of a burst that came before the one at the start of their chunk.
#[derive(Debug, Default)]
pub(super) struct Early {
    reads: VecDeque<(Nanos, Extent)>,
}

impl Early {
    /// `read` goes on with nothing that is known.
    pub(super) fn push(&mut self, now: Nanos, read: Extent) {
        self.forget(now);
        if self.reads.len() >= EARLY_MAX {
            self.reads.pop_front();
        }
        self.reads.push_back((now, read));
    }

    /// The one that goes on at `end`, if it came in the same burst.
    pub(super) fn take_at(&mut self, now: Nanos, end: u64) -> Option<Extent> {
        self.forget(now);
        let at = self.reads.iter().position(|&(_, read)| read.start <= end && end < read.end)?;
        self.reads.remove(at).map(|(_, read)| read)
    }

    /// Memory that it takes beside itself, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.reads.capacity() * size_of::<(Nanos, Extent)>()
    }

    fn forget(&mut self, now: Nanos) {
        while self.reads.front().is_some_and(|&(at, _)| now.0.saturating_sub(at.0) > BURST.0) {
            self.reads.pop_front();
        }
    }
}

/// Chains that are remembered. Lower: of threads that leave what was planned side by side, some
/// are not shown. Higher: more to compare with. Source: chosen here; as many as groups that a run
/// remembers.
const CHAINS_KEPT: usize = 16;

/// Early reads that are remembered. Lower: of a long window, a part is taken for a stream. Higher:
/// more to compare with. Source: derived: the 16 requests of the longest window, twice.
const EARLY_MAX: usize = 32;

/// Windows that reach past the end of what a program reads, at most. Lower: a kernel with long
/// windows has the next group fetched. Higher: a reader of all groups waits for more windows of
/// the second one. Source: derived above.
const WINDOWS_PAST: u32 = 2;

/// Time after which bursts do not go on from one another: 5 s. Lower: a slow reader is never
/// shown. Higher: a read that is made again counts with the one before. Source: the time after
/// which a reader counts as stopped (`layout`).
const OVER: Nanos = Nanos::from_millis(5_000);

/// How long the requests of one window may take to come, 5 ms. Lower: a window of 16 requests is
/// taken for several on a loaded machine. Higher: windows of a quick reader are taken for one, and
/// it waits for longer. Source: about .1 ms a request through a mount.
const BURST: Nanos = Nanos::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn show(times: &[u64]) -> bool {
        let mut bursts = Bursts::default();
        for &ms in times {
            bursts.came(Nanos::from_millis(ms), 3);
        }
        bursts.show(3)
    }

    #[test]
    fn a_third_window_shows_a_reader_that_goes_on() {
        assert!(!show(&[10, 11, 12, 13, 14]), "requests of one window");
        assert!(!show(&[10, 11, 40, 41, 42]));
        assert!(show(&[10, 40, 70]));
        assert!(show(&[10, 12, 14, 16, 18, 20, 22]), "one that is never at rest");
    }

    #[test]
    fn early_reads_of_a_burst_go_on_in_their_order() {
        let (mut early, at) = (Early::default(), Nanos::from_millis);
        early.push(at(1), Extent::new(400, 500));
        for start in [300, 200, 900] {
            early.push(at(10), Extent::new(start, start + 100));
        }
        assert_eq!(early.take_at(at(11), 200), Some(Extent::new(200, 300)));
        assert_eq!(early.take_at(at(11), 300), Some(Extent::new(300, 400)));
        assert_eq!(early.take_at(at(11), 400), None, "that one came long before");
        assert_eq!(early.take_at(at(30), 900), None);
    }

    #[test]
    fn windows_are_counted_from_chunk_to_chunk_and_by_reader() {
        let mut bursts = Bursts::default();
        for (ms, at) in [(10, 3), (40, 4), (70, 40), (100, 41), (130, 5)] {
            bursts.came(Nanos::from_millis(ms), at);
        }
        assert!(bursts.show(5) && !bursts.show(4) && !bursts.show(41));
        for at in 0..100 {
            bursts.came(Nanos::from_millis(200), 10 * at);
        }
        assert_eq!(bursts.chains.len(), CHAINS_KEPT);
    }

    #[test]
    fn windows_of_long_ago_are_forgotten() {
        assert!(!show(&[10, 40, 6_000, 6_030]), "the same read again");
    }
}
