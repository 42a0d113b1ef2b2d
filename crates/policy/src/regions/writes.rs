//! Whether a page that a thread reads will be written to: then it is mapped as if it had been.
//!
//! A page that is mapped protected tells of its first write, which costs a second fault. One that is not has to be written to the spill file when it
//! leaves, whether it was changed or not. Where most of what was mapped protected is written to before it leaves, the first write is not waited for;
//! one page of sixteen is mapped protected all the same, so that the end of it is seen.

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Of the last pages that were mapped protected, those written to: of 2^16.
    share_q16: u64,
    asked: u64,
}

impl Writes {
    /// Whether the next page that nobody has written to is mapped unprotected.
    pub(crate) fn expected(&mut self) -> bool {
        self.asked += 1;
        self.share_q16 > HALF_Q16 && !self.asked.is_multiple_of(SAMPLE_EVERY)
    }

    /// A page that was mapped protected has been written to, or has left without.
    pub(crate) fn seen(&mut self, written: bool) {
        self.share_q16 -= self.share_q16 / MEAN_OF;
        self.share_q16 += if written { (2 * HALF_Q16) / MEAN_OF } else { 0 };
    }
}

/// One half.
const HALF_Q16: u64 = 1 << 15;

/// The share is that of about so many pages. Those that are written to tell of it at once, those that are not when they leave: with fewer, the
/// first ones would decide.
const MEAN_OF: u64 = 256;

/// One of so many pages is mapped protected whatever is expected.
const SAMPLE_EVERY: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_is_mapped_so_until_it_is_not_any_more() {
        let mut writes = Writes::default();
        assert!(!writes.expected());
        (0..1_000).for_each(|_| writes.seen(true));
        let expected = (0..160).filter(|_| writes.expected()).count();
        assert_eq!(expected, 150);
        (0..1_000).for_each(|_| writes.seen(false));
        assert!((0..32).all(|_| !writes.expected()));
    }

    #[test]
    fn one_page_in_three_is_not_most() {
        let mut writes = Writes::default();
        (0..3_000).for_each(|page| writes.seen(page % 3 == 0));
        assert!((0..32).all(|_| !writes.expected()));
    }
}
