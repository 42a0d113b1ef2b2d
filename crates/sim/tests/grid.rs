//! Cells of the grid of links, readers and budgets: their figures are pinned, so a change of one
//! mechanism shows as a diff of the cells that it serves; and links that change in mid-run.
//!
//! Runs are short ([`Length::Short`]): the figures are for comparison with each other. The grid
//! itself is `foreread simulate --grid`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use foreread_sim::grid::{Axes, Cell, Feasible, Length, Order, Step};

/// Bytes that are on their way on a filled link, from which on a cell is left to the command: it
/// takes up to a minute. Those are corners with 12 GB/s, 200 ms and 16 GiB.
const ON_THE_WAY_MAX: f64 = 4e8;

/// Part of the feasible throughput that a stream has in each cell of little memory, where a short
/// run reaches the steady state. A snapshot can be accepted with any figure; this floor cannot.
const STREAM_MIN: f64 = 0.72;
const LITTLE_BYTES: u64 = 64 << 20;

/// The corners of the grid with one reader, and cells with 1, 16 and 256. The corners with 4,096
/// take several seconds each and are left to the command.
fn cells() -> Vec<Cell> {
    let mut all = Axes { budget_bytes: vec![64 << 20, 16 << 30], readers: vec![1], ..Axes::default() };
    all.first_byte_ns = vec![1_000_000, 200_000_000];
    all.connection_rate = vec![5_000_000, 500_000_000];
    all.total_rate = vec![100_000_000, 12_000_000_000];
    let mut between = Axes { budget_bytes: vec![64 << 20, 1 << 30], readers: vec![1, 16], ..Axes::default() };
    between.first_byte_ns = vec![1_000_000, 30_000_000, 200_000_000];
    between.connection_rate = vec![5_000_000, 25_000_000, 80_000_000];
    between.total_rate = vec![100_000_000, 1_000_000_000];
    between.order = vec![Order::Sequential, Order::Backward];
    let many = Axes {
        first_byte_ns: vec![30_000_000],
        connection_rate: vec![80_000_000],
        total_rate: vec![1_000_000_000],
        readers: vec![256],
        budget_bytes: vec![64 << 20, 1 << 30],
        order: Order::ALL.to_vec(),
    };
    let on_the_way = |cell: &Cell| Feasible::of(cell).rate() * cell.round_trip_ns() as f64 / 1e9;
    let mut known = BTreeSet::new();
    all.cells()
        .into_iter()
        .filter(|cell| on_the_way(cell) < ON_THE_WAY_MAX)
        .chain(between.cells())
        .chain(many.cells())
        .filter(|cell| known.insert(cell.to_string()))
        .collect()
}

/// Does `work` for each of `jobs` on all cores; the results are in the jobs' order.
fn on_all_cores<J: Sync, R: Send>(jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < jobs.len()) {
                    let result = work(&jobs[at]);
                    done.lock().unwrap().push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn the_figures_of_cells_are_pinned() {
    let cells = cells();
    assert!(cells.len() >= 140, "{} cells", cells.len());
    let mut text = String::from(
        "Throughput over feasible (of), bytes fetched over bytes asked (amp), fairness, the part of the budget that was\n\
         charged, round trips to half of feasible from the start and after a pause, and what is not as wanted.\n\
         Update: INSTA_UPDATE=always cargo test -p foreread-sim --test grid\n\n",
    );
    let outcomes =
        on_all_cores(&cells, |cell| cell.run(Length::Short).unwrap_or_else(|error| panic!("{cell}: {error:?}")));
    for outcome in outcomes {
        let ramp = |ramp: Option<f64>| ramp.map_or_else(|| "never".to_owned(), |ramp| format!("{ramp:.1}"));
        let misses = outcome.misses().into_iter().map(|(what, _)| what).collect::<Vec<_>>().join(" ");
        let _ = write!(
            text,
            "{:108} {:5.2} {:6.3} {:5.3} {:4.0}% {:>5} {:>5}  {misses}",
            outcome.cell.to_string(),
            outcome.of_feasible,
            outcome.amp,
            outcome.fairness,
            outcome.of_budget * 100.0,
            ramp(outcome.ramp),
            ramp(outcome.ramp_again),
        );
        text.truncate(text.trim_end().len());
        text.push('\n');
        assert!(outcome.of_budget <= 1.0, "{}: {:.3} of the budget", outcome.cell, outcome.of_budget);
        let is_stream = matches!(outcome.cell.order, Order::Sequential | Order::Backward);
        if is_stream && outcome.cell.budget_bytes <= LITTLE_BYTES {
            assert!(outcome.of_feasible >= STREAM_MIN, "{}: {:.2} of feasible", outcome.cell, outcome.of_feasible);
        }
    }
    insta::assert_snapshot!("cells", text);
}

#[test]
fn the_figures_of_links_that_change_are_pinned() {
    let changing = Axes {
        first_byte_ns: vec![30_000_000],
        connection_rate: vec![25_000_000],
        total_rate: vec![100_000_000],
        readers: vec![1, 16],
        budget_bytes: vec![64 << 20, 1 << 30],
        order: vec![Order::Sequential],
    };
    let jobs: Vec<(Cell, Step)> =
        changing.cells().into_iter().flat_map(|cell| Step::ALL.map(|step| (cell, step))).collect();
    let mut text = String::from(
        "Throughput over feasible before the link changes and at the end, seconds until it has .85 of feasible for good,\n\
         and how many are wanted.\n\
         Update: INSTA_UPDATE=always cargo test -p foreread-sim --test grid\n\n",
    );
    let run = |&(cell, step): &(Cell, Step)| cell.run_step(step).unwrap_or_else(|error| panic!("{cell}: {error:?}"));
    for ((cell, step), recovery) in jobs.iter().zip(on_all_cores(&jobs, run)) {
        let took = recovery.took_ns.map_or_else(|| "never".to_owned(), |ns| format!("{:.2}", ns as f64 / 1e9));
        let misses = if recovery.holds() { "" } else { "  not as wanted" };
        let (before, after, wanted) = (recovery.before, recovery.after, recovery.wanted_ns as f64 / 1e9);
        let (cell, step) = (cell.to_string(), step.as_str());
        let _ = writeln!(text, "{cell:82} {step:9} {before:5.2} {after:5.2} {took:>6} {wanted:4.1}{misses}");
    }
    insta::assert_snapshot!("changes", text);
}
