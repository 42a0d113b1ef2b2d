//! On-demand readahead as it is today (6.x).
//!
//! As in 2007, with one more case: for a missing page that follows no read, it looks at the cached
//! pages just before it. If there are more of them than the read asks for, they belong to a stream
//! whose window was lost or never known. So it finds interleaved streams on one descriptor.
//!
//! Origin: the rules as the project's notes on mainline state them; windows as in 2007.

use foreread_policy::Extent;

use super::window::{initial, next};
use super::{Readahead, Trigger, View, Window};

/// One descriptor's window, in pages.
#[derive(Debug, Default)]
pub(crate) struct Linux {
    pub(crate) max: u64,
    start: u64,
    size: u64,
    async_size: u64,
}

impl Linux {
    pub(crate) fn new(max: u64) -> Self {
        Self { max, ..Self::default() }
    }

    fn submit(&self, windows: &mut Vec<Window>) {
        let end = self.start + self.size;
        windows.push(Window { extent: Extent::new(self.start, end), mark: Some(end - self.async_size) });
    }
}

impl Readahead for Linux {
    fn read(&mut self, view: View<'_>, read: Extent, trigger: Trigger, windows: &mut Vec<Window>) {
        let (index, req) = (read.start, read.pages());
        let end = self.start + self.size;
        let expected = index > 0 && (index == end || index + self.async_size == end);
        if expected {
            self.start = end;
            self.size = next(self.size, self.max);
            self.async_size = self.size;
        } else if trigger == Trigger::Marked {
            let within = Extent::new(index + 1, (index + 1 + self.max).min(view.pages));
            let hole = view.cache.next_hole(view.file, within);
            if hole >= within.end {
                return;
            }
            self.start = hole;
            self.size = next(hole - index + req, self.max);
            self.async_size = self.size;
        } else if index == 0 || req > self.max || view.prev.is_some_and(|prev| index == prev || index == prev + 1) {
            self.start = index;
            self.size = initial(req, self.max);
            self.async_size = if self.size > req { self.size - req } else { self.size / 2 };
        } else {
            let mut before = view.cache.run_before(view.file, index, self.max);
            if before <= req {
                windows.push(Window { extent: read, mark: None });
                return;
            }
            if before >= index {
                before *= 2;
            }
            self.start = index;
            self.size = (before + req).min(self.max);
            self.async_size = 1;
        }
        self.submit(windows);
    }
}
