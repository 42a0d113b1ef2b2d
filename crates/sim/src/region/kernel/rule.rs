//! How many pages are swapped in at once: a rule each.

pub(crate) mod fixed;
pub(crate) mod hits;

/// Hears what is swapped in, and says how much.
pub(crate) trait Rule {
    /// Pages of the aligned cluster of slots that is read around `slot`: a power of two.
    fn cluster(&mut self, slot: u64) -> u64;

    /// A page that was read along with another is touched.
    fn hit(&mut self) {}
}
