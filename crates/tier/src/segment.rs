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
use crate::format::{self, FOOTER};
use crate::guard::Guard;
use crate::record::{CHECK, HEADER, PAGE, RECORD_HEADER, Record};

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
    while format::salt(&block, number).is_some() && at + RECORD_HEADER as u64 <= file_bytes {
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

/// Reads the pages of a record, each as it is if it is right.
pub(crate) fn pages(
    file: &File,
    guard: &Guard,
    record: &Record,
    mut each: impl FnMut(Option<&[u8]>),
) -> io::Result<()> {
    let mut bytes = vec![0; record.file_bytes() as usize];
    file.read_exact_at(&mut bytes, u64::from(record.offset))?;
    for (at, place) in (0..).zip(bytes[RECORD_HEADER..].chunks_mut(CHECK + PAGE)) {
        let (beside, page) = place.split_at_mut(CHECK);
        let mut check = [0; CHECK];
        check.copy_from_slice(beside);
        each(guard.open(record, at, check, page).then_some(&*page));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use crate::format::{append_record, header};
    use crate::{ObjectId, Options, Tier};

    use super::*;

    /// 100 GiB of segments, almost all of it holes.
    #[test]
    fn the_newest_is_read_while_a_large_cache_is_loaded() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(Tier::open(folder.path(), Options::default()).expect("it opens"));
        let (segments, object, content) = (1_600_u64, |number| ObjectId::of("s", &format!("{number}"), "v"), [7; 4096]);
        for number in 1..=segments {
            let file = File::create_new(folder.path().join(format!("segment-{number:016x}"))).expect("room");
            let first = Record { object: object(number), first_page: 0, bytes: 4096, offset: HEADER as u32 };
            let mut bytes = header(number, 64 << 20, &[0; 16]);
            append_record(&mut bytes, number, &first, &content);
            file.write_all_at(&bytes, 0).expect("room");
            // The other records were lost, but the index has them.
            let record =
                |at: u64| Record { first_page: at * 32, bytes: 131_072, offset: (at * 131_700) as u32, ..first };
            let records: Vec<_> = [first].into_iter().chain((1..500).map(record)).collect();
            seal(&file, number, &records).expect("room");
        }
        let (start, options) = (Instant::now(), Options::default().with_bytes(1 << 40).with_index_bytes_max(1 << 30));
        let tier = Tier::open(folder.path(), options).expect("it opens");
        let opened = start.elapsed();
        let read = || {
            let (told, read) = mpsc::channel();
            let done =
                Box::new(move |frames: Result<crate::Frames, _>| told.send(frames.is_ok()).expect("it is waited for"));
            tier.read(object(segments), 0..1, 4096, done);
            read.recv().expect("every read ends")
        };
        while !read() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let (first, loaded) = (start.elapsed(), tier.stats().segments);
        while tier.stats().segments < segments {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        println!("opened after {opened:?}, read after {first:?} with {loaded} loaded, all after {:?}", start.elapsed());
        assert_eq!(tier.stats().entries, segments * 500);
    }
}
