//! Reading which records a segment file has, and sealing one whose process ended.
//!
//! ```text
//!   footer at the end? ── yes ──> the index block
//!     └─ no ── locked: its process writes to it
//!          └─ free: walked header by header up to the first wrong one, cut there, and sealed
//! ```

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use crate::folder::{Lock, try_lock};
use crate::format::{self, FOOTER, HEADER, PAGE, RECORD_HEADER, Record};

/// The records of a sealed segment; `None` if it is not sealed.
pub(crate) fn sealed(file: &File, number: u64) -> io::Result<Option<Vec<Record>>> {
    let file_bytes = file.metadata()?.len();
    let Some(at) = file_bytes.checked_sub(FOOTER as u64).filter(|&at| at >= HEADER) else { return Ok(None) };
    let mut bytes = vec![0; FOOTER];
    file.read_exact_at(&mut bytes, at)?;
    let Some(footer) = format::footer(&bytes, number, file_bytes) else { return Ok(None) };
    let mut bytes = vec![0; footer.bytes];
    file.read_exact_at(&mut bytes, footer.offset)?;
    Ok(format::index_records(&bytes, number, &footer))
}

/// The records of a segment that may not be sealed, up to the first wrong header.
pub(crate) fn walk(file: &File, number: u64) -> io::Result<Vec<Record>> {
    let (file_bytes, mut records) = (file.metadata()?.len().min(u64::from(u32::MAX)), Vec::new());
    let mut block = vec![0; PAGE];
    match file.read_exact_at(&mut block, 0) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(records),
        read => read?,
    }
    let (mut at, mut bytes) = (HEADER, [0; RECORD_HEADER]);
    while format::is_header(&block, number) && at + RECORD_HEADER as u64 <= file_bytes {
        file.read_exact_at(&mut bytes, at)?;
        let Some(record) = format::record(&bytes, number, at as u32) else { break };
        at += record.file_bytes();
        if at > file_bytes {
            break;
        }
        records.push(record);
    }
    Ok(records)
}

/// Seals a segment that no process writes to; the folder is locked. `None`: one does.
pub(crate) fn seal_left(_folder: &Lock, file: &File, number: u64) -> io::Result<Option<Vec<Record>>> {
    if !try_lock(file) {
        return Ok(None);
    }
    if let Some(records) = sealed(file, number)? {
        return Ok(Some(records));
    }
    let records = walk(file, number)?;
    seal(file, number, &records)?;
    Ok(Some(records))
}

/// Cuts a segment behind its last record, and appends its index block.
pub(crate) fn seal(file: &File, number: u64, records: &[Record]) -> io::Result<u64> {
    let end = records.last().map_or(HEADER, |last| u64::from(last.offset) + last.file_bytes());
    let bytes = format::index(number, records, end);
    file.set_len(end)?;
    file.write_all_at(&bytes, end)?;
    Ok(bytes.len() as u64)
}
