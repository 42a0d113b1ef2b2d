//! Memory that a client shares with the process that serves it, and its parts.
//!
//! ```text
//!   client: memfd, sealed ── map ──> parts ── a read takes one ──> the server fills it ──> back
//!      └── descriptor ──> server: seals are checked ── map
//! ```
//!
//! *Invariants:* no access lies outside the mapping, and no mapping ends before its file, which
//! cannot shrink. A part belongs to one read until its pages are dropped.

#![allow(unsafe_code, reason = "memory is shared with another process by address")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;

use foreread_backend::lock::Mutex;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// How long an area is, 8 MiB: four of the pieces that a long read is made of, twice. Pages take
/// memory once they are used. Lower: reads of many threads wait for each other. Higher: each
/// client holds more memory beside the budget.
pub(crate) const AREA_BYTES: usize = 8 << 20;

/// The longest area that a server maps: room for an [`AREA_BYTES`] that grows.
const AREA_BYTES_MAX: usize = 64 << 20;

/// The unit of parts, a page. Lower and higher: parts share pages, or waste more of them.
const UNIT: usize = 4096;

/// What `statfs` says of a file that lies in ordinary memory; one in huge pages could miss a page.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Shared memory, mapped.
pub(crate) struct Area {
    start: NonNull<u8>,
    len: usize,
    /// Used by the client alone.
    parts: Mutex<Parts>,
    /// Called when a part has come back that was waited for.
    freed: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug, Default)]
struct Parts {
    /// Which units are taken.
    taken: Vec<bool>,
    /// A part was not to be had.
    short: bool,
}

impl std::fmt::Debug for Area {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Area").field("len", &self.len).finish_non_exhaustive()
    }
}

// SAFETY: it is an address and a length; each access is bounded, and parts keep readers apart.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

/// A part of an area: where it begins, and how long it is in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) at: usize,
    pub(crate) len: usize,
}

impl Area {
    /// A new one, and the descriptor that another process maps it by.
    pub(crate) fn create() -> io::Result<(Self, OwnedFd)> {
        let fd = memfd_create("foreread", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, AREA_BYTES as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(&fd, AREA_BYTES)?, fd))
    }

    /// Another process's. Errors: it could shrink, which would be a fatal signal here, or has no
    /// possible length.
    pub(crate) fn of_another(fd: &OwnedFd) -> io::Result<Self> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if !fcntl_get_seals(fd)?.contains(SealFlags::SHRINK) {
            return Err(wrong("the shared memory can shrink"));
        }
        if fstatfs(fd)?.f_type as u64 != TMPFS_MAGIC {
            return Err(wrong("the shared memory is of another kind"));
        }
        let len = usize::try_from(fstat(fd)?.st_size).unwrap_or(0);
        if !(UNIT..=AREA_BYTES_MAX).contains(&len) || len % UNIT != 0 {
            return Err(wrong("the shared memory has an impossible length"));
        }
        Self::map(fd, len)
    }

    fn map(fd: impl AsFd, len: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free place, so no memory in use changes.
        let start = unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, fd, 0)? };
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let parts = Mutex::new(Parts { taken: vec![false; len / UNIT], short: false });
        Ok(Self { start, len, parts, freed: OnceLock::new() })
    }

    /// Takes a part of `len` bytes, if there is room.
    pub(crate) fn take(&self, len: usize) -> Option<Part> {
        let needed = len.div_ceil(UNIT).max(1);
        let Parts { taken, short } = &mut *self.parts.lock();
        let (mut first, mut run) = (0, 0);
        for unit in 0..taken.len() {
            if taken[unit] {
                (first, run) = (unit + 1, 0);
                continue;
            }
            run += 1;
            if run == needed {
                taken[first..=unit].fill(true);
                return Some(Part { at: first * UNIT, len });
            }
        }
        *short = true;
        None
    }

    /// Gives a part back that was taken.
    pub(crate) fn give_back(&self, part: Part) {
        let first = part.at / UNIT;
        let was_short = {
            let mut parts = self.parts.lock();
            parts.taken[first..first + part.len.div_ceil(UNIT).max(1)].fill(false);
            std::mem::take(&mut parts.short)
        };
        if was_short && let Some(freed) = self.freed.get() {
            freed();
        }
    }

    /// Has `freed` called when a part comes back after one was not to be had.
    pub(crate) fn when_freed(&self, freed: impl Fn() + Send + Sync + 'static) {
        // It is told once, before parts are taken.
        let _ = self.freed.set(Box::new(freed));
    }

    /// Whether `part` lies inside.
    pub(crate) fn has(&self, part: Part) -> bool {
        part.at.checked_add(part.len).is_some_and(|end| end <= self.len)
    }

    /// Copies `pieces` one after the other to the start of `part`, as far as they fit. Returns how
    /// many bytes were copied.
    pub(crate) fn fill<'a>(&self, part: Part, pieces: impl Iterator<Item = &'a [u8]>) -> usize {
        assert!(self.has(part), "parts are checked when they come");
        let mut filled = 0;
        for piece in pieces {
            let count = piece.len().min(part.len - filled);
            // SAFETY: inside of the mapping, which no reference points into while a part is
            // filled: the client reads a part when it is told that it is filled.
            unsafe {
                let to = self.start.add(part.at + filled);
                to.copy_from_nonoverlapping(NonNull::from(piece).cast(), count);
            }
            filled += count;
        }
        filled
    }

    /// The bytes of `part`.
    pub(crate) fn bytes(&self, part: Part) -> &[u8] {
        assert!(self.has(part), "parts are inside");
        // SAFETY: inside of the mapping. The server, which is a process of the same user and
        // version, does not write to a part after it has told that it is filled.
        unsafe { std::slice::from_raw_parts(self.start.add(part.at).as_ptr(), part.len) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and no reference into it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_mapping_is_filled_with_the_other_shows() {
        let (client, fd) = Area::create().expect("shared memory");
        let server = Area::of_another(&fd).expect("its other mapping");
        let part = client.take(5000).expect("room");
        assert_eq!(server.fill(part, [&b"abc"[..], &[7; 9000]].into_iter()), 5000);
        assert_eq!(&client.bytes(part)[..4], b"abc\x07");
    }

    #[test]
    fn parts_do_not_overlap_and_come_back() {
        let (area, _fd) = Area::create().expect("shared memory");
        let all: Vec<Part> = std::iter::from_fn(|| area.take(1 << 20)).collect();
        assert_eq!(all.len(), AREA_BYTES >> 20);
        assert_eq!(area.take(1), None);
        area.give_back(all[3]);
        assert_eq!(area.take(2 << 20), None);
        assert_eq!(area.take(1 << 20), Some(all[3]));
        area.give_back(all[3]);
        area.give_back(all[4]);
        assert_eq!(area.take(2 << 20).map(|part| part.at), Some(all[3].at));
    }

    #[test]
    fn memory_that_can_shrink_is_refused() {
        let fd = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a memfd");
        ftruncate(&fd, 1 << 20).expect("a length");
        assert!(Area::of_another(&fd).is_err());
        fcntl_add_seals(&fd, SealFlags::SHRINK).expect("a seal");
        let area = Area::of_another(&fd).expect("it cannot shrink");
        assert!(area.has(Part { at: 0, len: 1 << 20 }) && !area.has(Part { at: 1, len: 1 << 20 }));
        assert!(!area.has(Part { at: usize::MAX, len: 2 }));
    }
}
