//! The spill: a file without a name that holds evicted pages, or a program's own storage in its
//! place.
//!
//! Policy decides which slot of the file a page goes to. The file is as long as the region and
//! allocated in full before the region exists, so that no page is refused later for want of room.
//! A program can ask for room itself instead, as it needs it. No other process can open the file,
//! and it ends with the process, in whichever way that ends. It is read and written past the
//! kernel's page cache where the file system can: pages that the kernel cached would be memory
//! beyond the budget.
//!
//! Its room is free when the region is dropped, also where a child made by fork still has the
//! file: it is cut to nothing. A child closes it at the fork, so a child that outlives its parent
//! keeps no room either.

#![allow(unsafe_code, reason = "a child of a fork closes the file")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{CWD, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::kernel::frames::RUN_MAX;

/// Keeps pages and gives them back. Called from several threads, never at the same time for the
/// same bytes.
///
/// When a read fails, the thread that touches the page is sent SIGBUS; when a write fails, it is
/// tried again for about a second, and the page stays in memory.
///
/// # Safety
///
/// A read that succeeds gives the bytes that were written last at that place, and no others: the
/// program may hold a reference to the memory that they come back to, and any value of any type
/// may lie there. So what keeps the bytes is the implementation's alone: no other process, and no
/// other code of this one, changes it.
pub unsafe trait Spill: Send + Sync + 'static {
    /// Fills `into` with the bytes that were written at `offset`. Whole pages.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Keeps `from` at `offset`. Whole pages.
    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()>;
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct SpillFile {
    file: File,
    dir: PathBuf,
    /// Read and written past the kernel's page cache.
    pub(crate) direct: bool,
}

impl SpillFile {
    /// A file of `bytes` bytes in `dir`, the first `room` of them allocated.
    pub(crate) fn new(dir: &Path, bytes: u64, room: u64) -> Result<Self, Error> {
        let made = Self::make(dir, bytes).map_err(|cause| Error::Spill { dir: dir.to_owned(), bytes, cause })?;
        made.make_room(0, room)?;
        Ok(made)
    }

    /// Has the bytes from `start` to before `end` allocated.
    pub(crate) fn make_room(&self, start: u64, end: u64) -> Result<(), Error> {
        if start == end {
            return Ok(());
        }
        let made = match self.allocate(start, end) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(&self.file, start, end),
            result => result.map_err(io::Error::from),
        };
        let failed = |cause| Error::Spill { dir: self.dir.clone(), bytes: end, cause };
        made.map_err(failed).inspect_err(|_| {
            // The file system may have allocated a part.
            let _ = self.give_room(start, end);
        })
    }

    fn allocate(&self, start: u64, end: u64) -> Result<(), Errno> {
        // A call that is refused may take all the room that there is before it fails, from every
        // other program.
        if let Ok(about) = rustix::fs::fstatvfs(&self.file)
            // A file system that counts no blocks does not say what is free.
            && about.f_blocks > 0
            && about.f_bavail.saturating_mul(about.f_frsize) < end - start
        {
            return Err(Errno::NOSPC);
        }
        rustix::fs::fallocate(&self.file, FallocateFlags::empty(), start, end - start)
    }

    /// Gives the room of the bytes from `start` to before `end` back. What they hold is lost.
    pub(crate) fn give_room(&self, start: u64, end: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if start < end {
            rustix::fs::fallocate(&self.file, flags, start, end - start)?;
        }
        Ok(())
    }

    fn make(dir: &Path, bytes: u64) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match rustix::fs::openat(CWD, dir, flags, mode) {
            Ok(fd) => File::from(fd),
            // A file system without nameless files; ISDIR and INVAL are errors of old kernels.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => unlinked(dir)?,
            Err(errno) => return Err(errno.into()),
        };
        file.set_len(bytes)?;
        let direct = go_direct(&file);
        if !direct {
            tracing::info!(dir = %dir.display(), "the spill file is read through the kernel's page cache");
        }
        close_in_children(file.as_raw_fd());
        Ok(Self { file, dir: dir.to_owned(), direct })
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        let own = self.file.as_raw_fd();
        for fd in &OPEN {
            let _ = fd.compare_exchange(own, NONE, Ordering::AcqRel, Ordering::Relaxed);
        }
        // A child may have the file as well.
        let _ = self.file.set_len(0);
    }
}

/// Has a child made by fork close a spill file.
fn close_in_children(file: i32) {
    static ASKED: Once = Once::new();
    // SAFETY: the function makes only calls that are allowed after a fork.
    ASKED.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(close_all)) });
    // Without a free place the child keeps the file open, and harms nothing but room.
    let _ = OPEN.iter().find(|fd| fd.compare_exchange(NONE, file, Ordering::AcqRel, Ordering::Relaxed).is_ok());
}

/// Runs in a child, at the fork.
unsafe extern "C" fn close_all() {
    for fd in &OPEN {
        let file = fd.swap(NONE, Ordering::AcqRel);
        if file != NONE {
            // SAFETY: it is the child's copy of a spill file, which no code in a child uses.
            unsafe { libc::close(file) };
        }
    }
}

/// The spill files of this process, and the number that stands for none.
static OPEN: [AtomicI32; OPEN_MAX] = [const { AtomicI32::new(NONE) }; OPEN_MAX];
const NONE: i32 = -1;

/// Regions whose files a child closes. Lower: children of programs with many regions keep the
/// others' room while they live. Higher: more memory (4 bytes each) and a longer fork.
const OPEN_MAX: usize = 256;

/// The directory of a region whose program named none: of temporary files, on storage.
pub(crate) fn temporary_dir() -> Result<PathBuf, Error> {
    let on_storage = |dir: &PathBuf| {
        let about = rustix::fs::statfs(dir);
        // A directory that cannot be asked is refused with its name when the file is made.
        about.map_or(true, |about| !IN_MEMORY.contains(&(about.f_type as u32)))
    };
    let first = std::env::temp_dir();
    let second = || Some(PathBuf::from("/var/tmp")).filter(|dir| dir.is_dir() && on_storage(dir));
    Some(first).filter(on_storage).or_else(second).ok_or(Error::Invalid {
        what: "the directories for temporary files are in memory (tmpfs): name a directory on storage for the spill file",
    })
}

/// File systems in memory: tmpfs and ramfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Creates a file and removes its name at once.
fn unlinked(dir: &Path) -> io::Result<File> {
    let mut tried = 0_u32;
    loop {
        let path: PathBuf = dir.join(format!(".foreread-spill-{}-{tried}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => tried += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Writes zeroes, so that the file system allocates all blocks. Whole pages.
fn fill(file: &File, start: u64, end: u64) -> io::Result<()> {
    // From the start of a page: the file may be written directly.
    let mut pool = crate::kernel::frames::Pool::new(0);
    let mut frames = pool.take(RUN_MAX)?;
    let zeroes = pool.bytes(&mut frames);
    zeroes.fill(0);
    let mut at = start;
    let mut filled = Ok(());
    while at < end && filled.is_ok() {
        let len = (end - at).min(zeroes.len() as u64);
        filled = file.write_all_at(&zeroes[..len as usize], at);
        at += len;
    }
    pool.give(&frames);
    filled?;
    file.sync_data()
}

/// Has the file read and written directly from now on. Whether that works, in whole pages.
fn go_direct(file: &File) -> bool {
    let Ok(flags) = rustix::fs::fcntl_getfl(file) else { return false };
    if rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return false;
    }
    // Some file systems accept the flag and refuse the read.
    let mut page = crate::kernel::frames::Pool::new(0);
    let reads = page.take(1).and_then(|mut frame| {
        let read = file.read_exact_at(page.bytes(&mut frame), 0);
        page.give(&frame);
        read
    });
    if reads.is_err() {
        let _ = rustix::fs::fcntl_setfl(file, flags);
    }
    reads.is_ok()
}

// SAFETY: the file has no name and mode 0600, and nothing else writes to it.
unsafe impl Spill for SpillFile {
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.file.write_all_at(from, offset)
    }
}

impl AsFd for SpillFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_spill_file_has_its_room_and_no_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let spill = SpillFile::new(dir.path(), 1 << 20, 1 << 20).expect("a spill file");
        let about = spill.file.metadata().expect("it is open");
        assert_eq!((about.nlink(), about.mode() & 0o777, about.len()), (0, 0o600, 1 << 20));
        assert!(about.blocks() * 512 >= 1 << 20, "{} blocks", about.blocks());
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn room_is_made_and_given_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let spill = SpillFile::new(dir.path(), 8 << 20, 0).expect("a spill file");
        let blocks = || {
            let about = spill.file.metadata().expect("it is open");
            assert_eq!(about.len(), 8 << 20);
            about.blocks() * 512
        };
        assert_eq!(blocks(), 0);
        spill.make_room(0, 4 << 20).expect("room");
        assert!(blocks() >= 4 << 20);
        spill.give_room(1 << 20, 4 << 20).expect("given back");
        assert!((1 << 20..4 << 20).contains(&blocks()));
        let refused = spill.make_room(0, 1 << 62).expect_err("no file is that long");
        assert!(refused.to_string().contains(&dir.path().display().to_string()), "{refused}");
    }

    #[test]
    fn the_fallback_for_file_systems_without_nameless_files_has_both_as_well() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = unlinked(dir.path()).expect("a file");
        fill(&file, 0, 3 << 20).expect("room");
        let about = file.metadata().expect("it is open");
        assert_eq!((about.nlink(), about.mode() & 0o777, about.len()), (0, 0o600, 3 << 20));
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }
}
