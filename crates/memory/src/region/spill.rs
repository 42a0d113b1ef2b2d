//! Where pages go that do not fit: a file without a name, or whatever a program puts in its place.
//!
//! Which page lies where in the file is policy's to say. It is as long as the region, and there in full before that is, so that no page is refused
//! later for want of room; nobody else can open it, and it ends with the process, however that ends. It is read and written past the kernel's page cache where the
//! file system can: what the kernel kept of it would be memory beyond the budget.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::Error;

/// Keeps pages and gives them back. Called from several threads, never twice at the same time for the same bytes.
///
/// An error on reading is SIGBUS for who touches the page; one on writing leaves the page in memory.
pub trait Spill: Send + Sync + 'static {
    /// Fills `into` with what was written at `offset`. Whole pages.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Keeps `from` at `offset`. Whole pages.
    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()>;
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct SpillFile {
    file: File,
    /// Past the kernel's page cache.
    pub(crate) direct: bool,
}

impl SpillFile {
    /// A file of `bytes` in `dir`, all of them allocated.
    pub(crate) fn new(dir: &Path, bytes: u64) -> Result<Self, Error> {
        Self::make(dir, bytes).map_err(|cause| Error::Spill { dir: dir.to_owned(), bytes, cause })
    }

    fn make(dir: &Path, bytes: u64) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match rustix::fs::openat(CWD, dir, flags, mode) {
            Ok(fd) => File::from(fd),
            // A file system without nameless files; the second is what an old kernel says.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => unlinked(dir)?,
            Err(errno) => return Err(errno.into()),
        };
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(&file, bytes)?,
            Err(errno) => return Err(errno.into()),
        }
        let direct = go_direct(&file);
        if !direct {
            tracing::info!(dir = %dir.display(), "the spill file is read through the kernel's page cache");
        }
        Ok(Self { file, direct })
    }
}

/// A file with a name for as long as it takes to take the name away.
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

/// Writes zeroes: what has been written has room.
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    let zeroes = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        let len = (bytes - at).min(zeroes.len() as u64);
        file.write_all_at(&zeroes[..len as usize], at)?;
        at += len;
    }
    file.sync_data()
}

/// Whether the file is read and written directly from now on, and can be by pages.
fn go_direct(file: &File) -> bool {
    let Ok(flags) = rustix::fs::fcntl_getfl(file) else { return false };
    if rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return false;
    }
    // Some take the flag and refuse the read.
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

impl Spill for SpillFile {
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
        let spill = SpillFile::new(dir.path(), 1 << 20).expect("a spill file");
        let about = spill.file.metadata().expect("it is open");
        assert_eq!((about.nlink(), about.mode() & 0o777, about.len()), (0, 0o600, 1 << 20));
        assert!(about.blocks() * 512 >= 1 << 20, "{} blocks", about.blocks());
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn so_has_one_on_a_file_system_that_knows_no_nameless_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = unlinked(dir.path()).expect("a file");
        fill(&file, 3 << 20).expect("room");
        let about = file.metadata().expect("it is open");
        assert_eq!((about.nlink(), about.mode() & 0o777, about.len()), (0, 0o600, 3 << 20));
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }
}
