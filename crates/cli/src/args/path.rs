//! Paths that users give.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// `path`, independent of the process's directory.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|cause| Failure::File { path: path.to_owned(), cause })
}
