//! The names that are read: as the source lists them, breadth first, up to a bound.
//!
//! A directory is listed whole or not at all, so every listing in a tree can be compared. The
//! workers read the tree from a file that is made once.

use serde::{Deserialize, Serialize};

/// Directories are listed until this many names are known; the one that reaches it is listed to
/// its end. Lower, and less of a large tree is read; higher, and each worker holds more names.
/// Source: about 100 bytes a name, in each of 48 workers.
pub(crate) const NAMES_MAX: usize = 200_000;

/// A file, with its path below the top and its length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Name {
    pub(crate) path: String,
    pub(crate) size_bytes: u64,
}

/// What stands behind a name of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A file of this length.
    File {
        size_bytes: u64,
    },
    Directory,
    /// A link, a socket and so on: it may be missing in the directory, or be shown as something
    /// else.
    Other,
}

/// A directory's path below the top (empty: the top), and its entries by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) path: String,
    pub(crate) entries: Vec<(String, Kind)>,
}

/// Files and directories of the source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tree {
    pub(crate) files: Vec<Name>,
    pub(crate) listings: Vec<Listing>,
    /// The bytes of all files up to each, itself included.
    ends: Vec<u64>,
}

impl Tree {
    /// The tree that `list` shows. It gets a directory's path and returns its entries.
    pub(crate) fn of<E>(mut list: impl FnMut(&str) -> Result<Vec<(String, Kind)>, E>) -> Result<Self, E> {
        let (mut tree, mut names) = (Self::default(), 0);
        let mut waiting = std::collections::VecDeque::from([String::new()]);
        while let Some(path) = waiting.pop_front().filter(|_| names < NAMES_MAX) {
            let mut entries = list(&path)?;
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            names += entries.len();
            for (name, kind) in &entries {
                let path = below(&path, name);
                match *kind {
                    Kind::File { size_bytes } => tree.push(Name { path, size_bytes }),
                    Kind::Directory => waiting.push_back(path),
                    Kind::Other => {}
                }
            }
            tree.listings.push(Listing { path, entries });
        }
        Ok(tree)
    }

    fn push(&mut self, file: Name) {
        self.ends.push(self.bytes() + file.size_bytes);
        self.files.push(file);
    }

    /// The bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or_default()
    }

    /// The file that holds this byte of all files, one behind the other.
    pub(crate) fn file_at(&self, byte: u64) -> usize {
        self.ends.partition_point(|end| *end <= byte).min(self.files.len().saturating_sub(1))
    }
}

/// The path of `name` in the directory `path`.
pub(crate) fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn directories_are_listed_whole_and_files_found_by_their_bytes() {
        let mut asked = Vec::new();
        let tree = Tree::of(|path| {
            asked.push(path.to_owned());
            let entry = |name: &str, kind| (name.to_owned(), kind);
            Ok::<_, Infallible>(match path {
                "" => vec![entry("d", Kind::Directory), entry("a", Kind::File { size_bytes: 10 })],
                _ => vec![entry("link", Kind::Other), entry("b", Kind::File { size_bytes: 5 })],
            })
        });
        let Ok(tree) = tree;
        assert_eq!(asked, ["", "d"]);
        assert_eq!(tree.files.iter().map(|file| &*file.path).collect::<Vec<_>>(), ["a", "d/b"]);
        assert_eq!(
            (tree.bytes(), tree.file_at(0), tree.file_at(9), tree.file_at(10), tree.file_at(99)),
            (15, 0, 0, 1, 1)
        );
        assert_eq!(tree.listings[1].entries.len(), 2, "a link is a name of the listing");
    }
}
