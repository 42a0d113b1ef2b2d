//! The objects of the bucket: synthetic ones, ones that were put, and the files of a directory.
//!
//! A key is looked up among the objects held here first, then in the directory. Deleting an object
//! that hides a file uncovers the file.

pub mod content;
mod files;
mod object;

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use bytes::Bytes;

use crate::ObjectSpec;
use files::{Directories, Files};
pub(crate) use object::{Object, Reader};

/// All objects.
#[derive(Debug)]
pub(crate) struct Objects {
    held: RwLock<BTreeMap<String, Arc<Object>>>,
    dir: Option<PathBuf>,
    directories: Directories,
}

impl Objects {
    pub(crate) fn new(specs: &[ObjectSpec], dir: Option<PathBuf>) -> io::Result<Self> {
        let dir = dir.map(|dir| dir.canonicalize()).transpose()?;
        if let Some(dir) = &dir {
            std::fs::read_dir(dir)?;
        }
        if !specs.is_empty() {
            content::prepare();
        }
        let held = specs.iter().map(|spec| (spec.key.clone(), Arc::new(Object::synthetic(spec)))).collect();
        Ok(Self { held: RwLock::new(held), dir, directories: Directories::default() })
    }

    /// The current version of an object.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Object>> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        held.or_else(|| self.file(key).map(Arc::new))
    }

    /// Adds a synthetic object, or replaces what is under its key.
    pub(crate) fn set(&self, spec: &ObjectSpec) -> Arc<Object> {
        self.hold(Object::synthetic(spec))
    }

    /// Adds an object of these bytes, or replaces what is under its key.
    pub(crate) fn put(&self, key: &str, bytes: &Bytes) -> Arc<Object> {
        let generation = self.get(key).map_or(1, |object| object.generation + 1);
        self.hold(Object::of_bytes(key, generation, bytes))
    }

    /// Replaces a synthetic object by its next generation.
    pub(crate) fn replace(&self, key: &str) {
        let Some(object) = self.get(key) else { return };
        if object.is_synthetic() {
            self.set(&ObjectSpec { key: key.to_owned(), size: object.size, generation: object.generation + 1 });
        }
    }

    /// Removes an object that is held here; whether there was one.
    pub(crate) fn remove(&self, key: &str) -> bool {
        self.held.write().unwrap_or_else(PoisonError::into_inner).remove(key).is_some()
    }

    /// Calls `visit` with every object whose key starts with `prefix`, from `from` (a key,
    /// inclusive) on, in the order of the keys' bytes. `visit` says where to go on, or `None` to
    /// stop.
    pub(crate) fn walk(&self, prefix: &str, from: &str, mut visit: impl FnMut(&Arc<Object>) -> Option<Next>) {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let mut files = self.dir.as_ref().map(|dir| Files::below(&self.directories, dir, prefix, SystemTime::now()));
        let mut from = from.max(prefix).to_owned();
        loop {
            let file = files.as_mut().and_then(|files| files.first(&from));
            let held = held.range::<str, _>((Bound::Included(from.as_str()), Bound::Unbounded)).next();
            // What is held here hides the file of the same key.
            let object = match (held, file) {
                (Some((key, object)), Some(file)) if *key <= file.key => object,
                (_, Some(file)) => file,
                (Some((_, object)), None) => object,
                (None, None) => break,
            };
            if !object.key.starts_with(prefix) {
                break;
            }
            from = match visit(object) {
                // The first text after it.
                Some(Next::Key) => format!("{}\0", object.key),
                Some(Next::After(passed)) => match successor(&passed) {
                    Some(from) => from,
                    None => break,
                },
                None => break,
            };
        }
    }

    fn hold(&self, object: Object) -> Arc<Object> {
        let object = Arc::new(object);
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.insert(object.key.clone(), Arc::clone(&object));
        object
    }

    /// The file that a key names; `None` for keys that are not the plain relative path of a file.
    fn file(&self, key: &str) -> Option<Object> {
        let dir = self.dir.as_ref()?;
        let plain = Path::new(key).components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || key.is_empty() || key.ends_with('/') || key.contains("//") || key.contains("/./") {
            return None;
        }
        Object::of_file(key.to_owned(), dir.join(key))
    }
}

/// Where [`Objects::walk`] goes on.
pub(crate) enum Next {
    /// At the next key.
    Key,
    /// After every key that starts with this.
    After(String),
}

/// The first text after everything that starts with `prefix`.
fn successor(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // The order of UTF-8 bytes is that of code points; surrogates are skipped.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn keys(objects: &Objects, prefix: &str, from: &str) -> Vec<String> {
        let mut keys = Vec::new();
        objects.walk(prefix, from, |object| {
            keys.push(object.key.clone());
            Some(Next::Key)
        });
        keys
    }

    #[test]
    fn generations_differ_in_all_but_key_and_size() {
        let objects = Objects::new(&[ObjectSpec::new("a", 100)], None).unwrap();
        let first = objects.get("a").unwrap();
        objects.replace("a");
        let second = objects.get("a").unwrap();
        assert_eq!((second.size, second.generation), (100, 2));
        assert_ne!(first.etag, second.etag);
        assert_eq!((second.etag.len(), second.etag.ends_with("-1")), (34, true));
        assert_eq!(second.modified, first.modified + Duration::from_secs(1));
        let chunk = |object: &Arc<Object>| object.open().unwrap().chunk(0, 100).unwrap();
        assert_ne!(chunk(&first), chunk(&second));
        assert_eq!(content::verify("a", 2, 0, &chunk(&second)), Ok(()));
    }

    #[test]
    fn an_object_that_was_put_is_read_back() {
        let objects = Objects::new(&[], None).unwrap();
        let first = objects.put("k", &Bytes::from_static(b"hello"));
        let second = objects.put("k", &Bytes::from_static(b"world"));
        assert_ne!(first.etag, second.etag);
        assert_eq!(objects.get("k").unwrap().open().unwrap().chunk(1, 100).unwrap(), "orld");
        assert!(objects.remove("k") && !objects.remove("k") && objects.get("k").is_none());
    }

    #[test]
    fn a_walk_keeps_to_prefix_order_and_start() {
        let specs = ["b/2", "a", "b/1", "b", "c", "b/\u{10ffff}", "b0"].map(|key| ObjectSpec::new(key, 0));
        let objects = Objects::new(&specs, None).unwrap();
        assert_eq!(keys(&objects, "", ""), ["a", "b", "b/1", "b/2", "b/\u{10ffff}", "b0", "c"]);
        assert_eq!(keys(&objects, "b/", ""), ["b/1", "b/2", "b/\u{10ffff}"]);
        assert_eq!(keys(&objects, "b/", "b/2"), ["b/2", "b/\u{10ffff}"]);
        let mut seen = Vec::new();
        objects.walk("", "", |object| {
            seen.push(object.key.clone());
            Some(if object.key == "b/1" { Next::After("b/".to_owned()) } else { Next::Key })
        });
        assert_eq!(seen, ["a", "b", "b/1", "b0", "c"]);
    }

    #[test]
    fn files_are_objects_and_keys_do_not_leave_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("in/sub")).unwrap();
        std::fs::write(dir.path().join("in/sub/file"), b"bytes of a file").unwrap();
        std::fs::write(dir.path().join("outside"), b"secret").unwrap();
        let objects = Objects::new(&[ObjectSpec::new("sub/a", 1)], Some(dir.path().join("in"))).unwrap();
        assert_eq!(keys(&objects, "", ""), ["sub/a", "sub/file"]);
        assert_eq!(keys(&objects, "sub/f", ""), ["sub/file"]);
        let file = objects.get("sub/file").unwrap();
        assert_eq!((file.size, file.open().unwrap().chunk(9, 100).unwrap()), (15, Bytes::from_static(b"a file")));
        for key in ["../outside", "sub/../../outside", "/etc/passwd", "sub//file", "sub/./file", "sub/file/", "sub", ""]
        {
            assert!(objects.get(key).is_none(), "{key}");
        }
        assert!(keys(&objects, "../", "").is_empty());
        assert!(Objects::new(&[], Some(dir.path().join("absent"))).is_err());
    }

    #[test]
    fn successors() {
        assert_eq!(successor("a/").as_deref(), Some("a0"));
        assert_eq!(successor("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(successor("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(successor("\u{10ffff}"), None);
    }
}
