//! Measures one row: a workload, as often as asked, beside its baselines.
//!
//! ```text
//!  testbed ──> ceiling ──> bare client ──> foreread      a repetition; void if the ceiling is low
//!              readahead off, baselines, others          once, after the last repetition
//! ```
//!
//! A void run is repeated. After the runs, the simulator predicts the same row.

use foreread_sim::{PolicyName, Scenario};
use foreread_workload::{Load, Metric, Pattern, Workload};

use crate::error::Error;
use crate::options::Options;
use crate::row::Row;
use crate::row::column::{Column, Run};
use crate::row::site::Site;
use crate::subject::client::Subject;
use crate::subject::server::{Content, Server};
use crate::subject::yardstick::Yardstick;
use crate::submission::contenders;

/// Void runs that are repeated: on a shared machine, other load comes and goes.
const VOID_RETRIES: u32 = 2;

/// Measures `workload`, whose TOML is `text`. The row keeps what fails; only an interruption is an
/// error.
pub fn measure(options: &Options<'_>, workload: &Workload, text: &str) -> Result<Row, Error> {
    if workload.device.is_submitted_to() {
        return contenders::measure(options, workload, text);
    }
    let subjects = Subject::all(options.baselines, options.against);
    let columns = subjects.iter().map(|subject| Column::new(subject.name())).collect();
    let mut row = Row::new(Load::Reads(workload.clone()), columns);
    let measured = fill(&mut row, options, workload, text, &subjects);
    row.settle(measured)?;
    Ok(row)
}

fn fill(
    row: &mut Row,
    options: &Options<'_>,
    workload: &Workload,
    text: &str,
    subjects: &[Subject],
) -> Result<(), Error> {
    let store = workload.device.store().ok_or_else(|| Error::SimulatedOnly { name: workload.name.clone() })?;
    let server = match options.user {
        Some(_) => None,
        None => Some(Server::start(Content::Files(workload), store, &options.setup.interrupt)?),
    };
    let site = Site::new(options, workload, text, server.as_ref())?;
    let repeat = options.setup.repeat;
    let mut yardstick = Yardstick::default();
    let mut attempts = 0;
    while row.columns[0].runs.len() < repeat as usize
        && row.columns[0].failure.is_none()
        && attempts < repeat + VOID_RETRIES
    {
        attempts += 1;
        let of = format!("run {attempts} of {}", repeat.max(attempts));
        yardstick = site.yardstick(&of)?;
        let (min, found) = (store.ceiling_min_bytes_per_s, yardstick.ceiling_mb_per_s);
        if let (Some(min), Some(found)) = (min.map(|min| min as f64 / 1e6), found)
            && found < min
        {
            row.void.push(format!("16 connections of a bare client reached {found:.0} MB/s, wanted {min:.0}"));
            continue;
        }
        site.status(&format!("foreread, {of}"));
        row.columns[0].take(site.run(&subjects[0], yardstick))?;
    }
    if row.is_void() {
        return Ok(());
    }
    let beside = subjects.iter().zip(&mut row.columns).skip(1);
    for (subject, column) in beside.filter(|(subject, _)| subject.is_wanted(workload)) {
        site.status(&subject.name());
        column.take(site.run(subject, yardstick))?;
    }
    if options.yardsticks
        && let Err(error) = predict(row, workload)
    {
        row.columns[0].failure = Some(format!("it cannot be predicted: {error}"));
    }
    Ok(())
}

/// Simulates foreread where it was measured. The store carries no more than the processors can
/// take in. The processor time of a byte is what it was in these runs, in all processes.
fn predict(row: &mut Row, workload: &Workload) -> Result<(), foreread_sim::Error> {
    if matches!(workload.pattern, Pattern::MmapRandom { .. }) || !workload.is_simulated() {
        // A page fault brings the pages around it, which no model here does; none knows
        // directories.
        return Ok(());
    }
    let ours = &row.columns[0];
    let cpu_s_per_byte = ours.median(Run::cpu_s_per_byte).filter(|_| ours.failure.is_none());
    let Some(cpu_s_per_byte) = cpu_s_per_byte else { return Ok(()) };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let carries = processors as f64 / cpu_s_per_byte;
    let store = workload.device.store().and_then(|store| store.total_bytes_per_s).unwrap_or(u64::MAX);
    let workload = workload.clone().with_total_rate(store.min(carries as u64));
    let tally = Scenario::of(&workload, None)?.through_mount(&workload).run(PolicyName::Foreread)?;
    // A simulation has no open(), which the first bytes of a file include.
    let known = Metric::ALL.iter().filter(|metric| !metric.key().starts_with("first_"));
    row.predicted = known.filter_map(|&metric| Some((metric, tally.figure(metric)?))).collect();
    Ok(())
}
