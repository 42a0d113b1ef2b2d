//! Ranges of several open objects, as Python asks for them together.

use pyo3::prelude::*;

use crate::completions::Completions;
use crate::file::{Handle, Place, extent};
use crate::set::read_all;

/// Reads ranges of open objects: (handle, offset, length) each, both in bytes, cut at the end of
/// the object. All are in flight before any is waited for.
///
/// Returns a list of bytes, in order; with `to`, a future of it. With `returns_errors` the list
/// has exceptions where ranges failed; otherwise the first one is raised.
#[pyfunction]
#[pyo3(signature = (reads, returns_errors = false, to = None))]
#[expect(clippy::needless_pass_by_value, reason = "Python's arguments are made for the call")]
pub(crate) fn read_together<'py>(
    py: Python<'py>,
    reads: Vec<(Py<Handle>, Place, Place)>,
    returns_errors: bool,
    to: Option<&Bound<'py, Completions>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (mut engine, mut ranges) = (None, Vec::with_capacity(reads.len()));
    for (handle, offset, length) in &reads {
        let (own, file) = handle.get().opened(py)?;
        let (offset, len) = extent(*offset, *length, file.size())?;
        engine.get_or_insert(own);
        ranges.push((file.clone(), offset, len));
    }
    Ok(read_all(py, engine, ranges, returns_errors, to)?.into_bound(py))
}
