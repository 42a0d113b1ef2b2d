//! Queues: reads whose completions the owner takes from the kernel itself, so that no other thread
//! has to wake it.
//!
//! ```text
//!   plug ── reads ── drop the plug: all submitted by one system call
//!                         │
//!                         v
//!   wait ──> take ──> done is called on the owner's thread
//!               └─ not called for a millisecond or two: the reaper takes them (`uring.rs`)
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::ring::Ring;
use crate::uring::Owned;

/// A queue of one owner, which may be several threads. Reads that they submit while
/// [`plugged`](Queue::plug) to it complete on the thread that calls [`Queue::take`]. If no thread
/// calls it for a millisecond or two, another thread takes the completions, so that other readers
/// of the same pages do not wait longer.
///
/// Dropping a queue waits for nothing: reads in flight complete.
pub struct Queue {
    owned: Arc<Owned>,
}

impl Queue {
    pub(crate) fn new(owned: Arc<Owned>) -> Self {
        Self { owned }
    }

    /// Until the plug is dropped, this thread's reads go to this queue. Then they are submitted
    /// together.
    pub fn plug(&self) -> Plug<'_> {
        Plug::new(Some(&self.owned.ring), Some(&self.owned))
    }

    /// Calls `done` for at most `max` completed reads, on this thread. Returns how many
    /// completions, and calls of [`Queue::wake`], that were.
    pub fn take(&self, max: usize) -> usize {
        self.owned.attended.store(true, Relaxed);
        // Reads that `done` submits are this owner's as well.
        let _plug = self.plug();
        self.owned.ring.take(max)
    }

    /// Waits until a read has completed, or [`Queue::wake`] has been called since the last
    /// [`Queue::take`]; for at most `timeout`. One thread at a time.
    pub fn wait(&self, timeout: Duration) {
        self.owned.ring.wait(Some(timeout));
    }

    /// Ends a wait, the present one or the next.
    pub fn wake(&self) {
        self.owned.ring.wake();
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("ring", &self.owned.ring).finish()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.owned.close();
    }
}

/// Holds back this thread's reads until it is dropped, and then submits them by one system call:
/// the disk is told once. The thread must not wait for one of them meanwhile.
#[derive(Debug)]
pub struct Plug<'a> {
    plugged: Option<&'a Arc<Ring>>,
    owned: Option<&'a Owned>,
    /// Belongs to the thread that made it.
    here: PhantomData<*const ()>,
}

impl<'a> Plug<'a> {
    /// Plugs this thread at `ring`, unless it is plugged already.
    pub(crate) fn new(ring: Option<&'a Arc<Ring>>, owned: Option<&'a Owned>) -> Self {
        Self { plugged: ring.filter(|ring| ring.plug()), owned, here: PhantomData }
    }
}

impl Drop for Plug<'_> {
    fn drop(&mut self) {
        let Some(ring) = self.plugged else { return };
        ring.unplug();
        if let Some(owned) = self.owned.filter(|_| ring.in_flight() > 0) {
            owned.look_after();
        }
    }
}
