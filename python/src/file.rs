//! An open object, and its bytes.

use std::sync::Arc;

use foreread::shared::{Shared, SharedFile};
use foreread::{Error, Object};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

use crate::buffer::{Held, bytes};
use crate::completions::Completions;
use crate::errors::raised;
use crate::memory::View;
use crate::process::{self, Fresh, Spec};
use crate::reading::read;
use crate::set::read_one;
use crate::version::Version;

/// An object pinned to one version. Opened again in each process that uses it, at that version.
#[pyclass(frozen, module = "foreread._native")]
pub(crate) struct Handle {
    spec: Arc<Spec>,
    object: Object,
    opened: Fresh<(Shared, SharedFile)>,
}

impl Handle {
    /// A handle of this version. Opened when it is first used.
    pub(crate) fn new(spec: &Arc<Spec>, object: Object) -> Self {
        Self { spec: Arc::clone(spec), object, opened: Fresh::new() }
    }

    /// The open file, in this process.
    pub(crate) fn opened(&self, py: Python<'_>) -> PyResult<(&Shared, &SharedFile)> {
        if let Some((engine, file)) = self.opened.get() {
            return Ok((engine, file));
        }
        let open = || {
            let engine = process::engine(&self.spec)?;
            let file = engine.open(&self.object);
            Ok((engine, file))
        };
        let (engine, file) = py.detach(|| self.opened.get_or_try_make(open)).map_err(|error: Error| raised(&error))?;
        Ok((engine, file))
    }
}

#[pymethods]
impl Handle {
    /// Length in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.object.version.size
    }

    /// The object's key in its store.
    #[getter]
    fn key(&self) -> &str {
        self.object.key.as_str()
    }

    /// The version that is read.
    #[getter]
    fn version(&self) -> Version {
        Version(self.object.version.clone())
    }

    /// `length` bytes at `offset`, fewer only at the end. With `to`, a future of them.
    #[pyo3(signature = (offset, length, to = None))]
    fn read_at<'py>(
        slf: &Bound<'py, Self>,
        offset: Place,
        length: Place,
        to: Option<&Bound<'py, Completions>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let (engine, file) = this.opened(py)?;
        let (offset, len) = extent(offset, length, file.size())?;
        if let Some(to) = to {
            return Ok(read_one(engine, (file.clone(), offset, len), to)?.into_bound(py));
        }
        let (made, room) = bytes(py, len)?;
        read(py, file, offset, room)?;
        Ok(made.into_any())
    }

    /// Fills a writable buffer from `offset` on. Returns how many bytes: fewer than fit only at
    /// the end.
    fn read_into(&self, py: Python<'_>, offset: Place, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let held = Held::get(buffer)?;
        let (_, file) = self.opened(py)?;
        let (offset, _) = extent(offset, Place(0), file.size())?;
        let read = read(py, file, offset, held.room());
        drop(held);
        read
    }

    /// The object as memory, of which at most `budget` bytes are mapped.
    fn map(&self, py: Python<'_>, budget: usize) -> PyResult<View> {
        let (engine, _) = self.opened(py)?;
        // The pages of a view are those of an engine of this process.
        py.detach(|| {
            let own = engine.own_engine().map_err(|error| raised(&error))?;
            View::new(engine.clone(), own.open(&self.object), budget)
        })
    }
}

/// An offset or a length that Python code gave: any integer that fits.
#[derive(Clone, Copy)]
pub(crate) struct Place(i64);

impl<'py> FromPyObject<'_, 'py> for Place {
    type Error = PyErr;

    /// Errors: `ValueError` for what is too large, where an integer of pyo3 is an `OverflowError`.
    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        given.extract().map(Self).map_err(|error: PyErr| {
            if error.is_instance_of::<PyOverflowError>(given.py()) {
                return PyValueError::new_err(format!("offset and length are below 2**63: {given:?}"));
            }
            error
        })
    }
}

/// A range that Python code asked for: where it begins, and how much of it the object has.
///
/// Errors: `ValueError` for a negative offset or length.
pub(crate) fn extent(offset: Place, length: Place, size: u64) -> PyResult<(u64, usize)> {
    let (Ok(offset), Ok(length)) = (u64::try_from(offset.0), u64::try_from(length.0)) else {
        return Err(PyValueError::new_err(format!("offset and length are not negative: {}, {}", offset.0, length.0)));
    };
    Ok((offset, size.saturating_sub(offset).min(length) as usize))
}
