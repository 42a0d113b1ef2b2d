//! What a folder holds, for a user: its size, whether its pages are right, and removing them.
//!
//! *Invariant:* nothing but segments of a known format is touched.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::Error;
use crate::folder::{Folder, try_lock};
use crate::format::{self, CHECK, PAGE, RECORD_HEADER, Record};
use crate::segment;

/// What a folder holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Segment files.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records in them.
    pub entries: u64,
    /// Versions of objects that have a record.
    pub objects: u64,
}

/// What was found right and wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Pages that are right.
    pub good: u64,
    /// Pages that are wrong, or cannot be read. They would be read from the storage.
    pub wrong: u64,
    /// Versions of objects that have a record.
    pub objects: u64,
    /// Bytes of the segment files.
    pub bytes: u64,
}

/// What a folder holds, by the index blocks of its segments.
pub fn summary(folder: &Path) -> Result<Summary, Error> {
    let (mut summary, mut objects) = (Summary::default(), HashSet::new());
    each_segment(folder, |_, bytes, records| {
        summary.segments += 1;
        summary.bytes += bytes;
        summary.entries += records.len() as u64;
        objects.extend(records.iter().map(|record| record.object));
    })?;
    summary.objects = objects.len() as u64;
    Ok(summary)
}

/// Reads and checks every page in a folder. `progress` gets the bytes read so far.
pub fn verify(folder: &Path, mut progress: impl FnMut(u64)) -> Result<Verified, Error> {
    let (mut verified, mut objects, mut read) = (Verified::default(), HashSet::new(), 0);
    each_segment(folder, |file, bytes, records| {
        verified.bytes += bytes;
        objects.extend(records.iter().map(|record| record.object));
        for record in records {
            let good = good_pages(file, record);
            verified.good += good;
            verified.wrong += record.pages() - good;
            read += record.file_bytes();
            progress(read);
        }
    })?;
    verified.objects = objects.len() as u64;
    Ok(verified)
}

/// Removes all segments of a folder, and nothing else. Safe while other processes use it: they
/// notice within about a second. Returns the bytes of the files.
pub fn clear(folder: &Path) -> Result<u64, Error> {
    let folder = Folder::existing(folder)?;
    let failed = |source| Error::Io { folder: folder.path().to_owned(), source };
    let _lock = folder.lock().map_err(failed)?;
    let mut bytes = 0;
    for number in folder.segments().map_err(failed)? {
        let path = folder.segment(number);
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            file => file.map_err(failed)?,
        };
        bytes += if try_lock(&file) {
            folder.remove(number).map_err(failed)?
        } else {
            // Its process writes to it until it finds the name gone.
            std::fs::remove_file(&path).map_err(failed)?;
            file.metadata().map_err(failed)?.len()
        };
    }
    Ok(bytes)
}

fn each_segment(folder: &Path, mut look: impl FnMut(&File, u64, &[Record])) -> Result<(), Error> {
    let folder = Folder::existing(folder)?;
    let failed = |source| Error::Io { folder: folder.path().to_owned(), source };
    for number in folder.segments().map_err(failed)? {
        let file = match File::open(folder.segment(number)) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            file => file.map_err(failed)?,
        };
        let records = || -> io::Result<Vec<Record>> {
            segment::sealed(&file, number)?.map_or_else(|| segment::walk(&file, number), Ok)
        };
        let bytes = file.metadata().map_err(failed)?.len();
        // One that cannot be read has no page that is right.
        look(&file, bytes, &records().unwrap_or_default());
    }
    Ok(())
}

fn good_pages(file: &File, record: &Record) -> u64 {
    let mut bytes = vec![0; record.file_bytes() as usize];
    if file.read_exact_at(&mut bytes, u64::from(record.offset)).is_err() {
        return 0;
    }
    let pages = (record.first_page..).zip(bytes[RECORD_HEADER..].chunks(CHECK + PAGE));
    let is_good = |(page, bytes): &(u64, &[u8])| {
        let (check, content) = bytes.split_at(CHECK);
        format::page_check(record.object, *page, content) == format::u64_at(check, 0)
    };
    pages.filter(is_good).count() as u64
}
