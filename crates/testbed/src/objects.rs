//! The objects of the bucket: synthetic ones, ones that were put, and the files of a directory.
//!
//! A key is looked up among the objects held here first, then in the directory. Deleting an object
//! that hides a file uncovers the file.

pub mod content;
mod files;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use foreread_device::Random;

use crate::ObjectSpec;
use content::{BLOCK_BYTES, Content, hash};
use files::{Directories, Files};

/// One version of one object. Never changes: replacing makes another.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) key: String,
    pub(crate) size: u64,
    pub(crate) generation: u64,
    /// Without quotes.
    pub(crate) etag: String,
    pub(crate) modified: SystemTime,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Synthetic(Content),
    Memory(Bytes),
    File(PathBuf),
}

impl Object {
    fn synthetic(spec: &ObjectSpec) -> Self {
        let source = Source::Synthetic(Content::new(&spec.key, spec.generation));
        Self::new(spec.key.clone(), spec.size, spec.generation, source)
    }

    fn new(key: String, size: u64, generation: u64, source: Source) -> Self {
        Self {
            etag: etag(&format!("{key}\n{size}\n{generation}")),
            modified: SystemTime::UNIX_EPOCH
                + Duration::from_secs(FIRST_MODIFIED.saturating_add(generation.min(GENERATION_SECONDS_MAX))),
            key,
            size,
            generation,
            source,
        }
    }

    /// Opens the content.
    pub(crate) fn open(self: &Arc<Self>) -> io::Result<Reader> {
        let file = match &self.source {
            Source::File(path) => Some(File::open(path)?),
            Source::Synthetic(_) | Source::Memory(_) => None,
        };
        Ok(Reader { object: Arc::clone(self), file })
    }
}

/// The content of one version.
#[derive(Debug)]
pub(crate) struct Reader {
    object: Arc<Object>,
    file: Option<File>,
}

impl Reader {
    /// A piece of the content from `offset` on: at least a byte (unless a file has shrunk) and at
    /// most `bytes_max`.
    pub(crate) fn chunk(&self, offset: u64, bytes_max: u64) -> io::Result<Bytes> {
        match (&self.object.source, &self.file) {
            (Source::Synthetic(content), _) => Ok(content.chunk(offset, bytes_max)),
            (Source::Memory(bytes), _) => {
                let end = (offset + bytes_max).min(bytes.len() as u64);
                Ok(bytes.slice(offset as usize..end as usize))
            }
            (Source::File(_), Some(file)) => {
                let mut buffer = vec![0; bytes_max.min(BLOCK_BYTES) as usize];
                let read = file.read_at(&mut buffer, offset)?;
                buffer.truncate(read);
                if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(buffer.into()) }
            }
            (Source::File(_), None) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

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
        // The ETag of an object that was put follows its bytes, too: two different ones may be put
        // as the same generation after a deletion.
        let mut object = Object::new(key.to_owned(), bytes.len() as u64, generation, Source::Memory(bytes.clone()));
        object.etag = etag(&format!("{}\n{:016x}", object.etag, hash(bytes)));
        self.hold(object)
    }

    /// Replaces a synthetic object by its next generation.
    pub(crate) fn replace(&self, key: &str) {
        let Some(object) = self.get(key) else { return };
        if let Source::Synthetic(_) = object.source {
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
        file_object(key.to_owned(), dir.join(key))
    }
}

/// Where [`Objects::walk`] goes on.
pub(crate) enum Next {
    /// At the next key.
    Key,
    /// After every key that starts with this.
    After(String),
}

fn file_object(key: String, path: PathBuf) -> Option<Object> {
    let metadata = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    let modified = metadata.modified().ok()?;
    let version = format!("{key}\n{}\n{}\n{modified:?}", metadata.len(), metadata.ino());
    Some(Object {
        etag: etag(&version),
        size: metadata.len(),
        generation: 0,
        modified,
        key,
        source: Source::File(path),
    })
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

/// 32 hexadecimal digits and a number of parts, as an object has that was uploaded in parts:
/// clients take the digits alone for an MD5 of the content, and refuse what does not match.
fn etag(version: &str) -> String {
    let mut random = Random::new(hash(version.as_bytes()));
    format!("{:016x}{:016x}-1", random.next_u64(), random.next_u64())
}

/// When generation 0 was modified, 2024-01-01 00:00:00 UTC, in seconds since 1970; each generation
/// is a second younger than the one before.
const FIRST_MODIFIED: u64 = 1_704_067_200;

/// Later generations share a time: HTTP cannot write a year of five digits.
const GENERATION_SECONDS_MAX: u64 = 200_000_000_000;

#[cfg(test)]
mod tests {
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
