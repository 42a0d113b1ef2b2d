//! No readahead: each read is fetched as it is.

use foreread_policy::Extent;

use super::{Readahead, Trigger, View, Window};

/// Fetches missing pages of the read, and no others.
#[derive(Debug, Default)]
pub(crate) struct NoReadahead;

impl Readahead for NoReadahead {
    fn read(&mut self, _: View<'_>, read: Extent, _: Trigger, windows: &mut Vec<Window>) {
        windows.push(Window { extent: read, mark: None });
    }
}
