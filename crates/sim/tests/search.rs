//! Random scenarios with faults: no rule is broken.

use foreread_sim::search;

#[test]
fn no_seed_breaks_a_rule() {
    let mut coalesced = 0;
    for seed in 1..=1_000 {
        for faults in [false, true] {
            match search::run(seed, faults) {
                Ok(tally) => coalesced += tally.requests_coalesced(),
                Err(violation) => panic!("seed {seed}, faults {faults}: {violation}"),
            }
        }
    }
    assert!(coalesced > 100, "{coalesced} requests went with others: that is hardly searched");
}

/// A read became ready while policy was told of the first members of a request that had failed as
/// a whole, and waited for one of the others.
#[test]
fn a_read_that_joins_a_failed_request_ends() {
    assert_eq!(search::run(220_082, true).err().map(|violation| violation.to_string()), None);
}

#[test]
fn a_seed_is_the_same_each_time() {
    for seed in 1..=50 {
        let seconds = |tally: foreread_sim::Tally| (tally.elapsed_ns(), tally.requests(), tally.seconds().to_vec());
        assert_eq!(search::run(seed, true).map(seconds), search::run(seed, true).map(seconds), "seed {seed}");
    }
}
