//! Reads that come at once: a window of a kernel, whose requests overtake one another.
//!
//! ```text
//!   the end of a group       |
//!   windows         |--------+-------|        for a page in the group
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

use crate::files::layout::run::GROUPS_KEPT;
use crate::units::{Extent, Nanos};

/// The bursts of reads from one group into the next.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    /// By the group that they go into, the oldest first.
    into: VecDeque<Into>,
}

#[derive(Debug)]
struct Into {
    group: u32,
    /// When the latest began.
    began: Nanos,
    count: u32,
}

impl Bursts {
    /// A read has come into `group` from the one before.
    pub(super) fn came(&mut self, now: Nanos, group: u32) {
        if let Some(into) = self.into.iter_mut().find(|into| into.group == group) {
            if now.0.saturating_sub(into.began.0) > BURST.0 {
                (into.began, into.count) = (now, into.count + 1);
            }
            return;
        }
        if self.into.len() >= GROUPS_KEPT {
            self.into.pop_front();
        }
        self.into.push_back(Into { group, began: now, count: 1 });
    }

    /// Whether they are more than a kernel sends by itself into `group`.
    pub(super) fn show(&self, group: u32) -> bool {
        self.into.iter().any(|into| into.group == group && into.count > WINDOWS_PAST)
    }

    /// Memory that it takes beside itself, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.into.capacity() * size_of::<Into>()
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

/// Early reads that are remembered. Lower: of a long window, a part is taken for a stream. Higher:
/// more to compare with. Source: derived: the 16 requests of the longest window, twice.
const EARLY_MAX: usize = 32;

/// Windows that reach past the end of what a program reads, at most. Lower: a kernel with long
/// windows has the next group fetched. Higher: a reader of all groups waits for more windows of
/// the second one. Source: derived above.
const WINDOWS_PAST: u32 = 2;

/// How long the requests of one window may take to come, 5 ms. Lower: a window of 16 requests is
/// taken for several on a loaded machine. Higher: windows of a quick reader are taken for one, and
/// it waits for longer. Source: about .1 ms a request through a mount.
const BURST: Nanos = Nanos::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn show(times: &[u64]) -> bool {
        let mut bursts = Bursts::default();
        times.iter().for_each(|&ms| bursts.came(Nanos::from_millis(ms), 3));
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
    fn readers_that_come_into_different_groups_are_counted_apart() {
        let mut bursts = Bursts::default();
        for (ms, group) in [(10, 3), (40, 3), (70, 4), (100, 4), (130, 3)] {
            bursts.came(Nanos::from_millis(ms), group);
        }
        assert!(bursts.show(3) && !bursts.show(4));
        (0..100).for_each(|group| bursts.came(Nanos::from_millis(200), group));
        assert_eq!(bursts.into.len(), GROUPS_KEPT);
    }
}
