//! A page of a listing: one text with the names and tags of its entries, and a record for each.
//!
//! ```text
//!   text     a.jpg"e71f.."b"..        each name and its version's tag
//!   records  [end, size, time] ..     40 bytes each
//! ```
//!
//! *Invariant:* the ends that records name ascend, and lie in the text.
//!
//! This file does not decide which pages are kept, or in which order entries are (`listing`).

use std::cmp::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::directories::name::order;

#[derive(Debug)]
pub(super) struct Page {
    pub(super) requested: Instant,
    /// When names between the entry before it and its first one were asked for: earlier, where
    /// pages without entries came between.
    pub(super) gap: Instant,
    /// Place of its first entry.
    pub(super) first: u32,
    pub(super) text: Box<str>,
    pub(super) records: Box<[Record]>,
    /// Memory that the numbers of its directories take.
    pub(super) identity_bytes: u64,
}

/// One entry. Its name and its tag end at these places of the page's text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) name_end: u32,
    pub(super) tag_end: u32,
    pub(super) kind: Kind,
    /// When it was last read in this version: milliseconds after its page was asked for, and one
    /// more; 0 if it was not.
    pub(super) confirmed: u32,
    pub(super) size: u64,
    /// Nanoseconds from 1970 on.
    pub(super) modified: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    /// An empty object with something below it: a directory at an object's place.
    Mark,
    /// An object, with or without a tag in the text.
    File {
        tagged: bool,
    },
}

impl Page {
    pub(super) fn end(&self) -> u32 {
        self.first + self.records.len() as u32
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        (self.text.len() + self.records.len() * size_of::<Record>() + size_of::<Self>()) as u64 + self.identity_bytes
    }

    /// When an entry was asked for, or last confirmed.
    pub(super) fn told(&self, at: usize) -> Instant {
        let confirmed = self.records[at].confirmed.checked_sub(1);
        self.requested + Duration::from_millis(confirmed.unwrap_or(0).into())
    }

    pub(super) fn name(&self, at: usize) -> &str {
        #[cfg(test)]
        NAMES_READ.with(|read| read.set(read.get() + 1));
        let start = at.checked_sub(1).map_or(0, |before| self.records[before].tag_end);
        &self.text[start as usize..self.records[at].name_end as usize]
    }

    /// An entry's key after the prefix: its name, and whether a slash follows.
    pub(super) fn key(&self, at: usize) -> (&str, bool) {
        (self.name(at), self.records[at].kind == Kind::Directory)
    }

    pub(super) fn last(&self) -> Option<(&str, bool)> {
        self.records.len().checked_sub(1).map(|last| self.key(last))
    }

    pub(super) fn find(&self, key: (&str, bool)) -> Option<usize> {
        let (mut low, mut high) = (0, self.records.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match order(self.key(middle), key) {
                Ordering::Equal => return Some(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// The page of the entry at `place`, which has come, and where it is there.
pub(super) fn locate(pages: &[Page], place: u32) -> (&Page, usize) {
    let page = &pages[pages.partition_point(|page| page.end() <= place)];
    (page, (place - page.first) as usize)
}

pub(super) fn name_at(pages: &[Page], place: u32) -> &str {
    let (page, at) = locate(pages, place);
    page.name(at)
}

#[cfg(test)]
thread_local! {
    /// Names that this thread has read from pages: what a look-up costs.
    pub(super) static NAMES_READ: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
