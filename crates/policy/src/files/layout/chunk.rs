//! The values of one column in one group of rows.
//!
//! Chunks are kept in the order in which they lie. The file knows no readers (`run`). Source:
//! docs/decisions/0094.

use crate::units::Extent;

/// A chunk: the values of one column in one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Its pages. The first and the last may hold bytes of its neighbours.
    pub(crate) extent: Extent,
    pub(crate) group: u32,
    pub(crate) column: u32,
}

impl Chunk {
    /// Whether it may be kept behind the `last` one.
    pub(super) fn is_next(&self, last: Option<&Self>) -> bool {
        let Extent { start, end } = self.extent;
        let is_behind = |last: &Self| last.group <= self.group && last.extent.start <= start && last.extent.end <= end;
        start < end && last.is_none_or(is_behind)
    }
}

/// The chunks of `group`, in the order in which they lie.
pub(super) fn chunks_of(chunks: &[Chunk], group: u32) -> &[Chunk] {
    let from = chunks.partition_point(|chunk| chunk.group < group);
    let to = chunks.partition_point(|chunk| chunk.group <= group);
    &chunks[from..to]
}

/// The most chunks of a file. Lower: those behind the first so many of files with many groups,
/// columns or members are read as other files are.
/// Higher: more memory for each such file, 24 bytes a chunk. Source: chosen here; 384 KiB.
pub(super) const CHUNKS_MAX: usize = 1 << 14;
