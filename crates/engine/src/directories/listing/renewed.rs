//! A page of a listing that is asked for again, and takes its own place.
//!
//! ```text
//!   pages    | 0 | 1 | 2 | 3 |        asked for what follows the last name of page 0
//!                | answer |           the same names and kinds: page 1 is replaced
//!                                     others: nothing is
//! ```
//!
//! Entries keep their places, and readers see no difference but in what is new of each object.
//! Where names are others, the listing stays as old as it was.
//!
//! This file does not decide what is asked for: policy does. Source: docs/decisions/0128.

use foreread_backend::{Entry, ListPage};
use tokio::time::Instant;

use super::{Listing, TakenChild};
use crate::directories::listing::page::{Page, locate};
use crate::directories::marks::{Last, Marks};
use crate::directories::name::{self, order};
use crate::requests::storage::Cursor;

impl Listing {
    /// Where the storage is to be asked for what begins with the entry at `from`, and the entry
    /// before that, if there is one. `None` if that is gone, or names are not in order.
    pub(crate) fn cursor_at(&self, from: u32) -> Option<(Cursor, Option<Last>)> {
        let state = self.state.lock();
        if !state.sorted || from >= state.len() || from < state.gone {
            return None;
        }
        let Some(before) = from.checked_sub(1) else { return Some((Cursor::Start, None)) };
        if before < state.gone {
            return None;
        }
        let (page, at) = locate(&state.pages, before);
        let (name, directory) = page.key(at);
        let behind = if directory { format!("/{}", char::MAX) } else { String::new() };
        let last = Last { name: name.to_owned(), directory };
        Some((Cursor::After(format!("{}{name}{behind}", self.prefix)), Some(last)))
    }

    /// Takes in `page`, which was asked for at `requested` and follows the entry `last`, for the
    /// entries `[from, to)`. Returns these, if they have the names and places that they had; else
    /// none, and nothing has changed.
    pub(crate) fn renew(
        &self,
        (from, to): (u32, u32),
        last: Option<&Last>,
        mut page: ListPage,
        requested: Instant,
    ) -> Vec<TakenChild> {
        let (count, is_last) = ((to - from) as usize, page.continuation.is_none());
        // What was a file, or its mark, before the page is a directory by now.
        let was_file = |entry: &Entry| {
            let name = name::of_key(&self.prefix, entry.key());
            matches!(entry, Entry::Prefix(_)) && last.is_some_and(|last| !last.directory && name == Some(&*last.name))
        };
        if page.entries.iter().any(was_file) {
            return Vec::new();
        }
        // A storage may begin before what it was asked for.
        let follows = |entry: &Entry| {
            let slash = matches!(entry, Entry::Prefix(_));
            let name = name::of_key(&self.prefix, entry.key());
            name.zip(last).is_none_or(|(name, last)| order((&last.name, last.directory), (name, slash)).is_lt())
        };
        page.entries.retain(follows);
        let new = Self::rest(&self.prefix, from, 0, last.map(|last| last.name.as_str()), Marks::default());
        let mut children = new.take(page, requested).children;
        // Behind the end nothing may follow, and nothing has before.
        let ends = { self.state.lock() }.ends_at(to);
        if children.len() < count
            || ends != (is_last && children.len() == count)
            || !self.is_like(&new, from, to - from)
        {
            return Vec::new();
        }
        let new = std::mem::take(&mut new.state.lock().pages);
        let state = &mut *self.state.lock();
        let at = state.pages.partition_point(|page| page.first < from);
        let old = state.pages[at..].iter_mut().take_while(|page| page.end() <= to);
        let mut renewed = 0;
        for (old, new) in old.zip(new) {
            let Some(mut new) = new.first_part(old.records.len()).filter(|new| new.first == old.first) else { break };
            new.identity_bytes = old.identity_bytes;
            state.bytes = (state.bytes + new.bytes()).saturating_sub(old.bytes());
            renewed += new.records.len();
            *old = new;
        }
        if ends && renewed == count {
            // Behind the last entry nothing is, as of now.
            state.gap = None;
        }
        children.truncate(if renewed == count { count } else { 0 });
        children
    }
}

impl Page {
    /// Its first entries, so many of them, if it has as many.
    fn first_part(mut self, count: usize) -> Option<Self> {
        if count < self.records.len() {
            let end = self.records.get(count.checked_sub(1)?)?.tag_end as usize;
            (self.text, self.records) = (self.text[..end].into(), self.records[..count].into());
        }
        (self.records.len() == count).then_some(self)
    }
}
