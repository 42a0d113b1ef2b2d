//! Measures one program, as often as asked, beside its other forms and its baselines.

use foreread_workload::{Load, Program};

use crate::error::Error;
use crate::options::Options;
use crate::programs::made::{Made, Script};
use crate::programs::stage::Stage;
use crate::readers::tree;
use crate::row::Row;
use crate::row::column::{Column, Run};
use crate::subject::client::Subject;

/// A program with what it needs.
#[derive(Debug)]
pub struct Cast<'a> {
    /// The program.
    pub program: &'a Program,
    /// The script that it names as its data.
    pub data: &'a Script,
    /// The script that it names as its tools.
    pub tools: Option<&'a Script>,
}

/// Measures a program. The row keeps what fails; only an interruption is an error.
pub fn measure(options: &Options<'_>, made: &Made, cast: &Cast<'_>) -> Result<Row, Error> {
    let program = cast.program;
    let mut subjects = Subject::all(&[], options.against);
    // On the user's storage, another user has no credentials, and what a program without a mount
    // needs is not known.
    let testbed = options.user.is_none();
    if program.without_root && testbed && rustix::process::geteuid().is_root() {
        subjects.insert(2, Subject::WithoutRoot);
    }
    let own = program.own.iter().filter(|_| testbed);
    let beside = own.map(|_| "without a mount").chain(["local folder"]);
    let names = subjects.iter().map(Subject::name).chain(beside.map(str::to_owned));
    let mut row = Row::new(Load::Program(program.clone()), names.map(Column::new).collect());
    let measured = fill(&mut row, options, made, cast, &subjects);
    row.settle(measured)?;
    Ok(row)
}

fn fill(row: &mut Row, options: &Options<'_>, made: &Made, cast: &Cast<'_>, subjects: &[Subject]) -> Result<(), Error> {
    if cast.program.again {
        tree::need_drop_caches()?;
    }
    let stage = Stage::new(options, cast.program, made, cast.data, cast.tools)?;
    let (through, without) = row.columns.split_at_mut(subjects.len());
    let (local, own) = without.split_last_mut().expect("a local folder is always measured");
    for attempt in 1..=options.setup.repeat {
        let of = format!("run {attempt} of {}", options.setup.repeat);
        local.take(stage.local())?;
        for own in own.iter_mut() {
            stage.status(&format!("without a mount, {of}"));
            stage.own().map_or(Ok(()), |run| own.take(run))?;
        }
        stage.status(&format!("foreread, {of}"));
        through[0].take(stage.run(&subjects[0], last(own)))?;
        if through[0].failure.is_some() {
            break;
        }
    }
    for (subject, column) in subjects.iter().zip(through).skip(1) {
        stage.status(&subject.name());
        column.take(stage.run(subject, last(own)))?;
    }
    Ok(())
}

/// The last run without a mount, if all have succeeded.
fn last(own: &[Column]) -> Option<&Run> {
    own.first().filter(|own| own.failure.is_none()).and_then(|own| own.runs.last())
}
