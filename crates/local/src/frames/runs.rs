//! Which pages of a chunk are free, and where the runs of them are.
//!
//! ```text
//!   free    | 1 1 1 1 | 0 0 | 1 | 0 0 0 | 1 1 1 1 1 1 | 0 ..     longest run: 6
//!                             ^ first(1)  ^ first(5)
//! ```
//!
//! Source: a chunk has 512 pages, eight words: a search looks at each of them once.

/// Bytes of a page: every file system accepts it as the unit of offsets and lengths of direct
/// reads.
pub(crate) const FRAME_BYTES: usize = 4096;

/// Pages of the longest run of the arena, 128 KiB: a whole folio. Lower: folios come from the
/// allocator, which takes each from the kernel. Higher: fewer runs fit into what is free.
pub(super) const RUN_PAGES_MAX: usize = 32;

/// Pages of a chunk.
pub(super) const CHUNK_PAGES: usize = 512;

/// A set of pages of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pages([u64; WORDS]);

const WORDS: usize = CHUNK_PAGES / 64;

impl Pages {
    pub(super) const ALL: Self = Self([u64::MAX; WORDS]);
    pub(super) const NONE: Self = Self([0; WORDS]);

    pub(super) fn insert(&mut self, first: usize, count: usize) {
        each_word(first, count, |word, mask| self.0[word] |= mask);
    }

    pub(super) fn remove(&mut self, first: usize, count: usize) {
        each_word(first, count, |word, mask| self.0[word] &= !mask);
    }

    /// How many of the pages from `first` on are in the set.
    pub(super) fn count_of(&self, first: usize, count: usize) -> usize {
        let mut sum = 0;
        each_word(first, count, |word, mask| sum += (self.0[word] & mask).count_ones() as usize);
        sum
    }

    /// The run that begins first at or behind `from`: its first page, and the page behind it.
    pub(super) fn run(&self, from: usize) -> Option<(usize, usize)> {
        let first = self.next(from, 0)?;
        Some((first, self.next(first, u64::MAX).unwrap_or(CHUNK_PAGES)))
    }

    /// The first page from `from` on that is in the set, or with `flip` set, that is not.
    fn next(&self, from: usize, flip: u64) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = (self.0.get(word)? ^ flip) & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = self.0.get(word)? ^ flip;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The first page of the first run of at least `count`.
    pub(super) fn first(&self, count: usize) -> Option<usize> {
        let mut from = 0;
        while let Some((first, end)) = self.run(from) {
            if end - first >= count {
                return Some(first);
            }
            from = end;
        }
        None
    }

    /// Pages of the longest run, or `most` if that is longer.
    pub(super) fn longest(&self, most: usize) -> usize {
        let (mut from, mut longest) = (0, 0);
        while longest < most
            && let Some((first, end)) = self.run(from)
        {
            longest = longest.max(end - first);
            from = end;
        }
        longest.min(most)
    }
}

/// Calls `f` with each word that has some of `count` pages from `first` on, and their mask.
fn each_word(first: usize, count: usize, mut f: impl FnMut(usize, u64)) {
    let mut at = first;
    while at < first + count {
        let bits = (64 - at % 64).min(first + count - at);
        f(at / 64, (u64::MAX >> (64 - bits)) << (at % 64));
        at += bits;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_those_of_a_plain_list(changes in prop::collection::vec((0..CHUNK_PAGES, 1..70usize, any::<bool>()), 0..60)) {
            let (mut pages, mut plain) = (Pages::ALL, vec![true; CHUNK_PAGES]);
            for (first, count, insert) in changes {
                let count = count.min(CHUNK_PAGES - first);
                if insert { pages.insert(first, count) } else { pages.remove(first, count) }
                plain[first..first + count].fill(insert);
            }
            let runs: Vec<_> = plain.split(|free| !free).map(<[bool]>::len).collect();
            prop_assert_eq!(pages.longest(CHUNK_PAGES), runs.iter().copied().max().unwrap_or(0));
            for count in [1, 2, 32, 33, 512] {
                let first = plain.windows(count).position(|run| run.iter().all(|&free| free));
                prop_assert_eq!(pages.first(count), first);
            }
            let counted = plain[100..300].iter().filter(|&&free| free).count();
            prop_assert_eq!(pages.count_of(100, 200), counted);
        }
    }
}
