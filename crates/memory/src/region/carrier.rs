//! What moves pages between memory and the spill, and tells the pager when there is something to do.
//!
//! ```text
//!              start(transfer) ..                wait ──> touches to read | the bell | transfers that are over
//!   io_uring:  [ring.rs]     the kernel moves the bytes; waiting is one system call, which submits as well
//!   threads:   [threads.rs]  where io_uring is forbidden, or the spill is a program's own
//! ```

mod ring;
mod threads;
pub(crate) mod transfer;

use std::sync::Arc;

use crate::kernel::bell::Bell;
use crate::kernel::uffd::Uffd;
use crate::region::spill::{Spill, SpillFile};
use ring::Ring;
use threads::Threads;
use transfer::{Transfer, Woken};

/// Where a region spills to.
pub(crate) enum Place {
    /// A file of ours.
    File(SpillFile),
    /// Whatever the program gave.
    Given(Arc<dyn Spill>),
}

/// See the head of this file.
pub(crate) enum Carrier {
    Ring(Box<Ring>),
    Threads(Threads),
}

impl Carrier {
    /// Over `place`. Made by the thread that uses it.
    pub(crate) fn new(place: Place, uffd: Arc<Uffd>, bell: Bell, may_ring: bool) -> Self {
        match place {
            Place::Given(spill) => Self::Threads(Threads::new(spill, uffd, bell)),
            Place::File(file) if may_ring => match Ring::new(file, Arc::clone(&uffd), bell.clone()) {
                Ok(ring) => Self::Ring(Box::new(ring)),
                Err((file, error)) => {
                    tracing::info!(%error, "no io_uring: threads wait for the spill file");
                    Self::Threads(Threads::new(Arc::new(file), uffd, bell))
                }
            },
            Place::File(file) => Self::Threads(Threads::new(Arc::new(file), uffd, bell)),
        }
    }

    /// Whether writing may take its bytes from memory that a program may write to meanwhile: what arrives is then of no use, and harmless.
    pub(crate) fn takes_shared_memory(&self) -> bool {
        matches!(self, Self::Ring(_))
    }

    /// Starts a transfer.
    ///
    /// # Safety
    ///
    /// Its memory stays mapped until it is over, and belongs to the transfer: nobody else writes there, and where it is a read nobody reads. Only
    /// a write by a carrier that [takes shared memory](Carrier::takes_shared_memory) may be written to meanwhile.
    #[expect(unsafe_code, reason = "the memory is named by address")]
    pub(crate) unsafe fn start(&mut self, transfer: Transfer) {
        match self {
            Self::Ring(ring) => {
                // SAFETY: as the caller says.
                unsafe { ring.start(transfer) }
            }
            Self::Threads(threads) => {
                // SAFETY: as the caller says.
                unsafe { threads.start(transfer) }
            }
        }
    }

    /// Has what was started begin. It does by itself when this thread waits.
    pub(crate) fn submit(&mut self) {
        if let Self::Ring(ring) = self {
            ring.submit_started();
        }
    }

    /// Looks what there is to do, and waits until there is something where it is to `sleep`. What there is may be less than `woken` says.
    pub(crate) fn wait(&mut self, woken: &mut Woken, sleep: bool) {
        match self {
            Self::Ring(ring) => ring.wait(woken, sleep),
            Self::Threads(threads) => threads.wait(woken, sleep),
        }
    }
}
