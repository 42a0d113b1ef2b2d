//! A file that stays open, read at any position into memory of the caller.
//!
//! ```text
//!  read ── open, or the kernel has the path in memory ──> check the version once ──> submitted
//!            └─ opening would block: an error, the caller uses Backend::read           │
//!                                             done <── the same version still? <───────┘
//! ```
//!
//! The check before a read is the one at opening. The check after it covers all reads that had
//! completed by then: a version that has changed never comes back, so a file that is the same
//! after a read was the same during it.
//!
//! At most [`OPEN_MAX`] files are open. Beyond that, a file that was not read since its last turn
//! is closed, and opened again when it is read.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use foreread_local::{Buffers, Filled, LocalFile, Submitter};
use rustix::fs::{Advice, OFlags, Stat};
use rustix::io::Errno;

use super::errno::failure;
use super::path::remembered;
use super::version::version;
use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Key, Object, Version};
use crate::{InPlace, Positioned, Told};

/// An open file, and its stamp when its version was compared.
#[derive(Debug)]
pub(super) struct Descriptor {
    file: Arc<LocalFile>,
    key: Key,
    stamp: Stamp,
    /// The last batch of reads after which the file was found unchanged; 0 for none.
    same_after: AtomicU64,
}

/// Everything that a version is made from, as numbers.
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
    /// Takes an open file if it has that version. It is read through the kernel's page cache.
    pub(super) fn new(file: OwnedFd, key: &Key, wanted: &Version) -> Result<Self, Error> {
        let stamp = stamp_of(&file, key, wanted)?;
        Ok(Self::of(LocalFile::new(file), key, stamp))
    }

    /// The same; `open` opens the file a second time, to read pages that the kernel has not cached
    /// past its page cache.
    pub(super) fn with_direct(
        file: OwnedFd,
        key: &Key,
        wanted: &Version,
        open: impl FnOnce() -> Option<OwnedFd>,
    ) -> Result<Self, Error> {
        let stamp = stamp_of(&file, key, wanted)?;
        let direct = (wanted.size >= DIRECT_BYTES_MIN).then(open).flatten();
        // The name may belong to another file by now.
        let direct = direct.filter(|direct| stamp_of(direct, key, wanted).is_ok_and(|same| same == stamp));
        let file = match direct {
            Some(direct) => LocalFile::with_direct(file, direct),
            None => LocalFile::new(file),
        };
        Ok(Self::of(file, key, stamp))
    }

    fn of(file: LocalFile, key: &Key, stamp: Stamp) -> Self {
        Self { file: Arc::new(file), key: key.clone(), stamp, same_after: AtomicU64::new(0) }
    }

    pub(super) fn file(&self) -> Arc<LocalFile> {
        Arc::clone(&self.file)
    }

    /// The buffers of a read of `range`, if they are full and the file is unchanged.
    pub(super) fn checked(&self, filled: Filled, range: Range<u64>) -> Result<Buffers, Error> {
        let (wanted, key): (usize, _) = (filled.buffers.iter().map(|buffer| buffer.len()).sum(), &self.key);
        let read = match (filled.result, self.is_same(filled.batch.map(|batch| batch.number))) {
            (Err(cause), _) => Err(refused(&cause, key)),
            (_, Err(error)) => Err(error),
            (Ok(_), Ok(false)) => Err(changed(key)),
            (Ok(count), _) if count < wanted => {
                Err(Error::new(ErrorKind::Transient, Operation::Read, key.as_str(), "the file ended early"))
            }
            _ => Ok(filled.buffers),
        };
        read.map_err(|error| error.with_extent(range))
    }

    /// Whether the file was unchanged when the reads of `batch` had completed. One check covers
    /// all of them.
    fn is_same(&self, batch: Option<NonZeroU64>) -> Result<bool, Error> {
        let batch = batch.map_or(0, NonZeroU64::get);
        if batch != 0 && self.same_after.load(Relaxed) == batch {
            return Ok(true);
        }
        let stat = rustix::fs::fstat(self.file.cached());
        let stat = stat.map_err(|e| failure(e, Operation::Read, self.key.as_str()))?;
        let same = stamp(&stat) == self.stamp;
        if same && batch != 0 {
            self.same_after.store(batch, Relaxed);
        }
        Ok(same)
    }
}

/// The stamp of an open file, if it has that version.
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
        // Where the file system has no direct reads, or opening would wait, the page cache is
        // used.
        let direct = || remembered(&self.root, key, OFlags::RDONLY | OFlags::DIRECT).ok();
        let descriptor = Arc::new(Descriptor::with_direct(file, key, &self.object.version, direct)?);
        // The engine reads ahead, so the kernel should not. A file system that takes no advice
        // still does.
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
                let file = descriptor.file();
                let checked = move |filled: Filled| {
                    let rest = filled.batch.map_or(0, |batch| batch.rest);
                    done(Told { read: descriptor.checked(filled, range), rest });
                };
                self.submitter.read(file, offset, buffers, Box::new(checked));
            }
            Err(error) => done(Err(error.with_extent(range)).into()),
        }
    }
}

/// The open files, in the order of their turns.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    turns: Mutex<VecDeque<Weak<Positions>>>,
}

impl Descriptors {
    /// One more is open: closes others if there are too many.
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

/// Files that stay open, with at most two descriptors each. Lower: more files are opened again, at
/// 10 us each. Higher: too many descriptors: a program may have 1,024 unless the limit is raised,
/// and sockets need some.
const OPEN_MAX: usize = 256;

/// Files of at least this many bytes are read directly. Lower: small files pay for a second
/// descriptor more than direct reads save. Higher: larger files fill the page cache as well.
const DIRECT_BYTES_MIN: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::fs::File;

    use foreread_local::{Batch, Frames};
    use rustix::fs::Timespec;

    use super::*;

    fn filled(batch: u64) -> Filled {
        let batch = NonZeroU64::new(batch).map(|number| Batch { number, rest: 0 });
        Filled { buffers: [Frames::new(10)].into_iter().collect(), result: Ok(10), batch }
    }

    #[test]
    fn one_check_covers_all_reads_of_a_batch() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(100).expect("room for it");
        let seen = version(&rustix::fs::fstat(&file).expect("it is open")).expect("it is a file");
        let open = OwnedFd::from(File::open(file.path()).expect("it is there"));
        let descriptor = Descriptor::new(open, &Key::new("a"), &seen).expect("it is what it was");
        let check = |batch| descriptor.checked(filled(batch), 0..10).map(|buffers| buffers.len()).map_err(|e| e.kind());
        assert_eq!((check(0), check(3)), (Ok(1), Ok(1)));
        let long_ago = Timespec { tv_sec: 1, tv_nsec: 0 };
        let times = rustix::fs::Timestamps { last_access: long_ago, last_modification: long_ago };
        rustix::fs::futimens(&file, &times).expect("times are taken");
        assert_eq!(check(3), Ok(1), "it was over before the file was looked at");
        assert_eq!(
            [check(0), check(4), check(3)].map(Result::err),
            [Some(ErrorKind::Changed), Some(ErrorKind::Changed), None]
        );
    }
}
