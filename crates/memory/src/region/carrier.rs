//! Moves pages between memory and the spill, and is where the pager waits.
//!
//! ```text
//!              start(transfer) ..            wait ──> touches | the bell | ended transfers
//!   io_uring:  [ring.rs]     the kernel moves the bytes; one system call submits and waits
//!   threads:   [threads.rs]  where io_uring is forbidden, or the spill is a program's own
//! ```

mod ring;
mod threads;
pub(crate) mod transfer;

use std::sync::Arc;
use std::time::Duration;

use crate::kernel::bell::Bell;
use crate::kernel::uffd::Uffd;
use crate::region::spill::{Spill, SpillFile};
use ring::Ring;
use threads::Threads;
use transfer::{Transfer, Woken};

/// The spill of a region.
pub(crate) enum Place {
    /// A file that this crate made.
    File(Arc<SpillFile>),
    /// Storage that the program gave.
    Given(Arc<dyn Spill>),
}

/// See the head of this file.
pub(crate) enum Carrier {
    Ring(Box<Ring>),
    Threads(Threads),
}

impl Carrier {
    /// A carrier for `place`. Made by the thread that uses it.
    pub(crate) fn new(place: Place, uffd: Arc<Uffd>, bell: Bell, may_ring: bool) -> Self {
        match place {
            Place::Given(spill) => Self::Threads(Threads::new(spill, uffd, bell)),
            Place::File(file) if may_ring => match Ring::new(file, Arc::clone(&uffd), bell.clone()) {
                Ok(ring) => Self::Ring(Box::new(ring)),
                Err((file, error)) => {
                    tracing::info!(%error, "no io_uring: threads wait for the spill file");
                    Self::Threads(Threads::new(file, uffd, bell))
                }
            },
            Place::File(file) => Self::Threads(Threads::new(file, uffd, bell)),
        }
    }

    /// Starts a transfer.
    ///
    /// # Safety
    ///
    /// The memory stays mapped until the transfer ends, and belongs to the transfer: no thread
    /// writes there, and during a read no thread reads there.
    #[expect(unsafe_code, reason = "the memory is named by address")]
    pub(crate) unsafe fn start(&mut self, transfer: Transfer) {
        match self {
            Self::Ring(ring) => {
                // SAFETY: the caller's contract.
                unsafe { ring.start(transfer) }
            }
            Self::Threads(threads) => {
                // SAFETY: the caller's contract.
                unsafe { threads.start(transfer) }
            }
        }
    }

    /// Submits the transfers that were started. `wait` does this as well.
    pub(crate) fn submit(&mut self) {
        if let Self::Ring(ring) = self {
            ring.submit_started();
        }
    }

    /// Reports what there is to do; waits until there is something, or for `at_most`, if that is
    /// given. `woken.touched` and `woken.rung` may be set without need.
    pub(crate) fn wait(&mut self, woken: &mut Woken, at_most: Option<Duration>) {
        match self {
            Self::Ring(ring) => ring.wait(woken, at_most),
            Self::Threads(threads) => threads.wait(woken, at_most),
        }
    }
}
