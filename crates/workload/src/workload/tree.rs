//! A tree of directories: its names and its files.
//!
//! ```text
//!  directories = 3, files = 2, depth = 2     names follow from numbers: no tree needs memory
//!
//!  /  d000  f00000.bin f00001.bin            directory 0
//!     d001  f00000.bin f00001.bin            directory 1, the middle one: holds the next level
//!           d000  f00000.bin f00001.bin      directory 3
//!           d001  ..                         directory 4
//!           d002  ..                         directory 5
//!     d002  f00000.bin f00001.bin            directory 2
//! ```
//!
//! Files are numbered directory by directory.

use serde::Serialize;

use super::files::Files;

/// The directories and files of a workload that walks. The top holds directories only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tree {
    /// Side by side on each level; at least 1.
    pub directories: u32,
    /// In each directory but the top.
    pub files: u32,
    /// Levels of directories below the top; at least 1. The middle directory of each level holds
    /// the next level.
    pub depth: u32,
    /// Bytes of each file.
    pub size_bytes: u64,
}

/// The entry behind a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Child {
    /// This directory.
    Directory(u32),
    /// This file.
    File(u32),
}

impl Tree {
    /// All directories below the top.
    pub fn directories_in_all(&self) -> u32 {
        self.directories * self.depth
    }

    /// All files, as of a workload without a tree.
    pub(crate) fn as_files(&self) -> Files {
        let count = self.directories_in_all() * self.files;
        Files { count, size_bytes: self.size_bytes, extent_bytes: None }
    }

    /// The path of a directory (below [`Tree::directories_in_all`]) from the top, without a final
    /// slash.
    pub fn directory_path(&self, directory: u32) -> String {
        let (level, place) = (directory / self.directories, directory % self.directories);
        let middle = format!("d{:03}/", self.middle());
        format!("{}d{place:03}", middle.repeat(level as usize))
    }

    /// The path of file `file` from the top.
    pub fn file_path(&self, file: u32) -> String {
        let (directory, place) = (file / self.files, file % self.files);
        format!("{}/f{place:05}.bin", self.directory_path(directory))
    }

    /// The entry called `name` in a directory, the top being `None`; `None` for an unknown name.
    pub fn child(&self, directory: Option<u32>, name: &str) -> Option<Child> {
        if let Some(number) = name.strip_prefix('d') {
            let place = numbered(number, 3)?;
            return Some(Child::Directory(self.first_below(directory)? + place)).filter(|_| place < self.directories);
        }
        let place = numbered(name.strip_prefix('f')?.strip_suffix(".bin")?, 5)?;
        Some(Child::File(directory? * self.files + place)).filter(|_| place < self.files)
    }

    /// How many names a directory holds, the top being `None`.
    pub fn names_in(&self, directory: Option<u32>) -> u32 {
        let files = directory.map_or(0, |_| self.files);
        files + self.first_below(directory).map_or(0, |_| self.directories)
    }

    /// The first directory in a directory, if it holds any.
    fn first_below(&self, directory: Option<u32>) -> Option<u32> {
        let Some(directory) = directory else { return Some(0) };
        let (level, place) = (directory / self.directories, directory % self.directories);
        (place == self.middle() && level + 1 < self.depth).then(|| (level + 1) * self.directories)
    }

    fn middle(&self) -> u32 {
        self.directories / 2
    }
}

/// The number that is written in `digits` digits, or in more if it needs them.
fn numbered(text: &str, digits: usize) -> Option<u32> {
    let plain = text.len() >= digits && text.bytes().all(|byte| byte.is_ascii_digit());
    let padded = text.len() == digits || !text.starts_with('0');
    if plain && padded { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: Tree = Tree { directories: 3, files: 2, depth: 2, size_bytes: 1 };

    #[test]
    fn the_middle_directory_holds_the_next_level() {
        let paths: Vec<String> = (0..TREE.directories_in_all()).map(|number| TREE.directory_path(number)).collect();
        assert_eq!(paths, ["d000", "d001", "d002", "d001/d000", "d001/d001", "d001/d002"]);
        assert_eq!(TREE.file_path(0), "d000/f00000.bin");
        assert_eq!(TREE.file_path(11), "d001/d002/f00001.bin");
        assert_eq!([None, Some(0), Some(1), Some(4)].map(|directory| TREE.names_in(directory)), [3, 2, 5, 2]);
    }

    #[test]
    fn every_path_leads_back_to_its_number() {
        let descend = |path: &str| {
            path.split('/').fold((None, None), |(directory, _), name| match TREE.child(directory, name) {
                Some(Child::Directory(number)) => (Some(number), None),
                Some(Child::File(number)) => (directory, Some(number)),
                None => panic!("{name} in {path}"),
            })
        };
        for number in 0..TREE.directories_in_all() {
            assert_eq!(descend(&TREE.directory_path(number)).0, Some(number));
        }
        for number in 0..TREE.as_files().count {
            assert_eq!(descend(&TREE.file_path(number)).1, Some(number));
        }
        for (directory, name) in
            [(None, "f00000.bin"), (None, "d003"), (Some(0), "d000"), (Some(0), "f00002.bin"), (Some(0), "f0.bin")]
        {
            assert_eq!(TREE.child(directory, name), None, "{directory:?} {name}");
        }
        for name in ["d0", "d0000", "d+01", "x", "", "f00000", "f00000.bin.bin"] {
            assert_eq!(TREE.child(Some(1), name), None, "{name}");
        }
    }
}
