//! What a folder holds, for a user: its size, whether its pages are right, and removing them.
//!
//! *Invariant:* nothing but segments of a known format is touched.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::error::Error;
use crate::folder::{Folder, try_lock};
use crate::record::Record;
use crate::secret::Secret;
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
    each_segment(&Folder::existing(folder)?, |_, _, bytes, records| {
        summary.segments += 1;
        summary.bytes += bytes;
        summary.entries += records.len() as u64;
        objects.extend(records.iter().map(|record| record.object));
    })?;
    summary.objects = objects.len() as u64;
    Ok(summary)
}

/// Reads and checks every page in a folder, which is encrypted if there is a secret. `progress`
/// gets the bytes read so far.
pub fn verify(folder: &Path, secret: Option<&Secret>, mut progress: impl FnMut(u64)) -> Result<Verified, Error> {
    let folder = Folder::existing(folder)?.unlocked(secret)?;
    let (mut verified, mut objects, mut read) = (Verified::default(), HashSet::new(), 0);
    each_segment(&folder, |file, number, bytes, records| {
        let guard = folder.guard_of(file, number);
        verified.bytes += bytes;
        objects.extend(records.iter().map(|record| record.object));
        for record in records {
            let mut good = 0;
            if let Ok(guard) = &guard {
                // Those that cannot be read are wrong.
                _ = segment::pages(file, guard, record, |page| good += u64::from(page.is_some()));
            }
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

fn each_segment(folder: &Folder, mut look: impl FnMut(&File, u64, u64, &[Record])) -> Result<(), Error> {
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
        look(&file, number, bytes, &records().unwrap_or_default());
    }
    Ok(())
}
