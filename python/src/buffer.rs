//! Memory of Python objects that is filled without the GIL.

#![allow(unsafe_code, reason = "the memory of Python objects is written where it lies")]

use std::ffi::c_int;
use std::ptr::NonNull;

use foreread::shared::SharedPages;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError};
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

/// The memory of a writable, C-contiguous buffer, whatever its items are: as `io`'s own files take
/// it. pyo3's `PyBuffer` takes items of one type alone.
///
/// The object can be neither resized nor freed before this is dropped, which needs the GIL.
pub(crate) struct Held(Box<ffi::Py_buffer>);

impl Held {
    /// Holds the memory of `object`.
    ///
    /// Errors: `TypeError` for what has no memory or must not be written, `BufferError` for what
    /// has it in several places.
    pub(crate) fn get(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let flags = ffi::PyBUF_SIMPLE | ffi::PyBUF_WRITABLE;
        Self::request(object, flags).map_err(|error| refused(object, &error))
    }

    fn request(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the view stays where it is until it is released.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Self(view))
    }

    /// Its bytes as room, which is valid as long as this is held. A program that reads them
    /// meanwhile in another thread sees some of the bytes, as with `readinto` of any file.
    pub(crate) fn room(&self) -> Room {
        let start = NonNull::new(self.0.buf.cast()).unwrap_or(NonNull::dangling());
        Room { start, len: usize::try_from(self.0.len).unwrap_or(0) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: it was filled by `PyObject_GetBuffer`. A `Held` is not sent, and the thread that
        // made it has the GIL again.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) }
    }
}

/// Why `object` cannot be filled.
fn refused(object: &Bound<'_, PyAny>, error: &PyErr) -> PyErr {
    let py = object.py();
    let refused = match Held::request(object, ffi::PyBUF_FULL_RO) {
        Ok(held) if held.0.readonly == 0 => PyBufferError::new_err("the buffer is not C-contiguous"),
        other => {
            let kind = object.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
            PyTypeError::new_err(match other {
                Ok(_) => format!("the buffer of {kind} is read-only: a writable one is filled"),
                Err(_) => format!("a writable buffer is filled, and {kind} has none"),
            })
        }
    };
    refused.set_cause(py, Some(error.clone_ref(py)));
    refused
}
