//! The directory of a zip archive, which is read piece by piece.
//!
//! ```text
//!   | record | record | .. | record | a signature, or none |
//!            ^ at: the next byte that is needed
//! ```
//!
//! Each record has 46 bytes, a name, fields and a comment. All that is kept of it is where its
//! member begins.
//!
//! *Invariant:* besides a record that has not come to its end, 8 bytes for each member are kept,
//! and twice as many while their number grows.
//!
//! The file does not find the directory (`zip`). Source: APPNOTE 6.3.10, 4.3.12 and 4.5.3;
//! docs/decisions/0129.

use std::ops::Range;

/// The directory of an archive, which is read piece by piece, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// The next byte of it, and the one behind it, in the file.
    at: u64,
    end: u64,
    /// Where it begins, and where the archive does.
    bounds: Range<u64>,
    /// What has come of a record.
    begun: Vec<u8>,
    /// Where the members begin, in the order of their records.
    starts: Vec<u64>,
    is_ascending: bool,
    /// How many are kept at most.
    most: usize,
}

impl Directory {
    /// One of `len` bytes before `end`, which is to begin at `at` in its archive.
    pub(crate) fn new(end: u64, len: u64, at: u64) -> Option<Self> {
        let start = end.checked_sub(len).filter(|_| len > 0)?;
        let bounds = start.checked_sub(at)?..start;
        Some(Self {
            at: start,
            end,
            bounds,
            begun: Vec::new(),
            starts: Vec::new(),
            is_ascending: true,
            most: usize::MAX,
        })
    }

    /// Keeps where `most` members begin, and does not read on behind as many.
    #[must_use]
    pub fn with_members_max(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Keeps where `more` members begin beside those for which it has taken memory.
    pub fn keep_more(&mut self, more: usize) {
        self.most = self.starts.capacity().saturating_add(more);
    }

    /// Memory that it takes beside itself, in bytes. What has come of a record counts if it is
    /// long.
    pub fn memory_bytes(&self) -> u64 {
        let begun = self.begun.capacity() / BEGUN_STEP * BEGUN_STEP;
        (self.starts.capacity() * size_of::<u64>() + begun) as u64
    }

    /// Whether it has more members than are kept.
    pub fn is_cut(&self) -> bool {
        self.starts.len() >= self.most
    }

    /// How long it is, in bytes.
    pub fn bytes(&self) -> u64 {
        self.end - self.bounds.end
    }

    /// The byte of the file that it needs next.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes it needs from there on.
    pub fn left(&self) -> u64 {
        self.end - self.at
    }

    /// Reads `bytes`, which lie in the file from [`Directory::at`] on. Nothing is left to read
    /// then where it is broken, or as many members are known as are kept.
    pub fn read(&mut self, bytes: &[u8]) {
        let len = usize::try_from(self.left()).map_or(bytes.len(), |left| left.min(bytes.len()));
        let mut bytes = &bytes[..len];
        self.at += bytes.len() as u64;
        while !bytes.is_empty() {
            let Some(needed) = record_bytes(if self.begun.is_empty() { bytes } else { &self.begun }) else {
                // What follows the records is a signature of all of them, or it is broken.
                let rest = if self.begun.is_empty() { bytes } else { &self.begun };
                if !rest.starts_with(SIGNATURE) {
                    self.starts.clear();
                }
                self.begun.clear();
                self.at = self.end;
                return;
            };
            let begun = self.begun.len();
            let (more, rest) = bytes.split_at(bytes.len().min(needed - begun));
            bytes = rest;
            if begun == 0 && more.len() == needed {
                self.note(more);
            } else {
                self.begun.extend_from_slice(more);
                if self.begun.len() == record_bytes(&self.begun).unwrap_or(usize::MAX) {
                    let record = std::mem::take(&mut self.begun);
                    self.note(&record);
                }
            }
            if self.is_cut() {
                self.at = self.end;
                return;
            }
        }
    }

    /// A record says where its member begins.
    fn note(&mut self, record: &[u8]) {
        let at = member_at(record).and_then(|at| self.bounds.start.checked_add(at));
        let at = at.unwrap_or(u64::MAX);
        self.is_ascending &= self.starts.last().is_none_or(|&last| last <= at);
        self.starts.push(at);
    }

    /// Where its members lie, in the order of the file, when nothing is left to read. None if it
    /// is broken. Of one that has more than are kept, the first, if its records are in the order
    /// of their members.
    pub fn members(mut self) -> impl Iterator<Item = Range<u64>> {
        let is_cut = self.is_cut();
        let is_broken = !self.begun.is_empty() && !self.begun.starts_with(SIGNATURE);
        if is_broken || (is_cut && !self.is_ascending) {
            self.starts.clear();
        }
        if !self.is_ascending {
            self.starts.sort_unstable();
        }
        self.starts.dedup();
        if self.starts.last().is_some_and(|&last| last >= self.bounds.end) {
            self.starts.clear();
        }
        let starts = self.starts;
        let last = starts.last().filter(|_| !is_cut).map(|&last| last..self.bounds.end);
        let bounds = (1..starts.len()).map(move |nth| starts[nth - 1]..starts[nth]);
        bounds.chain(last)
    }
}

/// Bytes of the record that begins with `bytes`: at least so many as say how many, or whether it
/// is one. Nothing if it is none.
fn record_bytes(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < SIGNATURE.len() && SIGNATURE.starts_with(bytes) {
        // It may be either.
        return Some(SIGNATURE.len());
    }
    if !bytes.starts_with(&RECORD[..bytes.len().min(RECORD.len())]) {
        return None;
    }
    let lengths = [28, 30, 32].map(|at| u16_at(bytes, at).filter(|_| bytes.len() >= RECORD_BYTES));
    Some(RECORD_BYTES + lengths.into_iter().flatten().map(usize::from).sum::<usize>())
}

/// Where the member of a `record` begins in its archive.
fn member_at(record: &[u8]) -> Option<u64> {
    let at = u32_at(record, 42)?;
    if at != u32::MAX {
        return Some(at.into());
    }
    let name = usize::from(u16_at(record, 28)?);
    let mut fields = record.get(RECORD_BYTES + name..)?.get(..usize::from(u16_at(record, 30)?))?;
    while let (Some(kind), Some(len)) = (u16_at(fields, 0), u16_at(fields, 2)) {
        let field = fields.get(4..4 + usize::from(len))?;
        if kind == 1 {
            // Behind the lengths that do not fit the record either.
            let longs = [24, 20].iter().filter(|&&at| u32_at(record, at) == Some(u32::MAX)).count();
            return u64_at(field, 8 * longs);
        }
        fields = &fields[4 + field.len()..];
    }
    Some(at.into())
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The step in which the memory for what has come of a record counts, in bytes. Lower: it changes
/// with each piece. Higher: more is held that does not count. Source: a page.
const BEGUN_STEP: usize = 4_096;

/// What a record begins with, and the signature of all of them. Source: APPNOTE 4.3.12, 4.3.13.
const RECORD: &[u8] = b"PK\x01\x02";
const SIGNATURE: &[u8] = b"PK\x05\x05";

/// Bytes of a record, without its name, its fields and its comment. Source: APPNOTE 4.3.12.
const RECORD_BYTES: usize = 46;
