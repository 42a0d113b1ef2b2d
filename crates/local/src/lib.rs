//! Reads of local files, without a caller that waits for the disk.
//!
//! ```text
//!  Submitter::read ── in the page cache? ── yes ── preadv2 ──> done, on this thread
//!                       └─ no ─┬─ uring.rs    io_uring ──> done, on the reaper or a queue's owner
//!                              └─ threads.rs  pread    ──> done, on the thread that read
//! ```
//!
//! The calling thread submits a read and goes on; reads complete in the order in which the storage
//! serves them. A program that waits for its own reads can have a queue (`queue.rs`): then its
//! threads take completions from the kernel themselves.
//!
//! Pages that the kernel has not cached are read past its page cache where the file allows it
//! (`file.rs`). The engine keeps what it reads; through the page cache each page would be kept
//! twice and cost twice the processor time.
//!
//! Where `io_uring` is not available, as in many containers, threads wait instead. That is found
//! out once, at the start, and [`Submitter::mechanism`] tells.
//!
//! *Invariant:* buffers belong to a read from submission to completion: dropping a reader or the
//! submitter frees no buffer that the kernel may still write to. The number of reads in flight is
//! bounded; a read beyond it is refused, never queued. Unsafe code is in `ring.rs`, `cached.rs`,
//! `heap.rs`, and `frames.rs` with its arena alone.

#![deny(unsafe_code)]

mod cached;
mod file;
mod frames;
mod heap;
pub mod lock;
mod queue;
mod reading;
mod ring;
mod submitter;
mod threads;
mod uring;

pub use file::LocalFile;
pub use frames::{Buffers, Frames};
pub use heap::return_free_memory;
pub use queue::{Plug, Queue};
pub use reading::{Batch, Done, Filled, IN_FLIGHT_MAX};
pub use submitter::{Mechanism, Submitter};
