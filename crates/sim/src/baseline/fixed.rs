//! A window of one size, always: a client whose only setting is a block size.

use foreread_policy::Extent;

use super::{Readahead, Trigger, View, Window};

/// Fetches the aligned blocks that a read touches.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) block_pages: u64,
}

impl Readahead for Fixed {
    fn read(&mut self, _: View<'_>, read: Extent, _: Trigger, windows: &mut Vec<Window>) {
        let start = read.start / self.block_pages * self.block_pages;
        let end = read.end.next_multiple_of(self.block_pages);
        windows.push(Window { extent: Extent::new(start, end), mark: None });
    }
}
