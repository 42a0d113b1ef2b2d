//! The least work that answers a page fault from a file: a yardstick for the time of a region's
//! faults.
//!
//! ```text
//!   wait for a touch ──> read 32 KiB ──> copy 8 pages ──┐     one thread, one touch at a time,
//!           ^───────────────────────────────────────────┘     no decisions, no drops
//! ```

#![allow(unsafe_code, reason = "the mapping is shown as bytes")]

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use foreread_policy::{Extent, PAGE_BYTES};

use crate::error::Error;
use crate::kernel::frames::Pool;
use crate::kernel::mapping::Mapping;
use crate::kernel::uffd::Uffd;
use crate::region::spill::{Spill, SpillFile};

/// Memory that is read from a file, eight pages at a touch. For measurements.
#[derive(Debug)]
pub struct Bare {
    mapping: Arc<Mapping>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bare {
    /// `bytes` bytes, in whole clusters of 32 KiB, in a file without a name in `dir`. `content`
    /// fills each cluster and is given its offset.
    ///
    /// Errors as [`crate::RegionBuilder::create`].
    pub fn create(dir: &Path, bytes: usize, content: impl Fn(usize, &mut [u8])) -> Result<Self, Error> {
        let pages = (bytes as u64 / PAGE_BYTES).next_multiple_of(CLUSTER).max(CLUSTER);
        let file = SpillFile::new(dir, pages * PAGE_BYTES, pages * PAGE_BYTES)?;
        let mut pool = Pool::new(CLUSTER);
        let mut frames = pool.take(CLUSTER).map_err(Error::system("mapping memory"))?;
        for start in (0..pages).step_by(CLUSTER as usize) {
            let offset = start * PAGE_BYTES;
            let cluster = pool.bytes(&mut frames);
            content(offset as usize, cluster);
            file.write(offset, cluster).map_err(Error::system("writing the file"))?;
        }
        let uffd = Uffd::new(false)?;
        uffd.wait_in_read().map_err(Error::system("preparing a userfaultfd"))?;
        // One page more: a touch of it ends the thread.
        let mapping = Arc::new(Mapping::registered(pages + 1, true, &uffd)?);
        let stopped = Arc::new(AtomicBool::new(false));
        let (serving, stop) = (Arc::clone(&mapping), Arc::clone(&stopped));
        let serve = move || {
            let mut touches = Vec::new();
            loop {
                uffd.read_touches(&mut touches);
                for touch in touches.drain(..) {
                    let Some(page) = serving.page_of(touch.address) else { continue };
                    let first = page / CLUSTER * CLUSTER;
                    let pages = Extent::new(first, (first + CLUSTER).min(serving.all().end));
                    let bytes = &mut pool.bytes(&mut frames)[..(pages.pages() * PAGE_BYTES) as usize];
                    let came = first == serving.all().end - 1 || file.read(first * PAGE_BYTES, bytes).is_ok();
                    // SAFETY: the frames are this thread's, as many as there are pages; the pages
                    // are of this mapping.
                    let copied = unsafe { uffd.copy(bytes.as_ptr().addr() as u64, serving.range(pages), false) };
                    if !came || copied.is_err() {
                        // The thread that touched the page would wait for ever.
                        std::process::abort();
                    }
                }
                if stop.load(Ordering::Acquire) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("foreread-bare".to_owned()).spawn(serve);
        let thread = thread.map_err(Error::system("starting a thread"))?;
        Ok(Self { mapping, stopped, thread: Some(thread) })
    }
}

impl Deref for Bare {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let pages = self.mapping.all().end - 1;
        // SAFETY: these bytes are mapped as long as this lives, and no code writes there.
        unsafe { std::slice::from_raw_parts(self.mapping.start().as_ptr(), (pages * PAGE_BYTES) as usize) }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // SAFETY: the last page is mapped, and the thread answers its touch before it ends.
        let _ = unsafe { self.mapping.at(self.mapping.all().end - 1).read_volatile() };
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Pages read and copied at a touch: a region's cluster, so that both read the same amount. Lower:
/// more faults. Higher: longer ones.
const CLUSTER: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_shows_the_contents_of_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let content =
            |at: usize, bytes: &mut [u8]| bytes.iter_mut().enumerate().for_each(|(n, b)| *b = ((at + n) / 4096) as u8);
        let bare = Bare::create(dir.path(), 200 << 12, content).expect("memory");
        assert_eq!(bare.len(), 200 << 12);
        assert!((0..200).rev().all(|page| bare[page << 12..][..4096].iter().all(|byte| *byte == page as u8)));
    }
}
