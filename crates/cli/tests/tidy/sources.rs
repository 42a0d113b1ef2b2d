//! The files that the rules look at, and the parts of them that a rule is about.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").to_owned()
}

/// A path as a message shows it: from the root on.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The text of a file.
pub(crate) fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The folder of a crate.
pub(crate) fn home(name: &str) -> PathBuf {
    // The Python package has its crate beside its modules.
    root().join(if name == "python" { "python".to_owned() } else { format!("crates/{name}") })
}

/// Every Rust file of the workspace's crates.
pub(crate) fn all_rust_files() -> Vec<PathBuf> {
    let (mut all, python) = (rust_files(&root().join("crates")), rust_files(&root().join("python/src")));
    all.extend(python);
    all
}

/// Every Rust file below a directory, sorted.
pub(crate) fn rust_files(dir: &Path) -> Vec<PathBuf> {
    files(dir, "rs")
}

/// Every file below a directory whose name ends so, sorted. Build output is passed over.
pub(crate) fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).expect("a directory").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                if name != "target" && !name.to_string_lossy().starts_with('.') {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|other| other == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The text before the unit tests of a file.
pub(crate) fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

/// The words of a line of code.
pub(crate) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}
