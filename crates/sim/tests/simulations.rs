//! Whole simulations: the published results come out, and a second run is the same. `pinned.rs`
//! pins their figures.

use foreread_sim::{PolicyName, Scenario, SchedulerName, Stack, Tally, simulate};
use foreread_workload::{Metric, Pattern, Workload, catalogue};

fn run(workload: &Workload, stack: impl Into<Stack>) -> Tally {
    simulate(workload, stack, None).unwrap_or_else(|error| panic!("{}: {error:?}", workload.name))
}

#[test]
fn every_figure_that_is_wanted_of_a_simulation_is_met() {
    let mut judged = 0;
    for (name, _) in catalogue::TEXTS {
        let workload = catalogue::find(name).unwrap();
        for (policy, figures) in &workload.simulate.expect {
            let tally = run(&workload, policy.parse::<Stack>().unwrap());
            for figure in figures {
                let found = tally.figure(figure.metric).expect("a figure that simulations have");
                assert!(figure.met(found), "{name}: {policy}: {} is {found}, wanted {figure}", figure.metric.key());
                judged += 1;
            }
        }
    }
    assert!(judged >= 9, "{judged} figures were judged");
}

#[test]
fn the_checks_fail_for_the_wrong_policy_in_either_column_of_the_published_table() {
    let workload = catalogue::find("thrash-200-streams").unwrap();
    let wanted = |policy: &str| &workload.simulate.expect.iter().find(|(name, _)| name == policy).unwrap().1;
    let meets = |policy, wanted: &[foreread_workload::Figure]| {
        let tally = run(&workload, policy);
        wanted.iter().all(|figure| tally.figure(figure.metric).is_some_and(|found| figure.met(found)))
    };
    assert!(!meets(PolicyName::OnDemand2007, wanted("linux-2.6.20")));
    assert!(!meets(PolicyName::Linux2620, wanted("on-demand-2007")));
}

#[test]
fn the_check_of_a_gain_fails_without_one() {
    let workload = catalogue::find("sysbench-oltp").unwrap().with_threads(16);
    let operations = |policy| run(&workload, policy).figure(Metric::Operations).unwrap();
    let wanted: Vec<_> = workload.simulate.ratios.iter().map(|ratio| ratio.figure).collect();
    let meets = |ratio: f64| wanted.iter().all(|figure| figure.met(ratio));
    assert!(!wanted.is_empty());
    assert!(meets(operations(PolicyName::OnDemand2007) / operations(PolicyName::Linux2620)));
    assert!(!meets(operations(PolicyName::OnDemand2007) / operations(PolicyName::OnDemand2007)));
    assert!(!meets(operations(PolicyName::Linux2620) / operations(PolicyName::OnDemand2007)));
}

/// Operations a second of the baselines of asynchronous submission: one at a time, in flight
/// through a scheduler, and without one.
fn operations_by_submission() -> [f64; 3] {
    [("fio-random-serial", "none/cfq"), ("fio-random-async", "none/cfq"), ("fio-random-async", "none")].map(
        |(name, stack)| {
            let tally = run(&catalogue::find(name).unwrap(), stack.parse::<Stack>().unwrap());
            tally.figure(Metric::Operations).unwrap()
        },
    )
}

#[test]
fn asynchronous_submission_gains_what_was_published() {
    let [serial, confused, sorted] = operations_by_submission();
    let within_a_tenth = |found: f64, published: f64| (0.9..=1.1).contains(&(found / published));
    assert!(within_a_tenth(confused / serial, 8.0), "{confused} over {serial}");
    assert!(within_a_tenth(sorted / serial, 13.3), "{sorted} over {serial}");
}

#[test]
fn the_checks_tell_the_schedulers_apart() {
    let workload = catalogue::find("tiobench-32").unwrap();
    let throughput = |stack: &str| run(&workload, stack.parse::<Stack>().unwrap()).figure(Metric::Throughput).unwrap();
    let meets = |policy: &str, over: &str, found: f64| {
        let wanted = workload.simulate.ratios.iter().filter(|ratio| ratio.policy == policy && ratio.over == over);
        wanted.clone().count() > 0 && wanted.clone().all(|ratio| ratio.figure.met(found))
    };
    let [long, short, merging, splitting] =
        ["linux/cfq", "linux/cfq-low-latency", "linux/cfq-merging", "linux/cfq-splitting"].map(throughput);
    assert!(meets("linux/cfq-low-latency", "linux/cfq", short / long), "{short} over {long}");
    assert!(!meets("linux/cfq-low-latency", "linux/cfq", long / long));
    assert!(meets("linux/cfq-merging", "linux/cfq-low-latency", merging / short), "{merging} over {short}");
    assert!(!meets("linux/cfq-merging", "linux/cfq-low-latency", short / short));
    assert!(meets("linux/cfq-splitting", "linux/cfq-merging", splitting / merging), "{splitting} over {merging}");
    assert!(!meets("linux/cfq-splitting", "linux/cfq-merging", merging / merging));
}

#[test]
fn a_scheduler_is_for_block_devices() {
    let workload = catalogue::find("sequential-1m").unwrap();
    let stack = Stack { scheduler: Some(SchedulerName::Cfq), ..PolicyName::None.into() };
    let told = simulate(&workload, stack, None).map(|_| ()).unwrap_err().to_string();
    assert_eq!(told, "cfq is for block devices only");
    let told = "linux/elevator".parse::<Stack>().unwrap_err().to_string();
    assert!(told.starts_with("no scheduler is called elevator; known: cfq, "), "{told}");
}

/// As root, a mount has the kernel read as far ahead as policy says, and no further.
#[test]
fn a_mount_has_the_window_that_policy_asks_for() {
    let workload = catalogue::find("sequential-1m").unwrap();
    for (memory_bytes, window_bytes) in [(64 << 20, 128 << 10), (256 << 20, 1 << 20), (2 << 30, 4 << 20)] {
        let scenario = Scenario { memory_bytes, ..Scenario::of(&workload, None).unwrap() };
        assert_eq!(scenario.through_mount(&workload).kernel_window_bytes, window_bytes, "{memory_bytes}");
    }
}

/// A kernel reads ahead in each of them. Policy is told of pieces of the next records early, and
/// must not take those for rows of its own.
#[test]
fn a_kernel_reads_ahead_in_each_of_many_streams_taken_in_turn() {
    for (streams, record) in [(200, "128KiB"), (1_000, "16KiB"), (1_000, "128KiB"), (1_000, "1MiB")] {
        let text = format!(
            r#"
            name = "in-turn"
            description = "Many streams of one file in turn"
            seed = 3
            threads = 1
            duration = "5s"
            files = {{ count = 1, size = "16GiB" }}
            pattern = {{ kind = "interleaved", record = "{record}", streams = {streams} }}
            device = {{ first_byte = "30ms", connection_rate = "80MB/s", total_rate = "900MB/s" }}
            mount = {{ memory = "256MiB" }}
            simulate = {{ policies = ["foreread"] }}
            "#
        );
        let workload = Workload::parse("in-turn.toml", &text).unwrap();
        let scenario = Scenario::of(&workload, None).unwrap().through_mount(&workload);
        let megabytes_per_s = scenario.run(PolicyName::Foreread).unwrap().figure(Metric::Throughput).unwrap();
        assert!(megabytes_per_s >= 0.5 * 900.0, "{streams} of {record}: {megabytes_per_s} MB/s");
    }
}

#[test]
fn service_curves_add_up_to_the_bytes_read() {
    let workload = catalogue::find("slow-200-beside-2").unwrap();
    for through_mount in [false, true] {
        let scenario = Scenario { picture: true, ..Scenario::of(&workload, None).unwrap() };
        let scenario = if through_mount { scenario.through_mount(&workload) } else { scenario };
        let tally = scenario.run(PolicyName::Foreread).unwrap();
        let all: u64 = tally.seconds().iter().map(|second| second.read_bytes).sum();
        let (readers, beside) = (tally.service(false), tally.service(true));
        assert_eq!((readers.len(), beside.len()), (200, 2), "the readers, not what a kernel asks a mount for");
        let given = |curves: &[foreread_sim::Curve]| curves.iter().map(|curve| curve.last().unwrap().1).sum::<u64>();
        assert_eq!(given(&readers) + given(&beside), all);
        let slow = given(&readers) as f64 / 1e6 / tally.figure(Metric::Throughput).unwrap();
        assert!((19.0..=20.5).contains(&slow), "{slow} s");
    }
    assert!(run(&workload, PolicyName::None).service(false).is_empty(), "no picture was wanted");
}

#[test]
fn a_second_run_is_the_same() {
    for name in ["slow-200", "random-4k-16", "thrash-200-streams"] {
        let workload = catalogue::find(name).unwrap();
        for &policy in PolicyName::ALL {
            let (one, other) = (run(&workload, policy), run(&workload, policy));
            assert_eq!(format!("{one:?}"), format!("{other:?}"), "{name}: {policy}");
        }
    }
    let workload = catalogue::find("disk-adjacent-2").unwrap();
    for &scheduler in SchedulerName::ALL {
        let stack = Stack { scheduler: Some(scheduler), ..PolicyName::Linux.into() };
        assert_eq!(format!("{:?}", run(&workload, stack)), format!("{:?}", run(&workload, stack)), "{stack}");
    }
}

#[test]
fn an_interactive_reader_does_not_wait_while_a_lower_concurrency_is_tried() {
    let tally = run(&catalogue::find("interactive-beside-16").unwrap(), PolicyName::Foreread);
    // A first byte takes 30 ms, and the sixteen have the link.
    let p99 = tally.figure(Metric::BesideReadP99).unwrap();
    assert!(p99 <= 40.0, "{p99} ms");
}

#[test]
fn a_workload_that_reads_every_byte_once_fetches_every_byte() {
    for (name, _) in catalogue::TEXTS {
        let workload = catalogue::find(name).unwrap();
        if !workload.is_simulated() || workload.pattern.is_no_reads() {
            continue;
        }
        let amp = |policy| run(&workload, policy).figure(Metric::Amp).unwrap();
        let passes = match workload.pattern {
            Pattern::Sequential { passes, .. } | Pattern::Random { passes, .. } => passes,
            Pattern::Scan { .. } => 2,
            _ => 1,
        };
        if passes > 1 || workload.tier.is_some() || amp(PolicyName::None) < 0.999 {
            // It reads bytes again, and finds some resident, or has some in a tier.
            continue;
        }
        for &policy in PolicyName::ALL {
            assert!(amp(policy) >= 0.999, "{name}: {policy}: less was fetched than read: {}", amp(policy));
        }
    }
}
