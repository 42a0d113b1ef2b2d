//! Memory for folios. Whole folios come from a pool: a fresh 128 KiB costs 32 page faults, which at a gigabyte a second is a
//! twentieth of a core.
//!
//! *Invariant:* what lies idle in the pool is at most [`IDLE_MAX`] folios, so memory follows the budget that policy keeps.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use foreread_policy::{FOLIO_PAGES_MAX, PAGE_BYTES};
use parking_lot::Mutex;

/// Bytes of a whole folio.
const WHOLE_BYTES: usize = (FOLIO_PAGES_MAX * PAGE_BYTES) as usize;

/// Whole folios kept for the next request: 4 MiB. Fewer and a stream's turnover reaches the allocator; more is memory idle.
const IDLE_MAX: usize = 32;

/// Where whole folios come from and return to.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Box<[u8]>>>,
}

impl Pool {
    /// `len` bytes, at most a whole folio. Their content is arbitrary: the caller overwrites all of them.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        Buffer::of(self.bytes(len), self)
    }

    /// The same, for [`Buffer::of`].
    pub(crate) fn bytes(&self, len: usize) -> Box<[u8]> {
        debug_assert!(len <= WHOLE_BYTES);
        let bytes = if len == WHOLE_BYTES { self.idle.lock().pop() } else { None };
        bytes.unwrap_or_else(|| vec![0; len].into_boxed_slice())
    }
}

/// The bytes of one folio.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    pool: Arc<Pool>,
}

impl Buffer {
    /// What [`Pool::bytes`] gave.
    pub(crate) fn of(bytes: Box<[u8]>, pool: &Arc<Pool>) -> Self {
        Self { bytes, pool: Arc::clone(pool) }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes.len() == WHOLE_BYTES {
            let mut idle = self.pool.idle.lock();
            if idle.len() < IDLE_MAX {
                idle.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}
