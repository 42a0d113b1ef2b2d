//! What is known of one directory: its entries, how far its listing has come, and what became of each.

use alloc::vec::Vec;

use crate::directories::event::Child;
use crate::directories::subtree::Subtree;
use crate::units::{Nanos, PAGE_BYTES};

/// What is known of a directory.
#[derive(Debug, Default)]
pub(crate) struct Dir {
    pub(crate) entries: Vec<Entry>,
    /// How many of them are of the latest listing; the others of the one before, until it has come so far.
    pub(crate) listed: usize,
    /// Which of them are directories.
    pub(crate) subdirs: Vec<u32>,
    /// The entry after the last one of each page that has come.
    pub(crate) pages: Vec<u32>,
    /// All of it has come.
    pub(crate) complete: bool,
    /// What of it is in flight.
    pub(crate) coming: Coming,
    /// When the first page of what is known, or will be, was asked for.
    pub(crate) requested: Option<Nanos>,
    /// Listed before anybody read it, and not read since.
    pub(crate) ahead: bool,
    /// Pages of it that a reader has come to.
    pub(crate) pages_read: usize,
    /// That a reader came to any, of this listing or of one before.
    pub(crate) was_read: bool,
    /// The directory in it that was entered last.
    pub(crate) entered: Option<u32>,
    /// The file in it that was opened last, and how many were so one after the other.
    pub(crate) opened: Option<(u32, i32)>,
    /// Files in it that were opened in no order.
    pub(crate) unordered: u32,
    /// Names asked for since it was listed that were not known, and that were.
    pub(crate) names: u32,
    pub(crate) answered: u32,
    pub(crate) bytes: u64,
    /// What one request for all that lies below it has told, or would.
    pub(crate) subtree: Subtree,
    /// When it was last of use, as the order among all.
    pub(crate) used: u64,
}

/// What of a listing is in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Coming {
    #[default]
    Nothing,
    /// A page of it.
    Alone,
    /// All of it, with others by one request.
    Along,
}

/// One entry, packed: what it is, and what has become of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) child: Child,
    /// Fetched ahead, and not opened since.
    pub(crate) fetched: bool,
    /// The storage had to be asked for its name, and it was not opened since.
    pub(crate) named: bool,
    pub(crate) opened: bool,
}

impl Entry {
    pub(crate) fn bytes(self) -> u64 {
        match self.child {
            Child::File { pages } => pages * PAGE_BYTES,
            Child::Directory(_) => 0,
        }
    }

    /// Whether it is worth fetching whole.
    pub(crate) fn is_small_file(self) -> bool {
        matches!(self.child, Child::File { pages } if (1..=SMALL_PAGES).contains(&pages))
    }
}

impl Dir {
    /// Whether more of it is in flight.
    pub(crate) fn is_coming(&self) -> bool {
        self.coming != Coming::Nothing
    }

    /// It is asked for anew.
    pub(crate) fn restart(&mut self, now: Nanos) {
        self.was_read |= self.pages_read > 0;
        (self.requested, self.complete, self.pages_read) = (Some(now), false, 0);
        (self.names, self.answered) = (0, 0);
    }

    /// Whether a listing that was asked for so long ago still counts, or is on its way.
    pub(crate) fn is_known(&self, now: Nanos, ttl: Nanos) -> bool {
        self.is_coming() || (!self.pages.is_empty() && self.requested.is_some_and(|at| now.since(at) <= ttl))
    }

    /// Pages that hold entries before `entry`, and the one that holds it.
    pub(crate) fn pages_to(&self, entry: u32) -> usize {
        self.pages.partition_point(|&end| end <= entry) + 1
    }

    pub(crate) fn entry(&mut self, entry: u32) -> Option<&mut Entry> {
        self.entries.get_mut(entry as usize)
    }

    /// The next file after `entry` in a direction, past directories.
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

/// The largest file that is fetched whole before it is opened: 256 KiB, which takes no longer to come than its first byte.
const SMALL_PAGES: u64 = (256 << 10) / PAGE_BYTES;

/// How far from the last file the next one in order may be, past what is no file.
const NEAR: usize = 64;
