//! The thread that looks at the folder: it loads what is there, newest first, then each second
//! what other processes sealed, and forgets what left.
//!
//! ```text
//!   known, and no name ──> forgotten
//!   a name, not known ──> sealed: loaded
//!                     └─> not sealed, its process ended: sealed here, and loaded
//! ```

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::time::Duration;

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
        let mut ends = shared.ends.lock();
        if !*ends {
            shared.ending.wait_for(&mut ends, INTERVAL);
        }
        if *ends {
            return;
        }
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
    let records = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => segment::sealed(&file?, number)?,
    };
    let records = if let Some(records) = records {
        records
    } else {
        let lock = shared.folder.lock()?;
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let Some(records) = segment::seal_left(&lock, &file, number)? else { return Ok(()) };
        records
    };
    shared.load(number, &records);
    Ok(())
}

/// How often the names in the folder are read. Lower: more system calls for nothing. Higher: what
/// another process sealed is read from the storage for longer. Source: a guess; a segment takes
/// seconds to fill.
const INTERVAL: Duration = Duration::from_secs(1);
