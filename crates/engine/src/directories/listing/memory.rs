//! What a listing takes, and how its entries go.
//!
//! ```text
//!   trim, release ──> Gone: pages that no reader sees ──> their directories, some at a time
//! ```
//!
//! A page may name a thousand directories whose numbers are to be let go, and a listing may have
//! thousands of pages. The caller has a lock that readers wait for, so it goes through them in
//! steps ([`Gone::directories`]).
//!
//! The file does not decide what goes: policy does.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Listing, State};
use crate::directories::listing::by_name::ByName;
use crate::directories::listing::page::{Kind, Page};
use crate::directories::marks::Marks;

/// Pages that were forgotten.
#[derive(Debug)]
pub(crate) struct Gone {
    prefix: Arc<str>,
    pages: VecDeque<Page>,
    /// Entries of the first one that were gone through.
    at: usize,
}

impl Gone {
    /// Calls `each` with the prefixes of its next directories, and goes through `most` entries at
    /// most. Returns how many were left of these.
    pub(crate) fn directories(&mut self, most: usize, mut each: impl FnMut(&str)) -> usize {
        let (mut prefix, mut left) = (String::new(), most);
        while let Some(page) = self.pages.front().filter(|_| left > 0) {
            let has_any = page.identity_bytes > 0;
            if has_any && !matches!(page.records[self.at].kind, Kind::File { .. }) {
                prefix.clear();
                prefix.extend([&self.prefix, page.name(self.at), "/"]);
                each(&prefix);
            }
            (self.at, left) = (self.at + 1, left - 1);
            if self.at == page.records.len() || !has_any {
                self.pages.pop_front();
                self.at = 0;
            }
        }
        left
    }

    /// Whether all of it was gone through.
    pub(crate) fn is_over(&self) -> bool {
        self.pages.is_empty()
    }
}

impl Listing {
    /// Forgets the pages before the one with the entry at `to`. If there were any, the caller
    /// wakes the readers, once it has no lock.
    pub(crate) fn trim(&self, to: u32) -> Option<Gone> {
        let pages = {
            let state = &mut *self.state.lock();
            let count = state.pages.partition_point(|page| page.end() <= to);
            let gone = state.pages.drain(..count).collect::<VecDeque<_>>();
            state.gone = gone.back()?.end();
            for page in gone.iter().filter(|_| state.sorted) {
                state.marks.add(page.end(), page.key(page.records.len() - 1));
            }
            state.bytes -= gone.iter().map(Page::bytes).sum::<u64>();
            if state.pages.is_empty() {
                (state.pages, state.by_name) = (Vec::new(), ByName::from(state.gone));
            } else {
                state.by_name.forget(state.gone);
            }
            gone
        };
        Some(Gone { prefix: Arc::clone(&self.prefix), pages, at: 0 })
    }

    /// Forgets all that has come, and where names were. A reader goes on after the last name that
    /// it was given.
    pub(crate) fn release(&self) -> Option<Gone> {
        let gone = self.trim(u32::MAX);
        self.state.lock().marks = Marks::default();
        gone
    }

    /// Memory that it takes, in bytes, but for what each listing takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().memory()
    }
}

impl State {
    /// Memory that its entries and its marks take, in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.bytes + self.marks.bytes() + self.by_name.places.allocation_size() as u64
    }
}
