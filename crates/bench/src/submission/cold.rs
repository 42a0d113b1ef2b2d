//! A cold file of real blocks: written out, none of its pages dirty, and none in the kernel's
//! memory.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use foreread_testbed::content::Content;
use foreread_workload::Workload;
use rustix::fs::Advice;

use crate::error::Error;
use crate::setup::Setup;
use crate::subject::server::GENERATION;

/// Bytes written at a time.
const CHUNK_BYTES: usize = 8 << 20;
/// Bytes that stay free on the file system.
const SPARE_BYTES: u64 = 1 << 30;
/// The type of tmpfs: a file in memory is never cold.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Writes a file of the workload's size to `dir`.
pub(crate) fn write(dir: &Path, workload: &Workload, setup: &Setup<'_>) -> Result<PathBuf, Error> {
    let size = workload.files.size_bytes;
    let fs = rustix::fs::statvfs(dir).map_err(|e| Error::io("asking for free space")(e.into()))?;
    let kind = rustix::fs::statfs(dir).map_err(|e| Error::io("asking for free space")(e.into()))?.f_type as u64;
    if kind == TMPFS_MAGIC {
        return Err(Error::NotCold { why: "it is in memory".to_owned() });
    }
    if fs.f_bavail * fs.f_frsize < size + SPARE_BYTES {
        return Err(Error::NotCold { why: format!("it has less than {} GiB free", (size + SPARE_BYTES) >> 30) });
    }
    let path = dir.join(workload.file_name(0));
    let content = Content::new(&workload.file_name(0), GENERATION);
    let writing = || Error::io("writing the file to read");
    let mut file = File::create(&path).map_err(writing())?;
    let mut chunk = vec![0; CHUNK_BYTES];
    for start in (0..size).step_by(CHUNK_BYTES) {
        setup.check()?;
        let chunk = &mut chunk[..CHUNK_BYTES.min((size - start) as usize)];
        content.fill(start, chunk);
        file.write_all(chunk).map_err(writing())?;
    }
    file.sync_all().map_err(writing())?;
    Ok(path)
}

/// Drops the file from the kernel's memory.
pub(crate) fn drop_from_memory(file: &Path) -> Result<(), Error> {
    let open = File::open(file).map_err(Error::io("opening the file to read"))?;
    rustix::fs::fadvise(&open, 0, None, Advice::DontNeed).map_err(|e| Error::io("making the file cold")(e.into()))?;
    // The kernel's other caches too, if this process may drop them.
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    Ok(())
}
