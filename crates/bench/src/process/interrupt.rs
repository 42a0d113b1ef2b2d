//! The user's wish to end: one flag, which each measurement checks while it waits.
//!
//! The caller raises it, from a thread that listens for signals. Every guard then ends what it
//! holds on the way out: readers, mount, testbed, swap file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user wants the measurement to end. Copies share one flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Ends what checks this flag.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has been raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
