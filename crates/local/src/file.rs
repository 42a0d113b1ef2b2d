//! An open file, with up to two descriptors: one reads through the kernel's page cache, one past
//! it.
//!
//! ```text
//!   all in the page cache ──> read through it, at once
//!   some of it is not     ──> read past it (O_DIRECT), if the file system can
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::cached;
use crate::frames::runs::FRAME_BYTES;

/// A file to read.
#[derive(Debug)]
pub struct LocalFile {
    cached: OwnedFd,
    direct: Option<OwnedFd>,
    /// There is a direct descriptor, the kernel tells what it caches, and no direct read was
    /// refused yet.
    may_be_direct: AtomicBool,
}

impl LocalFile {
    /// A file that is read only through the kernel's page cache.
    pub fn new(cached: OwnedFd) -> Self {
        Self { cached, direct: None, may_be_direct: AtomicBool::new(false) }
    }

    /// The same file opened twice: `direct` with `O_DIRECT`. It is used where the page cache lacks
    /// bytes.
    pub fn with_direct(cached: OwnedFd, direct: OwnedFd) -> Self {
        Self { cached, direct: Some(direct), may_be_direct: AtomicBool::new(true) }
    }

    /// The descriptor that reads through the page cache.
    pub fn cached(&self) -> BorrowedFd<'_> {
        self.cached.as_fd()
    }

    /// The descriptor that reads past the page cache, if `direct` and there is one; otherwise the
    /// cached one.
    pub(crate) fn descriptor(&self, direct: bool) -> BorrowedFd<'_> {
        self.direct.as_ref().filter(|_| direct).unwrap_or(&self.cached).as_fd()
    }

    /// Whether some of `[offset, offset + len)` is known to be absent from the kernel's page
    /// cache, and can be read directly.
    pub(crate) fn lacks(&self, offset: u64, len: u64) -> bool {
        if !self.may_be_direct.load(Relaxed) {
            return false;
        }
        let frame = FRAME_BYTES as u64;
        match cached::pages(self.cached(), offset, len) {
            Ok(pages) => pages < (offset + len).div_ceil(frame) - offset / frame,
            Err(errno) => {
                tracing::debug!(%errno, "the kernel does not tell what it caches of a file");
                self.refused();
                false
            }
        }
    }

    /// Gives up direct reads: the file system wants another alignment.
    pub(crate) fn refused(&self) {
        self.may_be_direct.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::Arc;

    use rustix::fs::{Advice, Mode, OFlags};

    use super::*;
    use crate::frames::Frames;
    use crate::reading::{Reading, Tried};

    /// The directory of this program: on a disk, if any is.
    fn disk() -> PathBuf {
        let program = std::env::current_exe().expect("this is a program");
        program.parent().expect("it lies somewhere").to_owned()
    }

    /// A file of 16 pages, none of them in the page cache; `None` where the file system keeps them
    /// cached or takes no direct reads.
    fn cold() -> Option<(tempfile::NamedTempFile, LocalFile)> {
        let mut file = tempfile::NamedTempFile::new_in(disk()).expect("a file");
        file.write_all(&vec![7; 16 * FRAME_BYTES - 100]).and_then(|()| file.as_file().sync_all()).expect("room for it");
        let cached = OwnedFd::from(file.reopen().expect("it is there"));
        let direct = rustix::fs::open(file.path(), OFlags::RDONLY | OFlags::DIRECT, Mode::empty()).ok()?;
        rustix::fs::fadvise(&cached, 0, None, Advice::Random).expect("advice is taken");
        rustix::fs::fadvise(&cached, 0, None, Advice::DontNeed).expect("advice is taken");
        let local = LocalFile::with_direct(cached, direct);
        local.lacks(0, 1).then_some((file, local))
    }

    #[test]
    fn uncached_pages_are_read_and_stay_uncached() {
        let Some((_file, local)) = cold() else { return eprintln!("skipped: this file system takes no direct reads") };
        let local = Arc::new(local);
        let (pages, len) = (FRAME_BYTES as u64, 3 * FRAME_BYTES - 100);
        let mut reading =
            Reading::new(Arc::clone(&local), 13 * pages, [Frames::new(len)].into_iter().collect(), Box::new(|_| {}));
        assert!(matches!(reading.try_now(), Tried::WouldBlock));
        assert_eq!(reading.wait().expect("it is read"), len);
        assert!(reading.rest().next().is_none());
        assert!(local.lacks(13 * pages, pages) && local.lacks(15 * pages, 1), "it is in the page cache");
    }

    #[test]
    fn cached_pages_are_known_one_by_one() {
        let Some((_file, local)) = cold() else { return eprintln!("skipped: this file system takes no direct reads") };
        let pages = FRAME_BYTES as u64;
        rustix::io::pread(local.cached(), &mut [0; 10], 2 * pages).expect("it is read");
        assert!(!local.lacks(2 * pages, pages) && !local.lacks(2 * pages + 5, 1));
        assert!(local.lacks(2 * pages, pages + 1) && local.lacks(2 * pages - 1, 2));
        local.refused();
        assert!(!local.lacks(4 * pages, pages), "direct reads were given up");
    }
}
