//! What comes of whole simulations: the published results, determinism, and what is pinned so that a change shows.

use std::fmt::Write as _;

use foreread_sim::{PolicyName, Tally, simulate};
use foreread_workload::{Metric, Pattern, Workload, catalogue};

fn run(workload: &Workload, policy: PolicyName) -> Tally {
    simulate(workload, policy, None).unwrap_or_else(|error| panic!("{}: {error:?}", workload.name))
}

#[test]
fn every_figure_that_is_wanted_of_a_simulation_is_met() {
    let mut judged = 0;
    for (name, _) in catalogue::TEXTS {
        let workload = catalogue::find(name).unwrap();
        for (policy, figures) in &workload.simulate.expect {
            let tally = run(&workload, policy.parse().unwrap());
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
fn the_same_policy_in_both_columns_of_the_published_table_is_noticed() {
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
fn a_gain_is_not_found_where_there_is_none() {
    let workload = catalogue::find("sysbench-oltp").unwrap().with_threads(16);
    let operations = |policy| run(&workload, policy).figure(Metric::Operations).unwrap();
    let wanted: Vec<_> = workload.simulate.ratios.iter().map(|ratio| ratio.figure).collect();
    let meets = |ratio: f64| wanted.iter().all(|figure| figure.met(ratio));
    assert!(!wanted.is_empty());
    assert!(meets(operations(PolicyName::OnDemand2007) / operations(PolicyName::Linux2620)));
    assert!(!meets(operations(PolicyName::OnDemand2007) / operations(PolicyName::OnDemand2007)));
    assert!(!meets(operations(PolicyName::Linux2620) / operations(PolicyName::OnDemand2007)));
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
}

#[test]
fn what_comes_of_each_workload_is_pinned() {
    let mut text = String::new();
    for (name, _) in catalogue::TEXTS {
        let workload = catalogue::find(name).unwrap();
        if workload.device.is_submitted_to() {
            continue;
        }
        for &policy in PolicyName::ALL {
            let tally = run(&workload, policy);
            let _ = write!(text, "{name:20} {:15}", policy.as_str());
            for metric in [Metric::Throughput, Metric::Amp, Metric::RequestsPerGib, Metric::IoSize, Metric::Late] {
                let shown = tally.figure(metric).map_or_else(String::new, |value| metric.show(value));
                let _ = write!(text, " {shown:>12}");
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn whoever_reads_every_byte_once_is_fetched_every_byte() {
    for (name, _) in catalogue::TEXTS {
        let workload = catalogue::find(name).unwrap();
        if workload.device.is_submitted_to() {
            continue;
        }
        let amp = |policy| run(&workload, policy).figure(Metric::Amp).unwrap();
        let again = matches!(workload.pattern, Pattern::Sequential { passes, .. } if passes > 1);
        if again || amp(PolicyName::None) < 0.999 {
            continue; // It comes back to what it has read, and finds some of it.
        }
        for &policy in PolicyName::ALL {
            assert!(amp(policy) >= 0.999, "{name}: {policy}: less was fetched than read: {}", amp(policy));
        }
    }
}
