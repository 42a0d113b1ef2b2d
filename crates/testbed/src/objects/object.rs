//! One version of one object, and its content: synthetic, held in memory, or a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use foreread_device::Random;

use super::content::{BLOCK_BYTES, Content, hash};
use crate::ObjectSpec;

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
    pub(super) fn synthetic(spec: &ObjectSpec) -> Self {
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

    /// An object of these bytes.
    pub(super) fn of_bytes(key: &str, generation: u64, bytes: &Bytes) -> Self {
        let mut object = Self::new(key.to_owned(), bytes.len() as u64, generation, Source::Memory(bytes.clone()));
        // The ETag of an object that was put follows its bytes, too: two different ones may be put
        // as the same generation after a deletion.
        object.etag = etag(&format!("{}\n{:016x}", object.etag, hash(bytes)));
        object
    }

    /// A file as it is now; nothing where it is none.
    pub(super) fn of_file(key: String, path: PathBuf) -> Option<Self> {
        let metadata = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        let modified = metadata.modified().ok()?;
        let version = format!("{key}\n{}\n{}\n{modified:?}", metadata.len(), metadata.ino());
        Some(Self {
            etag: etag(&version),
            size: metadata.len(),
            generation: 0,
            modified,
            key,
            source: Source::File(path),
        })
    }

    /// Whether its bytes follow from its key and generation.
    pub(super) fn is_synthetic(&self) -> bool {
        matches!(self.source, Source::Synthetic(_))
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
