//! An error of the library as a cause to show.
//!
//! The library's texts name their causes, and its errors give the same causes once more as values
//! ([`std::error::Error::source`]). A message that prints the whole chain would say everything
//! twice.

use std::fmt;

/// The text of an error, which ends the chain of causes.
#[derive(Debug)]
pub(crate) struct Told(String);

impl<E: std::error::Error> From<&E> for Told {
    fn from(error: &E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Told {}
