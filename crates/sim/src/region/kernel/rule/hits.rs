//! A cluster that follows the hits in earlier clusters: the detector of unfit swap readahead (2012
//! to 2014).
//!
//! ```text
//!   hits since the last decision     size
//!   0, next to the last slot         2
//!   0                                1
//!   n                                n + 2, rounded up to a power of two, at least 4
//!   never more than the cap; in its last form never less than half of the last size
//! ```

use super::Rule;

/// A cluster that follows its hits.
#[derive(Debug)]
pub(crate) struct Hits {
    cap: u64,
    /// The last form: a cluster shrinks by half at most.
    halved: bool,
    used: u64,
    last_slot: u64,
    last_size: u64,
}

impl Hits {
    /// Clusters of at most `cap` pages; `halved`: they shrink by half at most.
    pub(crate) fn new(cap: u64, halved: bool) -> Self {
        Self { cap, halved, used: HITS_FIRST, last_slot: 0, last_size: 0 }
    }
}

impl Rule for Hits {
    fn cluster(&mut self, slot: u64) -> u64 {
        let hits = std::mem::take(&mut self.used);
        let wanted = match hits {
            0 if slot.abs_diff(self.last_slot) == 1 => 2,
            0 => 1,
            hits => (hits + 2).next_power_of_two().max(4),
        };
        let least = if self.halved { self.last_size / 2 } else { 0 };
        self.last_size = wanted.min(self.cap).max(least);
        self.last_slot = slot;
        self.last_size
    }

    fn hit(&mut self) {
        self.used += 1;
    }
}

/// Hits assumed before the first decision. Origin: the patch of 2012.
const HITS_FIRST: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_is_the_hits_and_two_more() {
        let mut rule = Hits::new(8, false);
        assert_eq!(rule.cluster(100), 8);
        assert_eq!(rule.cluster(200), 1);
        assert_eq!(rule.cluster(199), 2);
        rule.hit();
        assert_eq!(rule.cluster(300), 4);
        (0..7).for_each(|_| rule.hit());
        assert_eq!(rule.cluster(300), 8);
    }

    #[test]
    fn the_last_form_shrinks_by_half() {
        let mut rule = Hits::new(8, true);
        let sizes: Vec<_> = (0..5).map(|n| rule.cluster(n * 100)).collect();
        assert_eq!(sizes, [8, 4, 2, 1, 1]);
    }

    #[test]
    fn a_cap_of_one_reads_single_pages() {
        let mut rule = Hits::new(1, false);
        assert_eq!([rule.cluster(5), rule.cluster(6)], [1, 1]);
    }
}
