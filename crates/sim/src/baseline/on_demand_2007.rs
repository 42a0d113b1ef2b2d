//! On-demand readahead in its first form (2.6.23).
//!
//! ```text
//!   |<-- size -------------------->|
//!   |            |<-- async_size ->|
//!   start        mark              start + size, where the next window begins
//! ```
//!
//! Called on a missing page or a marked one, never on a hit. Four cases, in this order: a read
//! that the window expects pushes it forward; a small read that follows no other is random and
//! fetched as it is; a read at the start of the file, or a large one, gets a first window; a mark
//! of no known window gets a window that starts at the next hole.
//!
//! Origin: *readahead: on-demand readahead logic* (2007), as its description states the rules.

use foreread_policy::Extent;

use super::window::{initial, next};
use super::{Readahead, Trigger, View, Window};

/// One descriptor's window, in pages.
#[derive(Debug, Default)]
pub(crate) struct OnDemand2007 {
    pub(crate) max: u64,
    start: u64,
    size: u64,
    async_size: u64,
}

impl OnDemand2007 {
    pub(crate) fn new(max: u64) -> Self {
        Self { max, ..Self::default() }
    }

    fn submit(&self, windows: &mut Vec<Window>) {
        let end = self.start + self.size;
        windows.push(Window { extent: Extent::new(self.start, end), mark: Some(end - self.async_size) });
    }
}

impl Readahead for OnDemand2007 {
    fn read(&mut self, view: View<'_>, read: Extent, trigger: Trigger, windows: &mut Vec<Window>) {
        let (offset, req) = (read.start, read.pages());
        let end = self.start + self.size;
        if offset > 0 && (offset == end || offset + self.async_size == end) {
            self.start = end;
            self.size = next(self.size, self.max);
            self.async_size = self.size;
            return self.submit(windows);
        }
        // The page after the last one read, that page again, or the first of the file.
        let follows = view.prev.map_or(offset == 0, |prev| offset == prev || offset == prev + 1);
        if trigger == Trigger::Missing && !follows && req <= self.max {
            windows.push(Window { extent: read, mark: None });
            return;
        }
        self.start = offset;
        self.size = initial(req, self.max);
        self.async_size = if self.size > req { self.size - req } else { self.size };
        if trigger == Trigger::Marked {
            let within = Extent::new(offset + 1, (offset + 1 + self.max).min(view.pages));
            let hole = view.cache.next_hole(view.file, within);
            if hole >= within.end {
                return;
            }
            self.start = hole;
            self.size = next(hole - offset, self.max);
            self.async_size = self.size;
        }
        self.submit(windows);
    }
}
