//! Block traces as CSV: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times in
//! units of 100 ns.

use super::entry::{Entry, Name, Parsed};

/// Whether a line names the columns.
pub(super) fn is_header(line: &str) -> bool {
    line.to_ascii_lowercase().starts_with("timestamp,")
}

pub(super) fn parse(line: &str) -> Parsed<'_> {
    let mut fields = line.split(',').map(str::trim);
    let number = |field: Option<&str>, what| field.and_then(|text| text.parse::<u64>().ok()).ok_or(what);
    let time = number(fields.next(), "a time that is no number")?;
    // Host and disk number together name a disk.
    let disk_end = line.match_indices(',').nth(2).map(|(at, _)| at).ok_or("fewer columns than a block trace has")?;
    let disk = line[..disk_end].split_once(',').map_or("", |(_, disk)| disk);
    let _ = (fields.next(), fields.next());
    let kind = fields.next().unwrap_or_default();
    if kind.eq_ignore_ascii_case("write") {
        return Ok(None);
    }
    if !kind.eq_ignore_ascii_case("read") {
        return Err("neither Read nor Write");
    }
    let offset = number(fields.next(), "an offset that is no number")?;
    let len = number(fields.next(), "a size that is no number")?;
    let at_ns = time.checked_mul(100).ok_or("a time beyond any clock")?;
    Ok(Some(Entry { at_ns, reader: Name::Text(disk), file: Name::Text(disk), offset, len, size: None }))
}
