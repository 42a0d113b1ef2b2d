//! Submits reads: completes those in the page cache at once, and hands the others to the mechanism
//! that this system has.
//!
//! ```text
//!   wanted: io_uring ── allowed ──> IoUring
//!                  └─ forbidden ──> Threads <── wanted: threads
//! ```

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::file::LocalFile;
use crate::frames::Buffers;
use crate::queue::{Plug, Queue};
use crate::reading::{Done, Reading, Tried};
use crate::threads::Threads;
use crate::uring::Uring;

/// How reads that would block are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mechanism {
    /// By the kernel: no thread waits.
    #[default]
    IoUring,
    /// By threads that wait.
    Threads,
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
        })
    }
}

/// Carries out reads. Dropping it waits for nothing: reads in flight complete, and then its
/// threads end.
#[derive(Debug)]
pub struct Submitter {
    carrier: Carrier,
}

#[derive(Debug)]
enum Carrier {
    IoUring(Uring),
    Threads(Threads),
}

impl Submitter {
    /// With `io_uring`, if that is `wanted` and the kernel and the sandbox allow it; otherwise
    /// with threads.
    pub fn new(wanted: Mechanism) -> Self {
        let carrier = match wanted {
            Mechanism::IoUring => match Uring::new() {
                Ok(ring) => Carrier::IoUring(ring),
                Err(error) => {
                    tracing::debug!(%error, "no io_uring here: threads read local files");
                    Carrier::Threads(Threads::default())
                }
            },
            Mechanism::Threads => Carrier::Threads(Threads::default()),
        };
        Self { carrier }
    }

    /// The mechanism in use.
    pub fn mechanism(&self) -> Mechanism {
        match self.carrier {
            Carrier::IoUring(_) => Mechanism::IoUring,
            Carrier::Threads(_) => Mechanism::Threads,
        }
    }

    /// Fills `buffers`, one after the other, from `offset` of `file` on, and calls `done` with
    /// them: on this thread if nothing blocks, otherwise later on another. Only the end of the
    /// file leaves buffers partly filled.
    ///
    /// With [`crate::IN_FLIGHT_MAX`] reads in flight, or as many in the queue that this thread is
    /// plugged to, a read that would block is refused: `done` gets
    /// [`io::ErrorKind::ResourceBusy`].
    pub fn read(&self, file: Arc<LocalFile>, offset: u64, buffers: impl Into<Buffers>, done: Done) {
        let mut reading = Reading::new(file, offset, buffers.into(), done);
        match reading.try_now() {
            Tried::Done(result) => return reading.finish(result),
            Tried::WouldBlock => {}
        }
        let refused = match &self.carrier {
            Carrier::IoUring(ring) => ring.submit(reading),
            Carrier::Threads(threads) => threads.submit(reading),
        };
        if let Err(reading) = refused {
            reading.finish(Err(io::ErrorKind::ResourceBusy.into()));
        }
    }

    /// Holds back this thread's reads until the plug is dropped, and then submits them by one
    /// system call: the disk is told once. The thread must not wait for one of them meanwhile.
    pub fn plug(&self) -> Plug<'_> {
        let ring = match &self.carrier {
            Carrier::IoUring(uring) => Some(uring.ring()),
            Carrier::Threads(_) => None,
        };
        Plug::new(ring, None)
    }

    /// A queue for a program that takes its own completions; `None` where threads carry out reads.
    pub fn queue(&self) -> Option<Queue> {
        match &self.carrier {
            Carrier::IoUring(uring) => {
                uring.owned().inspect_err(|error| tracing::debug!(%error, "no ring for a queue")).ok().map(Queue::new)
            }
            Carrier::Threads(_) => None,
        }
    }

    /// How many reads are in flight.
    pub fn in_flight(&self) -> usize {
        match &self.carrier {
            Carrier::IoUring(ring) => ring.in_flight(),
            Carrier::Threads(threads) => threads.in_flight(),
        }
    }
}
