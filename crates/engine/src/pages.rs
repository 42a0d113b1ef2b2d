//! What is resident or in flight of each file.

pub(crate) mod buffer;
pub(crate) mod table;
pub(crate) mod waiting;
