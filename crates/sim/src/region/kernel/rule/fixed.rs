//! A constant cluster: Linux before 2014, eight pages by default.

use super::Rule;

/// A constant cluster.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) pages: u64,
}

impl Rule for Fixed {
    fn cluster(&mut self, _slot: u64) -> u64 {
        self.pages
    }
}
