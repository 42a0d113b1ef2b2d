//! Starts the process that touches memory, and waits for its result.

use std::process::Command;
use std::time::Duration;

use crate::error::Error;
use crate::process::Process;
use crate::regions::plan::{Plan, Touched};
use crate::setup::Setup;
use crate::subject::cgroup::Cgroup;

/// The longest run. Kernel swap of random touches with half the memory takes minutes on a slow
/// disk.
const RUN_MAX: Duration = Duration::from_mins(30);

/// Runs `plan`, inside `group` if there is one.
pub(crate) fn touch(setup: &Setup<'_>, plan: &Plan, group: Option<&Cgroup>) -> Result<Touched, Error> {
    let program = std::env::current_exe().map_err(Error::io("finding this program"))?;
    let plan = serde_json::to_string(plan).map_err(Error::protocol)?;
    let mut command = Command::new(program);
    command.args(["bench", "--toucher", &plan]);
    let process = Process::start(&mut Cgroup::enter_if(group, command), "the process that touches".to_owned())?;
    let answer = process.answer(RUN_MAX, &setup.interrupt);
    match group.map_or(0, Cgroup::killed) {
        0 => {}
        killed => return Err(Error::OutOfMemory { killed }),
    }
    serde_json::from_str(&answer?).map_err(Error::protocol)
}

/// The run with the median time.
pub(crate) fn median(mut runs: Vec<Touched>) -> Option<Touched> {
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let middle = runs.len() / 2;
    runs.into_iter().nth(middle)
}
