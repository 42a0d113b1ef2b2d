//! An error of the library as the last cause that a message shows.
//!
//! The library's texts name their causes, and its errors give the same causes once more as values
//! ([`std::error::Error::source`]). A message that prints the whole chain would say everything
//! twice.

use std::fmt;

/// The text of an error. It has no source, so it ends the chain of causes.
#[derive(Debug)]
pub(crate) struct LastCause(String);

impl<E: std::error::Error> From<&E> for LastCause {
    fn from(error: &E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for LastCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LastCause {}
