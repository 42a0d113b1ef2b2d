//! Where a program is run: its storage, its data, and one cold run there.
//!
//! Every subject is mounted afresh for every run, so nothing holds any of the program's files. The
//! data lies in a local folder too: the program must print there what it prints over a mount.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use foreread_workload::{Metric, Program, Timed};

use crate::error::Error;
use crate::options::Options;
use crate::process::{Process, usage};
use crate::programs::made::{Made, Script, with_tools};
use crate::readers::reading::Reading;
use crate::readers::tree;
use crate::row::column::Run;
use crate::subject::client::{NOBODY, Place, Storage, Subject};
use crate::subject::server::{BUCKET, Content, Counters, Server};
use crate::subject::{backing, objects};

/// What is in flight when a program ends arrives within this time, and counts.
const SETTLES: Duration = Duration::from_millis(500);

/// Where a program is run.
pub(crate) struct Stage<'a> {
    options: &'a Options<'a>,
    program: &'a Program,
    server: Option<Server>,
    storage: Storage,
    data: PathBuf,
    /// All bytes of the data.
    bytes: u64,
    tools: Option<PathBuf>,
    /// What it prints, with the data in a local folder.
    prints: String,
}

/// One run of the program.
pub(crate) struct Took {
    seconds: f64,
    prints: String,
}

impl<'a> Stage<'a> {
    /// Makes data and tools, and runs the program once on the local folder.
    pub(crate) fn new(
        options: &'a Options<'a>,
        program: &'a Program,
        made: &Made,
        data: &Script,
        tools: Option<&Script>,
    ) -> Result<Self, Error> {
        let setup = &options.setup;
        let tools = tools.map(|script| made.folder(setup, "tools", script, None)).transpose()?;
        let data = made.folder(setup, "data", data, tools.as_deref())?;
        let content = options.upstream.map_or(Content::Folder(&data), Content::Upstream);
        let (server, storage) = if let Some(user) = &options.user {
            (None, user.clone())
        } else {
            let server = Server::start(content, program.store, &setup.interrupt)?;
            let bucket = data.file_name().filter(|_| options.upstream.is_some()).and_then(OsStr::to_str);
            let storage = Storage::bucket(server.endpoint(), bucket.unwrap_or(BUCKET));
            (Some(server), storage)
        };
        let bytes = bytes_below(&data).map_err(Error::io("looking at a program's data"))?;
        let mut stage = Self { options, program, server, storage, data, bytes, tools, prints: String::new() };
        stage.status("on a local folder");
        stage.prints = stage.execute(&program.command, Some(&stage.data), &Subject::Foreread)?.prints;
        Ok(stage)
    }

    /// Reports what is measured of this program.
    pub(crate) fn status(&self, what: &str) {
        self.options.setup.status(&format!("{}: {what}", self.program.name));
    }

    /// The program on the local folder, which is in the kernel's memory by now.
    pub(crate) fn local(&self) -> Result<Run, Error> {
        let took = self.execute(&self.program.command, Some(&self.data), &Subject::Foreread)?;
        Ok(run(BTreeMap::from([(Metric::Seconds, took.seconds)])))
    }

    /// The same program without a mount, if there is one.
    pub(crate) fn own(&self) -> Option<Result<Run, Error>> {
        let own = self.program.own.as_deref()?;
        let measured = || {
            let before = self.counters(None)?;
            let took = self.execute(own, None, &Subject::Foreread)?;
            self.compare(&took)?;
            let mut values = BTreeMap::from([(Metric::Seconds, took.seconds)]);
            values.extend(self.first(since(self.counters(None)?, before)));
            Ok(run(values))
        };
        Some(measured())
    }

    /// One cold run through a mount, and one more if the program wants it. `own` is a run of the
    /// same program without a mount.
    pub(crate) fn run(&self, subject: &Subject, own: Option<&Run>) -> Result<Run, Error> {
        let setup = &self.options.setup;
        backing::touch(self.bytes.saturating_add(self.program.mount.memory_bytes));
        let dir = setup.dir("making a mount point")?;
        if *subject == Subject::WithoutRoot {
            open_to_nobody(setup.scratch(), dir.path()).map_err(Error::io("giving a mount point away"))?;
        }
        let before = self.counters(None)?;
        let place = Place::at(dir.path());
        let mut mounted = subject.mount(&self.storage, &self.program.mount, place, None, &setup.interrupt)?;
        let started = self.counters(Some(mounted.dir()))?;
        let mut values = BTreeMap::new();
        let measured = self.execute(&self.program.command, Some(mounted.dir()), subject);
        let spent = mounted.spent();
        // Where the mount has died, what the program says is a consequence.
        mounted.check()?;
        let took = measured?;
        self.compare(&took)?;
        thread::sleep(SETTLES);
        let fetched = since(self.counters(Some(mounted.dir()))?, if self.server.is_some() { before } else { started });
        values.extend([(Metric::Seconds, took.seconds), (Metric::Cpu, spent.cpu_s)]);
        values.insert(Metric::Rss, spent.rss_max_bytes as f64 / f64::from(1 << 20));
        values.extend(self.first(fetched));
        let over = |metric| Some(values.get(&metric)? / own?.values.get(&metric)?);
        let ratios = [(Metric::SecondsOfOwn, over(Metric::Seconds)), (Metric::FetchedOfOwn, over(Metric::Fetched))];
        if self.program.again {
            tree::drop_caches()?;
            // The program's own files and those of the testbed come back from the local disk,
            // which is not what is measured.
            self.execute(&self.program.command, Some(&self.data), &Subject::Foreread)?;
            let before = self.counters(Some(mounted.dir()))?;
            let took = self.execute(&self.program.command, Some(mounted.dir()), subject)?;
            self.compare(&took)?;
            thread::sleep(SETTLES);
            values.insert(Metric::Again, took.seconds);
            if let Some(asked) = since(self.counters(Some(mounted.dir()))?, before) {
                values.insert(Metric::AgainGets, asked.gets as f64);
                // A mount of the user's storage does not tell them.
                if self.server.is_some() {
                    values.insert(Metric::AgainNames, (asked.heads + asked.lists) as f64);
                }
            }
        }
        values.extend(ratios.into_iter().filter_map(|(metric, value)| Some((metric, value?))));
        values.retain(|_, value| value.is_finite());
        mounted.check()?;
        let testbed_cpu_s = self.server.as_ref().and_then(|server| usage::cpu_s(server.id()));
        Ok(Run { fetched, mount: spent, testbed_cpu_s, ..run(values) })
    }

    /// The figures of what the first run asked for. A mount of the user's storage tells less.
    fn first(&self, fetched: Option<Counters>) -> impl Iterator<Item = (Metric, f64)> {
        let names = fetched.filter(|_| self.server.is_some());
        [
            (Metric::Fetched, fetched.map(|fetched| fetched.bytes as f64 / 1e6)),
            (Metric::Gets, fetched.map(|fetched| fetched.gets as f64)),
            (Metric::Heads, names.map(|names| names.heads as f64)),
            (Metric::Lists, names.map(|names| names.lists as f64)),
        ]
        .into_iter()
        .filter_map(|(metric, value)| Some((metric, value?)))
    }

    /// What was served so far, by the testbed or else to the mount on `dir`.
    fn counters(&self, dir: Option<&Path>) -> Result<Option<Counters>, Error> {
        match &self.server {
            Some(server) => server.counters().map(Some),
            None => Ok(dir.and_then(objects::counters)),
        }
    }

    fn compare(&self, took: &Took) -> Result<(), Error> {
        if took.prints == self.prints {
            return Ok(());
        }
        Err(Error::WrongOutput {
            program: self.program.name.clone(),
            found: took.prints.clone(),
            wanted: self.prints.clone(),
        })
    }

    /// Runs a command line, with the data in `data`, as the user who has mounted `subject`.
    fn execute(&self, line: &str, data: Option<&Path>, subject: &Subject) -> Result<Took, Error> {
        let mut command = self.storage.lead(OsStr::new("sh"));
        command.args(["-c", line]).current_dir("/");
        command.env("ENDPOINT", self.storage.endpoint()).env("BUCKET", self.storage.below());
        if let Some(data) = data {
            command.env("DATA", data);
        }
        with_tools(&mut command, self.tools.as_deref());
        subject.become_user(&mut command);
        let begun = Instant::now();
        let process = Process::start(&mut command, self.program.name.clone())?;
        let limit = Duration::from_nanos(self.program.duration_ns);
        let (prints, ended) = process.answer_at(limit, &self.options.setup.interrupt)?;
        match self.program.timed {
            Timed::Itself => {
                let (before, last) = prints.trim_end().rsplit_once('\n').unwrap_or(("", prints.trim_end()));
                let seconds = last.trim().parse().ok().filter(|seconds: &f64| seconds.is_finite());
                let seconds = seconds.ok_or_else(|| Error::Protocol {
                    what: format!("the last line of {} is `{last}`, not its seconds", self.program.name),
                })?;
                Ok(Took { seconds, prints: before.to_owned() })
            }
            _ => Ok(Took { seconds: (ended - begun).as_secs_f64(), prints }),
        }
    }
}

/// Lets a user who owns nothing mount on `dir`, which lies in `scratch`.
fn open_to_nobody(scratch: &Path, dir: &Path) -> std::io::Result<()> {
    fs::set_permissions(scratch, fs::Permissions::from_mode(0o711))?;
    chown(dir, Some(NOBODY), Some(NOBODY))
}

/// The bytes of all files below `dir`. Links are not followed.
fn bytes_below(dir: &Path) -> std::io::Result<u64> {
    let mut sum: u64 = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let about = entry.metadata()?;
        sum = sum.saturating_add(if about.is_dir() { bytes_below(&entry.path())? } else { about.len() });
    }
    Ok(sum)
}

fn run(values: BTreeMap<Metric, f64>) -> Run {
    Run { values, ..Run::of(Reading::default()) }
}

fn since(after: Option<Counters>, before: Option<Counters>) -> Option<Counters> {
    Some(after?.since(before?))
}
