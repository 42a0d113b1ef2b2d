//! Workloads by name or by path, for the commands that take them.

use std::fs;
use std::path::{Path, PathBuf};

use foreread_workload::{Load, catalogue};
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

    #[error("no script of {kind} is called {name}")]
    #[diagnostic(help("built in: {known}; or a file of that name in the folder `{kind}` beside the program's own"))]
    NoScript { kind: String, name: String, known: String },

    #[error("a workload cannot be used")]
    #[diagnostic(help("`workloads/README.md` describes the form"))]
    Workload(#[source] foreread_workload::Error),
}

/// The name that stands for all built-in programs.
pub(crate) const PROGRAMS: &str = "programs";

/// A workload or a program that the user has chosen.
pub(crate) struct Chosen {
    pub(crate) load: Load,
    /// The text of its file.
    pub(crate) text: String,
    /// The folder of its file; `None` for a built-in one.
    beside: Option<PathBuf>,
}

impl Chosen {
    /// The script of this name that the program has as `kind`, `data` or `tools`: a file in the
    /// folder of that name beside its own, or a built-in one.
    pub(crate) fn script(&self, kind: &str, name: &str) -> Result<String, Error> {
        if let Some(beside) = &self.beside {
            let path = beside.join(kind).join(name);
            if path.exists() {
                return fs::read_to_string(&path).map_err(|cause| Error::Unreadable { path, cause });
            }
        }
        let list = if kind == "data" { catalogue::DATA } else { catalogue::TOOLS };
        catalogue::find_in(list, name).map(str::to_owned).ok_or_else(|| {
            let known: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
            Error::NoScript { kind: kind.to_owned(), name: name.to_owned(), known: known.join(", ") }
        })
    }
}

/// The workloads of these names and paths, each with its text. Of a folder, and without any name
/// of the built-in ones, those that are `usual`.
pub(crate) fn select(names: &[String], usual: impl Fn(&Load) -> bool) -> Result<Vec<Chosen>, Error> {
    if names.is_empty() {
        let mut chosen = built_in(catalogue::TEXTS)?;
        chosen.retain(|chosen| usual(&chosen.load));
        return Ok(chosen);
    }
    let mut chosen = Vec::new();
    for name in names {
        let path = Path::new(name);
        if name == PROGRAMS {
            chosen.extend(built_in(catalogue::PROGRAMS)?);
        } else if path.is_dir() {
            for path in tomls(path)? {
                chosen.extend(Some(read(&path)?).filter(|chosen| usual(&chosen.load)));
            }
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            chosen.push(read(path)?);
        } else if let Some(text) = catalogue::text(name) {
            chosen.push(parse(name, text.to_owned())?);
        } else {
            let known = catalogue::TEXTS.iter().chain(catalogue::PROGRAMS).map(|(name, _)| *name);
            let known: Vec<&str> = known.chain([PROGRAMS]).collect();
            return Err(Error::NoWorkload { name: name.clone(), known: known.join(", ") });
        }
    }
    Ok(chosen)
}

fn built_in(list: &[(&str, &str)]) -> Result<Vec<Chosen>, Error> {
    list.iter().map(|&(name, text)| parse(name, text.to_owned())).collect()
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

fn read(path: &Path) -> Result<Chosen, Error> {
    let text = fs::read_to_string(path).map_err(|cause| Error::Unreadable { path: path.to_owned(), cause })?;
    let beside = Some(path.parent().unwrap_or(Path::new("")).to_owned());
    Ok(Chosen { beside, ..parse(&path.to_string_lossy(), text)? })
}

fn parse(file: &str, text: String) -> Result<Chosen, Error> {
    Ok(Chosen { load: Load::parse(file, &text).map_err(Error::Workload)?, text, beside: None })
}
