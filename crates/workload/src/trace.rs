//! Recorded reads, in the formats of other tools: one access after the other, in bounded memory.
//!
//! ```text
//!  recording ──Format::detect──> Trace ──> Access, Access ...   time, reader, file, extent
//!                                  └── survey: its files, readers, reads; a first pass
//! ```
//!
//! Only reads are taken; other entries are counted and skipped. Files and readers are numbered in
//! the order of their first read, so two passes number them alike. Times count from the first read
//! and never go back.
//!
//! *Invariant:* memory grows with the number of files and readers, not with the number of reads.

mod blkparse;
mod entry;
mod fio;
mod msr;
mod oracle;
mod own;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, Read as _};

use thiserror::Error;

use entry::Name;
pub use own::Writer;

/// One recorded read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// In ns since the first read of the recording.
    pub at_ns: u64,
    /// The reader. It has one read at a time.
    pub reader: u32,
    /// The file.
    pub file: u32,
    /// Bytes from its start.
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: u32,
}

/// The format of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Written by `foreread record`.
    Foreread,
    /// fio's `write_iolog`, versions 2 and 3.
    FioIolog,
    /// The default text of `blkparse`: reads as they were queued.
    Blkparse,
    /// `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: block traces of MSR
    /// Cambridge, from SNIA.
    MsrCsv,
    /// libCacheSim's oracleGeneral: 24 bytes an access. Each object is a file, read whole.
    OracleGeneral,
}

impl Format {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Foreread, Self::FioIolog, Self::Blkparse, Self::MsrCsv, Self::OracleGeneral];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Foreread => "foreread",
            Self::FioIolog => "fio",
            Self::Blkparse => "blkparse",
            Self::MsrCsv => "msr",
            Self::OracleGeneral => "oracle-general",
        }
    }

    /// The format of a recording called `name` that begins with `head`; a few kilobytes are
    /// enough.
    pub fn detect(name: &str, head: &[u8]) -> Option<Self> {
        if name.contains("oracleGeneral") {
            return Some(Self::OracleGeneral);
        }
        let text = String::from_utf8_lossy(head);
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next()?;
        if first.starts_with(own::MAGIC) {
            return Some(Self::Foreread);
        }
        if fio::version(first).is_some() {
            return Some(Self::FioIolog);
        }
        // A header may stand before the data.
        let second = lines.next().unwrap_or(first);
        if [first, second].into_iter().any(|line| msr::parse(line).is_ok_and(|parsed| parsed.is_some())) {
            return Some(Self::MsrCsv);
        }
        [first, second].into_iter().any(blkparse::is_event).then_some(Self::Blkparse)
    }

    fn is_text(self) -> bool {
        self != Self::OracleGeneral
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A position in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A line, counted from 1.
    Line(u64),
    /// A byte, counted from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(formatter, "line {line}"),
            Self::Byte(byte) => write!(formatter, "byte {byte}"),
        }
    }
}

/// An error that ends a recording.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Reading failed.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// An entry does not match the format.
    #[error("{place}: {what}: {text:?}")]
    Malformed {
        /// Where.
        place: Place,
        /// What is wrong, and what is expected.
        what: &'static str,
        /// The text there, shortened.
        text: String,
    },
    /// It holds no read at all.
    #[error("holds no reads ({passed_over} other entries)")]
    Empty {
        /// Skipped entries.
        passed_over: u64,
    },
}

/// Numbers names in the order of their first use.
#[derive(Debug, Default)]
struct Numbers {
    texts: HashMap<Box<str>, u32>,
    numbers: HashMap<u64, u32>,
}

impl Numbers {
    fn of(&mut self, name: Name<'_>) -> u32 {
        let next = (self.texts.len() + self.numbers.len()) as u32;
        match name {
            Name::Number(number) => *self.numbers.entry(number).or_insert(next),
            Name::Text(text) => {
                if let Some(&known) = self.texts.get(text) {
                    return known;
                }
                self.texts.insert(text.into(), next);
                next
            }
        }
    }
}

/// An iterator over a recording. Ends after the first error.
#[derive(Debug)]
pub struct Trace<R> {
    source: R,
    format: Format,
    own: own::Reader,
    fio: fio::Reader,
    line: String,
    /// The position of the next entry.
    place: u64,
    files: Numbers,
    readers: Numbers,
    /// The least length of each file.
    sizes: Vec<u64>,
    start_ns: Option<u64>,
    last_ns: u64,
    passed_over: u64,
    ended: bool,
}

impl<R: BufRead> Trace<R> {
    /// A recording from its beginning.
    pub fn new(source: R, format: Format) -> Self {
        Self {
            source,
            format,
            own: own::Reader::default(),
            fio: fio::Reader::default(),
            line: String::new(),
            place: 0,
            files: Numbers::default(),
            readers: Numbers::default(),
            sizes: Vec::new(),
            start_ns: None,
            last_ns: 0,
            passed_over: 0,
            ended: false,
        }
    }

    fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        loop {
            let found = if self.format.is_text() { self.next_line()? } else { self.next_record()? };
            match found {
                Found::Access(access) => return Ok(Some(access)),
                Found::Other => self.passed_over += 1,
                Found::Nothing => {}
                Found::End => return Ok(None),
            }
        }
    }

    fn next_line(&mut self) -> Result<Found, TraceError> {
        self.line.clear();
        self.place += 1;
        let place = Place::Line(self.place);
        let mut bytes = std::mem::take(&mut self.line).into_bytes();
        let count = self.source.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes)?;
        let malformed = |what, text: &str| {
            let text = text.chars().take(TEXT_CHARS_MAX).collect();
            Err(TraceError::Malformed { place, what, text })
        };
        if count as u64 > LINE_BYTES_MAX {
            return malformed(
                "longer than any line of a recording",
                &String::from_utf8_lossy(&bytes[..TEXT_CHARS_MAX]),
            );
        }
        if count == 0 {
            return Ok(Found::End);
        }
        let Ok(text) = String::from_utf8(bytes) else { return malformed("not text", "") };
        self.line = text;
        let line = self.line.trim_end();
        if line.is_empty() {
            return Ok(Found::Nothing);
        }
        let first = self.place == 1;
        let parsed = match self.format {
            Format::Foreread => self.own.parse(line, first),
            Format::FioIolog => self.fio.parse(line, first),
            Format::Blkparse => blkparse::parse(line),
            Format::MsrCsv if first && msr::is_header(line) => Ok(None),
            Format::MsrCsv => msr::parse(line),
            Format::OracleGeneral => return Ok(Found::End),
        };
        match parsed {
            Ok(Some(entry)) if entry.len == 0 => Ok(Found::Other),
            Ok(Some(entry)) => {
                let Some(end) = entry.offset.checked_add(entry.len) else {
                    return malformed("an offset beyond any file", line);
                };
                let Ok(len) = u32::try_from(entry.len) else { return malformed("a read of 4 GiB or more", line) };
                let file = self.files.of(entry.file);
                let reader = self.readers.of(entry.reader);
                let size = entry.size.unwrap_or(end).max(end);
                Ok(Found::Access(take(
                    &mut self.sizes,
                    (&mut self.start_ns, &mut self.last_ns),
                    Access { at_ns: entry.at_ns, reader, file, offset: entry.offset, len },
                    size,
                )))
            }
            Ok(None) if first && self.format != Format::Blkparse => Ok(Found::Nothing),
            Ok(None) => Ok(Found::Other),
            Err(what) => malformed(what, line),
        }
    }

    fn next_record(&mut self) -> Result<Found, TraceError> {
        let mut record = [0; oracle::RECORD_BYTES];
        let mut got = 0;
        while got < record.len() {
            match self.source.read(&mut record[got..]) {
                Ok(0) => break,
                Ok(count) => got += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let place = Place::Byte(self.place);
        self.place += got as u64;
        if got == 0 {
            return Ok(Found::End);
        }
        if got < record.len() {
            let text = format!("{got} bytes");
            return Err(TraceError::Malformed { place, what: "the end of a record of 24 bytes is missing", text });
        }
        let entry = oracle::parse(&record);
        if entry.len == 0 {
            return Ok(Found::Other);
        }
        let (file, reader) = (self.files.of(entry.file), self.readers.of(entry.reader));
        let access = Access { at_ns: entry.at_ns, reader, file, offset: 0, len: entry.len as u32 };
        Ok(Found::Access(take(&mut self.sizes, (&mut self.start_ns, &mut self.last_ns), access, entry.len)))
    }
}

enum Found {
    Access(Access),
    /// Something that is not a read.
    Other,
    Nothing,
    End,
}

/// Records the length of the file, and makes the time relative to the first read.
fn take(sizes: &mut Vec<u64>, (start_ns, last_ns): (&mut Option<u64>, &mut u64), access: Access, size: u64) -> Access {
    let file = access.file as usize;
    if sizes.len() <= file {
        sizes.resize(file + 1, 0);
    }
    sizes[file] = sizes[file].max(size);
    let start_ns = *start_ns.get_or_insert(access.at_ns);
    *last_ns = access.at_ns.saturating_sub(start_ns).max(*last_ns);
    Access { at_ns: *last_ns, ..access }
}

impl<R: BufRead> Iterator for Trace<R> {
    type Item = Result<Access, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_access().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// A summary of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survey {
    /// Bytes of each file: as recorded, or up to its last byte read.
    pub sizes: Vec<u64>,
    /// The number of reads of each reader.
    pub reads_of: Vec<u64>,
    /// Number of reads.
    pub reads: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// From the first read to the last, in ns.
    pub span_ns: u64,
    /// Entries that are no reads.
    pub passed_over: u64,
    /// Reads that `foreread record` lost.
    pub lost: u64,
}

impl Survey {
    /// The number of readers.
    pub fn readers(&self) -> usize {
        self.reads_of.len()
    }

    /// Reads a recording once.
    ///
    /// Errors: those of the recording; [`TraceError::Empty`] if it holds no reads.
    pub fn of<R: BufRead>(mut trace: Trace<R>) -> Result<Self, TraceError> {
        let (mut reads, mut read_bytes, mut reads_of) = (0, 0, Vec::new());
        for access in trace.by_ref() {
            let Access { reader, len, .. } = access?;
            reads += 1;
            read_bytes += u64::from(len);
            // Readers are numbered in the order of their first reads.
            reads_of.resize(reads_of.len().max(reader as usize + 1), 0);
            reads_of[reader as usize] += 1;
        }
        if reads == 0 {
            return Err(TraceError::Empty { passed_over: trace.passed_over });
        }
        Ok(Self {
            sizes: trace.sizes,
            reads_of,
            reads,
            read_bytes,
            span_ns: trace.last_ns,
            passed_over: trace.passed_over,
            lost: trace.own.lost,
        })
    }
}

/// Most bytes of a line; a longer one is not text.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Most characters of a line in an error.
const TEXT_CHARS_MAX: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &[u8]) -> Result<(Vec<Access>, Survey), TraceError> {
        let format = Format::detect(name, &text[..text.len().min(4096)]).expect("a known format");
        let accesses = Trace::new(text, format).collect::<Result<_, _>>()?;
        Ok((accesses, Survey::of(Trace::new(text, format))?))
    }

    fn access(at_ns: u64, reader: u32, file: u32, offset: u64, len: u32) -> Access {
        Access { at_ns, reader, file, offset, len }
    }

    #[test]
    fn our_own_recording_is_read_as_it_was_written() {
        let mut written = Vec::new();
        let mut writer = Writer::new(&mut written).unwrap();
        writer.file(7, 1 << 30, "a b/c\n d.bin").unwrap();
        writer.read(1_000, 7, 3, 4096, 131_072).unwrap();
        writer.read(5_000, 7, 4, 0, 1).unwrap();
        writer.lost(2).unwrap();
        let (accesses, survey) = read("x", &written).unwrap();
        assert_eq!(accesses, [access(0, 0, 0, 4096, 131_072), access(4_000, 1, 0, 0, 1)]);
        assert_eq!((survey.sizes, survey.reads_of, survey.lost), (vec![1 << 30], vec![1, 1], 2));
    }

    #[test]
    fn an_iolog_of_either_version() {
        let two = b"fio version 2 iolog\n/d/f add\n/d/f open\n/d/f read 0 65536\n/d/f wait 1000\n/d/f write 0 4096\n\
                    /d/f read 131072 65536\n/d/f close\n";
        let (accesses, survey) = read("x", two).unwrap();
        assert_eq!(accesses, [access(0, 0, 0, 0, 65_536), access(1_000_000, 0, 0, 131_072, 65_536)]);
        assert_eq!((survey.sizes, survey.passed_over), (vec![196_608], 5));
        let three =
            b"fio version 3 iolog\n18 /d/f add\n126 /d/f open\n130 /d/f read 0 65536\n20558 /d/f read 720896 65536\n";
        let (accesses, _) = read("x", three).unwrap();
        assert_eq!(accesses, [access(0, 0, 0, 0, 65_536), access(20_428_000, 0, 0, 720_896, 65_536)]);
    }

    #[test]
    fn reads_that_were_queued_according_to_blkparse() {
        let text = b"  8,0    3        1     0.000000000   697  Q   R 223490 + 8 [cat]\n  \
                     8,0    3        2     0.000001000   697  G   R 223490 + 8 [cat]\n  \
                     8,0    3        3     0.000900000   698  Q  WS 0 + 8 [jbd2]\n  \
                     8,16   3        4     1.500000000   698  Q  RA 16 + 256 [tar]\n\
                     CPU0 (8,0):\n Reads Queued:           2,        4KiB\n";
        let (accesses, survey) = read("x", text).unwrap();
        assert_eq!(accesses, [access(0, 0, 0, 223_490 * 512, 4096), access(1_500_000_000, 1, 1, 8192, 131_072)]);
        assert_eq!(survey.passed_over, 4);
    }

    #[test]
    fn a_block_trace_as_csv() {
        let text = b"128166372003061629,hm,0,Read,383496192,32768,413\n128166372016382155,hm,1,Write,1,4096,1\n\
                     128166372026382245,hm,1,Read,4096,4096,105\n";
        let (accesses, survey) = read("hm.csv", text).unwrap();
        assert_eq!(accesses, [access(0, 0, 0, 383_496_192, 32_768), access(2_332_061_600, 1, 1, 4096, 4096)]);
        assert_eq!(survey.passed_over, 1);
    }

    #[test]
    fn objects_of_a_cache_trace_are_files() {
        let mut bytes = Vec::new();
        for (time, object, size) in [(5u32, 99u64, 1000u32), (6, 77, 5000), (6, 99, 1000)] {
            bytes.extend(time.to_le_bytes());
            bytes.extend(object.to_le_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.extend((-1i64).to_le_bytes());
        }
        let (accesses, survey) = read("w.oracleGeneral", &bytes).unwrap();
        let second = 1_000_000_000;
        assert_eq!(accesses, [access(0, 0, 0, 0, 1000), access(second, 0, 1, 0, 5000), access(second, 0, 0, 0, 1000)]);
        assert_eq!(survey.sizes, [1000, 5000]);
        let error = read("w.oracleGeneral", &bytes[..30]).unwrap_err();
        assert_eq!(error.to_string(), "byte 24: the end of a record of 24 bytes is missing: \"6 bytes\"");
    }

    #[test]
    fn an_error_names_the_malformed_line() {
        let says = |text: &str, wanted: &str| {
            let error = read("x", text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        };
        says("foreread-trace 1\n5 0 0 0 10\n", "line 2: a file that has not been declared");
        says("foreread-trace 1\nfile 0 10 x\n5 0 0 0\n", "line 3: not `TIME FILE READER OFFSET LENGTH`");
        says("fio version 2 iolog\n/d/f read 0\n", "line 2: not `FILE ACTION OFFSET LENGTH`");
        says("1,h,0,Read,0,4096,1\n1,h,0,Read,zero,4096,1\n", "line 2: an offset that is no number");
        says("fio version 2 iolog\n/d/f write 0 1\n", "no reads (1 other entries)");
        let long = format!("fio version 2 iolog\n{}\n", "x".repeat(100_000));
        says(&long, "line 2: longer than any line");
    }

    #[test]
    fn garbage_has_no_format() {
        assert_eq!(Format::detect("x", b"\x00\x01\x02"), None);
        assert_eq!(Format::detect("x", b"hello\nworld\n"), None);
        assert_eq!(Format::detect("x", b""), None);
    }

    #[test]
    fn fuzz_recordings_of_every_format() {
        let seeds: [&[u8]; 8] = [
            b"foreread-trace 1\nfile 0 2147483648 models/a b\n15301 0 4 0 131072\nlost 3\n15302 0 4 131072 1\n",
            b"foreread-trace 1\nfile 0 4096 a\nlost 18446744073709551615\nlost 1\n15301 0 4 0 4096\n",
            b"fio version 2 iolog\n/a add\n/a open\n/a read 0 4096\n/a wait 5\n/a read 4096 4096\n/a close\n",
            b"fio version 3 iolog\n1 /a add\n2 /a open\n3 /a read 0 4096\n4 /b read 18446744073709551615 1\n",
            b"  8,0    1        1     0.000000000  1234  Q   R 2048 + 8 [dd]\n  8,0 1 2 0.5 1 Q RA 2056 + 8 [dd]\nTotal (8,0):\n",
            b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,src1,0,Read,0,4096,100\n",
            b"128166372003061629,src1,0,Write,0,4096,100\n128166372003061630,src1,0,Read,18446744073709551615,4294967295,1\n",
            b"\x01\0\0\0\x02\0\0\0\0\0\0\0\0\x10\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0\x02\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0",
        ];
        let words = [
            "file ",
            "lost ",
            "foreread-trace 1\n",
            "fio version 3 iolog\n",
            " read ",
            " wait ",
            ",Read,",
            " Q ",
            " R ",
            " + ",
            "8,0",
            "\n0 0 0 0 0\n",
        ];
        foreread_fuzz::fuzz("recordings", &seeds, &words, |recording| {
            let _ = Format::detect("a", recording);
            for format in Format::ALL {
                let mut last = 0;
                for access in Trace::new(recording, format).map_while(Result::ok) {
                    assert!(
                        access.len >= 1 && access.offset.checked_add(u64::from(access.len)).is_some(),
                        "{access:?}"
                    );
                    assert!(access.at_ns >= last, "time goes back: {access:?}");
                    last = access.at_ns;
                }
                let _ = Survey::of(Trace::new(recording, format));
            }
        });
    }
}
