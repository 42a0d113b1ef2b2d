//! A file as `std::io` knows it, for code that takes a reader.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::mpsc;

use foreread_engine::File;

/// Reads a [`File`] from a position of its own, as [`std::fs::File`] does. Each read waits on the
/// calling thread; no runtime is needed.
///
/// ```
/// # use foreread_testbed::{Config, ObjectSpec, Testbed};
/// # let objects = vec![ObjectSpec::new("a", 10_000)];
/// # let testbed = Testbed::start(Config { objects, ..Config::default() })?;
/// # let storage = foreread::Storage::connect(&format!("{}/http/a", testbed.endpoint()))?;
/// use std::io::{Read, Seek, SeekFrom};
///
/// let file = storage.block_on(storage.open(""))?;
/// let mut reader = foreread::Reader::new(file);
/// reader.seek(SeekFrom::End(-100))?;
/// let mut end = Vec::new();
/// assert_eq!(reader.read_to_end(&mut end)?, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A thread that the engine itself calls, as in the closure of [`File::read`], must not use one:
/// it would wait for itself.
#[derive(Debug, Clone)]
pub struct Reader {
    file: File,
    position: u64,
}

impl Reader {
    /// Reads `file` from its start.
    pub fn new(file: File) -> Self {
        Self { file, position: 0 }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads at `offset` without moving the position. Fewer bytes than fit may come, none only at
    /// the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (send, receive) = mpsc::sync_channel(1);
        self.file.read(offset, buffer.len(), move |read| {
            // This thread waits for it.
            let _ = send.send(read);
        });
        let stopped = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the engine has been shut down");
        let pages = receive.recv().map_err(stopped)??;
        pages.copy_to(&mut buffer[..pages.len()]);
        Ok(pages.len())
    }

    /// Fills `buffer` from `offset` without moving the position.
    ///
    /// Errors: [`io::ErrorKind::UnexpectedEof`] beyond the end.
    pub fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => (buffer, offset) = (&mut buffer[count..], offset + count as u64),
            }
        }
        Ok(())
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(delta) => self.file.size().checked_add_signed(delta),
            SeekFrom::Current(delta) => self.position.checked_add_signed(delta),
        };
        self.position = position.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}
