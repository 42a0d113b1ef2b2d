//! Walk: a reader that goes through a tree, and where it comes to next.
//!
//! ```text
//!   frames, the reader's place first:     next:
//!     a/b/  entry 7                         a/b/8, a/b/9, ..
//!     a/    entry 1                         the rest of a/, each directory with its subtree
//!     .     entry 0                         the rest of ., ..
//!
//!   depth first ──(a directory is left before its subdirectories were entered)──> breadth first
//!   enter: a frame in front of the others                    enter: a frame behind the others
//! ```
//!
//! A reader that leaves a directory without entering its subdirectories, and enters the next one
//! beside it, goes breadth first. The frames that it left move to the end, to be continued later.
//! A program that opens files by name enters no directory: its frames are set (`path/crossings`).
//!
//! *Invariants:* each frame holds the entry after the last one that the reader came to. There are
//! at most [`FRAMES_MAX`]. A breadth-first walk stays one.
//!
//! This file does not say when a walk begins (`path/lookups`, `path/contents`) or what is listed
//! and fetched for it (`path/listings`, `path/contents`). Source: docs/decisions/0029.

use alloc::collections::VecDeque;

use crate::directories::confidence::Confidence;
use crate::units::{DirId, Nanos};

/// A directory that the reader is in, and the entry after the last one that it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) dir: DirId,
    pub(crate) next: u32,
}

/// The order in which directories are entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Depth,
    Breadth,
}

/// One reader in a tree.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) order: Order,
    frames: VecDeque<Frame>,
    /// How many directories may be listed ahead.
    pub(crate) listings: Confidence,
    /// How many files may be fetched ahead.
    pub(crate) contents: Confidence,
    /// Events to pass before the next search for directories to list ahead.
    pub(crate) idle: u32,
    /// Events to pass if what the last search found has to wait.
    pub(crate) rest: u32,
    /// The reader opens the files of a directory from its end to its start.
    pub(crate) backward: bool,
    /// The reader has come from one directory into the next by opening files, and reads none.
    pub(crate) by_name: bool,
    /// When it was last moved by an open.
    opened: Nanos,
}

impl Walk {
    /// A walk that has come to entry `next` of `dir`.
    pub(crate) fn new(dir: DirId, next: u32) -> Self {
        Self {
            order: Order::Depth,
            frames: VecDeque::from([Frame { dir, next }]),
            listings: Confidence::closed(LISTINGS_MAX),
            contents: Confidence::closed(CONTENTS_MAX),
            idle: 0,
            rest: 0,
            backward: false,
            by_name: false,
            opened: Nanos(0),
        }
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = Frame> {
        self.frames.iter().copied()
    }

    pub(crate) fn frame(&mut self, dir: DirId) -> Option<&mut Frame> {
        self.frames.iter_mut().find(|frame| frame.dir == dir)
    }

    /// The reader opens a file.
    pub(crate) fn opens(&mut self, now: Nanos) {
        self.opened = now;
    }

    /// Whether its reader may still be there: a program that opens files by name may have ended,
    /// or gone elsewhere, and nothing tells so.
    pub(crate) fn is_followed(&self, now: Nanos) -> bool {
        !self.by_name || now.since(self.opened) < FOLLOWED
    }

    /// The reader has come to these places by opening a file.
    pub(crate) fn move_to(&mut self, frames: VecDeque<Frame>) {
        (self.frames, self.by_name) = (frames, true);
    }

    /// The reader enters `dir`, which is `entry` of `parent`. `has_unread` says whether a frame's
    /// directory has subdirectories that were not entered. Returns `false` if `parent` is none of
    /// the walk's directories.
    pub(crate) fn enter(&mut self, dir: DirId, parent: DirId, entry: u32, has_unread: impl Fn(Frame) -> bool) -> bool {
        let Some(at) = self.frames.iter().position(|frame| frame.dir == parent) else { return false };
        // The reader left the frames in front of it. If they have subdirectories that were not
        // entered, the walk is breadth first.
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

/// Directories listed ahead of one reader, at most: twice as many listings as a store answers side
/// by side. Lower: a fast reader waits for listings. Higher: listings expire before the reader
/// comes to them. Source: docs/decisions/0034 (64 side by side).
const LISTINGS_MAX: u32 = 64;

/// Files fetched ahead of one reader, at most: at 30 ms each, four thousand files a second. Lower:
/// a fast reader waits for files. Higher: more files are fetched in vain where a reader stops.
/// Source: a guess, not measured.
const CONTENTS_MAX: u32 = 128;

/// How long after its last open a walk by name has directories listed and files fetched for it,
/// 100 ms. Lower: a slow link delivers fewer files between two opens. Higher: more is listed and
/// fetched in vain for a program that has turned elsewhere. Source: a guess; three round trips of
/// 30 ms.
const FOLLOWED: Nanos = Nanos::from_millis(100);

/// Frames of a walk, in directories. Lower: a breadth-first walk of a wide tree loses its place.
/// Higher: more memory, and longer searches for a frame. Source: a guess, not measured.
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
    fn directories_left_unread_come_later() {
        let mut walk = Walk::new(DirId(0), 0);
        walk.enter(DirId(1), DirId(0), 0, NOTHING);
        walk.enter(DirId(2), DirId(0), 1, |frame| frame.dir == DirId(1));
        assert_eq!(walk.order, Order::Breadth);
        assert_eq!(dirs(&walk), [(0, 2), (1, 0), (2, 0)]);
        walk.enter(DirId(5), DirId(1), 0, NOTHING);
        assert_eq!(dirs(&walk), [(1, 1), (2, 0), (5, 0)]);
    }
}
