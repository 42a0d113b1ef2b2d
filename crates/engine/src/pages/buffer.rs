//! Memory for folios, shared by all engines of a program.
//!
//! Whole folios come from a pool: a fresh 128 KiB costs 32 page faults, which at a gigabyte a
//! second is a twentieth of a core. So do single pages: one that is made by one thread and dropped
//! by another costs an allocator a tenth of what a random read of 4 KiB costs altogether.
//!
//! *Invariant:* at most [`IDLE_BYTES_MAX`] of either kind are idle in the pool, so memory follows
//! the budget that policy keeps.

use std::ops::{Deref, DerefMut};

use foreread_backend::Frames;
use foreread_policy::{FOLIO_PAGES_MAX, PAGE_BYTES};
use parking_lot::Mutex;

/// Bytes of a whole folio.
const WHOLE_BYTES: usize = (FOLIO_PAGES_MAX * PAGE_BYTES) as usize;

/// Bytes of one page.
const SINGLE_BYTES: usize = PAGE_BYTES as usize;

/// Idle memory of each kind kept for the next request, 4 MiB. Lower, and a stream's turnover
/// reaches the allocator; higher keeps more memory that the budget does not count.
const IDLE_BYTES_MAX: usize = 4 << 20;

/// Where whole folios and single pages come from and return to. One for all engines, so that a
/// buffer need not point to it.
#[derive(Debug)]
struct Pool {
    wholes: Mutex<Vec<Frames>>,
    singles: Mutex<Vec<Frames>>,
}

static POOL: Pool = Pool { wholes: Mutex::new(Vec::new()), singles: Mutex::new(Vec::new()) };

impl Pool {
    /// The idle memory of that length.
    fn idle(&self, len: usize) -> Option<&Mutex<Vec<Frames>>> {
        match len {
            WHOLE_BYTES => Some(&self.wholes),
            SINGLE_BYTES => Some(&self.singles),
            _ => None,
        }
    }
}

/// Memory of `len` bytes, at most a whole folio, for [`Buffer::of`]. Its content is arbitrary: the
/// caller overwrites all of it.
pub(crate) fn frames(len: usize) -> Frames {
    debug_assert!(len <= WHOLE_BYTES);
    let idle = POOL.idle(len).and_then(|idle| idle.lock().pop());
    idle.unwrap_or_else(|| Frames::new(len))
}

/// The bytes of one folio.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Frames,
}

impl Buffer {
    /// A buffer of `len` bytes; their content is that of [`frames`].
    pub(crate) fn new(len: usize) -> Self {
        Self::of(frames(len))
    }

    /// The memory that [`frames`] gave, filled.
    pub(crate) fn of(bytes: Frames) -> Self {
        Self { bytes }
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
        if let Some(idle) = POOL.idle(self.bytes.len()) {
            let mut idle = idle.lock();
            if idle.len() < IDLE_BYTES_MAX / self.bytes.len() {
                idle.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}
