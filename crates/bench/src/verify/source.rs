//! Where the right bytes come from: a directory, or storage that is read without an engine.
//!
//! A directory is read with `pread`, so what the kernel holds of it costs a copy. Storage is read
//! through its backend, a request for each comparison. What a testbed generates need not be read
//! at all: it is a function of key and offset.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foreread_backend::{Backend, ConnectOptions, Connected, Entry, Error, Key, Object};
use foreread_testbed::content::Content;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use crate::verify::tree::{Kind, below};

/// The generation that a testbed's objects begin with.
const FIRST_GENERATION: u64 = 1;
/// The last generation that is looked for.
const GENERATION_MAX: u64 = 1 << 12;
/// Bytes that only one generation has.
const TELLING_BYTES: usize = 16;
/// Longer names are not shown by a mount: the kernel refuses them.
const NAME_BYTES_MAX: usize = 1024;
/// Attempts of a request to storage, and the time between two.
const ATTEMPTS: usize = 20;
const BETWEEN: Duration = Duration::from_millis(100);

/// What a directory is compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Source {
    /// A directory: a copy, or another mount.
    Directory {
        /// Its path.
        path: PathBuf,
    },
    /// Storage, as its backend reads it.
    Storage {
        /// As `foreread mount` takes it.
        url: String,
        /// See [`ConnectOptions`].
        endpoint: Option<String>,
        /// See [`ConnectOptions`].
        region: Option<String>,
        /// See [`ConnectOptions`].
        profile: Option<String>,
        /// See [`ConnectOptions`].
        anonymous: bool,
        /// The storage is a testbed with synthetic objects in their first generation: only names
        /// are asked for, bytes are generated.
        generated: bool,
    },
}

impl Source {
    /// Its path or URL.
    pub fn shown(&self) -> String {
        match self {
            Self::Directory { path } => path.display().to_string(),
            Self::Storage { url, .. } => foreread_backend::shown(url),
        }
    }
}

/// A source that is open.
pub(crate) enum Opened {
    Directory(PathBuf),
    Storage { connected: Connected, runtime: tokio::runtime::Runtime, generated: bool },
}

/// A file of a source.
pub(crate) enum Original<'s> {
    Local(File),
    Object(&'s Connected, &'s tokio::runtime::Runtime, Object),
    Generated(Generated),
}

/// A synthetic object of a testbed.
pub(crate) struct Generated {
    key: String,
}

impl Generated {
    fn content(&self, generation: u64) -> Content {
        Content::new(&self.key, generation)
    }

    /// Fills `out` with the bytes from `offset` on of the generation that `known` says, or else of
    /// the first one that has `got` there; of none, with those of the first generation. Returns
    /// the generation, if it is known by now: a few bytes may be those of several.
    pub(crate) fn read_like(&self, offset: u64, got: &[u8], known: Option<u64>, out: &mut [u8]) -> Option<u64> {
        let has_these = |generation: &u64| self.content(*generation).verify(offset, got).is_ok();
        let found = known.or_else(|| (FIRST_GENERATION..=GENERATION_MAX).find(has_these));
        self.content(found.unwrap_or(FIRST_GENERATION)).fill(offset, out);
        known.or(found.filter(|_| got.len() >= TELLING_BYTES))
    }
}

impl Opened {
    pub(crate) fn new(source: &Source) -> io::Result<Self> {
        match source {
            Source::Directory { path } => Ok(Self::Directory(path.clone())),
            Source::Storage { url, endpoint, region, profile, anonymous, generated } => {
                let mut options = ConnectOptions::default().with_anonymous(*anonymous);
                options.endpoint.clone_from(endpoint);
                options.region.clone_from(region);
                options.profile.clone_from(profile);
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let connected = foreread_backend::connect(url, &options).map_err(io::Error::other)?;
                Ok(Self::Storage { connected, runtime, generated: *generated })
            }
        }
    }

    /// The entries of a directory whose names can be shown.
    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<(String, Kind)>> {
        match self {
            Self::Directory(top) => list_directory(&top.join(path)),
            Self::Storage { connected, runtime, .. } => {
                let prefix = match below(&connected.path, path).trim_matches('/') {
                    "" => String::new(),
                    prefix => format!("{prefix}/"),
                };
                runtime.block_on(list_prefix(&*connected.backend, &prefix)).map_err(io::Error::other)
            }
        }
    }

    pub(crate) fn open(&self, path: &str) -> io::Result<Original<'_>> {
        match self {
            Self::Directory(top) => Ok(Original::Local(File::open(top.join(path))?)),
            Self::Storage { connected, generated: true, .. } => {
                Ok(Original::Generated(Generated { key: below(&connected.path, path) }))
            }
            Self::Storage { connected, runtime, .. } => {
                let key = Key::new(below(&connected.path, path));
                let stat = again(|| connected.backend.stat(&key));
                let object = runtime.block_on(stat).map_err(io::Error::other)?;
                Ok(Original::Object(connected, runtime, object))
            }
        }
    }
}

impl Original<'_> {
    /// Fills all of `out` with the bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            _ if out.is_empty() => Ok(()),
            Self::Local(file) => file.read_exact_at(out, offset),
            Self::Generated(object) => {
                object.content(FIRST_GENERATION).fill(offset, out);
                Ok(())
            }
            Self::Object(connected, runtime, object) => {
                let range = offset..offset + out.len() as u64;
                let read = again(async || {
                    let body = connected.backend.read(&object.key, &object.version, range.clone()).await?;
                    body.try_collect::<Vec<_>>().await
                });
                let pieces = runtime.block_on(read).map_err(io::Error::other)?;
                let mut rest = out;
                for piece in pieces {
                    let (head, tail) = rest.split_at_mut_checked(piece.len()).ok_or(io::ErrorKind::InvalidData)?;
                    head.copy_from_slice(&piece);
                    rest = tail;
                }
                if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            }
        }
    }
}

/// Calls until an attempt succeeds or fails for good.
async fn again<T, F: Future<Output = Result<T, Error>>>(mut attempt: impl FnMut() -> F) -> Result<T, Error> {
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(error) if error.is_retryable() => tokio::time::sleep(BETWEEN).await,
            ended => return ended,
        }
    }
    attempt().await
}

/// The entries of a directory of this machine whose names are UTF-8.
fn list_directory(path: &Path) -> io::Result<Vec<(String, Kind)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type()?;
        let kind = if kind.is_dir() {
            Kind::Directory
        } else if kind.is_file() {
            Kind::File { size_bytes: entry.metadata()?.len() }
        } else {
            Kind::Other
        };
        entries.push((name, kind));
    }
    Ok(entries)
}

async fn list_prefix(backend: &dyn Backend, prefix: &str) -> Result<Vec<(String, Kind)>, Error> {
    let (mut entries, mut continuation): (Vec<(String, Kind)>, Option<String>) = (Vec::new(), None);
    loop {
        let page = again(|| backend.list(prefix, continuation.as_deref())).await?;
        for entry in page.entries {
            let name = entry.key().strip_prefix(prefix).unwrap_or_default().trim_end_matches('/').to_owned();
            // A key that is no file name.
            if name.is_empty()
                || name == "."
                || name == ".."
                || name.len() > NAME_BYTES_MAX
                || name.contains(['/', '\0'])
            {
                continue;
            }
            let kind = match entry {
                Entry::Object(object) => Kind::File { size_bytes: object.version.size },
                Entry::Prefix(_) => Kind::Directory,
            };
            entries.push((name, kind));
        }
        continuation = page.continuation;
        if continuation.is_none() {
            break;
        }
    }
    // An object and a prefix of one name: which of them a mount shows is not compared.
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let doubled: Vec<String> =
        entries.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0.clone()).collect();
    entries.dedup_by(|a, b| a.0 == b.0);
    for (name, kind) in &mut entries {
        if doubled.binary_search(name).is_ok() {
            *kind = Kind::Other;
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_object_is_one_generation_from_its_first_read_on() {
        let object = Generated { key: "d/f".to_owned() };
        let of = |generation: u64, offset: u64| {
            let mut bytes = vec![0; 100_000];
            object.content(generation).fill(offset, &mut bytes);
            bytes
        };
        let (mut expected, third) = (vec![0; 100_000], of(3, 7));
        assert_eq!(object.read_like(7, &third, None, &mut expected), Some(3));
        assert_eq!(expected, third);
        // Another one later on is not what the file is.
        assert_eq!(object.read_like(200_000, &of(4, 200_000), Some(3), &mut expected), Some(3));
        assert_eq!(expected, of(3, 200_000));
        // Two in one read are those of none.
        let mixed = [&third[..50_000], &of(4, 50_007)[..50_000]].concat();
        assert_eq!(object.read_like(7, &mixed, None, &mut expected), None);
        assert_ne!(expected, mixed);
        // One byte may be that of several.
        assert_eq!(object.read_like(7, &third[..1], None, &mut expected[..1]), None);
        assert_eq!(expected[0], third[0]);
    }
}
