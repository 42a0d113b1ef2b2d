//! The processes that the benchmark starts of this program: `foreread bench --reader PLAN`,
//! `foreread bench --toucher PLAN` and `foreread bench --verifier PLAN`. Each returns its result,
//! one line of JSON for stdout.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::error::Error;
use crate::readers::plan::{Plan, READY};
use crate::readers::reader;
use crate::regions::toucher;
use crate::submission::submitter;
use crate::verify::worker;

/// Reads as the plan in this file says. A reader of a mount first writes a line to stdout and
/// waits for the end of its stdin, so that all readers of a run begin together.
pub fn read(plan: &Path) -> Result<String, Error> {
    let text = fs::read(plan).map_err(Error::io("reading the reader's plan"))?;
    let plan: Plan = serde_json::from_slice(&text).map_err(Error::protocol)?;
    let measured = match plan.submitter {
        Some(submitter) => serde_json::to_string(&submitter::run(&plan, submitter)?),
        None => serde_json::to_string(&reader::run(&plan, wait_for_start)?),
    };
    measured.map_err(Error::protocol)
}

/// Touches memory as this plan, in JSON, says.
pub fn touch(plan: &str) -> Result<String, Error> {
    let plan = serde_json::from_str(plan).map_err(Error::protocol)?;
    serde_json::to_string(&toucher::run(&plan)?).map_err(Error::protocol)
}

/// Reads and compares as the plan in this file says.
pub fn verify(plan: &Path) -> Result<String, Error> {
    let text = fs::read(plan).map_err(Error::io("reading the verifier's plan"))?;
    let order = serde_json::from_slice(&text).map_err(Error::protocol)?;
    worker::run(&order)
}

fn wait_for_start() -> Result<(), Error> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{READY}").and_then(|()| stdout.flush()).map_err(Error::io("saying that it is ready"))?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).map_err(Error::io("waiting for the start"))?;
    Ok(())
}
