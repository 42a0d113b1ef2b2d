//! What comes of programs that go through trees of directories: the published table, what this
//! project makes of it, and what is pinned.

use std::fmt::Write as _;

use foreread_sim::{Stack, Tally, profile, simulate};
use foreread_workload::{Metric, Pattern, Workload, catalogue};

fn run(name: &str, stack: &str) -> Tally {
    run_of(&catalogue::find(name).unwrap(), stack)
}

fn run_of(workload: &Workload, stack: &str) -> Tally {
    simulate(workload, stack.parse::<Stack>().unwrap(), None).unwrap_or_else(|error| panic!("{error:?}"))
}

/// A figure of a workload under one policy over that under another.
fn ratio(name: &str, metric: Metric, one: &str, other: &str) -> f64 {
    run(name, one).figure(metric).unwrap() / run(name, other).figure(metric).unwrap()
}

#[test]
fn the_published_table_comes_out_within_a_tenth() {
    let rows = [
        ("find-1000x100", Metric::FindTime, 2.92),
        ("find-system", Metric::FindTime, 1.02),
        ("find-grep-cp", Metric::FindTime, 2.68),
        ("find-grep-cp", Metric::GrepTime, 1.52),
        ("find-grep-cp", Metric::CopyTime, 0.88),
    ];
    for (name, metric, published) in rows {
        let found = ratio(name, metric, "none", "ext3-2007");
        assert!((0.9..=1.1).contains(&(found / published)), "{name}: {}: {found}, not {published}", metric.key());
    }
}

#[test]
fn a_gain_is_not_found_where_there_is_none() {
    // A hundred names are one block: what is read ahead of a directory begins with its second.
    let mut workload = catalogue::find("find-1000x100").unwrap();
    workload.files.count = 10_000;
    let [none, ahead] = ["none", "ext3-2007"].map(|stack| run_of(&workload, stack));
    for metric in [Metric::FindTime, Metric::FindWaits] {
        let [none, ahead] = [&none, &ahead].map(|tally| tally.figure(metric).unwrap());
        assert!((none / ahead - 1.0).abs() < 1e-9, "{}: {none} without readahead, {ahead} with it", metric.key());
    }
    assert_eq!(ahead.requests(), none.requests());
}

#[test]
fn the_table_comes_out_in_seconds_as_well() {
    // Seconds of `find`, `grep` and `cp`, the mean of two runs each. A fifth, since neither the
    // disk nor the names are stated.
    let rows = [
        ("find-1000x100", Metric::FindTime, 12.085, 4.135),
        ("find-system", Metric::FindTime, 4.145, 4.045),
        ("find-grep-cp", Metric::FindTime, 21.725, 8.1),
        ("find-grep-cp", Metric::GrepTime, 47.91, 31.42),
        ("find-grep-cp", Metric::CopyTime, 16.765, 19.08),
    ];
    for (name, metric, none, ahead) in rows {
        for (stack, published) in [("none", none), ("ext3-2007", ahead)] {
            let found = run(name, stack).figure(metric).unwrap();
            let of_it = found / published;
            assert!((0.8..=1.25).contains(&of_it), "{name}: {stack}: {}: {found} s, not {published}", metric.key());
        }
    }
}

#[test]
fn a_large_directory_is_read_ahead_as_far_as_was_published() {
    let tally = run("list-110000", "ext3-2007");
    let found = tally.figure(Metric::ReadAhead).unwrap();
    // 454 of 541 pages.
    assert!((0.756..=0.924).contains(&found), "{found}");
    // 32 31 30 31 28 29 29 28 27 25 29 22 25 30 24 15 19: the longer the reader has been at it,
    // the more of a window it has read.
    let windows = tally.windows();
    assert!((16..=19).contains(&windows.len()) && windows[0] == 32, "{windows:?}");
    let sum = |windows: &[u32]| windows.iter().sum::<u32>();
    assert!(sum(&windows[..5]) > sum(&windows[windows.len() - 6..windows.len() - 1]) + 20, "{windows:?}");
}

#[test]
fn wrong_readahead_costs_as_much_as_published_and_ours_stops() {
    let first = ratio("find-system", Metric::FindTime, "ext3-2007-first", "none");
    assert!(first >= 2.0, "the first version is {first} times as slow");
    for name in ["find-1000x100", "find-system"] {
        let misled = ratio(name, Metric::FindTime, "foreread-misled", "none");
        assert!(misled <= 1.05, "{name}: {misled}");
    }
}

#[test]
fn every_ratio_that_is_wanted_of_a_tree_is_met() {
    for (name, _) in catalogue::TEXTS {
        let workload = catalogue::find(name).unwrap();
        if !matches!(workload.pattern, Pattern::DiskTree(_)) {
            continue;
        }
        for wanted in &workload.simulate.ratios {
            let found = ratio(name, wanted.figure.metric, &wanted.policy, &wanted.over);
            let told = format!("{name}: {} of {} over {}", wanted.figure.metric.key(), wanted.policy, wanted.over);
            assert!(wanted.figure.met(found), "{told} is {found}, wanted {}", wanted.figure);
        }
    }
}

#[test]
fn a_tree_can_be_on_a_store_that_refuses() {
    let workload = catalogue::find("find-system").unwrap();
    let refuses = "[object-store]\nfirst_byte = { base_ns = 30_000_000 }\nrequest_rate = 200\n";
    for (device, least) in [(profile::find("object-store").unwrap(), 4.0), (profile::parse(refuses).unwrap(), 2.0)] {
        let find = |stack: &str| {
            let tally = simulate(&workload, stack.parse::<Stack>().unwrap(), Some(&device)).unwrap();
            tally.figure(Metric::FindTime).unwrap()
        };
        let (ours, none) = (find("foreread"), find("none"));
        assert!(ours * least < none, "{ours} of {none}");
    }
}

#[test]
fn a_second_run_is_the_same() {
    for stack in ["none", "ext3-2007", "foreread"] {
        let workload = catalogue::find("find-system").unwrap();
        assert_eq!(format!("{:?}", run_of(&workload, stack)), format!("{:?}", run_of(&workload, stack)), "{stack}");
    }
}

#[test]
fn the_figures_of_directories_are_pinned() {
    let mut text = String::from(
        "When each program ended, how often find waited, blocks fetched ahead over blocks of all directories, requests.\n\
         A tree has neither read times nor waste. Update: INSTA_UPDATE=always cargo test -p foreread-sim --test trees\n\n",
    );
    let heads = ["find", "find waits", "grep", "cp", "ahead"].map(|head| format!(" {head:>12}")).concat();
    let _ = writeln!(text, "{:14} {:15}{heads} requests", "workload", "policy");
    for (name, _) in catalogue::TEXTS {
        let workload = catalogue::find(name).unwrap();
        if !matches!(workload.pattern, Pattern::DiskTree(_)) {
            continue;
        }
        for stack in &workload.simulate.policies {
            let tally = run_of(&workload, stack);
            let _ = write!(text, "{name:14} {stack:15}");
            for metric in [Metric::FindTime, Metric::FindWaits, Metric::GrepTime, Metric::CopyTime, Metric::ReadAhead] {
                let shown = tally.figure(metric).map_or_else(String::new, |value| metric.show(value));
                let _ = write!(text, " {shown:>12}");
            }
            let _ = write!(text, " {:>8} requests", tally.requests());
            text.push('\n');
        }
    }
    insta::assert_snapshot!("directories", text);
}
