//! Writes: whether a page that a thread reads is expected to be written to; then it is mapped
//! dirty at once.
//!
//! ```text
//!                      written to later            only read
//!   mapped protected   a second fault              dropped without a write
//!   mapped dirty       no second fault             written to the spill file for nothing
//! ```
//!
//! A page is mapped dirty while more than half of the pages that were mapped protected were
//! written to before they left. One page in sixteen is mapped protected all the same, so that the
//! end of such a phase is seen.
//!
//! *Invariant:* every page reported here was mapped protected, and is reported once.
//!
//! This file knows no pages or threads: the share is one for the whole region. The write flag of a
//! stream is `readahead`'s. Source: docs/decisions/0032, point 6.

/// The share of protected pages that were written to.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// The share of the last protected pages that were written to, in 2^16ths.
    share_q16: u64,
    /// Calls of [`Writes::expected`].
    asked: u64,
}

impl Writes {
    /// Whether the next page that a thread reads is mapped unprotected.
    pub(crate) fn expected(&mut self) -> bool {
        self.asked += 1;
        self.share_q16 > HALF_Q16 && !self.asked.is_multiple_of(SAMPLE_EVERY)
    }

    /// A page that was mapped protected has been written to, or has left without a write.
    pub(crate) fn seen(&mut self, written: bool) {
        self.share_q16 -= self.share_q16 / MEAN_PAGES;
        self.share_q16 += if written { (2 * HALF_Q16) / MEAN_PAGES } else { 0 };
    }
}

/// The share above which writes are expected: one half, in 2^16ths. Lower: more pages that are
/// only read are written to the spill file. Higher: more first writes cost a second fault. Source:
/// docs/decisions/0032, point 6.
const HALF_Q16: u64 = 1 << 15;

/// Pages that the share is averaged over. Lower: the first writes decide, since a page that is
/// only read is counted when it leaves, and one that is written to is counted at once. Higher: a
/// change of the program is followed later. Source: a guess, not measured.
const MEAN_PAGES: u64 = 256;

/// One page in so many is mapped protected whatever is expected. Lower: more first writes cost a
/// second fault. Higher: the end of a phase of writes is seen later. Source: docs/decisions/0032,
/// point 6.
const SAMPLE_EVERY: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_expected_while_most_pages_are_written_to() {
        let mut writes = Writes::default();
        assert!(!writes.expected());
        (0..1_000).for_each(|_| writes.seen(true));
        let expected = (0..160).filter(|_| writes.expected()).count();
        assert_eq!(expected, 150);
        (0..1_000).for_each(|_| writes.seen(false));
        assert!((0..32).all(|_| !writes.expected()));
    }

    #[test]
    fn writes_to_a_third_of_the_pages_are_not_expected() {
        let mut writes = Writes::default();
        (0..3_000).for_each(|page| writes.seen(page % 3 == 0));
        assert!((0..32).all(|_| !writes.expected()));
    }
}
