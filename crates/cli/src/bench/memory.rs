//! `foreread bench memory`: a region beside the kernel's swap, with the same budget, on the same file system, in the same run.
//!
//! ```text
//!   kernel:  [toucher, in a memory cgroup of the budget] ── swap file      page-cluster and all else as the system has it
//!   region:  [toucher, in one of the budget and a twentieth] ── spill file
//! ```
//!
//! What the processes need besides is within these. The pages are filled before the time begins, so that all that do not fit are out.

mod object;
mod swap_file;
pub(crate) mod toucher;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::cgroup::Cgroup;
use super::error::Error;
use super::process::Process;
use crate::interrupt::Interrupt;
use crate::output;
use swap_file::SwapFile;
use toucher::{Memory, Plan, Touched};

/// The word that chooses it among the workloads' names. What follows a slash chooses rows: `memory/900/random`.
pub(crate) const NAME: &str = "memory";

/// The longest run. Kernel swap of random touches at half the memory takes minutes on a slow disk.
const RUN_MAX: Duration = Duration::from_mins(30);
const MIB: usize = 1 << 20;

/// How it is measured.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    pub(crate) rows: &'a [String],
    pub(crate) quick: bool,
    pub(crate) repeat: u32,
    pub(crate) scratch: &'a Path,
    pub(crate) interrupt: Interrupt,
}

/// A row: what is touched, and what is wanted of the region.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    budget_mib: usize,
    random: bool,
    threads: usize,
    write_each: u64,
    /// So many times faster than kernel swap.
    wanted: Option<f64>,
}

/// What was measured of one: the medians.
#[derive(Debug)]
struct Measured {
    row: Row,
    /// `None` where there is no swap, or none of its runs came to an end.
    kernel: Option<Touched>,
    /// Runs of the kernel's that ended by being killed for memory. It may find nothing to give up at once, and then it does that.
    kernel_killed: usize,
    region: Touched,
}

/// Measures, prints, and tells what is not as wanted.
pub(crate) fn run(options: &Options<'_>, say: &dyn Fn(&str)) -> Result<(serde_json::Value, Vec<String>), Error> {
    let scale = if options.quick { 4 } else { 1 };
    let bytes = 1000 * MIB / scale;
    let root = rustix::process::geteuid().is_root();
    let swap = root.then(|| SwapFile::new(options.scratch, (bytes + 64 * MIB) as u64)).transpose()?;
    if swap.is_none() {
        print("kernel swap: left out, a swap file needs root")?;
    }
    let cluster = std::fs::read_to_string("/proc/sys/vm/page-cluster").unwrap_or_default();
    let words = format!(
        "{} MiB, {CYCLES} cycles or as many touches at random; kernel swap with page-cluster {}",
        bytes / MIB,
        cluster.trim()
    );
    print(&words)?;
    print(&format!(
        "{:<36}{:>12}{:>12}{:>9}   {}",
        "row", "kernel swap", "region", "ratio", "misses, pages read: kernel | region"
    ))?;
    let (mut rows, mut misses) = (Vec::new(), Vec::new());
    for row in Row::all().into_iter().filter(|row| row.is_chosen(options.rows)) {
        let measured = measure(options, row, bytes, scale, swap.is_some(), say)?;
        print(&measured.line())?;
        misses.extend(measured.misses(scale));
        rows.push(measured.json());
    }
    if chosen("memory/faults", options.rows) {
        let (bare, region) = faults(options, bytes / 8, say)?;
        let ratio = region as f64 / bare as f64;
        let us = |ns: u64| ns as f64 / 1e3;
        print(&format!(
            "{:<36}{:>10.1}us{:>10.1}us{ratio:>9.2}   p50 of a fault: a bare loop | a region",
            "memory/faults",
            us(bare),
            us(region)
        ))?;
        if ratio > FAULT_WANTED {
            misses
                .push(format!("memory/faults: p50 is {ratio:.2} times that of a bare loop, wanted <= {FAULT_WANTED}"));
        }
        rows.push(json!({ "row": "memory/faults", "bare_p50_ns": bare, "region_p50_ns": region }));
    }
    if chosen("memory/map", options.rows) {
        say("memory/map");
        let (mounted, viewed) = object::measure(options)?;
        let ratio = viewed / mounted;
        let name = "memory/map";
        print(&format!(
            "{name:<36}{mounted:>8.0}MB/s{viewed:>8.0}MB/s{ratio:>9.2}   an object read in order: a mount | a view"
        ))?;
        if ratio < MAP_WANTED {
            misses.push(format!("{name}: {ratio:.2} times the mount's speed, wanted >= {MAP_WANTED}"));
        }
        rows.push(json!({ "row": name, "mount_mb_per_s": mounted, "view_mb_per_s": viewed }));
    }
    if rows.is_empty() {
        return Err(Error::Protocol { what: format!("no row is called {}", options.rows.join(", ")) });
    }
    Ok((json!({ "bytes": bytes, "rows": rows }), misses))
}

fn print(line: &str) -> Result<(), Error> {
    output::line(format_args!("{line}")).map_err(|_| Error::Interrupted)
}

/// Whether a row of this name is among those asked for.
fn chosen(name: &str, asked: &[String]) -> bool {
    asked
        .iter()
        .any(|asked| name == asked || name.strip_prefix(asked.as_str()).is_some_and(|rest| rest.starts_with('/')))
}

impl Row {
    fn all() -> Vec<Self> {
        let mut rows = Vec::new();
        for budget_mib in [900, 500] {
            for random in [false, true] {
                for threads in [1, 4] {
                    for (load, write_each) in [("write", 1), ("read-mostly", 20)] {
                        let order = if random { "random" } else { "sequential" };
                        let wanted = match (budget_mib, random, threads) {
                            (900, false, _) => Some(2.0),
                            (900, true, 1) => Some(1.0),
                            (900, true, _) => Some(1.3),
                            _ => None,
                        };
                        let name = format!("{NAME}/{budget_mib}/{order}/{threads}/{load}");
                        rows.push(Self { name, budget_mib, random, threads, write_each, wanted });
                    }
                }
            }
        }
        rows
    }

    fn is_chosen(&self, asked: &[String]) -> bool {
        chosen(&self.name, asked)
    }

    fn budget_bytes(&self, scale: usize) -> usize {
        self.budget_mib * MIB / scale
    }
}

fn measure(
    options: &Options<'_>,
    row: Row,
    bytes: usize,
    scale: usize,
    kernel: bool,
    say: &dyn Fn(&str),
) -> Result<Measured, Error> {
    let budget_bytes = row.budget_bytes(scale);
    let (mut of_kernel, mut of_region) = (Vec::new(), Vec::new());
    let mut kernel_killed = 0;
    for round in 0..options.repeat {
        let plan = |memory: Memory| Plan {
            memory,
            bytes,
            cycles: CYCLES,
            random: row.random,
            threads: row.threads,
            write_each: row.write_each,
            seed: 1 + u64::from(round),
        };
        if kernel {
            say(&format!("{}: kernel swap", row.name));
            let group = Cgroup::new(budget_bytes as u64)?;
            match touch(options, &plan(Memory::Kernel), Some(&group)) {
                Err(Error::OutOfMemory { .. }) => kernel_killed += 1,
                touched => of_kernel.push(touched?),
            }
        }
        say(&format!("{}: region", row.name));
        let limit = budget_bytes + budget_bytes / 20;
        let group = kernel.then(|| Cgroup::new(limit as u64)).transpose()?;
        let memory = Memory::Region { budget_bytes, dir: options.scratch.to_owned() };
        of_region.push(touch(options, &plan(memory), group.as_ref())?);
    }
    let region = median(of_region).unwrap_or_default();
    Ok(Measured { row, kernel: median(of_kernel), kernel_killed, region })
}

/// The run in the middle.
fn median(mut runs: Vec<Touched>) -> Option<Touched> {
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let middle = runs.len() / 2;
    runs.into_iter().nth(middle)
}

/// The time of a fault in the middle, in nanoseconds: of a bare loop, and of a region.
fn faults(options: &Options<'_>, bytes: usize, say: &dyn Fn(&str)) -> Result<(u64, u64), Error> {
    let (mut bare, mut region) = (Vec::new(), Vec::new());
    for round in 0..options.repeat.max(3) {
        for (is_bare, times) in [(true, &mut bare), (false, &mut region)] {
            say(if is_bare { "memory/faults: a bare loop" } else { "memory/faults: a region" });
            let memory = Memory::Faults { dir: options.scratch.to_owned(), bare: is_bare };
            let seed = 1 + u64::from(round);
            let plan = Plan { memory, bytes, cycles: 1, random: true, threads: 1, write_each: 1, seed };
            times.extend(touch(options, &plan, None)?.fault_p50_ns);
        }
    }
    let middle = |times: &mut Vec<u64>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or(0)
    };
    Ok((middle(&mut bare), middle(&mut region)))
}

fn touch(options: &Options<'_>, plan: &Plan, group: Option<&Cgroup>) -> Result<Touched, Error> {
    let program = std::env::current_exe().map_err(Error::io("finding this program"))?;
    let plan = serde_json::to_string(plan).map_err(|error| Error::Protocol { what: error.to_string() })?;
    let mut command = Command::new(program);
    command.args(["bench", "--toucher", &plan]);
    let process = Process::start(&mut Cgroup::enter_if(group, command), "the process that touches".to_owned())?;
    let answer = process.answer(RUN_MAX, &options.interrupt);
    match group.map_or(0, Cgroup::killed) {
        0 => {}
        killed => return Err(Error::OutOfMemory { killed }),
    }
    serde_json::from_str(&answer?).map_err(|error| Error::Protocol { what: error.to_string() })
}

impl Measured {
    fn ratio(&self) -> Option<f64> {
        Some(self.kernel.as_ref()?.seconds / self.region.seconds)
    }

    fn line(&self) -> String {
        let seconds = |touched: &Touched| format!("{:.2} s", touched.seconds);
        let counts = |touched: &Touched| format!("{}, {}", touched.misses, touched.pages_read);
        let none = || "-".to_owned();
        let (kernel, counted) =
            self.kernel.as_ref().map_or((none(), none()), |kernel| (seconds(kernel), counts(kernel)));
        let ratio = self.ratio().map_or_else(none, |ratio| format!("{ratio:.2}"));
        let (region, ours) = (seconds(&self.region), counts(&self.region));
        let killed = match self.kernel_killed {
            0 => String::new(),
            killed => format!("; kernel swap was killed for memory {killed} times"),
        };
        format!("{:<36}{kernel:>12}{region:>12}{ratio:>9}   {counted} | {ours}{killed}", self.row.name)
    }

    fn misses(&self, scale: usize) -> Vec<String> {
        let mut misses = Vec::new();
        if let (Some(wanted), Some(ratio)) = (self.row.wanted, self.ratio())
            && ratio < wanted
        {
            let name = &self.row.name;
            misses.push(format!("{name}: {ratio:.2} times as fast as kernel swap, wanted >= {wanted}"));
        }
        let (rss, budget) = (self.region.rss_bytes, self.row.budget_bytes(scale));
        if rss > (budget + budget / 20) as u64 {
            misses.push(format!("{}: {} MiB of memory with a budget of {}", self.row.name, rss >> 20, budget >> 20));
        }
        misses
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "row": self.row.name,
            "kernel": self.kernel,
            "kernel_killed": self.kernel_killed,
            "region": self.region,
            "ratio": self.ratio(),
            "wanted": self.row.wanted,
        })
    }
}

/// Times that the memory is gone through.
const CYCLES: usize = 5;

/// A fault of a region, in times that of a bare loop.
const FAULT_WANTED: f64 = 1.3;

/// The speed of a view, in times that of a mount.
const MAP_WANTED: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_was_killed_is_told_of_and_is_no_miss_of_the_region() {
        let row = Row::all().into_iter().find(|row| row.wanted.is_some()).expect("a row with a figure");
        let region = Touched { seconds: 2.0, ..Touched::default() };
        let killed = Measured { row, kernel: None, kernel_killed: 3, region };
        assert!(killed.line().ends_with("killed for memory 3 times"), "{}", killed.line());
        assert_eq!((killed.misses(1), &killed.json()["kernel_killed"]), (Vec::new(), &json!(3)));
    }

    #[test]
    fn rows_are_chosen_by_the_beginning_of_their_names() {
        let count = |asked: &str| Row::all().iter().filter(|row| row.is_chosen(&[asked.to_owned()])).count();
        assert_eq!(
            ["memory", "memory/900", "memory/500/random", "memory/900/random/4/write", "memory/9"].map(count),
            [16, 8, 4, 1, 0]
        );
    }
}
