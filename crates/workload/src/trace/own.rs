//! The format of `foreread record`.
//!
//! ```text
//!   foreread-trace 1
//!   file 0 2147483648 models/weights.bin       number, bytes, name
//!   15301 0 4 0 131072                         ns, file, reader, offset, bytes
//!   lost 3                                     reads that were not recorded
//! ```

use std::collections::HashMap;
use std::io::{self, Write};

use super::entry::{Entry, Name, Parsed};

pub(super) const MAGIC: &str = "foreread-trace 1";

/// Files declared so far.
#[derive(Debug, Default)]
pub(super) struct Reader {
    sizes: HashMap<u64, u64>,
    pub(super) lost: u64,
}

impl Reader {
    pub(super) fn parse<'t>(&mut self, line: &'t str, first: bool) -> Parsed<'t> {
        if first {
            return if line == MAGIC { Ok(None) } else { Err("not the head of a recording of foreread") };
        }
        if let Some(lost) = line.strip_prefix("lost ") {
            let lost = lost.parse().map_err(|_| "not `lost COUNT`")?;
            self.lost = self.lost.saturating_add(lost);
            return Ok(None);
        }
        if let Some(declared) = line.strip_prefix("file ") {
            let mut words = declared.splitn(3, ' ');
            let mut number = || words.next()?.parse::<u64>().ok();
            let (Some(file), Some(size)) = (number(), number()) else { return Err("not `file NUMBER BYTES NAME`") };
            self.sizes.insert(file, size);
            return Ok(None);
        }
        let mut words = line.split(' ').map(|word| word.parse::<u64>().ok());
        let mut number = || words.next().flatten();
        let (Some(at_ns), Some(file), Some(reader), Some(offset), Some(len)) =
            (number(), number(), number(), number(), number())
        else {
            return Err("not `TIME FILE READER OFFSET LENGTH`");
        };
        let size = *self.sizes.get(&file).ok_or("a file that has not been declared")?;
        let (reader, file) = (Name::Number(reader), Name::Number(file));
        Ok(Some(Entry { at_ns, reader, file, offset, len, size: Some(size) }))
    }
}

/// Writes a recording.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins a recording.
    pub fn new(mut out: W) -> io::Result<Self> {
        writeln!(out, "{MAGIC}")?;
        Ok(Self { out })
    }

    /// Declares a file, before its first read.
    pub fn file(&mut self, file: u64, size: u64, name: &str) -> io::Result<()> {
        writeln!(self.out, "file {file} {size} {}", name.escape_debug())
    }

    /// A read of `len` bytes at `offset`.
    pub fn read(&mut self, at_ns: u64, file: u64, reader: u64, offset: u64, len: u64) -> io::Result<()> {
        writeln!(self.out, "{at_ns} {file} {reader} {offset} {len}")
    }

    /// `count` reads are missing here.
    pub fn lost(&mut self, count: u64) -> io::Result<()> {
        writeln!(self.out, "lost {count}")
    }

    /// Flushes the buffer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
