//! Reads of local files that nobody waits for.
//!
//! ```text
//!  Submitter::read ── in the kernel's memory? ── preadv2(RWF_NOWAIT) ───────> done      on the caller's thread
//!                           └─ it would block ─┬─ uring.rs    io_uring ─────> done      on the ring's thread
//!                                              └─ threads.rs  a pread each ─> done      on that thread
//! ```
//!
//! Who waits for what he submits can have a queue of his own (`queue.rs`) and takes his completions from the kernel by himself.
//!
//! What the kernel does not have is read past its page cache, where the file can be (`file.rs`): whoever reads here keeps what it reads, and
//! through the page cache each page would be kept twice and cost twice the processor's time.
//!
//! The thread that asks submits by itself and goes on; what it asked for completes in the order of the storage. Where `io_uring` is
//! not to be had, as in many containers, threads wait in its place: that is found out once, at the start, and told.
//!
//! *Invariant:* buffers belong to the read from submission to completion: giving a read up, or all of this, frees none that the kernel
//! may still write to. What is in flight has a bound; beyond it a read is refused, never queued. The only unsafe code is in `ring.rs` and
//! `cached.rs`.

#![deny(unsafe_code)]

mod cached;
mod file;
mod frames;
mod queue;
mod reading;
mod ring;
mod submitter;
mod threads;
mod uring;

pub use file::LocalFile;
pub use frames::{Buffers, Frames};
pub use queue::{Plug, Queue};
pub use reading::{Batch, Done, Filled, IN_FLIGHT_MAX};
pub use submitter::{Mechanism, Submitter};
