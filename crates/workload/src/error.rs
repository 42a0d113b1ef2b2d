//! Errors in a workload's text: each with the file, the line and the key.

use thiserror::Error;

/// A workload that cannot be read. Displays as `FILE:LINE: KEY: what is wrong and what was
/// wanted`.
#[derive(Debug, Error)]
#[error("{file}:{line}: {}{problem}", if key.is_empty() { String::new() } else { format!("{key}: ") })]
#[non_exhaustive]
pub struct Error {
    /// The file's name as the caller gave it.
    pub file: String,
    /// Counted from 1. A missing key is reported on the line of the table that should hold it.
    pub line: usize,
    /// Dotted, as in `pattern.record`; empty where the text is not TOML at all.
    pub key: String,
    /// What is wrong.
    pub problem: Box<Problem>,
}

/// An error of one key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text is not TOML.
    #[error("not TOML: {}", .0.message())]
    Syntax(toml::de::Error),
    /// A required key is absent.
    #[error("missing; wanted {wanted}")]
    Missing {
        /// An example of what belongs there.
        wanted: &'static str,
    },
    /// The key is not one of those known here, or has no meaning for this kind of pattern.
    #[error("unknown key; known here: {}", known.join(", "))]
    Unknown {
        /// The known keys.
        known: Vec<&'static str>,
    },
    /// The value cannot be understood.
    #[error("`{found}` is not {wanted}")]
    Value {
        /// The value as written in the file.
        found: String,
        /// What is expected.
        wanted: &'static str,
    },
    /// The value conflicts with another one.
    #[error("`{found}`: {rule}")]
    Rule {
        /// The value as written in the file.
        found: String,
        /// The broken rule.
        rule: &'static str,
    },
}
