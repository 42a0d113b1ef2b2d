//! A reader who goes through a tree, and where it comes to next.
//!
//! ```text
//!   frames, the reader's place first:      next of it:
//!     a/b/  entry 7                          a/b/8, a/b/9, ..
//!     a/    entry 1                          what a/ has after b/, each directory with what is below it
//!     .     entry 0                          what . has after a/, ..
//! ```
//!
//! Depth first, a directory is entered in front of the frames; breadth first, behind them. A reader who leaves a directory without
//! having gone into what it holds, and comes to the next one beside it, goes breadth first.

use alloc::collections::VecDeque;

use crate::directories::confidence::Confidence;
use crate::units::DirId;

/// A directory in which the reader is, and the entry after the last one that it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) dir: DirId,
    pub(crate) next: u32,
}

/// In which order directories are entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Depth,
    Breadth,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) order: Order,
    frames: VecDeque<Frame>,
    /// Directories listed ahead.
    pub(crate) listings: Confidence,
    /// Files fetched ahead.
    pub(crate) contents: Confidence,
    /// Events after which it is looked again for directories to list ahead.
    pub(crate) idle: u32,
    /// The files of a directory are taken from its end to its start.
    pub(crate) backward: bool,
}

impl Walk {
    /// A walk that has come to `next` of `dir`.
    pub(crate) fn new(dir: DirId, next: u32) -> Self {
        Self {
            order: Order::Depth,
            frames: VecDeque::from([Frame { dir, next }]),
            listings: Confidence::closed(LISTINGS_MAX),
            contents: Confidence::closed(CONTENTS_MAX),
            idle: 0,
            backward: false,
        }
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = Frame> {
        self.frames.iter().copied()
    }

    pub(crate) fn frame(&mut self, dir: DirId) -> Option<&mut Frame> {
        self.frames.iter_mut().find(|frame| frame.dir == dir)
    }

    /// The reader enters `dir`, which is `entry` of `parent`. `has_unread` tells whether a directory holds others that were not
    /// entered after an entry. `false` where `parent` is none of its directories.
    pub(crate) fn enter(&mut self, dir: DirId, parent: DirId, entry: u32, has_unread: impl Fn(Frame) -> bool) -> bool {
        let Some(at) = self.frames.iter().position(|frame| frame.dir == parent) else { return false };
        // What lies before it was left. With directories that were not entered: those come later, or never.
        let left = self.frames.drain(..at).collect::<VecDeque<_>>();
        if self.order == Order::Depth && left.iter().any(|&frame| has_unread(frame)) {
            self.order = Order::Breadth;
            self.frames.extend(left);
        }
        if let Some(frame) = self.frame(parent) {
            frame.next = entry + 1;
        }
        let frame = Frame { dir, next: 0 };
        match self.order {
            Order::Depth => self.frames.push_front(frame),
            Order::Breadth => self.frames.push_back(frame),
        }
        if self.frames.len() > FRAMES_MAX {
            match self.order {
                Order::Depth => self.frames.pop_back(),
                Order::Breadth => self.frames.pop_front(),
            };
        }
        true
    }
}

/// Directories listed ahead of one reader at most: as many listings as a store answers side by side, twice.
const LISTINGS_MAX: u32 = 64;

/// Files fetched ahead of one reader at most: at 30 ms each, more than four thousand files a second.
const CONTENTS_MAX: u32 = 128;

/// Directories that a walk goes on in at most.
const FRAMES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: fn(Frame) -> bool = |_| false;

    fn dirs(walk: &Walk) -> alloc::vec::Vec<(u64, u32)> {
        walk.frames().map(|frame| (frame.dir.0, frame.next)).collect()
    }

    #[test]
    fn depth_first_goes_on_where_it_was_left() {
        let mut walk = Walk::new(DirId(0), 0);
        assert!(walk.enter(DirId(1), DirId(0), 0, NOTHING));
        assert!(walk.enter(DirId(2), DirId(1), 4, NOTHING));
        assert_eq!(dirs(&walk), [(2, 0), (1, 5), (0, 1)]);
        assert!(walk.enter(DirId(3), DirId(0), 1, NOTHING));
        assert_eq!(dirs(&walk), [(3, 0), (0, 2)]);
        assert!(!walk.enter(DirId(9), DirId(8), 0, NOTHING));
    }

    #[test]
    fn directories_that_were_left_unread_come_later() {
        let mut walk = Walk::new(DirId(0), 0);
        walk.enter(DirId(1), DirId(0), 0, NOTHING);
        walk.enter(DirId(2), DirId(0), 1, |frame| frame.dir == DirId(1));
        assert_eq!(walk.order, Order::Breadth);
        assert_eq!(dirs(&walk), [(0, 2), (1, 0), (2, 0)]);
        walk.enter(DirId(5), DirId(1), 0, NOTHING);
        assert_eq!(dirs(&walk), [(1, 1), (2, 0), (5, 0)]);
    }
}
