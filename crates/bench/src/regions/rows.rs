//! Rows of memory: a region beside the kernel's swap, with the same budget, on the same file
//! system, in the same run.
//!
//! ```text
//!   kernel:  [toucher, in a memory cgroup of the budget] ── swap file, the system's page-cluster
//!   region:  [toucher, in one of the budget and a twentieth] ── spill file
//! ```
//!
//! Other memory of the processes counts as well. The pages are filled before the time begins, so
//! that all that do not fit are evicted by then.

use serde_json::json;

use crate::error::Error;
use crate::regions::object;
use crate::regions::plan::{Memory, Plan, Touched};
use crate::regions::start::{median, touch};
use crate::regions::swap_file::SwapFile;
use crate::setup::Setup;
use crate::subject::cgroup::Cgroup;

const MIB: usize = 1 << 20;

/// Which rows of memory are measured, and how.
#[derive(Debug)]
pub struct Regions<'a> {
    /// Names of rows, or their beginnings up to a slash: `memory/900/random`.
    pub rows: &'a [String],
    /// Whether to touch a quarter of the memory only.
    pub quick: bool,
}

/// Prints a line of the result, as soon as it is measured.
type Print<'a> = dyn Fn(&str) -> std::io::Result<()> + 'a;

/// A row: how memory is touched, and the figure wanted of the region.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    budget_mib: usize,
    random: bool,
    threads: usize,
    write_each: u64,
    /// Times the speed of kernel swap.
    wanted: Option<f64>,
}

/// The measurements of a row: the run with the median time of each.
#[derive(Debug)]
struct Measured {
    row: Row,
    /// `None` if there is no swap, or every run was killed.
    kernel: Option<Touched>,
    /// Runs with kernel swap that the kernel killed for memory: it does so if it finds no page to
    /// evict at once.
    kernel_killed: usize,
    region: Touched,
}

impl Regions<'_> {
    /// The first part of the rows' names.
    pub const NAME: &'static str = "memory";

    /// Measures the rows and prints each. Returns everything for programs, and a line for each
    /// figure that is not as wanted.
    pub fn measure(&self, setup: &Setup<'_>, print: &Print<'_>) -> Result<(serde_json::Value, Vec<String>), Error> {
        // An output that cannot be written ends the measurement as an interruption does.
        let print = |line: &str| print(line).map_err(|_| Error::Interrupted);
        let scale = if self.quick { 4 } else { 1 };
        let bytes = 1000 * MIB / scale;
        let root = rustix::process::geteuid().is_root();
        let swap = root.then(|| SwapFile::new(setup.scratch(), (bytes + 64 * MIB) as u64)).transpose()?;
        if swap.is_none() {
            print("kernel swap: left out, a swap file needs root")?;
        }
        let cluster = std::fs::read_to_string("/proc/sys/vm/page-cluster").unwrap_or_default();
        print(&format!(
            "{} MiB, {CYCLES} cycles or as many touches at random; kernel swap with page-cluster {}",
            bytes / MIB,
            cluster.trim()
        ))?;
        print(&format!(
            "{:<36}{:>12}{:>12}{:>9}   {}",
            "row", "kernel swap", "region", "ratio", "misses, pages read: kernel | region"
        ))?;
        let (mut rows, mut misses) = (Vec::new(), Vec::new());
        for row in Row::all().into_iter().filter(|row| self.chooses(&row.name)) {
            let measured = measure(setup, row, bytes, scale, swap.is_some())?;
            print(&measured.line())?;
            misses.extend(measured.misses(scale));
            rows.push(measured.json());
        }
        if self.chooses("memory/faults") {
            let (bare, region) = faults(setup, bytes / 8)?;
            let ratio = region as f64 / bare as f64;
            let us = |ns: u64| ns as f64 / 1e3;
            print(&format!(
                "{:<36}{:>10.1}us{:>10.1}us{ratio:>9.2}   p50 of a fault: a bare loop | a region",
                "memory/faults",
                us(bare),
                us(region)
            ))?;
            if ratio > FAULT_WANTED {
                misses.push(format!(
                    "memory/faults: p50 is {ratio:.2} times that of a bare loop, wanted <= {FAULT_WANTED}"
                ));
            }
            rows.push(json!({ "row": "memory/faults", "bare_p50_ns": bare, "region_p50_ns": region }));
        }
        if self.chooses("memory/map") {
            setup.status("memory/map");
            let (mounted, viewed) = object::measure(setup, self.quick)?;
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
            return Err(Error::protocol(format!("no row is called {}", self.rows.join(", "))));
        }
        Ok((json!({ "bytes": bytes, "rows": rows }), misses))
    }

    /// Whether a row of this name is asked for.
    fn chooses(&self, name: &str) -> bool {
        let begins = |asked: &String| name.strip_prefix(asked.as_str()).is_some_and(|rest| rest.starts_with('/'));
        self.rows.iter().any(|asked| name == asked || begins(asked))
    }
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
                        let name = format!("{}/{budget_mib}/{order}/{threads}/{load}", Regions::NAME);
                        rows.push(Self { name, budget_mib, random, threads, write_each, wanted });
                    }
                }
            }
        }
        rows
    }

    fn budget_bytes(&self, scale: usize) -> usize {
        self.budget_mib * MIB / scale
    }
}

fn measure(setup: &Setup<'_>, row: Row, bytes: usize, scale: usize, kernel: bool) -> Result<Measured, Error> {
    let budget_bytes = row.budget_bytes(scale);
    let (mut of_kernel, mut of_region) = (Vec::new(), Vec::new());
    let mut kernel_killed = 0;
    for round in 0..setup.repeat {
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
            setup.status(&format!("{}: kernel swap", row.name));
            let group = Cgroup::new(budget_bytes as u64)?;
            match touch(setup, &plan(Memory::Kernel), Some(&group)) {
                Err(Error::OutOfMemory { .. }) => kernel_killed += 1,
                touched => of_kernel.push(touched?),
            }
        }
        setup.status(&format!("{}: region", row.name));
        let limit = budget_bytes + budget_bytes / 20;
        let group = kernel.then(|| Cgroup::new(limit as u64)).transpose()?;
        let memory = Memory::Region { budget_bytes, dir: setup.scratch().to_owned() };
        of_region.push(touch(setup, &plan(memory), group.as_ref())?);
    }
    let region = median(of_region).unwrap_or_default();
    Ok(Measured { row, kernel: median(of_kernel), kernel_killed, region })
}

/// The median time of a fault, in nanoseconds: of a bare loop, and of a region.
fn faults(setup: &Setup<'_>, bytes: usize) -> Result<(u64, u64), Error> {
    let (mut bare, mut region) = (Vec::new(), Vec::new());
    for round in 0..setup.repeat.max(3) {
        for (is_bare, times) in [(true, &mut bare), (false, &mut region)] {
            setup.status(if is_bare { "memory/faults: a bare loop" } else { "memory/faults: a region" });
            let memory = Memory::Faults { dir: setup.scratch().to_owned(), bare: is_bare };
            let seed = 1 + u64::from(round);
            let plan = Plan { memory, bytes, cycles: 1, random: true, threads: 1, write_each: 1, seed };
            times.extend(touch(setup, &plan, None)?.fault_p50_ns);
        }
    }
    let middle = |times: &mut Vec<u64>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or(0)
    };
    Ok((middle(&mut bare), middle(&mut region)))
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

/// Passes over the memory.
const CYCLES: usize = 5;

/// The longest wanted fault of a region, in times that of a bare loop.
const FAULT_WANTED: f64 = 1.3;

/// The lowest wanted speed of a view, in times that of a mount.
const MAP_WANTED: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_run_of_the_kernel_is_reported_and_is_no_miss_of_the_region() {
        let row = Row::all().into_iter().find(|row| row.wanted.is_some()).expect("a row with a figure");
        let region = Touched { seconds: 2.0, ..Touched::default() };
        let killed = Measured { row, kernel: None, kernel_killed: 3, region };
        assert!(killed.line().ends_with("killed for memory 3 times"), "{}", killed.line());
        assert_eq!((killed.misses(1), &killed.json()["kernel_killed"]), (Vec::new(), &json!(3)));
    }

    #[test]
    fn rows_are_chosen_by_the_beginning_of_their_names() {
        let count = |asked: &str| {
            Row::all()
                .iter()
                .filter(|row| Regions { rows: &[asked.to_owned()], quick: false }.chooses(&row.name))
                .count()
        };
        assert_eq!(
            ["memory", "memory/900", "memory/500/random", "memory/900/random/4/write", "memory/9"].map(count),
            [16, 8, 4, 1, 0]
        );
    }
}
