//! A file that stays open, read at any position into the caller's own memory.
//!
//! ```text
//!  read ── open already, or the kernel remembers the path ──> one look at its version ──> submitted
//!            └─ opening would block: an error, the caller takes the other way              │
//!                                                       told <── the same version still? <─┘
//! ```
//!
//! The look before a read is the one at the opening, the look after it is its own: a version changes once and for all, so what
//! is the same after the read was the same during it.
//!
//! At most [`OPEN_MAX`] are open; beyond, one that was not read since its last turn is closed, and opened again when it is read.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use foreread_local::{Buffers, Filled, LocalFile, Submitter};
use rustix::fs::{Advice, OFlags, Stat};
use rustix::io::Errno;

use super::{failure, remembered, version};
use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Key, Object, Version};
use crate::{InPlace, Positioned};

/// An open file, and what it looked like when its version was compared.
#[derive(Debug)]
pub(super) struct Descriptor {
    file: Arc<LocalFile>,
    stamp: Stamp,
}

/// All that a version is made of, as the kernel tells it.
type Stamp = [i128; 6];

fn stamp(stat: &Stat) -> Stamp {
    let time = |seconds: i128, nanos: i128| seconds * 1_000_000_000 + nanos;
    [
        stat.st_dev.into(),
        stat.st_ino.into(),
        stat.st_mode.into(),
        stat.st_size.into(),
        time(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
        time(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
    ]
}

impl Descriptor {
    /// Takes an open file, if it has that version. It is read through the kernel's page cache.
    pub(super) fn new(file: OwnedFd, key: &Key, wanted: &Version) -> Result<Self, Error> {
        let stamp = stamp_of(&file, key, wanted)?;
        Ok(Self { file: Arc::new(LocalFile::new(file)), stamp })
    }

    /// The same, and what the kernel does not have is read past its page cache, if `open` opens it once more for that.
    pub(super) fn with_direct(
        file: OwnedFd,
        key: &Key,
        wanted: &Version,
        open: impl FnOnce() -> Option<OwnedFd>,
    ) -> Result<Self, Error> {
        let stamp = stamp_of(&file, key, wanted)?;
        let direct = (wanted.size >= DIRECT_BYTES_MIN).then(open).flatten();
        // The name may be another file's by now.
        let direct = direct.filter(|direct| stamp_of(direct, key, wanted).is_ok_and(|same| same == stamp));
        let file = match direct {
            Some(direct) => LocalFile::with_direct(file, direct),
            None => LocalFile::new(file),
        };
        Ok(Self { file: Arc::new(file), stamp })
    }

    pub(super) fn file(&self) -> Arc<LocalFile> {
        Arc::clone(&self.file)
    }

    /// The buffers of a read of `range`, if they are full and the file has not changed until now.
    pub(super) fn checked(&self, filled: Filled, key: &Key, range: Range<u64>) -> Result<Buffers, Error> {
        let wanted: usize = filled.buffers.iter().map(|buffer| buffer.len()).sum();
        let stat = rustix::fs::fstat(self.file.cached()).map_err(|e| failure(e, Operation::Read, key.as_str()));
        let read = match (filled.result, stat) {
            (Err(cause), _) => Err(refused(&cause, key)),
            (_, Err(error)) => Err(error),
            (Ok(_), Ok(stat)) if stamp(&stat) != self.stamp => Err(changed(key)),
            (Ok(count), _) if count < wanted => {
                Err(Error::new(ErrorKind::Transient, Operation::Read, key.as_str(), "the file ended early"))
            }
            _ => Ok(filled.buffers),
        };
        read.map_err(|error| error.with_extent(range))
    }
}

/// What an open file looks like, if it has that version.
fn stamp_of(file: &OwnedFd, key: &Key, wanted: &Version) -> Result<Stamp, Error> {
    let stat = rustix::fs::fstat(file).map_err(|e| failure(e, Operation::Read, key.as_str()))?;
    if version(&stat).as_ref() == Some(wanted) { Ok(stamp(&stat)) } else { Err(changed(key)) }
}

fn changed(key: &Key) -> Error {
    Error::new(ErrorKind::Changed, Operation::Read, key.as_str(), "the file was changed or replaced")
}

fn refused(cause: &std::io::Error, key: &Key) -> Error {
    match Errno::from_io_error(cause) {
        Some(errno) => failure(errno, Operation::Read, key.as_str()),
        None => Error::new(ErrorKind::Throttled, Operation::Read, key.as_str(), "too many reads are in flight"),
    }
}

/// One object, open or not.
pub(super) struct Positions {
    root: Arc<OwnedFd>,
    submitter: Arc<Submitter>,
    descriptors: Arc<Descriptors>,
    object: Object,
    open: Mutex<Option<Arc<Descriptor>>>,
    /// Read since its last turn.
    used: AtomicBool,
    own: Weak<Self>,
}

impl std::fmt::Debug for Positions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Positions").field("object", &self.object).finish_non_exhaustive()
    }
}

impl Positions {
    pub(super) fn new(
        root: Arc<OwnedFd>,
        submitter: Arc<Submitter>,
        descriptors: Arc<Descriptors>,
        object: Object,
    ) -> Arc<Self> {
        let (open, used) = (Mutex::new(None), AtomicBool::new(false));
        Arc::new_cyclic(|own| Self { root, submitter, descriptors, object, open, used, own: own.clone() })
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<Descriptor>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open file. Never waits for the disk.
    fn descriptor(&self) -> Result<Arc<Descriptor>, Error> {
        self.used.store(true, Relaxed);
        if let Some(descriptor) = &*self.slot() {
            return Ok(Arc::clone(descriptor));
        }
        let key = &self.object.key;
        let file = remembered(&self.root, key, OFlags::RDONLY).map_err(|errno| match errno {
            // On another file system below the root, or not in the kernel's memory.
            Errno::AGAIN | Errno::XDEV => {
                Error::new(ErrorKind::Transient, Operation::Read, key.as_str(), "opening it would block")
            }
            errno => failure(errno, Operation::Read, key.as_str()),
        })?;
        // A file system that cannot read it directly, or would have to wait for that, has it read through the page cache.
        let direct = || remembered(&self.root, key, OFlags::RDONLY | OFlags::DIRECT).ok();
        let descriptor = Arc::new(Descriptor::with_direct(file, key, &self.object.version, direct)?);
        // What is read ahead is decided by who reads here. A file system that takes no advice reads ahead by itself.
        let _ = rustix::fs::fadvise(descriptor.file.cached(), 0, None, Advice::Random);
        *self.slot() = Some(Arc::clone(&descriptor));
        self.descriptors.opened(self.own.clone());
        Ok(descriptor)
    }
}

impl Positioned for Positions {
    fn read(&self, offset: u64, buffers: Buffers, done: InPlace) {
        let length: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let range = offset..offset + length as u64;
        match self.descriptor() {
            Ok(descriptor) => {
                let (file, key) = (descriptor.file(), self.object.key.clone());
                let checked = move |filled| done(descriptor.checked(filled, &key, range));
                self.submitter.read(file, offset, buffers, Box::new(checked));
            }
            Err(error) => done(Err(error.with_extent(range))),
        }
    }
}

/// Which files are open, in the order in which they take turns.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    turns: Mutex<VecDeque<Weak<Positions>>>,
}

impl Descriptors {
    /// One more is open: closes others, if these are too many.
    fn opened(&self, news: Weak<Positions>) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.push_back(news);
        while turns.len() > OPEN_MAX {
            let Some(next) = turns.pop_front() else { break };
            if let Some(positions) = next.upgrade() {
                if positions.used.swap(false, Relaxed) {
                    turns.push_back(next);
                } else {
                    positions.slot().take();
                }
            }
        }
    }
}

/// Files that stay open, each with two descriptors at most. Programs may have 1,024 of them where nobody raises that, and sockets need some;
/// each file opened again costs 10 us.
const OPEN_MAX: usize = 256;

/// Files from 1 MiB on are read directly. Opening a smaller one once more would cost more than that saves in all its reads.
const DIRECT_BYTES_MIN: u64 = 1 << 20;
