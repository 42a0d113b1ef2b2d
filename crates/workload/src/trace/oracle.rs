//! libCacheSim's oracleGeneral: little-endian records of a time in seconds (u32), an object (u64),
//! its bytes (u32) and when it is next asked for (i64, not needed here).

use super::entry::{Entry, Name};

pub(super) const RECORD_BYTES: usize = 24;

pub(super) fn parse(record: &[u8; RECORD_BYTES]) -> Entry<'static> {
    let number = |from: usize, bytes: usize| {
        record[from..from + bytes].iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte))
    };
    let (seconds, object, len) = (number(0, 4), number(4, 8), number(12, 4));
    let (reader, file) = (Name::Number(0), Name::Number(object));
    Entry { at_ns: seconds * 1_000_000_000, reader, file, offset: 0, len, size: Some(len) }
}
