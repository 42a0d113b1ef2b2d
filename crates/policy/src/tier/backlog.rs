//! What waits for a disk that is slower than readers are.
//!
//! ```text
//!   wait ──> | oldest ............ latest | ──take──> offered again
//!            |<- given up ->|                one has left memory before its turn
//! ```
//!
//! Where readers are faster than the disk for long, some of what they read cannot be kept. What is
//! lost piece by piece is fetched by as many requests later on. So it is lost in one run: when one
//! entry has left memory before its turn came, the older half is given up with it, which would
//! leave next, and the disk goes on with the rest. It loses no more bytes than otherwise, since it
//! is never idle.
//!
//! *Invariant:* entries leave in the order in which they came.
//!
//! The file does not know what an entry is. Source: docs/decisions/0078.

use alloc::collections::VecDeque;

/// Entries that wait for a slow disk, the oldest first.
#[derive(Debug)]
pub struct Backlog<T> {
    waiting: VecDeque<T>,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new() }
    }
}

impl<T> Backlog<T> {
    /// `entry` waits from now on; `false` if too many do.
    pub fn wait(&mut self, entry: T) -> bool {
        let has_room = self.waiting.len() < WAITING_MAX;
        if has_room {
            self.waiting.push_back(entry);
        }
        has_room
    }

    /// Takes out the entry whose turn it is.
    pub fn take(&mut self) -> Option<T> {
        self.waiting.pop_front()
    }

    /// There is no room yet for the entry that was taken out last.
    pub fn put_back(&mut self, entry: T) {
        self.waiting.push_front(entry);
    }

    /// The entry that was taken out last has left memory. Takes out those that are given up with
    /// it.
    pub fn lost(&mut self) -> impl Iterator<Item = T> {
        self.waiting.drain(..self.waiting.len() / GIVEN_UP)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Entries that wait at most. Lower: where readers are faster than the disk for a while, less is
/// kept. Higher: more memory, 16 bytes each. Source: 512 MiB of folios.
const WAITING_MAX: usize = 4096;

/// The part of those that wait which is given up with one that is lost: a half. Lower: runs are
/// longer, and what the disk would reach in time is given up too. Higher: runs are shorter, and
/// more requests fetch them. Source: docs/decisions/0078.
const GIVEN_UP: usize = 2;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// A reader touches an entry a step, which stays in memory for `stays` steps; the disk takes
    /// `slower` parts less than one a step. Returns the runs that were lost.
    fn lost_runs(entries: u64, stays: u64, slower: u64) -> Vec<u64> {
        let (mut backlog, mut lost) = (Backlog::default(), Vec::new());
        for now in 0..entries {
            assert!(backlog.wait(now));
            if now % slower == 0 {
                continue;
            }
            while let Some(entry) = backlog.take() {
                if now - entry <= stays {
                    break;
                }
                lost.push(entry);
                lost.extend(backlog.lost());
            }
        }
        assert!(lost.is_sorted());
        let ends = lost.windows(2).filter(|pair| pair[1] > pair[0] + 1).count() as u64;
        Vec::from([lost.len() as u64, ends + 1])
    }

    #[test]
    fn what_is_lost_is_lost_in_long_runs() {
        let [lost, runs] = lost_runs(8_192, 256, 25)[..] else { panic!("two figures") };
        assert!(lost <= 8_192 / 25, "{lost}: no more than the disk is too slow for");
        assert!(runs <= 3, "{runs} runs of {lost}");
    }

    #[test]
    fn nothing_is_lost_where_the_disk_keeps_up_in_the_end() {
        let mut backlog = Backlog::default();
        (0..WAITING_MAX).for_each(|entry| assert!(backlog.wait(entry)));
        assert!(!backlog.wait(0), "too many wait");
        assert!((0..WAITING_MAX).all(|entry| backlog.take() == Some(entry)) && backlog.is_empty());
    }
}
