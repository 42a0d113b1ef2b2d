//! The segment that is written to: its records gather in memory and go to the disk together, past
//! the kernel's page cache, while the next ones gather.
//!
//! ```text
//!   file     |header|record|record|rec..            written: whole blocks of 4,096 bytes
//!   buffer                      |..ord|record|record|0000|    the last block is written again
//!                               ^ at                 ^ filled
//! ```
//!
//! Writing through the page cache would copy each byte once more and take memory of the kernel for
//! content that is in the memory of this process as well.
//!
//! *Invariant:* a record is told of as written only when all of it is in the file.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use foreread_local::Frames;
use rustix::fs::{Mode, OFlags};

use crate::folder::try_lock;
use crate::format::{self, FOOTER, INDEX_RECORD};
use crate::guard::{Guard, Salt};
use crate::index::memory_of_records;
use crate::object::ObjectId;
use crate::press::Sheet;
use crate::record::{HEADER, PAGE, Record};
use crate::segment;

pub(crate) struct Active {
    pub(crate) number: u64,
    /// Locked as long as it is open.
    file: Arc<File>,
    guard: Guard,
    /// The same past the page cache, where the file system can.
    direct: Option<Arc<File>>,
    buffer: Frames,
    /// Where the buffer goes: a multiple of a block.
    at: u64,
    filled: usize,
    records: Vec<Record>,
    /// How many of them are in the file, and how many will be once the press is done.
    written: usize,
    leaving: usize,
    /// Where the file ends then.
    leaving_to: u64,
    /// Bytes of the file that were told of as written.
    told: u64,
    /// It took the place of another: what is written to it is not room that was free.
    pub(crate) is_replacement: bool,
}

impl Active {
    /// A new segment file, of this many bytes, with a salt and a guard that no other has.
    pub(crate) fn create(path: &Path, number: u64, bytes: u64, (salt, guard): (Salt, Guard)) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        if !try_lock(&file) {
            return Err(ErrorKind::ResourceBusy.into());
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::DIRECT;
        let direct = rustix::fs::open(path, flags, Mode::empty()).ok();
        let direct = direct.map(|direct: OwnedFd| Arc::new(File::from(direct)));
        let mut buffer = Frames::new(BUFFER_BYTES);
        let header = format::header(number, bytes, &salt);
        buffer[..header.len()].copy_from_slice(&header);
        let filled = HEADER as usize;
        Ok(Self {
            number,
            file: Arc::new(file),
            guard,
            direct,
            buffer,
            at: 0,
            filled,
            records: Vec::new(),
            written: 0,
            leaving: 0,
            leaving_to: 0,
            told: 0,
            is_replacement: false,
        })
    }

    /// Whether the file has room for a record, with its entry in the index block.
    pub(crate) fn has_room(&self, record: &Record, segment_bytes: u64) -> bool {
        let index = (self.records.len() + 1) * INDEX_RECORD + FOOTER;
        self.end() + record.file_bytes() + index as u64 <= segment_bytes
    }

    /// Whether the buffer has to be written before it takes a record.
    pub(crate) fn is_full(&self, record: &Record) -> bool {
        self.filled + record.file_bytes() as usize > self.buffer.len()
    }

    /// How many records are not in the file.
    pub(crate) fn unwritten(&self) -> usize {
        self.records.len() - self.written
    }

    /// What those will take of the index's memory, at most.
    pub(crate) fn index_bytes(&self) -> u64 {
        memory_of_records(&self.records[self.written..])
    }

    /// Whether the first `need` bytes of a page are in the buffer.
    pub(crate) fn has(&self, object: ObjectId, page: u64, need: usize) -> bool {
        self.records[self.written..].iter().any(|record| {
            let before = page.checked_sub(record.first_page).filter(|_| record.object == object);
            before.is_some_and(|before| before * PAGE as u64 + need as u64 <= u64::from(record.bytes))
        })
    }

    /// Whether the file has no name any more.
    pub(crate) fn has_no_name(&self) -> bool {
        !rustix::fs::fstat(&self.file).is_ok_and(|stat| stat.st_nlink > 0)
    }

    /// Takes a record, for which there is room.
    pub(crate) fn put(&mut self, record: Record, content: &[u8]) {
        let record = Record { offset: self.end() as u32, ..record };
        let end = self.filled + record.file_bytes() as usize;
        format::put_record(&mut self.buffer[self.filled..end], self.number, &self.guard, &record, content);
        self.filled = end;
        self.records.push(record);
    }

    /// Takes out what the buffer holds, to be written. Records gather in `spare` from now on.
    pub(crate) fn sheet(&mut self, mut spare: Frames) -> Sheet {
        let bytes = self.filled.next_multiple_of(PAGE);
        self.buffer[self.filled..bytes].fill(0);
        let whole = self.filled / PAGE * PAGE;
        spare[..self.filled - whole].copy_from_slice(&self.buffer[whole..self.filled]);
        let (buffer, at) = (std::mem::replace(&mut self.buffer, spare), self.at);
        self.at += whole as u64;
        self.filled -= whole;
        (self.leaving, self.leaving_to) = (self.records.len(), self.end());
        Sheet { file: Arc::clone(&self.file), direct: self.direct.clone(), buffer, bytes, at }
    }

    /// What was taken out last is written. Returns the records that are in the file since, and the
    /// bytes that it is longer.
    pub(crate) fn printed(&mut self, was_direct: bool) -> (&[Record], u64) {
        if !was_direct {
            self.direct = None;
        }
        let new = &self.records[std::mem::replace(&mut self.written, self.leaving)..self.leaving];
        let longer = self.leaving_to - std::mem::replace(&mut self.told, self.leaving_to);
        (new, longer)
    }

    /// Seals the file: all records are in it. Returns the bytes of the index block.
    pub(crate) fn seal(self) -> io::Result<u64> {
        let bytes = segment::seal(&self.file, self.number, &self.records[..self.written])?;
        // What the index block has left in the kernel's page cache is not needed there.
        _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
        Ok(bytes)
    }

    fn end(&self) -> u64 {
        self.at + self.filled as u64
    }
}

/// Bytes of the buffer. Lower: more writes, and more of them rewrite the last block. Higher: what
/// was offered can be read later. Source: a guess; eight records of 128 KiB, which a disk writes
/// at its full rate.
pub(crate) const BUFFER_BYTES: usize = 1 << 20;
