//! Directory: what is known of one directory: its entries, how far its listing has come, and what
//! became of each entry.
//!
//! ```text
//!   coming    Nothing ──list──> Alone ──a page came, or it failed──> Nothing
//!                └──list below──> Along ──all of it came, or none──> Nothing
//!
//!   a listing that is made anew, page by page:
//!     entries   | new | new | old | old | old |    a new entry keeps whether the file at its
//!                           ^ listed               place was fetched; the last page drops the
//!                                                  old entries that are left
//! ```
//!
//! *Invariants:* `listed` is at most the number of entries. `pages` holds the ends of the pages of
//! the latest listing only. Entries have places, not names: the driver knows the names.
//!
//! A listing is believed for a time to live from the moment at which it was requested, read ahead
//! or not. This file does not decide when to list or to fetch (`path`). Source:
//! docs/decisions/0029 (the time to live) and 0035 (small files).

use alloc::vec::Vec;

use crate::directories::event::Child;
use crate::directories::subtree::Subtree;
use crate::units::{Nanos, PAGE_BYTES};

/// What is known of one directory.
#[derive(Debug, Default)]
pub(crate) struct Dir {
    pub(crate) entries: Vec<Entry>,
    /// How many entries are of the latest listing. The others are of the one before, and stay
    /// until the latest has come so far.
    pub(crate) listed: usize,
    /// The entries that are directories.
    pub(crate) subdirs: Vec<u32>,
    /// The entry after the last one of each page that has come.
    pub(crate) pages: Vec<u32>,
    /// All of the listing has come.
    pub(crate) complete: bool,
    /// What of the listing is in flight.
    pub(crate) coming: Coming,
    /// When the first page of the latest listing was requested, whether it has come or not.
    pub(crate) requested: Option<Nanos>,
    /// Listed ahead of any reader, and not read since.
    pub(crate) ahead: bool,
    /// Pages of the latest listing that a reader has reached.
    pub(crate) pages_read: usize,
    /// A reader reached a page of an earlier listing.
    pub(crate) was_read: bool,
    /// The subdirectory that was entered last.
    pub(crate) entered: Option<u32>,
    /// The file that was opened last, and the length of the run in order that it ends: negative
    /// for a backward run.
    pub(crate) opened: Option<(u32, i32)>,
    /// Opens that followed no order.
    pub(crate) unordered: u32,
    /// Names looked up since the latest listing was requested that it did not answer.
    pub(crate) names: u32,
    /// Names looked up since then that it answered.
    pub(crate) answered: u32,
    /// Bytes that it takes, in the driver and here.
    pub(crate) bytes: u64,
    /// What one request for its subtree has covered, or would.
    pub(crate) subtree: Subtree,
    /// When it was last used: a number that grows with each use of any directory.
    pub(crate) used: u64,
}

/// What of a listing is in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Coming {
    #[default]
    Nothing,
    /// Its next pages, requested by themselves.
    Alone,
    /// All of it, with other directories by one request for a subtree.
    Along,
}

/// One entry: what it is, and what became of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) child: Child,
    /// Fetched ahead, and not opened since.
    pub(crate) fetched: bool,
    /// Looked up when the listing could not answer, and not opened since.
    pub(crate) named: bool,
    /// Opened since the latest listing.
    pub(crate) opened: bool,
}

impl Entry {
    pub(crate) fn bytes(self) -> u64 {
        match self.child {
            Child::File { pages } => pages * PAGE_BYTES,
            Child::Directory(_) => 0,
        }
    }

    /// Whether it is a file that is small enough to be fetched whole.
    pub(crate) fn is_small_file(self) -> bool {
        matches!(self.child, Child::File { pages } if (1..=SMALL_PAGES).contains(&pages))
    }
}

impl Dir {
    /// Whether any of its listing is in flight.
    pub(crate) fn is_coming(&self) -> bool {
        self.coming != Coming::Nothing
    }

    /// A new listing is requested.
    pub(crate) fn restart(&mut self, now: Nanos) {
        self.was_read |= self.pages_read > 0;
        (self.requested, self.complete, self.pages_read) = (Some(now), false, 0);
        (self.names, self.answered) = (0, 0);
    }

    /// Whether its listing is in flight, or was requested no longer ago than `ttl`.
    pub(crate) fn is_known(&self, now: Nanos, ttl: Nanos) -> bool {
        self.is_coming() || (!self.pages.is_empty() && self.requested.is_some_and(|at| now.since(at) <= ttl))
    }

    /// The number of pages up to the one that holds `entry`.
    pub(crate) fn pages_to(&self, entry: u32) -> usize {
        self.pages.partition_point(|&end| end <= entry) + 1
    }

    pub(crate) fn entry(&mut self, entry: u32) -> Option<&mut Entry> {
        self.entries.get_mut(entry as usize)
    }

    /// The next file after `entry` in a direction, past subdirectories.
    pub(crate) fn next_file(&self, entry: u32, backward: bool) -> Option<u32> {
        let is_file = |&at: &usize| matches!(self.entries[at].child, Child::File { .. });
        let at = if backward {
            (0..(entry as usize).min(self.entries.len())).rev().take(NEAR).find(is_file)
        } else {
            (entry as usize + 1..self.entries.len()).take(NEAR).find(is_file)
        };
        at.map(|at| at as u32)
    }
}

/// The largest file that is fetched whole before it is opened, in pages: 256 KiB, which arrives in
/// no more time than its first byte takes. Lower: larger files cost a round trip each. Higher:
/// programs that read only the first bytes of files have more fetched in vain. Source:
/// docs/decisions/0035 (256 KiB itself is a guess, not measured).
const SMALL_PAGES: u64 = (256 << 10) / PAGE_BYTES;

/// Entries searched for the next file in order, past subdirectories. Lower: files with many
/// subdirectories between them count as opened in no order. Higher: each open searches further.
/// Source: a guess, not measured.
const NEAR: usize = 64;
