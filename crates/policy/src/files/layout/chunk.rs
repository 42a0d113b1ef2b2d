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

/// The chunks of `group`, in the order in which they lie.
pub(super) fn chunks_of(chunks: &[Chunk], group: u32) -> &[Chunk] {
    let from = chunks.partition_point(|chunk| chunk.group < group);
    let to = chunks.partition_point(|chunk| chunk.group <= group);
    &chunks[from..to]
}
