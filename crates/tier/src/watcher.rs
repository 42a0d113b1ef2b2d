//! The thread that looks at the folder: it loads what is there, newest first, then each second
//! what other processes sealed, and forgets what left.
//!
//! ```text
//!   known, and no name ──> forgotten
//!   a name, not known ──> sealed: loaded
//!                     └─> not sealed, its process ended: sealed here, and loaded
//!   an object is wanted ──> the cold segments that may have it: their records are read
//! ```

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use crate::object::ObjectId;
use crate::record::Record;
use crate::segment;
use crate::shared::Shared;

/// Looks until the end.
pub(crate) fn run(shared: &Shared) {
    loop {
        if let Err(error) = look(shared) {
            tracing::debug!(%error, "the folder of the cache cannot be read");
        }
        *shared.loaded.lock() = true;
        shared.loading.notify_all();
        let next = Instant::now() + INTERVAL;
        loop {
            let wanted = shared.state.lock().wanted.pop_front();
            if let Some(object) = wanted {
                if let Err(error) = heat(shared, object) {
                    tracing::debug!(%error, "the records of the cache cannot be read");
                }
                continue;
            }
            let mut ends = shared.ends.lock();
            let left = next.saturating_duration_since(Instant::now());
            if !*ends && !left.is_zero() && shared.state.lock().wanted.is_empty() {
                shared.ending.wait_for(&mut ends, left);
            }
            if *ends {
                return;
            }
            if Instant::now() >= next {
                break;
            }
        }
    }
}

/// Reads the records of the cold segments that may have an object, as far as there is room without
/// those that were read for it.
fn heat(shared: &Shared, object: ObjectId) -> io::Result<()> {
    let segments = shared.state.lock().cold.of(object);
    for (at, &number) in segments.iter().enumerate() {
        let Some(records) = records(shared, number)? else { continue };
        if !records.iter().any(|record| record.object == object) {
            continue;
        }
        while !shared.heat(number, &records) {
            if !cool_one(shared, &segments[..at])? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Has the segment that was read longest ago known by its objects alone. `false`: there is none
/// but these.
pub(crate) fn cool_one(shared: &Shared, but: &[u64]) -> io::Result<bool> {
    let Some(number) = shared.state.lock().coolest(but) else { return Ok(false) };
    // One that is gone is forgotten with the next look.
    let Some(records) = records(shared, number)? else { return Ok(false) };
    shared.cool(number, &records);
    Ok(true)
}

/// The records of a sealed segment, from its file.
fn records(shared: &Shared, number: u64) -> io::Result<Option<Vec<Record>>> {
    match File::open(shared.folder.segment(number)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => segment::sealed(&file?, number),
    }
}

fn look(shared: &Shared) -> io::Result<()> {
    // In this order: what is known now is there, if it has not left.
    let known: BTreeSet<u64> = {
        let state = shared.state.lock();
        state.segments.keys().chain(&state.skipped).copied().collect()
    };
    let names: BTreeSet<u64> = match shared.folder.segments() {
        Err(error) if error.kind() == ErrorKind::NotFound => BTreeSet::new(),
        names => names?.into_iter().collect(),
    };
    let vanished: BTreeSet<u64> = known.difference(&names).copied().collect();
    if !vanished.is_empty() {
        shared.forget(&vanished, true);
    }
    for &number in names.iter().rev().filter(|number| !known.contains(number)) {
        if *shared.ends.lock() {
            break;
        }
        if let Err(error) = load(shared, number) {
            tracing::debug!(%error, number, "a segment of the cache cannot be loaded");
        }
    }
    Ok(())
}

fn load(shared: &Shared, number: u64) -> io::Result<()> {
    let path = shared.folder.segment(number);
    if !path.exists() {
        return Ok(());
    }
    let records = if let Some(records) = records(shared, number)? {
        records
    } else {
        let lock = shared.folder.lock()?;
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let Some(records) = segment::seal_left(&lock, &file, number)? else { return Ok(()) };
        records
    };
    while !shared.load(number, &records) {
        if !cool_one(shared, &[])? {
            shared.state.lock().skipped.insert(number);
            break;
        }
    }
    Ok(())
}

/// How often the names in the folder are read. Lower: more system calls for nothing. Higher: what
/// another process sealed is read from the storage for longer. Source: a guess; a segment takes
/// seconds to fill.
const INTERVAL: Duration = Duration::from_secs(1);
