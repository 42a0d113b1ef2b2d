//! The files below a directory, in the order of their keys.
//!
//! ```text
//!   a key to start from ──> Files: a place in each directory on the way down
//!                             │ entries of a directory
//!                             v
//!                           Directories: kept, sorted ──(its change time differs)──> read anew
//! ```
//!
//! A directory is read once it is reached, so that a listing costs what it shows. What was read is
//! kept: a page of a thousand keys does not read and sort a directory of a million.
//!
//! *Invariant:* a listing shows every change that was made before it began. Creating, removing and
//! renaming sets the time of change of a directory, in steps of a clock. What was read of one that
//! has changed within [`SETTLED`] is not kept, since another change may set the same time.
//!
//! The attributes of files are not kept: each is asked for when it is shown.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::object::Object;

/// Entries of directories that were read, by the key of the directory, which ends in a slash but
/// for the top.
#[derive(Debug, Default)]
pub(super) struct Directories {
    kept: Mutex<HashMap<String, Kept>>,
}

#[derive(Debug)]
struct Kept {
    version: Version,
    keys: Arc<[String]>,
}

/// Device, inode and time of change, in seconds and nanoseconds.
type Version = (u64, u64, i64, i64);

impl Directories {
    /// The keys of the entries of a directory, in order. The key of a directory ends in a slash,
    /// as those of all files in it go on.
    fn entries(&self, parent: &str, path: &Path, now: SystemTime) -> Arc<[String]> {
        // Before the directory is read: what changes meanwhile has it read again.
        let version = path.metadata().ok().map(|of| (of.dev(), of.ino(), of.ctime(), of.ctime_nsec()));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.get(parent).filter(|found| Some(found.version) == version) {
            return Arc::clone(&found.keys);
        }
        kept.remove(parent);
        drop(kept);
        let keys = read(parent, path);
        if let Some(version) = version.filter(|version| is_settled(*version, now)) {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.values().map(|kept| kept.keys.len() + 1).sum::<usize>() + keys.len() > ENTRIES_MAX {
                kept.clear();
            }
            kept.insert(parent.to_owned(), Kept { version, keys: Arc::clone(&keys) });
        }
        keys
    }
}

/// Whether every change after `now` sets another time of change.
fn is_settled((_, _, seconds, nanos): Version, now: SystemTime) -> bool {
    let changed = Duration::new(seconds.max(0).cast_unsigned(), nanos.clamp(0, 999_999_999) as u32);
    now.duration_since(UNIX_EPOCH).is_ok_and(|now| now.saturating_sub(changed) > SETTLED)
}

fn read(parent: &str, path: &Path) -> Arc<[String]> {
    let mut keys: Vec<String> = std::fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            // A name that is not UTF-8 has no key.
            let name = entry.file_name().into_string().ok()?;
            let kind = entry.file_type().ok()?;
            let slash = if kind.is_dir() { "/" } else { "" };
            (kind.is_dir() || kind.is_file()).then(|| format!("{parent}{name}{slash}"))
        })
        .collect();
    keys.sort_unstable();
    keys.into()
}

/// The files below a directory from a key on.
#[derive(Debug)]
pub(super) struct Files<'d> {
    directories: &'d Directories,
    dir: &'d Path,
    /// Each directory on the way down, the last one first, and how many of its entries are passed.
    left: Vec<(Arc<[String]>, usize)>,
    next: Option<Arc<Object>>,
    now: SystemTime,
}

impl<'d> Files<'d> {
    /// Those below the directory that a prefix names.
    pub(super) fn below(directories: &'d Directories, dir: &'d Path, prefix: &str, now: SystemTime) -> Self {
        let parent = prefix.rfind('/').map_or("", |slash| &prefix[..=slash]);
        let plain = Path::new(parent).components().all(|part| matches!(part, Component::Normal(_)));
        let mut files = Self { directories, dir, left: Vec::new(), next: None, now };
        if plain {
            files.enter(parent);
        }
        files
    }

    /// The first one whose key is `from` or comes after it. A later call goes on from there.
    pub(super) fn first(&mut self, from: &str) -> Option<&Arc<Object>> {
        if self.next.as_ref().is_none_or(|next| *next.key < *from) {
            self.next = self.find(from).map(Arc::new);
        }
        self.next.as_ref()
    }

    fn find(&mut self, from: &str) -> Option<Object> {
        while let Some((keys, passed)) = self.left.last_mut() {
            let mut at = *passed + keys[*passed..].partition_point(|key| **key < *from);
            // `from` may be in the directory before: no other entry is between the two.
            at -= usize::from(at > *passed && keys[at - 1].ends_with('/') && from.starts_with(&keys[at - 1]));
            let Some(key) = keys.get(at).cloned() else {
                self.left.pop();
                continue;
            };
            *passed = at + 1;
            if key.ends_with('/') {
                self.enter(&key);
            } else {
                let path = self.path(&key);
                if let Some(object) = Object::of_file(key, path) {
                    return Some(object);
                }
            }
        }
        None
    }

    fn enter(&mut self, key: &str) {
        let keys = self.directories.entries(key, &self.path(key), self.now);
        self.left.push((keys, 0));
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(key)
    }
}

/// How long ago a directory has changed of which entries are kept. Lower: a change in the same
/// step of a file system's clock, which may be as long as a second, is not seen. Higher: a bucket
/// that was just made is listed slowly for longer.
const SETTLED: Duration = Duration::from_secs(2);

/// Entries that are kept, a directory itself counted as one. Lower: listings of large trees read
/// directories again. Higher: more memory, some hundred bytes each.
const ENTRIES_MAX: usize = 2_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn later() -> SystemTime {
        SystemTime::now() + Duration::from_mins(1)
    }

    fn keys(directories: &Directories, dir: &Path, from: &str) -> Vec<String> {
        let mut files = Files::below(directories, dir, "", later());
        let mut from = from.to_owned();
        let mut keys = Vec::new();
        while let Some(file) = files.first(&from) {
            keys.push(file.key.clone());
            from = format!("{}\0", file.key);
        }
        keys
    }

    #[test]
    fn a_directory_that_has_not_changed_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), b"").unwrap();
        let directories = Directories::default();
        let first = directories.entries("", dir.path(), later());
        assert!(Arc::ptr_eq(&first, &directories.entries("", dir.path(), later())));
        std::fs::write(dir.path().join("a"), b"longer").unwrap();
        assert!(Arc::ptr_eq(&first, &directories.entries("", dir.path(), later())), "its entries are the same");
    }

    #[test]
    fn what_has_just_changed_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let directories = Directories::default();
        let first = directories.entries("", dir.path(), SystemTime::now());
        assert!(!Arc::ptr_eq(&first, &directories.entries("", dir.path(), SystemTime::now())));
    }

    #[test]
    fn a_file_that_is_created_or_removed_or_grows_is_seen_at_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("sub")).unwrap();
        let directories = Directories::default();
        let entries = |key: &str| Files::below(&directories, dir.path(), key, SystemTime::now());
        for nth in 0..100 {
            let key = format!("sub/{nth:03}");
            std::fs::write(dir.path().join(&key), b"1").unwrap();
            assert_eq!(entries(&key).first(&key).map(|file| (file.key.clone(), file.size)), Some((key.clone(), 1)));
            std::fs::write(dir.path().join(&key), b"12").unwrap();
            assert_eq!(entries(&key).first(&key).map(|file| file.size), Some(2));
            if nth % 2 == 0 {
                std::fs::remove_file(dir.path().join(&key)).unwrap();
                assert!(entries(&key).first(&key).is_none());
            }
        }
        std::fs::rename(dir.path().join("sub"), dir.path().join("other")).unwrap();
        assert!(entries("sub/").first("sub/").is_none());
        assert_eq!(entries("").first("").map(|file| file.key.clone()).as_deref(), Some("other/001"));
    }

    #[test]
    fn a_walk_begins_anywhere() {
        let dir = tempfile::tempdir().unwrap();
        for key in ["a", "b-", "b/1", "b/c/2", "b0", "empty/", "z/1"] {
            let path = dir.path().join(key);
            if key.ends_with('/') {
                std::fs::create_dir_all(path).unwrap();
            } else {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, b"").unwrap();
            }
        }
        let directories = Directories::default();
        let all = ["a", "b-", "b/1", "b/c/2", "b0", "z/1"];
        for from in
            ["", "a", "a\0", "b", "b-", "b/", "b/1", "b/1\0", "b/c/", "b/c/2\0", "b/d", "b0", "e", "empty/x", "z0"]
        {
            for _ in 0..2 {
                let expected: Vec<&str> = all.into_iter().filter(|key| *key >= from).collect();
                assert_eq!(keys(&directories, dir.path(), from), expected, "from {from:?}");
            }
        }
    }
}
