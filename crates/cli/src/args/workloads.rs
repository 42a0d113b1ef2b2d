//! Workloads by name or by path, for the commands that take them.

use std::fs;
use std::path::{Path, PathBuf};

use foreread_workload::{Workload, catalogue};
use miette::Diagnostic;
use thiserror::Error;

/// A workload that does not exist or cannot be used.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum Error {
    #[error("no workload is called {name}")]
    #[diagnostic(help("known: {known}; the path of a file ends in .toml"))]
    NoWorkload { name: String, known: String },

    #[error("no workload in {}", .folder.display())]
    #[diagnostic(help("a workload is a file that ends in .toml; `workloads/README.md` describes the form"))]
    NoneIn { folder: PathBuf },

    #[error("{}: cannot be read", .path.display())]
    #[diagnostic(help("a workload is a TOML file; `workloads/README.md` describes the form"))]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("a workload cannot be used")]
    #[diagnostic(help("`workloads/README.md` describes the form"))]
    Workload(#[source] foreread_workload::Error),
}

/// The workloads of these names and paths, each with its text. Of a folder, and without any name
/// of the built-in ones, those that are `usual`.
pub(crate) fn select(names: &[String], usual: impl Fn(&Workload) -> bool) -> Result<Vec<(Workload, String)>, Error> {
    let mut chosen = Vec::new();
    if names.is_empty() {
        for (name, text) in catalogue::TEXTS {
            chosen.push(parse(name, (*text).to_owned())?);
        }
        chosen.retain(|(workload, _)| usual(workload));
    }
    for name in names {
        let path = Path::new(name);
        if path.is_dir() {
            for path in tomls(path)? {
                chosen.extend(Some(read(&path)?).filter(|(workload, _)| usual(workload)));
            }
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            chosen.push(read(path)?);
        } else if let Some(text) = catalogue::text(name) {
            chosen.push(parse(name, text.to_owned())?);
        } else {
            let known: Vec<&str> = catalogue::TEXTS.iter().map(|(name, _)| *name).collect();
            return Err(Error::NoWorkload { name: name.clone(), known: known.join(", ") });
        }
    }
    Ok(chosen)
}

/// The workloads in a folder, by name.
fn tomls(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |cause| Error::Unreadable { path: folder.to_owned(), cause };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Error::NoneIn { folder: folder.to_owned() });
    }
    paths.sort_unstable();
    Ok(paths)
}

fn read(path: &Path) -> Result<(Workload, String), Error> {
    let text = fs::read_to_string(path).map_err(|cause| Error::Unreadable { path: path.to_owned(), cause })?;
    parse(&path.to_string_lossy(), text)
}

fn parse(file: &str, text: String) -> Result<(Workload, String), Error> {
    Ok((Workload::parse(file, &text).map_err(Error::Workload)?, text))
}
