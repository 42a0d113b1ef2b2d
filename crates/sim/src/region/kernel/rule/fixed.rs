//! Always the same cluster: Linux before 2014, with eight pages unless it is told otherwise.

use super::Rule;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) pages: u64,
}

impl Rule for Fixed {
    fn cluster(&mut self, _slot: u64) -> u64 {
        self.pages
    }
}
