//! A cluster that follows the hits in earlier clusters: the detector of unfit swap readahead (2012
//! to 2014).
//!
//! ```text
//!   hits since the last decision        size
//!   0, next to the last slot like that  2
//!   0                                   1
//!   n                                   n + 2, rounded up to a power of two, at least 4
//!   never more than the cap; in its last form never less than half of the last size
//! ```
//!
//! The last slot is that of the last decision without hits: only such a decision asks for it.

use super::{Cluster, Rule};

/// A cluster that follows its hits.
#[derive(Debug)]
pub(crate) struct Hits {
    cap: u64,
    /// The last form: a cluster shrinks by half at most.
    halved: bool,
    used: u64,
    /// The slot of the last decision without hits.
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
    fn cluster(&mut self, _: u64, slot: u64) -> Cluster {
        let hits = std::mem::take(&mut self.used);
        let least = if self.halved { self.last_size / 2 } else { 0 };
        self.last_size = size(hits, slot.abs_diff(self.last_slot) == 1, self.cap).max(least);
        if hits == 0 {
            self.last_slot = slot;
        }
        Cluster::Slots(self.last_size)
    }

    fn found(&mut self, _: u64, hit: bool) {
        self.used += u64::from(hit);
    }
}

/// The size of a cluster after so many hits; `adjacent`: the fault is next to the one that it is
/// compared with.
pub(super) fn size(hits: u64, adjacent: bool, cap: u64) -> u64 {
    let wanted = match hits {
        0 if adjacent => 2,
        0 => 1,
        hits => (hits + 2).next_power_of_two().max(4),
    };
    wanted.min(cap)
}

/// Hits assumed before the first decision. Origin: the patch of 2012.
pub(super) const HITS_FIRST: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of clusters at these slots, without hits.
    fn sizes(rule: &mut Hits, slots: &[u64]) -> Vec<u64> {
        let size = |&slot: &u64| match rule.cluster(0, slot) {
            Cluster::Slots(size) => size,
            Cluster::Pages(pages) => panic!("{pages:?}"),
        };
        slots.iter().map(size).collect()
    }

    #[test]
    fn the_cluster_is_the_hits_and_two_more() {
        let mut rule = Hits::new(8, false);
        assert_eq!(sizes(&mut rule, &[100, 200, 199]), [8, 1, 2]);
        rule.found(0, true);
        rule.found(0, false);
        assert_eq!(sizes(&mut rule, &[300]), [4]);
        (0..7).for_each(|_| rule.found(0, true));
        assert_eq!(sizes(&mut rule, &[300]), [8]);
    }

    #[test]
    fn a_decision_with_hits_is_no_place_to_be_next_to() {
        let mut rule = Hits::new(8, false);
        assert_eq!(sizes(&mut rule, &[100, 200]), [8, 1]);
        rule.found(0, true);
        assert_eq!(sizes(&mut rule, &[300, 301]), [4, 1], "300 was read for its hits");
        assert_eq!(sizes(&mut rule, &[302]), [2]);
    }

    #[test]
    fn the_last_form_shrinks_by_half() {
        let mut rule = Hits::new(8, true);
        assert_eq!(sizes(&mut rule, &[0, 100, 200, 300, 400]), [8, 4, 2, 1, 1]);
    }

    #[test]
    fn a_cap_of_one_reads_single_pages() {
        let mut rule = Hits::new(1, false);
        assert_eq!(sizes(&mut rule, &[5, 6]), [1, 1]);
    }
}
