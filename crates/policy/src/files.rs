//! File readahead: how the reads of a file become streams, and a stream becomes requests.
//!
//! ```text
//!            continues a stream            two reads at a constant distance
//!   read ───────────────────────> Stream <───────────────────────────────── stride
//!    │                              │ wants a window, cut into parts
//!    │ continues none               ├─ pace: a part is due when the reader has used up what it must
//!    v                              └─ share: many streams divide the memory by max-min fairness
//!   random ──> hot_block: fetch the rest of a block of which a good part has been read
//!
//!   a stream:  guessed ──(its reader reads on)──> known ──(not read for long, or wasted)──> forgotten
//! ```
//!
//! `streams` finds the stream of each read by position, not by descriptor (with `outline`, which
//! keeps many streams cheap to compare). `window` is one stream: what it has fetched and wants
//! next. The origin of the rules is Linux's on-demand readahead of 2007: a window grows when its
//! reader waited and shrinks when its pages are evicted unread.

pub(crate) mod hot_block;
pub(crate) mod outline;
pub(crate) mod pace;
pub(crate) mod share;
pub(crate) mod streams;
pub(crate) mod stride;
pub(crate) mod window;
