//! The readahead before on-demand readahead (2.6.20): two windows, for strictly sequential reads.
//!
//! ```text
//!  |<-- current -->|<---- ahead ---->|
//!       ^ reader    submitted when the reader enters current; current when it enters ahead
//! ```
//!
//! It hears every read. A read that does not follow the one before switches it off and is fetched
//! as it is. It does not look back: a page that was read ahead and evicted is fetched alone when a
//! read misses it, and makes the next window two pages smaller. A long run of cached pages
//! switches it off until a page is missing.
//!
//! Origin: the rules as the description of its successor states them (*readahead: on-demand
//! readahead logic*, 2007).

use foreread_policy::Extent;

use super::window::{initial, next};
use super::{Readahead, Trigger, View, Window};

/// One descriptor's windows, in pages.
#[derive(Debug)]
pub(crate) struct Linux2620 {
    pub(crate) max: u64,
    current: Extent,
    ahead: Extent,
    /// A page was missing since the last window.
    missed: bool,
    /// Pages of windows in a row that were cached already.
    cached: u64,
}

impl Linux2620 {
    pub(crate) fn new(max: u64) -> Self {
        Self { max, current: NOTHING, ahead: NOTHING, missed: false, cached: 0 }
    }

    fn submit(&mut self, view: View<'_>, extent: Extent, windows: &mut Vec<Window>) {
        let within = Extent::new(extent.start, extent.end.min(view.pages));
        let hole = view.cache.next_hole(view.file, within);
        self.cached = if hole >= within.end { self.cached + within.pages() } else { 0 };
        windows.push(Window { extent, mark: None });
    }

    fn read_piece(&mut self, view: View<'_>, read: Extent, follows: bool, windows: &mut Vec<Window>) {
        if !follows {
            (self.current, self.ahead) = (NOTHING, NOTHING);
            return windows.push(Window { extent: read, mark: None });
        }
        if self.cached >= CACHED_PAGES_MAX {
            (self.current, self.ahead) = (NOTHING, NOTHING);
            return;
        }
        if self.current.is_empty() || read.start > self.ahead.end.max(self.current.end) {
            self.current = Extent::new(read.start, read.start + initial(read.pages(), self.max).max(read.pages()));
            self.ahead = NOTHING;
            let current = self.current;
            self.submit(view, current, windows);
            if current.end > read.end {
                return;
            }
        }
        if !self.ahead.is_empty() && read.end > self.ahead.start {
            self.current = self.ahead;
            self.ahead = NOTHING;
        }
        if self.ahead.is_empty() {
            self.make_ahead(view, windows);
        }
    }

    /// The window after the current one.
    fn make_ahead(&mut self, view: View<'_>, windows: &mut Vec<Window>) {
        let size = self.current.pages();
        let size = if std::mem::take(&mut self.missed) {
            size.saturating_sub(SHRINK_PAGES).max(MIN_PAGES)
        } else {
            next(size, self.max)
        };
        self.ahead = Extent::new(self.current.end, self.current.end + size);
        self.submit(view, self.ahead, windows);
    }
}

impl Readahead for Linux2620 {
    const HEARS_EVERY_READ: bool = true;

    fn read(&mut self, view: View<'_>, read: Extent, trigger: Trigger, windows: &mut Vec<Window>) {
        if trigger != Trigger::Read {
            self.missed = true;
            self.cached = 0;
            return;
        }
        let mut follows = view.prev.map_or(read.start == 0, |prev| read.start == prev || read.start == prev + 1);
        // A read of more than the largest window is several to it.
        for start in (read.start..read.end).step_by(self.max as usize) {
            let piece = Extent::new(start, (start + self.max).min(read.end));
            self.read_piece(view, piece, follows, windows);
            follows = true;
        }
    }
}

const NOTHING: Extent = Extent::new(0, 0);

/// Pages by which the window shrinks after a miss. Origin: 2.6.20.
const SHRINK_PAGES: u64 = 2;

/// Pages of the smallest window: 16 KiB. Origin: 2.6.20.
const MIN_PAGES: u64 = 4;

/// This many cached pages in a row switch readahead off. Origin: 2.6.20.
const CACHED_PAGES_MAX: u64 = 256;
