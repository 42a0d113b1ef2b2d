//! One read: what it wants, what of it is there, and whom to tell.
//!
//! ```text
//!  offset      filled            wanted
//!    |###########|---------rest----|..to the end of a page: read directly, told to nobody
//!    [ buffer 0 ][ buffer 1 ][ buf ]
//! ```

use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::{Errno, ReadWriteFlags};

use crate::file::LocalFile;
use crate::frames::{Buffers, FRAME_BYTES, Frames};

/// What has become of a read.
#[derive(Debug)]
pub struct Filled {
    /// The buffers, as they were given.
    pub buffers: Buffers,
    /// How many bytes of them are filled, or why they are not.
    pub result: io::Result<usize>,
    /// With what it was over.
    pub batch: Option<Batch>,
}

/// Reads that were all over before the first of them is told of: what is looked at then counts for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Which. No other has it.
    pub number: NonZeroU64,
    /// How many are told of after this one, on the same thread, at once.
    pub rest: usize,
}

/// Told what has become of it, once.
pub type Done = Box<dyn FnOnce(Filled) + Send>;

/// What came of trying at once.
pub(crate) enum Tried {
    /// It is over.
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
    /// Past the kernel's page cache, as long as it goes on from page to page.
    direct: bool,
    done: Done,
}

impl Reading {
    pub(crate) fn new(file: Arc<LocalFile>, offset: u64, buffers: Buffers, done: Done) -> Self {
        let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
        Self { file, offset, buffers, filled: 0, wanted, direct: false, done }
    }

    /// The descriptor that its rest is read from.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.descriptor(self.is_direct())
    }

    /// Where its rest starts in the file.
    pub(crate) fn position(&self) -> u64 {
        self.offset + self.filled as u64
    }

    fn is_direct(&self) -> bool {
        self.direct && self.position().is_multiple_of(FRAME_BYTES as u64)
    }

    /// What is to be filled yet.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (mut past, direct) = (self.filled, self.is_direct());
        self.buffers.iter_mut().filter_map(move |buffer| {
            let from = past.min(buffer.len());
            past -= from;
            let to = if direct { buffer.whole().len() } else { buffer.len() };
            (from < to).then(|| &mut buffer.whole()[from..to])
        })
    }

    /// Takes what a system call gave. What the whole has come to, if that is all.
    pub(crate) fn take(&mut self, result: Result<usize, Errno>) -> Option<io::Result<usize>> {
        match result {
            Ok(count) => {
                // What was read directly may go on to the end of a page.
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

    /// Reads what is in the kernel's memory. What is not is read directly, where that can be.
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
                // A file system that knows no such thing may block at any time.
                Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => return Tried::WouldBlock,
                result => return self.take(result).map_or(Tried::WouldBlock, Tried::Done),
            }
        }
    }

    /// Whether some of it is known not to be in the kernel's memory. From then on it is read directly.
    fn is_cold(&mut self) -> bool {
        let whole = |buffer: &Frames| buffer.len().is_multiple_of(FRAME_BYTES);
        let aligned = self.offset.is_multiple_of(FRAME_BYTES as u64)
            && self.buffers.split_last().is_some_and(|(_, before)| before.iter().all(whole));
        self.direct = aligned && self.file.lacks(self.offset, self.wanted as u64);
        self.direct
    }

    /// Reads the rest, however long that takes.
    pub(crate) fn wait(&mut self) -> io::Result<usize> {
        loop {
            let read = self.read(ReadWriteFlags::empty());
            if let Some(result) = self.take(read) {
                return result;
            }
        }
    }

    /// Tells what has become of it.
    pub(crate) fn finish(self, result: io::Result<usize>) {
        self.finish_in(None, result);
    }

    /// The same, as one of a batch.
    pub(crate) fn finish_in(self, batch: Option<Batch>, result: io::Result<usize>) {
        let Self { buffers, done, .. } = self;
        // Whoever is told may fail; the thread that tells has others to tell.
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| done(Filled { buffers, result, batch })));
        if told.is_err() {
            tracing::error!("a completion panicked");
        }
    }
}

/// Reads in flight at the same time: what a fast drive's queue holds. Fewer starve it; more wait in the kernel without being served sooner.
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
