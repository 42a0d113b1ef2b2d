//! File readahead: how the reads of a file become streams, and a stream becomes requests.
//!
//! ```text
//!   read ──> continues a stream? ──────────────────────────────> Stream: a window, cut into parts
//!    │                                                              │ pace: when a part is due
//!    │ no: a run of reads begins                                    │ share: how far, among many
//!    v                                                              v
//!   run ──(second adjacent read, a constant distance, or gaps)──> Stream
//!    ├───(enough of the file read before it)──> guess ──(read on)─> Stream
//!    └───(neither)──> random ──> hot_block: fetch the rest of a block read in good part
//!
//!   Stream ──(longest idle among too many, or its file is closed for long)──> forgotten
//! ```
//!
//! `streams` finds the stream of each read by position, not by descriptor; `outline` keeps many
//! streams cheap to find, and `forgotten` says whether more should be kept. `stride` finds reads
//! at a constant distance, `uneven` says where records lie if that is no whole number of pages,
//! `rows` are those that come back one record on, `sparse` those that go forward with gaps of no
//! common length. `window` is one stream: what it has fetched and wants
//! next; `window::parts` cuts that into parts. `pace` spaces its parts in time. `share` divides
//! memory among streams by max-min fairness. `lengths` knows how long the runs of the file have
//! been. `hot_block` finds what is worth fetching with a random read, `tail` where the end of
//! the file is, `whole` a file that comes whole at its first read, `scattered` one that does after
//! many. `layout` goes through a file that says where
//! its parts lie. `cached` knows what the tier has. `kernel_window` says how far a kernel above
//! should read ahead.
//!
//! *Invariants:* a part lies within its file. The number of streams and runs is bounded for each
//! file.
//!
//! The folder does not make requests, charge memory or know what is resident: `read` asks it and
//! tells it. Source: Linux's on-demand readahead of 2007 (a window grows when its reader waits,
//! and shrinks when its pages are evicted unread); docs/decisions/0005, 0006, 0008, 0010, 0012,
//! 0013, 0014, 0018, 0052, 0058, 0059, 0064, 0075, 0087, 0094, 0097, 0098, 0122.

pub(crate) mod cached;
pub(crate) mod forgotten;
pub(crate) mod hot_block;
pub(crate) mod kernel_window;
pub(crate) mod layout;
pub(crate) mod lengths;
pub(crate) mod outline;
pub(crate) mod pace;
pub(crate) mod rows;
pub(crate) mod scattered;
pub(crate) mod share;
pub(crate) mod sparse;
pub(crate) mod streams;
pub(crate) mod stride;
pub(crate) mod tail;
pub(crate) mod uneven;
pub(crate) mod whole;
pub(crate) mod window;
