//! One read: what it wants, what of it is there, and whom to tell.
//!
//! ```text
//!  offset      filled            wanted
//!    |###########|---------rest----|
//!    [ buffer 0 ][ buffer 1 ][ buf ]
//! ```

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::{Errno, ReadWriteFlags};

/// What has become of a read.
#[derive(Debug)]
pub struct Filled {
    /// The buffers, as they were given.
    pub buffers: Vec<Box<[u8]>>,
    /// How many bytes of them are filled, or why they are not.
    pub result: io::Result<usize>,
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
    file: Arc<OwnedFd>,
    offset: u64,
    buffers: Vec<Box<[u8]>>,
    filled: usize,
    wanted: usize,
    done: Done,
}

impl Reading {
    pub(crate) fn new(file: Arc<OwnedFd>, offset: u64, buffers: Vec<Box<[u8]>>, done: Done) -> Self {
        let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
        Self { file, offset, buffers, filled: 0, wanted, done }
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Where its rest starts in the file.
    pub(crate) fn position(&self) -> u64 {
        self.offset + self.filled as u64
    }

    /// What is to be filled yet.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let mut past = self.filled;
        self.buffers.iter_mut().filter_map(move |buffer| {
            let from = past.min(buffer.len());
            past -= from;
            (from < buffer.len()).then(|| &mut buffer[from..])
        })
    }

    /// Takes what a system call gave. What the whole has come to, if that is all.
    pub(crate) fn take(&mut self, result: Result<usize, Errno>) -> Option<io::Result<usize>> {
        match result {
            Ok(count) => {
                self.filled += count;
                (count == 0 || self.filled == self.wanted).then_some(Ok(self.filled))
            }
            Err(Errno::INTR | Errno::AGAIN) => None,
            Err(errno) => Some(Err(errno.into())),
        }
    }

    fn read(&mut self, flags: ReadWriteFlags) -> Result<usize, Errno> {
        let (file, at) = (Arc::clone(&self.file), self.position());
        let mut slices: Vec<_> = self.rest().map(IoSliceMut::new).collect();
        // The kernel takes 1024 at most.
        let most = slices.len().min(1024);
        rustix::io::preadv2(&*file, &mut slices[..most], at, flags)
    }

    /// Reads what is in the kernel's memory.
    pub(crate) fn try_now(&mut self) -> Tried {
        if self.wanted == 0 {
            return Tried::Done(Ok(0));
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
        let Self { buffers, done, .. } = self;
        // Whoever is told may fail; the thread that tells has others to tell.
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| done(Filled { buffers, result })));
        if told.is_err() {
            tracing::error!("a completion panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading() -> Reading {
        let file = std::fs::File::open("/dev/null").expect("it is always there");
        let buffers = vec![vec![0; 10].into_boxed_slice(), vec![0; 20].into_boxed_slice()];
        Reading::new(Arc::new(file.into()), 100, buffers, Box::new(|_| {}))
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
