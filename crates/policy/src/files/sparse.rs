//! Finds a reader that goes forward in small reads with gaps between them, of no common length: of
//! an archive's headers, or of the rows that an index names.
//!
//! ```text
//!   reads    [r]. . . .[r]. .[r]. . . . . . .[r]      each begins behind the one before it,
//!            |<------------- span ------------>|      and came once that one was there
//!
//!   six of them, span <= 16 x what they read ──> recognised: what lies ahead is read through
//! ```
//!
//! Such a reader waits a first byte for each read, and what it wants next is not known. What lies
//! between takes less time, where a gap is shorter than what the link carries meanwhile.
//!
//! *Invariant:* a chain is as long as the reads that showed it, and each of them belongs to one
//! run.
//!
//! The file does not say which run a read follows (`streams`) or what the link carries
//! (`queue::link`), and does not say how far is read ahead (`window`). Source:
//! docs/decisions/0087.

use crate::units::{Extent, FOLIO_PAGES_MAX};

/// Reads that go forward, each a short way behind the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Where the first of them begins.
    from: u64,
    /// How many there are.
    reads: u32,
    /// Pages that they read.
    pages: u64,
}

/// What a chain has shown of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sparse {
    /// Where it began.
    pub(crate) from: u64,
    /// Pages of one of its reads.
    pub(crate) record_pages: u64,
    /// Pages from one of its reads to the next.
    pub(crate) step_pages: u64,
}

impl Chain {
    /// One that begins with `read`.
    pub(crate) fn new(read: Extent) -> Self {
        Self { from: read.start, reads: 1, pages: read.pages() }
    }

    /// This one and a read of `pages`, behind a gap or where the last one ended.
    pub(crate) fn and(self, pages: u64, is_behind_gap: bool) -> Self {
        Self { reads: self.reads.saturating_add(is_behind_gap.into()), pages: self.pages + pages, ..self }
    }

    /// The reader that the chain shows where it ends at page `end`, if there is one.
    pub(crate) fn shows(self, end: u64) -> Option<Sparse> {
        let (span, reads) = (end.saturating_sub(self.from), u64::from(self.reads));
        let reader = Sparse { from: self.from, record_pages: self.pages / reads, step_pages: span / reads };
        let is_dense = span <= AMPLIFICATION_MAX * self.pages;
        (self.reads >= READS_MIN && is_dense && reader.record_pages <= RECORD_PAGES_MAX).then_some(reader)
    }
}

/// The longest gap before a read of `pages` of a file of `file_pages` that it may follow another
/// one across, in pages, where `later` runs were read after that one. Random reads seldom lie so
/// near.
pub(crate) fn gap_pages_max(pages: u64, file_pages: u64, later: u64) -> u64 {
    let rare = (1 + later) * (1 + later) * CHANCE;
    longest_gap(pages).min((file_pages / rare).saturating_sub(pages))
}

/// The longest gap that a reader of records of `record_pages` may jump over.
pub(crate) fn longest_gap(record_pages: u64) -> u64 {
    (GAP_MAX * record_pages).min(GAP_PAGES_MAX)
}

impl Sparse {
    /// Whether it read so much of `span` pages that reading through costs no more than it may. Of
    /// what is there only the first read of each folio is told: `folios` are the pages of those
    /// that it has read from. Where its reads lay nearer than that, two are taken to be in each.
    pub(crate) fn is_dense(self, span: u64, folios: impl Iterator<Item = u64>) -> bool {
        let records: u64 = folios.map(|pages| (pages / self.step_pages.max(1)).clamp(1, 2)).sum();
        // The folios at both ends of the span are partly in it.
        span <= AMPLIFICATION_MAX * (records + 2) * self.record_pages
    }

    /// Pages between two of its reads.
    pub(crate) fn gap_pages(self) -> u64 {
        self.step_pages.saturating_sub(self.record_pages)
    }
}

/// Reads that show the reader, each a short way behind the one before. Lower: random reads that
/// lie so by chance are read ahead for; with four the recording `sqlite-oltp` fetches 2.9 times
/// its bytes in place of 1.85. Higher: it waits for more of them. Source: docs/decisions/0087.
const READS_MIN: u32 = 6;

/// The most that is fetched for what is read where gaps are read through, those of progressions as
/// well. Lower: more requests for sparse records. Higher: a reader that changes its pattern has
/// fetched more in vain. Source: derived: bytes at 1 GB/s in place of requests at 5,500 a second,
/// for records of 4 KiB at up to 180 KB from each other, cut to what a user would accept to pay
/// for.
pub(crate) const AMPLIFICATION_MAX: u64 = 16;

/// The longest read, in pages: a folio. Lower: rows of a table are read one by one. Higher:
/// readers that go through a file one behind the other look like one with gaps, and
/// `fio-stream-plain` has 85 MB/s in place of 97. Source: the length of a folio.
const RECORD_PAGES_MAX: u64 = FOLIO_PAGES_MAX;

/// The longest gap, in lengths of a read. Lower: one long file in an archive hides its reader.
/// Higher: reads that have nothing to do with each other make a chain. Source: derived: twice the
/// mean that is allowed.
const GAP_MAX: u64 = 2 * AMPLIFICATION_MAX;

/// The longest gap of all, in pages: 512 KiB. Lower: as above. Higher: columns of a table that lie
/// behind each other are read with those between them. Source: a guess, not measured.
const GAP_PAGES_MAX: u64 = 128;

/// The chance, as one in so many, that a random read lies as near behind the run that was read
/// last, from which on it follows none. It falls with the square of the runs that were read since.
/// Lower: random reads of small files make chains. Higher: archives are to be larger. Source:
/// `cache-epochs`, records in random order: with 16 it fetched 2 % more.
const CHANCE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// What reads of `pages` at `starts` show, the last one of a chain of the others.
    fn shown(starts: &[u64], pages: u64) -> Option<Sparse> {
        let (&last, before) = starts.split_last().unwrap();
        let first = Chain::new(Extent::new(before[0], before[0] + pages));
        starts[1..].iter().fold(first, |chain, _| chain.and(pages, true)).shows(last + pages)
    }

    #[test]
    fn six_reads_that_are_dense_enough_show_a_reader() {
        let starts = [100, 130, 190, 195, 250, 300];
        let reader = Sparse { from: 100, record_pages: 3, step_pages: 203 / 6 };
        assert_eq!(shown(&starts, 3), Some(reader));
        assert_eq!(shown(&starts[1..], 3), None, "five of them");
        assert_eq!(shown(&starts, 2), None, "203 pages are more than 16 x 12");
    }

    #[test]
    fn what_random_reads_are_as_likely_to_show_shows_nothing() {
        assert_eq!(gap_pages_max(3, 1 << 20, 0), 96, "32 records");
        assert_eq!(gap_pages_max(3, 1 << 20, 15), 61, "one of 16 readers");
        assert_eq!(gap_pages_max(3, 640, 0), 7, "a small file");
        assert_eq!(gap_pages_max(3, 100, 0), 0);
    }

    #[test]
    fn the_folios_that_it_read_from_say_how_dense_its_reads_are() {
        let reader = Sparse { from: 0, record_pages: 3, step_pages: 40 };
        let folios = |count: usize| core::iter::repeat_n(32, count);
        assert!(reader.is_dense(512, folios(9)), "one record in each");
        assert!(!reader.is_dense(512, folios(8)));
        let near = Sparse { from: 0, record_pages: 1, step_pages: 8 };
        assert!(near.is_dense(512, folios(15)), "two records in each");
        assert!(!near.is_dense(512, folios(13)));
    }
}
