//! Where a file says that its parts lie.

use foreread_policy::Extent;

/// A chunk of a file that says where its parts lie: a column of a group of rows.
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    /// The pages that hold it.
    pub extent: Extent,
    /// Its group, from 0 on.
    pub group: u32,
    /// Its column, from 0 on.
    pub column: u32,
}
