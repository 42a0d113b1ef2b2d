//! The reads of all readers in the order in which they were recorded, and when each may begin.
//!
//! ```text
//!   recorded   A1  A2  B1  A3  C1  ...      C has no read before C1, and B none after it:
//!                               ^           C1 waits until B has been answered. A goes on, and C
//!                                           does not wait for it.
//! ```
//!
//! A program runs one command after the other, or starts threads for each part of its work. On
//! slower storage than that of the recording each part takes longer, and the next one must not
//! begin meanwhile. A recording does not tell what waited for what, so a reader that begins waits
//! for all that had ended. What comes after its first read waits as well.
//!
//! *Invariant:* memory grows with the number of readers, not with the number of reads.

use foreread_workload::Op;

/// The recorded reads that are to come.
pub(crate) struct Together<'w> {
    reads: Box<dyn Iterator<Item = (u32, Op)> + 'w>,
    coming: Option<(u32, Op)>,
    /// How many reads each reader has that were not given to it, and whether it has had one.
    left: Vec<(u64, bool)>,
    /// Readers that have been given their last read, and not all answers.
    ending: usize,
}

impl<'w> Together<'w> {
    /// The `reads` of readers that have so many each.
    pub(crate) fn new(reads_of: Vec<u64>, reads: Box<dyn Iterator<Item = (u32, Op)> + 'w>) -> Self {
        let left = reads_of.into_iter().map(|reads| (reads, false)).collect();
        let mut together = Self { reads, coming: None, left, ending: 0 };
        together.come();
        together
    }

    fn come(&mut self) {
        self.coming = self.reads.next();
    }

    /// No read begins at `until_ns` or later: they come in the order of time.
    pub(crate) fn end_at(&mut self, until_ns: u64) {
        self.coming = self.coming.take_if(|(_, op)| op.not_before_ns < until_ns);
    }

    /// Whether more is to come.
    pub(crate) fn goes_on(&self) -> bool {
        self.coming.is_some()
    }

    /// When the next read may begin, if it waits for no reader.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let (reader, op) = self.coming?;
        let has_begun = self.left.get(reader as usize).is_none_or(|&(_, begun)| begun);
        (has_begun || self.ending == 0).then_some(op.not_before_ns)
    }

    /// The next read, if it may begin.
    pub(crate) fn next(&mut self, now_ns: u64) -> Option<(usize, Op)> {
        self.due_ns().filter(|&due_ns| due_ns <= now_ns)?;
        let (reader, op) = self.coming?;
        self.come();
        if let Some((left, begun)) = self.left.get_mut(reader as usize) {
            *left = left.saturating_sub(1);
            *begun = true;
            self.ending += usize::from(*left == 0);
        }
        Some((reader as usize, op))
    }

    /// `reader` has all answers to what it was given. Returns whether it has ended.
    pub(crate) fn rests(&mut self, reader: usize) -> bool {
        let has_ended = self.left.get(reader).is_some_and(|&(left, begun)| left == 0 && begun);
        self.ending -= usize::from(has_ended);
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_begins_when_those_before_it_have_ended() {
        let op = |at_ns| Op { file: 0, offset: 0, len: 1, not_before_ns: at_ns };
        let reads = [(0, op(1)), (1, op(2)), (0, op(3)), (2, op(4)), (0, op(5))];
        let mut together = Together::new(vec![3, 1, 1], Box::new(reads.into_iter()));
        assert_eq!(together.next(0), None, "before its time");
        let given: Vec<_> = std::iter::from_fn(|| together.next(9)).map(|(reader, _)| reader).collect();
        assert_eq!(given, [0, 1, 0]);
        assert!(!together.rests(0), "it goes on");
        assert_eq!(together.due_ns(), None, "reader 1 has no answer");
        assert!(together.rests(1));
        let given: Vec<_> = std::iter::from_fn(|| together.next(9)).map(|(reader, _)| reader).collect();
        assert_eq!(given, [2, 0]);
        assert!(!together.goes_on());
    }
}
