//! Records: the log of every event and action, its replay, and a recording of reads.
//!
//! ```text
//!   shard ── event, action ──> Recorder ──> a file (Options::record) ──> replay ──> policy again
//!                                 └ log: the form of a line ┘
//!
//!   shard ── event ──> Last: the last of them ── policy panics ──> a file of its own
//!
//!   File::read ──> Tap: kept while a recording is under way ──> Engine::recorded
//! ```
//!
//! The log is everything that policy was told, so it replays exactly. A recording holds reads
//! only, and is taken from a running engine.

pub(crate) mod bounds;
pub(crate) mod last;
pub(crate) mod log;
pub(crate) mod recorder;
pub(crate) mod replay;
pub(crate) mod tap;
