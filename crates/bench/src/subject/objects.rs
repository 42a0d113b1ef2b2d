//! A workload on the user's own storage: the objects that it may read, and what was fetched for
//! it.

use std::fs;
use std::path::{Path, PathBuf};

use foreread_workload::Workload;

use crate::error::Error;
use crate::setup::Setup;
use crate::subject::client::{Place, Storage, Subject};
use crate::subject::server::Counters;

/// Files at the top of the storage that are large enough, as many as the workload reads, by name.
///
/// They are found through a mount of their own, so that the measured one starts without them.
pub(crate) fn find(setup: &Setup<'_>, storage: &Storage, workload: &Workload) -> Result<Vec<PathBuf>, Error> {
    let dir = setup.dir("making a mount point")?;
    let subject = Subject::ReadaheadOff;
    let mounted = subject.mount(storage, &workload.mount, Place::at(dir.path()), None, &setup.interrupt)?;
    // Large enough for any of the workload's files.
    let size = workload.all_files().map(|(_, bytes)| bytes).max().unwrap_or(0);
    let mut found: Vec<PathBuf> = fs::read_dir(mounted.dir())
        .map_err(Error::io("listing the storage"))?
        .filter_map(Result::ok)
        .filter(|entry| entry.metadata().is_ok_and(|about| about.is_file() && about.len() >= size))
        .map(|entry| PathBuf::from(entry.file_name()))
        .collect();
    found.sort_unstable();
    let wanted = workload.all_files().count() as u32;
    if found.len() < wanted as usize {
        return Err(Error::Objects {
            url: storage.url().to_owned(),
            workload: workload.name.clone(),
            wanted,
            size,
            found: found.len(),
        });
    }
    found.truncate(wanted as usize);
    Ok(found)
}

/// What the mount on `dir` reports as fetched; `None` for another client's mount.
pub(crate) fn counters(dir: &Path) -> Option<Counters> {
    let stats: serde_json::Value = serde_json::from_str(&foreread_fuse::query_stats(dir).ok()?).ok()?;
    let number = |name: &str| stats.get(name).and_then(serde_json::Value::as_u64);
    let (gets, bytes) = (number("requests")?, number("fetched_bytes")?);
    Some(Counters { gets, bytes, ..Counters::default() })
}
