//! Memory of Python objects that is filled without the GIL.

#![allow(unsafe_code, reason = "the memory of Python objects is written where it lies")]

use std::ptr::NonNull;

use foreread::shared::SharedPages;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A part of the memory of a Python object, which no other code writes to or reads until it is
/// filled.
///
/// The code that makes one keeps the object alive until the room is dropped, and does not show the
/// object to Python code before.
#[derive(Debug)]
pub(crate) struct Room {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is the only access to its memory (see `Room`).
unsafe impl Send for Room {}

impl Room {
    /// No memory.
    pub(crate) fn none() -> Self {
        Self { start: NonNull::dangling(), len: 0 }
    }

    /// How many bytes are to be filled.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first `len` bytes, and the rest.
    pub(crate) fn split(self, len: usize) -> (Self, Self) {
        assert!(len <= self.len);
        // SAFETY: within the memory of the object.
        let rest = unsafe { self.start.add(len) };
        (Self { start: self.start, len }, Self { start: rest, len: self.len - len })
    }

    /// Copies `pages`, which are no longer than the room, to its start. Returns the rest.
    pub(crate) fn fill(self, pages: &SharedPages) -> Self {
        let (head, rest) = self.split(pages.len());
        let mut at = head.start;
        for piece in pages.slices() {
            // SAFETY: the pieces together are as long as `head`, whose memory is this room's
            // alone and never that of a folio.
            unsafe {
                at.copy_from_nonoverlapping(NonNull::from(piece).cast(), piece.len());
                at = at.add(piece.len());
            }
        }
        rest
    }
}

/// New `bytes` of this length, not initialised, and the room to fill them. They are shown to
/// Python code only when all of it is filled.
pub(crate) fn bytes(py: Python<'_>, len: usize) -> PyResult<(Bound<'_, PyBytes>, Room)> {
    let size = isize::try_from(len).map_err(|_| PyMemoryError::new_err(()))?;
    // SAFETY: Python allows to fill bytes that were made without a source, before they are used.
    unsafe {
        let made = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size);
        let bytes: Bound<'_, PyBytes> = Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked();
        let start = NonNull::new_unchecked(ffi::PyBytes_AsString(bytes.as_ptr()).cast());
        Ok((bytes, Room { start, len }))
    }
}

/// The memory of a writable buffer as room, which is valid as long as `buffer` is held. A program
/// that reads it meanwhile in another thread sees some of the bytes, as with `readinto` of any
/// file.
pub(crate) fn room_of(buffer: &PyBuffer<u8>) -> PyResult<Room> {
    if buffer.readonly() {
        return Err(PyBufferError::new_err("the buffer is read-only"));
    }
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the buffer is not contiguous"));
    }
    let start = NonNull::new(buffer.buf_ptr().cast()).unwrap_or(NonNull::dangling());
    Ok(Room { start, len: buffer.len_bytes() })
}
