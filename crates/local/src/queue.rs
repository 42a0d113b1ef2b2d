//! Reads whose completions the one who asks for them takes: no other thread is woken first.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::ring::Ring;
use crate::uring::Owned;

/// A queue of one owner's, which may be several threads. What they submit while they are [`plugged`](Queue::plug) to it completes on the one
/// that calls [`Queue::take`]; if none does for a millisecond or two, on another, so that nobody else waits for longer.
///
/// Dropping it waits for nothing: what is in flight completes.
pub struct Queue {
    owned: Arc<Owned>,
}

impl Queue {
    pub(crate) fn new(owned: Arc<Owned>) -> Self {
        Self { owned }
    }

    /// Until it is dropped, what this thread submits goes here, and is given to the kernel together.
    pub fn plug(&self) -> Plug<'_> {
        Plug::new(Some(&self.owned.ring), Some(&self.owned))
    }

    /// Tells of what has completed, `max` at most, on this thread. How many that were.
    pub fn take(&self, max: usize) -> usize {
        self.owned.attended.store(true, Relaxed);
        // What they who are told submit is this owner's, too.
        let _plug = self.plug();
        self.owned.ring.take(max)
    }

    /// Waits until something has completed, or [`Queue::wake`] has been called since the last [`Queue::take`], for at most `timeout`. One thread at a time.
    pub fn wait(&self, timeout: Duration) {
        self.owned.ring.wait(Some(timeout));
    }

    /// Ends a wait.
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

/// What this thread submits is kept until it is dropped, and then given to the kernel together: the disk is told once. For a thread that
/// waits for none of it meanwhile.
#[derive(Debug)]
pub struct Plug<'a> {
    plugged: Option<&'a Arc<Ring>>,
    owned: Option<&'a Owned>,
    /// It belongs to the thread that made it.
    here: PhantomData<*const ()>,
}

impl<'a> Plug<'a> {
    /// Of this thread at `ring`, unless it is plugged already.
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
