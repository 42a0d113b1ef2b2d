//! AMP, adaptive multi-stream prefetching: each stream learns how much to read ahead, and when.
//!
//! ```text
//!   |<------------- p pages ------------->|
//!   |                        |<--- g ---->|
//!                            trigger: reading it asks for the next p
//! ```
//!
//! `p` grows when the last page that was read ahead is read, and shrinks when a page of the stream
//! is evicted unread. `g` grows when a reader waits for a page that was read ahead, and never
//! exceeds `p`. So in a small cache each stream settles at the largest `p` whose pages survive
//! until they are read.
//!
//! Origin: Gill and Bathen, *AMP: Adaptive Multi-stream Prefetching in a Shared Cache* (FAST
//! 2007).

use foreread_policy::Extent;

use super::window::initial;
use super::{Readahead, Trigger, View, Window};

/// One descriptor's stream, in pages.
#[derive(Debug)]
pub(crate) struct Amp {
    max: u64,
    p: u64,
    g: u64,
    /// The end of the pages read ahead; 0 without a stream.
    end: u64,
}

impl Amp {
    pub(crate) fn new(max: u64) -> Self {
        Self { max, p: 0, g: 0, end: 0 }
    }
}

impl Readahead for Amp {
    const HEARS_EVERY_READ: bool = true;

    fn read(&mut self, view: View<'_>, read: Extent, trigger: Trigger, windows: &mut Vec<Window>) {
        let follows = view.prev.map_or(read.start == 0, |prev| read.start == prev || read.start == prev + 1);
        if !follows {
            self.end = 0;
            return windows.push(Window { extent: read, mark: None });
        }
        if trigger == Trigger::Missing {
            // Evicted unread, or never read ahead: fetch the rest of the read at once.
            return windows.push(Window { extent: read, mark: None });
        }
        if self.end < read.end {
            self.p = if self.p == 0 { initial(read.pages(), self.max) } else { self.p };
            self.end = read.start + self.p.max(read.pages());
            return windows.push(Window { extent: Extent::new(read.start, self.end), mark: None });
        }
        if (read.start..read.end).any(|page| view.cache.is_in_flight(view.file, page)) {
            self.g = (self.g + read.pages()).min(self.p.saturating_sub(1));
        }
        if read.end == self.end {
            self.p = (self.p + read.pages()).min(self.max);
        }
        if read.end + self.g >= self.end && self.end < view.pages {
            let extent = Extent::new(self.end, self.end + self.p);
            self.end = extent.end;
            windows.push(Window { extent, mark: None });
        }
    }

    fn wasted(&mut self, _: u64) {
        self.p = self.p.saturating_sub(1).max(1);
        self.g = self.g.min(self.p - 1);
    }
}
