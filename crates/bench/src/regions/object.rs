//! An object of a testbed, read in order through a mount, and mapped without one.

use foreread_workload::{Workload, catalogue};

use crate::error::Error;
use crate::regions::plan::{Memory, Plan};
use crate::regions::start::{median, touch};
use crate::setup::Setup;
use crate::subject::client::{Place, Storage, Subject};
use crate::subject::server::{Content, Server};

/// The workload whose object and device are used: 2 GiB, 30 ms.
const WORKLOAD: &str = "sequential-1m";

/// Megabytes a second of a mount and of a view; each the median.
pub(crate) fn measure(setup: &Setup<'_>, quick: bool) -> Result<(f64, f64), Error> {
    let text = catalogue::text(WORKLOAD).unwrap_or_default();
    let workload = &mut Workload::parse(WORKLOAD, text).map_err(Error::Workload)?;
    if quick {
        workload.files.size_bytes /= 8;
    }
    let store = workload.device.store().ok_or_else(|| Error::protocol("it needs a store"))?;
    let bytes = workload.files.size_bytes as usize;
    let key = workload.file_name(0);
    let plan = |memory| Plan { memory, bytes, cycles: 1, random: false, threads: 1, write_each: 1, seed: 1 };
    let (mut mounted, mut viewed) = (Vec::new(), Vec::new());
    for _ in 0..setup.repeat {
        let server = Server::start(Content::Files(workload), store, &setup.interrupt)?;
        let endpoint = server.endpoint().to_owned();
        let storage = Storage::testbed(&endpoint);
        let dir = setup.dir("making a temporary directory")?;
        let mount =
            Subject::Foreread.mount(&storage, &workload.mount, Place::at(dir.path()), None, &setup.interrupt)?;
        mounted.push(touch(setup, &plan(Memory::File { path: dir.path().join(&key) }), None)?);
        drop(mount);
        let memory_bytes = workload.mount.memory_bytes;
        viewed.push(touch(setup, &plan(Memory::View { endpoint, key: key.clone(), memory_bytes }), None)?);
    }
    let speed = |runs| median(runs).map_or(0.0, |touched| bytes as f64 / 1e6 / touched.seconds);
    Ok((speed(mounted), speed(viewed)))
}
