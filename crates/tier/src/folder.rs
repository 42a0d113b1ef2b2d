//! The folder: its format, its owner, its lock, and the segment files in it.
//!
//! ```text
//!   FORMAT                    "foreread cache 2\n"; encrypted: a salt and a check as well
//!   lock                      locked to make room and to take a number; holds the last number
//!   segment-0000000000000001  numbers only grow
//! ```
//!
//! *Invariant:* a folder of another format, of another user or with other files is not touched.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::error::Error;
use crate::format::{self, u64_at};
use crate::guard::{Guard, Salt};
use crate::object::ObjectId;
use crate::record::PAGE;
use crate::secret::{Keys, Secret, random};

const FORMAT: &str = "foreread cache 2\n";

/// A folder that holds a cache.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Of one that is encrypted.
    keys: Option<Keys>,
}

/// What tells the right key of an encrypted folder from others.
#[derive(Debug, Clone, Copy)]
struct KeyCheck {
    salt: Salt,
    check: Salt,
}

/// The lock of a folder, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Folder {
    /// Makes a cache of the folder if it is none, encrypted if there is a secret.
    pub(crate) fn create(path: &Path, secret: Option<&Secret>) -> Result<Self, Error> {
        let folder = || path.to_owned();
        match fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
            Ok(()) => {}
            Err(_) if path.is_dir() => {}
            Err(_) if path.exists() => return Err(Error::NotAFolder { folder: folder() }),
            Err(source) => return Err(Error::Create { folder: folder(), source }),
        }
        let path = owned(path)?;
        if format_of(&path)?.is_none() {
            let mut entries = fs::read_dir(&path).map_err(|source| Error::Io { folder: folder(), source })?;
            // Another process may be making the same cache.
            let other = entries.find_map(|entry| {
                let name = entry.ok()?.file_name();
                (!name.to_string_lossy().starts_with("FORMAT")).then_some(name)
            });
            if let Some(found) = other.filter(|name| name != "lock") {
                return Err(Error::NotEmpty { folder: folder(), found: found.to_string_lossy().into_owned() });
            }
        }
        let made = Self { path, keys: None };
        let lock = made.lock().map_err(|source| Error::ReadOnly { folder: folder(), source })?;
        if format_of(&made.path)?.is_none() {
            made.put_format(secret).map_err(|source| Error::ReadOnly { folder: folder(), source })?;
        }
        drop(lock);
        made.unlocked(secret)
    }

    /// A folder that is a cache already, without a key for what is encrypted.
    pub(crate) fn existing(path: &Path) -> Result<Self, Error> {
        let path = owned(path)?;
        if format_of(&path)?.is_some() { Ok(Self { path, keys: None }) } else { Err(Error::NotACache { folder: path }) }
    }

    /// The same with the keys that follow from its secret, if that is the right one.
    pub(crate) fn unlocked(self, secret: Option<&Secret>) -> Result<Self, Error> {
        let keys = match (format_of(&self.path)?, secret) {
            (None, _) => return Err(Error::NotACache { folder: self.path }),
            (Some(Format::Plain), None) => return Ok(self),
            (Some(Format::Plain), Some(_)) => return Err(Error::NotEncrypted { folder: self.path }),
            (Some(Format::Encrypted(_)), None) => return Err(Error::Encrypted { folder: self.path }),
            (Some(Format::Encrypted(key_check)), Some(secret)) => {
                let keys = Keys::new(secret, &key_check.salt);
                if keys.check() != key_check.check {
                    return Err(Error::OtherKey { folder: self.path });
                }
                keys
            }
        };
        Ok(Self { keys: Some(keys), ..self })
    }

    /// Writes the file that makes it a cache.
    fn put_format(&self, secret: Option<&Secret>) -> io::Result<()> {
        let mut text = FORMAT.to_owned();
        if let Some(secret) = secret {
            let salt = random()?;
            let hex = |salt: Salt| format!("{:032x}", u128::from_be_bytes(salt));
            text.extend(["encrypted ", &hex(salt), " ", &hex(Keys::new(secret, &salt).check()), "\n"]);
        }
        let new = self.path.join(format!("FORMAT-{}", std::process::id()));
        fs::write(&new, text)?;
        fs::rename(&new, self.path.join("FORMAT"))
    }

    /// The identity of a version of an object in it.
    pub(crate) fn object(&self, store: &str, key: &str, version: &str) -> ObjectId {
        match &self.keys {
            None => ObjectId::of(store, key, version),
            Some(keys) => keys.object(store, key, version),
        }
    }

    /// What guards the pages of a new segment.
    pub(crate) fn new_guard(&self) -> io::Result<(Salt, Guard)> {
        let salt = if self.keys.is_some() { random()? } else { Salt::default() };
        Ok((salt, self.guard(&salt)))
    }

    /// What guards the pages of a segment.
    pub(crate) fn guard_of(&self, file: &File, number: u64) -> io::Result<Guard> {
        if self.keys.is_none() {
            return Ok(Guard::Checked);
        }
        let mut block = vec![0; PAGE];
        file.read_exact_at(&mut block, 0)?;
        let salt = format::salt(&block, number).ok_or(ErrorKind::InvalidData)?;
        Ok(self.guard(&salt))
    }

    fn guard(&self, salt: &Salt) -> Guard {
        self.keys.as_ref().map_or(Guard::Checked, |keys| keys.guard(salt))
    }

    /// Its canonical path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("segment-{number:016x}"))
    }

    /// The numbers of the segment files, ascending.
    pub(crate) fn segments(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            numbers.extend(number_of(&entry?.file_name()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn lock_file(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(self.path.join("lock"))
    }

    /// Waits for the folder's lock, which each process holds for a moment.
    pub(crate) fn lock(&self) -> io::Result<Lock> {
        let file = self.lock_file()?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
        Ok(Lock { file })
    }

    /// Bytes that this user may still write to the file system.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let free = rustix::fs::statvfs(&self.path)?;
        Ok(free.f_bavail.saturating_mul(free.f_frsize))
    }

    /// Bytes of the file system; `None` where it does not tell.
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        let all = rustix::fs::statvfs(&self.path).ok()?;
        Some(all.f_blocks.saturating_mul(all.f_frsize)).filter(|bytes| *bytes > 0)
    }

    /// Empties and removes a segment file. Returns its bytes.
    pub(crate) fn remove(&self, number: u64) -> io::Result<u64> {
        let path = self.segment(number);
        // Others may have it open: its room is free at once.
        let bytes = match OpenOptions::new().write(true).open(&path) {
            Ok(file) => {
                let bytes = file.metadata()?.len();
                file.set_len(0)?;
                bytes
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(bytes),
        }
    }
}

impl Lock {
    /// A number that no segment had, where `last` is the highest that is there.
    pub(crate) fn next_number(&self, last: u64) -> io::Result<u64> {
        let mut bytes = [0; 16];
        let told = match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) if u64_at(&bytes, 0) == !u64_at(&bytes, 8) => u64_at(&bytes, 0),
            _ => 0,
        };
        let next = last.max(told).checked_add(1).ok_or(ErrorKind::StorageFull)?;
        bytes[..8].copy_from_slice(&next.to_le_bytes());
        bytes[8..].copy_from_slice(&(!next).to_le_bytes());
        self.file.write_all_at(&bytes, 0)?;
        Ok(next)
    }
}

/// Takes the lock of a segment file, if no process holds it. It is given up when the file is
/// closed.
pub(crate) fn try_lock(file: &File) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn number_of(name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?.strip_prefix("segment-")?;
    let is_ours = digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(digits, 16).ok().filter(|_| is_ours)
}

/// The canonical path of a folder of this user.
fn owned(path: &Path) -> Result<PathBuf, Error> {
    let io = |source| Error::Io { folder: path.to_owned(), source };
    let real = match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Error::NotACache { folder: path.to_owned() }),
        real => real.map_err(io)?,
    };
    let metadata = fs::metadata(&real).map_err(io)?;
    if !metadata.is_dir() {
        return Err(Error::NotAFolder { folder: path.to_owned() });
    }
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        return Err(Error::Owner { folder: path.to_owned(), owner: metadata.uid(), user });
    }
    Ok(real)
}

/// What the file `FORMAT` says.
enum Format {
    Plain,
    Encrypted(KeyCheck),
}

/// The format of a folder; `None`: it is no cache.
fn format_of(path: &Path) -> Result<Option<Format>, Error> {
    let mut found = Vec::new();
    match File::open(path.join("FORMAT")).and_then(|file| file.take(200).read_to_end(&mut found)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Io { folder: path.to_owned(), source }),
        Ok(_) => {}
    }
    let found = String::from_utf8_lossy(&found);
    let rest = found.strip_prefix(FORMAT);
    match rest.map(|rest| (rest, key_check(rest))) {
        Some(("", _)) => Ok(Some(Format::Plain)),
        Some((_, Some(key_check))) => Ok(Some(Format::Encrypted(key_check))),
        _ => {
            let found = found.lines().next().unwrap_or_default().to_owned();
            Err(Error::Format { folder: path.to_owned(), found })
        }
    }
}

fn key_check(line: &str) -> Option<KeyCheck> {
    let (salt, check) = line.strip_prefix("encrypted ")?.strip_suffix('\n')?.split_once(' ')?;
    let random = |hex: &str| u128::from_str_radix(hex, 16).ok().map(u128::to_be_bytes);
    Some(KeyCheck { salt: random(salt)?, check: random(check)? })
}
