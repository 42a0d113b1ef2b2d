//! The owner of a queue.
//!
//! ```text
//!   a read of a stream ──> (file, stream)     each has a queue, and an equal part of the
//!   any other read     ──> (file, none)       storage's time
//! ```
//!
//! This file does not know queues (`ready`, `turn`). Source: docs/decisions/0021.

use crate::units::FileId;

/// The owner of a queue: a stream of a file, or all reads of the file that belong to no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) file: FileId,
    pub(crate) stream: Option<u64>,
}
