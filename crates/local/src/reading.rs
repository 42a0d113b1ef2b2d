//! One read: its buffers, how far they are filled, and the function to call at its end.
//!
//! ```text
//!  offset      filled            wanted
//!    |###########|---------rest----|..to the end of a page: direct reads go on to there
//!    [ buffer 0 ][ buffer 1 ][ buf ]
//!
//!   try_now ── all cached ──> finish
//!       └─ would block ──> submitted ──> take: full, end of file, error ──> finish
//!                              ^───────────── short, interrupted ──┘
//! ```

use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::{Errno, ReadWriteFlags};

use crate::file::LocalFile;
use crate::frames::runs::FRAME_BYTES;
use crate::frames::{Buffers, Frames};

/// The end of a read.
#[derive(Debug)]
pub struct Filled {
    /// The buffers, as they were given.
    pub buffers: Buffers,
    /// Bytes filled, or the error. Fewer than the buffers hold only at the end of the file.
    pub result: io::Result<usize>,
    /// The reads that had completed together with this one.
    pub batch: Option<Batch>,
}

/// A group of reads that had all completed before `done` was called for the first of them: one
/// check of the file after the group covers all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// The group's number. No other group has it.
    pub number: NonZeroU64,
    /// How many of the group come after this one, on the same thread, at once.
    pub rest: usize,
}

/// Called once, at the end of a read.
pub type Done = Box<dyn FnOnce(Filled) + Send>;

/// The result of trying without waiting.
pub(crate) enum Tried {
    /// The read has ended.
    Done(io::Result<usize>),
    /// The rest would block.
    WouldBlock,
}

pub(crate) struct Reading {
    file: Arc<LocalFile>,
    offset: u64,
    buffers: Buffers,
    filled: usize,
    wanted: usize,
    /// Read past the kernel's page cache, as long as the position is a multiple of a page.
    direct: bool,
    done: Done,
}

impl Reading {
    pub(crate) fn new(file: Arc<LocalFile>, offset: u64, buffers: Buffers, done: Done) -> Self {
        let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
        Self { file, offset, buffers, filled: 0, wanted, direct: false, done }
    }

    /// The descriptor that the rest is read from.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.descriptor(self.is_direct())
    }

    /// Where the rest starts in the file.
    pub(crate) fn position(&self) -> u64 {
        self.offset + self.filled as u64
    }

    fn is_direct(&self) -> bool {
        self.direct && self.position().is_multiple_of(FRAME_BYTES as u64)
    }

    /// The memory that is not filled yet.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (mut past, direct) = (self.filled, self.is_direct());
        self.buffers.iter_mut().filter_map(move |buffer| {
            let from = past.min(buffer.len());
            past -= from;
            let to = if direct { buffer.whole().len() } else { buffer.len() };
            (from < to).then(|| &mut buffer.whole()[from..to])
        })
    }

    /// Takes the result of a system call. Returns the result of the whole read if that is its end.
    pub(crate) fn take(&mut self, result: Result<usize, Errno>) -> Option<io::Result<usize>> {
        match result {
            Ok(count) => {
                // A direct read may go on to the end of a page.
                self.filled = (self.filled + count).min(self.wanted);
                (count == 0 || self.filled == self.wanted).then_some(Ok(self.filled))
            }
            Err(Errno::INTR | Errno::AGAIN) => None,
            Err(Errno::INVAL) if self.is_direct() => {
                self.direct = false;
                self.file.refused();
                None
            }
            Err(errno) => Some(Err(errno.into())),
        }
    }

    fn read(&mut self, flags: ReadWriteFlags) -> Result<usize, Errno> {
        let (file, at, direct) = (Arc::clone(&self.file), self.position(), self.is_direct());
        let mut slices: Vec<_> = self.rest().map(IoSliceMut::new).collect();
        // The kernel takes 1024 at most.
        let most = slices.len().min(1024);
        rustix::io::preadv2(file.descriptor(direct), &mut slices[..most], at, flags)
    }

    /// Reads what the page cache holds. Chooses direct reads for the rest, where possible.
    pub(crate) fn try_now(&mut self) -> Tried {
        if self.wanted == 0 {
            return Tried::Done(Ok(0));
        }
        if self.is_cold() {
            return Tried::WouldBlock;
        }
        loop {
            match self.read(ReadWriteFlags::NOWAIT) {
                Err(Errno::INTR) => {}
                // A file system without `RWF_NOWAIT` may block at any time.
                Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => return Tried::WouldBlock,
                result => return self.take(result).map_or(Tried::WouldBlock, Tried::Done),
            }
        }
    }

    /// Whether the page cache is known to lack some of it. If so, it is read directly from then
    /// on.
    fn is_cold(&mut self) -> bool {
        let whole = |buffer: &Frames| buffer.len().is_multiple_of(FRAME_BYTES);
        let aligned = self.offset.is_multiple_of(FRAME_BYTES as u64)
            && self.buffers.split_last().is_some_and(|(_, before)| before.iter().all(whole));
        self.direct = aligned && self.file.lacks(self.offset, self.wanted as u64);
        self.direct
    }

    /// Reads the rest, and waits for the disk.
    pub(crate) fn wait(&mut self) -> io::Result<usize> {
        loop {
            let read = self.read(ReadWriteFlags::empty());
            if let Some(result) = self.take(read) {
                return result;
            }
        }
    }

    /// Calls `done`.
    pub(crate) fn finish(self, result: io::Result<usize>) {
        self.finish_in(None, result);
    }

    /// Calls `done` for one read of a batch.
    pub(crate) fn finish_in(self, batch: Option<Batch>, result: io::Result<usize>) {
        let Self { buffers, done, .. } = self;
        // `done` may panic, and this thread has to call others.
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| done(Filled { buffers, result, batch })));
        if told.is_err() {
            tracing::error!("a completion panicked");
        }
    }
}

/// Reads in flight at the same time: what the queue of a fast drive holds. Lower: the drive is not
/// kept busy. Higher: more reads wait in the kernel and none is served sooner.
pub const IN_FLIGHT_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn reading() -> Reading {
        let file = LocalFile::new(std::fs::File::open("/dev/null").expect("it is always there").into());
        Reading::new(Arc::new(file), 100, [Frames::new(10), Frames::new(20)].into_iter().collect(), Box::new(|_| {}))
    }

    #[test]
    fn a_short_read_goes_on_where_it_ended() {
        let mut reading = reading();
        assert!(reading.take(Ok(4)).is_none());
        assert_eq!((reading.position(), reading.rest().map(|r| r.len()).collect::<Vec<_>>()), (104, vec![6, 20]));
        assert!(reading.take(Ok(6)).is_none());
        assert_eq!((reading.position(), reading.rest().map(|r| r.len()).collect::<Vec<_>>()), (110, vec![20]));
        assert!(matches!(reading.take(Ok(20)), Some(Ok(30))));
    }

    #[test]
    fn the_end_of_the_file_ends_it() {
        let mut reading = reading();
        assert!(reading.take(Ok(12)).is_none());
        assert!(matches!(reading.take(Ok(0)), Some(Ok(12))));
    }

    #[test]
    fn an_interruption_is_no_failure_and_an_error_is() {
        let mut reading = reading();
        assert!(reading.take(Err(Errno::INTR)).is_none());
        assert!(reading.take(Err(Errno::AGAIN)).is_none());
        assert_eq!(reading.position(), 100);
        let failed = reading.take(Err(Errno::IO)).expect("it is over").expect_err("it failed");
        assert_eq!(failed.raw_os_error(), Some(Errno::IO.raw_os_error()));
    }
}
