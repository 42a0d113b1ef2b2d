//! The default text of `blkparse`: `DEVICE CPU SEQUENCE SECONDS PID ACTION RWBS SECTOR + SECTORS
//! [PROCESS]`, one event a line, with totals at the end. A read is taken when it is queued (action
//! Q).

use super::entry::{Entry, Name, Parsed};

const SECTOR_BYTES: u64 = 512;

/// Whether a line is an event of any kind.
pub(super) fn is_event(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let device = words.next().is_some_and(is_device);
    device && words.nth(2).is_some_and(|time| seconds(time).is_some())
}

fn is_device(word: &str) -> bool {
    word.split_once(',').is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok())
}

pub(super) fn parse(line: &str) -> Parsed<'_> {
    let mut words = line.split_ascii_whitespace();
    let Some(device) = words.next().filter(|word| is_device(word)) else { return Ok(None) };
    let (_cpu, _sequence) = (words.next(), words.next());
    let at_ns = words.next().and_then(seconds).ok_or("a time that is no number of seconds")?;
    let (Some(pid), Some(action)) = (words.next(), words.next()) else { return Err("not an event of blkparse") };
    if action != "Q" {
        return Ok(None);
    }
    let Some(kind) = words.next() else { return Err("not an event of blkparse") };
    if !kind.contains('R') {
        return Ok(None);
    }
    let mut number = || words.next().filter(|&word| word != "+").or_else(|| words.next())?.parse::<u64>().ok();
    let (Some(sector), Some(sectors)) = (number(), number()) else { return Err("not `SECTOR + SECTORS`") };
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR_BYTES).ok_or("an offset beyond any file");
    let (offset, len) = (bytes(sector)?, bytes(sectors)?);
    Ok(Some(Entry { at_ns, reader: Name::Text(pid), file: Name::Text(device), offset, len, size: None }))
}

/// `SECONDS.NANOSECONDS`.
fn seconds(word: &str) -> Option<u64> {
    let (whole, part) = word.split_once('.')?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    (part.len() == 9).then(|| part.parse::<u64>().ok()).flatten()?.checked_add(whole)
}
