//! How far a kernel should read ahead of a program in a mount.
//!
//! ```text
//!   budget    below 128 MiB    128 MiB   256 MiB   512 MiB   1 GiB and more
//!   window    the kernel's     512 KiB   1 MiB     2 MiB     4 MiB
//!
//!   a file of column chunks: as long as the longest, up to 16 MiB and an eighth of the budget
//! ```
//!
//! What a kernel reads ahead arrives as demand: policy cannot refuse it, and many streams have a
//! window each. So windows grow with the budget: those of 256 streams fill it.
//!
//! A program reads a column chunk by one call, or in a few. A call that is longer than the window
//! is the start of a stream to a kernel: it reads one to two windows more behind its end. One that
//! is no longer is read as it is. So files of chunks have windows that hold a chunk.
//!
//! Where programs read a part in pieces of 128 KiB or so, all of them are a stream to a kernel: a
//! longer window is read past the end of each part, and brings nothing sooner where the part is
//! fetched whole with its first piece. So such files have a window that holds such a piece.
//!
//! Where the window cannot be set, a mount may give a kernel more than it asks for: all that its
//! program reads by the call that a window begins.
//!
//! This file does not set a window: a mount does, where it is permitted, and for each file as it
//! is opened. Source: `mm/readahead.c` of Linux 6.18; docs/decisions/0058, 0101, 0111.

use crate::units::PAGE_BYTES;

/// What is known of the column chunks of a file when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunks {
    /// Nothing says that it has any.
    None,
    /// Its name says so.
    Named,
    /// Its footer has said how long they are.
    Of(Lengths),
    /// Its name or its directory says that it has parts that programs read in short pieces.
    Pieces,
}

impl Chunks {
    /// Chunks of these lengths, in bytes.
    pub fn of(lengths: impl Iterator<Item = u64>) -> Self {
        let mut longest = [0; CLASSES];
        for bytes in lengths.filter(|&bytes| bytes <= CHUNK_WINDOW_BYTES_MAX) {
            let class = &mut longest[(bytes | 1).ilog2() as usize];
            *class = (*class).max(bytes as u32);
        }
        Self::Of(Lengths { longest })
    }

    /// What to expect of a file: what its directory has said (`own`), or what its name says. Where
    /// that says that it has chunks, those are as the `latest` footer of another file said.
    pub fn expected(own: Option<Self>, named: Self, latest: Option<Self>) -> Self {
        let guess = if named == Self::Named { latest.unwrap_or(named) } else { named };
        own.unwrap_or(guess)
    }

    /// Whether its footer has named some that the longest window would hold.
    pub fn fit_a_window(&self) -> bool {
        matches!(self, Self::Of(lengths) if lengths.within(CHUNK_WINDOW_BYTES_MAX) > 0)
    }
}

/// How long the chunks of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// The longest of each power of two, in bytes; 0 where there is none.
    longest: [u32; CLASSES],
}

impl Lengths {
    /// The longest that is no longer than `most`; 0 where all are.
    fn within(&self, most: u64) -> u64 {
        self.longest.iter().map(|&bytes| u64::from(bytes)).filter(|&bytes| bytes <= most).max().unwrap_or(0)
    }
}

/// The window to ask a kernel for, in bytes, a multiple of 4 KiB; `None` where the kernel's own is
/// to stay.
pub fn kernel_window_bytes(budget_bytes: u64, chunks: Chunks) -> Option<u64> {
    let most = most(budget_bytes);
    let chunk = match chunks {
        Chunks::None => 0,
        Chunks::Named => CHUNK_BYTES.min(most),
        Chunks::Of(lengths) => lengths.within(most),
        Chunks::Pieces => return Some(PIECE_BYTES + PAGE_BYTES),
    };
    // It may begin and end within a page.
    let chunk = if chunk == 0 { 0 } else { chunk.next_multiple_of(PAGE_BYTES) + PAGE_BYTES };
    let share = (budget_bytes / STREAMS).min(WINDOW_BYTES_MAX);
    let stream = if share < WINDOW_BYTES_MIN { 0 } else { 1 << share.ilog2() };
    Some(stream.max(chunk)).filter(|&bytes| bytes >= WINDOW_BYTES_MIN)
}

/// Whether a kernel's request for so many pages may be the first window of a longer read.
pub fn may_begin_call(pages: u64) -> bool {
    CALL_WINDOWS.contains(&pages)
}

/// The most pages of a chunk that a program is taken to read by one call.
pub(crate) fn call_pages_max(budget_bytes: u64) -> u64 {
    most(budget_bytes).min(CALL_BYTES_MAX) / PAGE_BYTES
}

/// The longest window for a chunk, in bytes.
fn most(budget_bytes: u64) -> u64 {
    CHUNK_WINDOW_BYTES_MAX.min(budget_bytes / READERS)
}

/// Streams whose windows fill the budget. Lower: a few hundred slow streams evict what they have
/// not read: 200 in 64 MiB with windows of 4 MiB fetched 3.8 times what they read. Higher: a
/// column chunk comes in several windows. Source: docs/decisions/0058.
const STREAMS: u64 = 256;

/// Readers of chunks whose windows fill the budget. Lower: a few readers in little memory evict
/// what they have not read. Higher: chunks of a few MiB are read past in little memory. Source:
/// docs/decisions/0101.
const READERS: u64 = 8;

/// The least window that is asked for, in bytes. Lower: small budgets have longer windows, which
/// spare no round trip of a usual column chunk. Higher: fewer mounts read chunks at once. Source:
/// a guess, not measured.
const WINDOW_BYTES_MIN: u64 = 512 << 10;

/// The longest window of a file that has no chunks, in bytes. Lower: a large read of a program is
/// cut into pieces that wait for one another. Higher: the kernel asks for more that is not read,
/// above all around the first hundred faults of a mapping, and one sequential reader is slower.
/// Source: measured with columns, one and two sequential readers; docs/decisions/0058.
const WINDOW_BYTES_MAX: u64 = 4 << 20;

/// The longest window for a chunk, in bytes. Lower: chunks of row groups of a million rows are
/// read past. Higher: a program that reads such a file in small pieces, or maps it, has more
/// fetched in vain. What is read past a longer chunk is little for its length. Source:
/// docs/decisions/0101.
const CHUNK_WINDOW_BYTES_MAX: u64 = 16 << 20;

/// The longest chunk that is read at once where a kernel's window is shorter, in bytes. Lower:
/// what is read past more chunks is fetched. Higher: a program waits for more before it is given
/// the first bytes. Source: the longest single read of the engine.
const CALL_BYTES_MAX: u64 = 8 << 20;

/// Pages of a window that may begin a longer call. A kernel whose windows have 32 pages asks for
/// as many where a program reads more than 8. A window of more than 256 pages comes in requests of
/// 256, and those behind the first are under way. Lower: a read that is shorter than a chunk has
/// all of the chunk fetched; the kernel is given what it is asking for. Higher: the kernel's own
/// window is taken for all that a program reads. Source: `get_init_ra_size` and FUSE's
/// `max_pages` of Linux 6.18.
const CALL_WINDOWS: core::ops::Range<u64> = 32..256;

/// The piece that a program reads of a part, in bytes. Lower: a kernel takes each piece for the
/// start of a stream: of 40 members of 100 kB in an archive, 23 MB were fetched. Higher: more is
/// read past the end of each part: of 15.6 MB of arrays, 17.3 MB come with this one, 19 with 256
/// KiB and 51 with 4 MiB. Source: measured; the buffer that Python has for a file of a mount.
const PIECE_BYTES: u64 = 128 << 10;

/// Classes of lengths. Lower: the longest chunks would have none. Higher: some would stay empty.
/// Source: derived: the powers of two from a byte to [`CHUNK_WINDOW_BYTES_MAX`].
const CLASSES: usize = CHUNK_WINDOW_BYTES_MAX.ilog2() as usize + 1;

/// How long chunks are taken to be before a footer was seen, in bytes. Lower: the first file of a
/// mount is read past its chunks. Higher: as above. Source: eight bytes for each of the million
/// rows that pyarrow writes in a group; docs/decisions/0101.
const CHUNK_BYTES: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn windows_of_256_streams_fit_in_any_budget() {
        for mib in [1, 16, 64, 100, 127] {
            assert_eq!(kernel_window_bytes(mib * MIB, Chunks::None), None, "{mib} MiB");
        }
        for (mib, kib) in [(128, 512), (255, 512), (256, 1024), (1000, 2048), (1024, 4096), (1 << 20, 4096)] {
            assert_eq!(kernel_window_bytes(mib * MIB, Chunks::None), Some(kib << 10), "{mib} MiB");
        }
    }

    #[test]
    fn a_window_of_a_user_may_begin_a_call_and_part_of_a_longer_one_does_not() {
        assert_eq!([31, 32, 255, 256].map(may_begin_call), [false, true, true, false]);
        assert_eq!([1, 16, 32, 1 << 20].map(|mib| call_pages_max(mib * MIB) * PAGE_BYTES / MIB), [0, 2, 4, 8]);
    }

    fn of(chunks: &[u64]) -> Chunks {
        Chunks::of(chunks.iter().copied())
    }

    #[test]
    fn a_window_holds_the_longest_chunk_that_8_readers_have_memory_for() {
        let window = |mib: u64, chunk| kernel_window_bytes(mib * MIB, of(&[chunk]));
        for chunk in [5 * MIB, 9 * MIB + 1, 16 * MIB] {
            let bytes = window(256, chunk).expect("a window");
            assert!((chunk + 4095..chunk + 3 * 4096).contains(&bytes) && bytes % 4096 == 0, "{bytes} for {chunk}");
        }
        assert_eq!(window(256, 17 * MIB), window(256, 0));
        assert_eq!(window(64, 9 * MIB), None);
        assert!(window(64, 8 * MIB) > Some(8 * MIB));
        assert_eq!(window(1024, 300 << 10), Some(4 * MIB), "never less than another file has");
        assert_eq!(window(64, 300 << 10), None, "the kernel's own holds most of it");
    }

    #[test]
    fn chunks_that_no_window_holds_do_not_count() {
        let chunks = of(&[60 * MIB, 3 * MIB, 14 * MIB]);
        assert_eq!(kernel_window_bytes(1024 * MIB, chunks), Some(14 * MIB + 4096));
        assert_eq!(kernel_window_bytes(64 * MIB, chunks), Some(3 * MIB + 4096), "the same file in less memory");
        assert!(!of(&[60 * MIB]).fit_a_window() && chunks.fit_a_window());
    }

    #[test]
    fn a_file_that_is_read_in_pieces_has_a_window_that_holds_one() {
        assert_eq!([64, 1024].map(|mib| kernel_window_bytes(mib * MIB, Chunks::Pieces)), [Some(132 << 10); 2]);
        let latest = Some(of(&[5 * MIB]));
        assert_eq!(Chunks::expected(None, Chunks::Pieces, latest), Chunks::Pieces, "another format's");
        assert_eq!(Chunks::expected(None, Chunks::Named, latest), of(&[5 * MIB]));
        assert_eq!(Chunks::expected(Some(Chunks::Pieces), Chunks::Named, latest), Chunks::Pieces);
    }

    #[test]
    fn before_a_footer_was_seen_a_name_is_a_guess() {
        assert!(kernel_window_bytes(256 * MIB, Chunks::Named) > Some(8 * MIB));
        assert!(kernel_window_bytes(32 * MIB, Chunks::Named) < Some(5 * MIB));
    }
}
