//! What may be wrong with a configuration file.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error as ThisError;

/// A configuration file cannot be used.
#[derive(Debug, ThisError, Diagnostic)]
pub(crate) enum Error {
    #[error("{}: cannot be read", .path.display())]
    #[diagnostic(
        code(foreread::config::file),
        help("check its permissions, or name another file by FOREREAD_CONFIG (empty: none)")
    )]
    File {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("{}: not TOML: {}", .path.display(), .text.trim_end())]
    #[diagnostic(
        code(foreread::config::syntax),
        help("a string stands in quotes, and a key comes after its [section]")
    )]
    Syntax { path: PathBuf, text: String },

    #[error("{}: {section}: `{key}` is not known", .path.display())]
    #[diagnostic(code(foreread::config::key), help("{help}"))]
    Key { path: PathBuf, section: String, key: String, help: String },

    #[error("{}: {section}: `{key}` cannot be {value}", .path.display())]
    #[diagnostic(code(foreread::config::value), help("{help}"))]
    Value { path: PathBuf, section: String, key: String, value: String, help: String },

    #[error("{}: {section} has no `url`", .path.display())]
    #[diagnostic(code(foreread::config::url), help("say where the store is, such as url = \"s3://bucket/prefix\""))]
    NoUrl { path: PathBuf, section: String },

    #[error("no store is called `{name}`")]
    #[diagnostic(code(foreread::config::store), help("{help}"))]
    Store { name: String, help: String },
}
