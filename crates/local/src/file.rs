//! An open file, twice where it can be: through the kernel's page cache, and past it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::cached;
use crate::frames::FRAME_BYTES;

/// A file that is read.
#[derive(Debug)]
pub struct LocalFile {
    cached: OwnedFd,
    direct: Option<OwnedFd>,
    /// What is in the kernel's memory can be asked, and the rest be read directly.
    may_be_direct: AtomicBool,
}

impl LocalFile {
    /// A file that is read through the kernel's page cache alone.
    pub fn new(cached: OwnedFd) -> Self {
        Self { cached, direct: None, may_be_direct: AtomicBool::new(false) }
    }

    /// The same file opened once more, with `O_DIRECT`, is `direct`: what the kernel does not have in memory is read from there.
    pub fn with_direct(cached: OwnedFd, direct: OwnedFd) -> Self {
        Self { cached, direct: Some(direct), may_be_direct: AtomicBool::new(true) }
    }

    /// The descriptor that reads through the page cache.
    pub fn cached(&self) -> BorrowedFd<'_> {
        self.cached.as_fd()
    }

    /// The descriptor that reads past it, if that is wanted and there is one; else the same.
    pub(crate) fn descriptor(&self, direct: bool) -> BorrowedFd<'_> {
        self.direct.as_ref().filter(|_| direct).unwrap_or(&self.cached).as_fd()
    }

    /// Whether bytes of `[offset, offset + len)` are known not to be in the kernel's memory, and can be read directly.
    pub(crate) fn lacks(&self, offset: u64, len: u64) -> bool {
        if !self.may_be_direct.load(Relaxed) {
            return false;
        }
        let frame = FRAME_BYTES as u64;
        match cached::pages(self.cached(), offset, len) {
            Ok(pages) => pages < (offset + len).div_ceil(frame) - offset / frame,
            Err(errno) => {
                tracing::debug!(%errno, "what the kernel has of a file is not told");
                self.refused();
                false
            }
        }
    }

    /// It cannot be read directly after all: its file system wants another alignment.
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

    /// Where this was built: on a disk, if anything is.
    fn disk() -> PathBuf {
        let program = std::env::current_exe().expect("this is a program");
        program.parent().expect("it lies somewhere").to_owned()
    }

    /// A file of 16 pages that the kernel does not have in memory; `None` where nothing is cold or read directly.
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
    fn what_the_kernel_lacks_is_read_without_leaving_it_there() {
        let Some((_file, local)) = cold() else { return eprintln!("skipped: nothing is read directly here") };
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
    fn what_the_kernel_has_is_told_page_by_page() {
        let Some((_file, local)) = cold() else { return eprintln!("skipped: nothing is read directly here") };
        let pages = FRAME_BYTES as u64;
        rustix::io::pread(local.cached(), &mut [0; 10], 2 * pages).expect("it is read");
        assert!(!local.lacks(2 * pages, pages) && !local.lacks(2 * pages + 5, 1));
        assert!(local.lacks(2 * pages, pages + 1) && local.lacks(2 * pages - 1, 2));
        local.refused();
        assert!(!local.lacks(4 * pages, pages), "it is not read directly any more");
    }
}
