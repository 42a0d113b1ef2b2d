//! Devices and policies by name, for the commands that simulate.

use std::fs;
use std::path::PathBuf;

use foreread_sim::{PolicyName, Profile, profile};
use miette::Diagnostic;
use thiserror::Error as ThisError;

/// A device that does not exist or cannot be used.
#[derive(Debug, ThisError, Diagnostic)]
pub(crate) enum Error {
    #[error("no device is called {name}")]
    #[diagnostic(help("known: {known}; the path of a file ends in .toml"))]
    NoDevice { name: String, known: String },

    #[error("{}: not a device", .path.display())]
    #[diagnostic(help("the files in `devices/` show the form"))]
    Device {
        path: PathBuf,
        #[source]
        cause: toml::de::Error,
    },

    #[error("{}: cannot be read", .path.display())]
    #[diagnostic(help("a device is a TOML file; the files in `devices/` show the form"))]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
}

/// A policy's name.
pub(crate) fn policy(name: &str) -> Result<PolicyName, foreread_sim::Error> {
    name.parse()
}

/// A built-in model, or the TOML file at this path.
pub(crate) fn device(name: &str) -> Result<Profile, Error> {
    let path = PathBuf::from(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        let known = || profile::TEXTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return profile::find(name).ok_or_else(|| Error::NoDevice { name: name.to_owned(), known: known() });
    }
    let text = fs::read_to_string(&path).map_err(|cause| Error::Unreadable { path: path.clone(), cause })?;
    profile::parse(&text).map_err(|cause| Error::Device { path, cause })
}
