//! A constant cluster: Linux before 2014, eight pages by default.

use super::{Cluster, Rule};

/// A constant cluster.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) pages: u64,
}

impl Rule for Fixed {
    fn cluster(&mut self, _page: u64, _slot: u64) -> Cluster {
        Cluster::Slots(self.pages)
    }
}
