//! Rules for the cluster: how many pages a fault swaps in.

pub(crate) mod fixed;
pub(crate) mod hits;

/// A rule for the size of clusters.
pub(crate) trait Rule {
    /// Pages of the aligned cluster around `slot`: a power of two.
    fn cluster(&mut self, slot: u64) -> u64;

    /// A page that was read as part of a cluster is touched.
    fn hit(&mut self) {}
}
