//! The version of an object, as a value of Python.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, UNIX_EPOCH};

use pyo3::prelude::*;

/// The content of an object: two equal versions of one key have the same bytes.
#[pyclass(frozen, eq, hash, module = "foreread")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version(pub(crate) foreread::Version);

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[pymethods]
impl Version {
    #[new]
    #[pyo3(signature = (size, tag = None, modified_ns = None))]
    fn new(size: u64, tag: Option<&str>, modified_ns: Option<u64>) -> Self {
        let modified = modified_ns.map(|ns| UNIX_EPOCH + Duration::from_nanos(ns));
        Self(foreread::Version { size, tag: tag.map(Into::into), modified })
    }

    /// Length in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    /// The strong validator as the storage spells it (an `ETag`, a generation), if it has one.
    #[getter]
    fn tag(&self) -> Option<&str> {
        self.0.tag.as_deref()
    }

    /// Modification time in nanoseconds since 1970, if it is known.
    #[getter]
    pub(crate) fn modified_ns(&self) -> Option<u64> {
        let since = self.0.modified?.duration_since(UNIX_EPOCH).ok()?;
        Some(since.as_nanos() as u64)
    }

    fn __repr__(&self) -> String {
        let tag = self.0.tag.as_deref().map_or_else(|| "None".to_owned(), |tag| format!("{tag:?}"));
        format!("Version(size={}, tag={tag})", self.0.size)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (u64, Option<String>, Option<u64>)) {
        let this = slf.get();
        let parts = (this.0.size, this.0.tag.as_deref().map(str::to_owned), this.modified_ns());
        (slf.get_type().into_any(), parts)
    }

    /// A short text that differs where versions do.
    fn token(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}
