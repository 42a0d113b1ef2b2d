//! What an object or a directory is, as fsspec's dictionaries say it.

use foreread::Object;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::version::Version;

/// An entry below a store: its path, and its object unless it is a directory.
pub(crate) type Found = (String, Option<Object>);

/// `{"name", "size", "type"}`, and for a file `"ETag"` and `"mtime"` (seconds since 1970) where
/// the storage says them.
pub(crate) fn info<'py>(py: Python<'py>, name: &str, object: Option<&Object>) -> PyResult<Bound<'py, PyDict>> {
    let info = PyDict::new(py);
    info.set_item(intern!(py, "name"), name)?;
    let Some(object) = object else {
        info.set_item(intern!(py, "size"), 0)?;
        info.set_item(intern!(py, "type"), intern!(py, "directory"))?;
        return Ok(info);
    };
    info.set_item(intern!(py, "size"), object.version.size)?;
    info.set_item(intern!(py, "type"), intern!(py, "file"))?;
    if let Some(tag) = object.version.tag.as_deref() {
        info.set_item(intern!(py, "ETag"), tag)?;
    }
    if let Some(modified) = Version(object.version.clone()).modified_ns() {
        info.set_item(intern!(py, "mtime"), modified as f64 / 1e9)?;
    }
    Ok(info)
}
