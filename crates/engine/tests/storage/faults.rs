//! Faults of the storage, and which of them a reader notices.

use std::time::Duration;

use foreread_engine::{ErrorKind, Options};
use foreread_testbed::ObjectSpec;

use crate::{Rig, patience, rig, rig_after, slow};

fn faulty(fault: &str) -> Rig {
    let rig = rig(&[("a", 64 << 20), ("b", 1 << 20)], &Options::default().with_patience(patience()));
    rig.testbed.set_faults(vec![fault.parse().expect("a fault")]);
    rig
}

#[test]
fn a_permanent_fault_fails_its_read_and_no_other() {
    for fault in ["status=500,key=a", "status=503,key=a", "reset,key=a", "stall,key=a", "wrong-range,key=a"] {
        let rig = faulty(fault);
        let (a, b) = (rig.open("a"), rig.open("b"));
        let failed = rig.read(&a, 40 << 20, 4096, 1).expect_err(fault);
        let kind = if fault.starts_with("status=503") { ErrorKind::Throttled } else { ErrorKind::Io };
        assert!([kind, ErrorKind::TimedOut].contains(&failed.kind()), "{fault}: {failed}");
        assert_eq!((failed.key(), failed.is_retryable()), (Some("a"), true), "{fault}: {failed:?}");
        rig.read(&b, 0, 1 << 20, 1).expect("another object is not affected");
        rig.testbed.set_faults(Vec::new());
        rig.read(&a, 40 << 20, 4096, 1).expect("the read works once the storage does");
    }
}

#[test]
fn a_body_that_breaks_off_is_continued() {
    let rig = faulty("reset-body=300KiB,count=3");
    let a = rig.open("a");
    rig.read(&a, 8 << 20, 1 << 20, 1).expect("a read over three resets");
    let fetched = rig.engine.stats().fetched_bytes;
    assert!(
        fetched <= (1 << 20) + 4096,
        "{fetched} bytes fetched for 1 MiB: bytes that had come are not fetched again"
    );
}

#[test]
fn failed_speculation_is_never_seen() {
    // One of the first requests succeeds; the others fail, and speculative ones are dropped. Five
    // failures are too few to fail a demand request, whichever they hit.
    let rig = faulty("status=500,after=1,count=5");
    let a = rig.open("a");
    for i in 0..64u64 {
        rig.read(&a, i << 20, 1 << 20, 1).expect("demand is retried");
    }
    let stats = rig.engine.stats();
    assert_eq!(stats.read_errors, 0);
    assert!(stats.speculation_failed > 0, "{stats:?}");
}

#[test]
fn a_second_request_overtakes_a_late_answer() {
    // Answers take eight milliseconds, so delays of the machine make none of them twice as late.
    let options = Options::default().with_patience(patience());
    let rig = rig_after(Duration::from_millis(8), &[("a", 64 << 20)], &options);
    let a = rig.open("a");
    rig.testbed.set_faults(vec!["stall=20s,every=40".parse().expect("a fault")]);
    rig.testbed.reset_counters();
    // An order without a stream: a read waits for nearly every request, so for nearly every stall.
    let mut random = 1u64;
    for _ in 0..320 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let page = (random >> 33) % ((64 << 20) / 4096);
        rig.read(&a, page * 4096, 4096, 1).expect("no read waits for a stall as long as patience lasts");
    }
    let stats = rig.engine.stats();
    assert_eq!(stats.read_errors, 0);
    // The first stalls came before latencies were known: those requests were given up and made
    // again.
    assert!(stats.requests_hedged >= 3 && stats.requests_hedged <= 320 / 20, "{stats:?}");
    assert!(stats.retries <= 4, "{stats:?}");
    // A second request may be given up before it is sent.
    let asked = rig.testbed.counters().get;
    assert!(asked <= stats.requests && stats.requests <= asked + stats.requests_hedged, "{asked}: {stats:?}");
}

#[test]
fn a_stream_goes_on_beside_silent_connections() {
    // A connection falls silent, before it answers or amid the body.
    for stall in ["stall=60s", "stall-body=100KiB,for=60s"] {
        let rig = rig_after(Duration::from_millis(8), &[("a", 64 << 20)], &Options::default());
        let a = rig.open("a");
        rig.testbed.set_faults(vec![format!("{stall},after=5,count=1").parse().expect("a fault")]);
        for mib in 0..64 {
            rig.read(&a, mib << 20, 1 << 20, 1).expect("a read");
        }
        // Nothing waited as long as patience lasts: that would be an attempt more.
        let stats = rig.engine.stats();
        assert_eq!((stats.read_errors, stats.retries, stats.speculation_failed), (0, 0, 0), "{stall}: {stats:?}");
        assert!(stats.requests_hedged >= 1, "{stall}: {stats:?}");
    }
}

#[test]
fn names_are_found_beside_silent_connections() {
    let rig = rig(&[("a", 4096), ("dir/b", 4096)], &Options::default());
    rig.testbed.set_faults(vec!["stall=60s,kind=head+list,after=10,every=20,count=2".parse().expect("a fault")]);
    for _ in 0..30 {
        rig.open("a");
        rig.engine.runtime().block_on(rig.engine.list("dir/", None)).expect("a listing");
    }
    let stats = rig.engine.stats();
    assert_eq!(stats.retries, 0, "{stats:?}");
    assert!(stats.stats + stats.lists >= 62, "two were asked again: {stats:?}");
}

#[test]
fn a_replaced_object_fails_its_reads_and_opens_anew() {
    let rig = faulty("slow=1");
    let old = rig.open("b");
    rig.read(&old, 0, 4096, 1).expect("the first version");
    rig.testbed.set_object(&ObjectSpec { generation: 2, ..ObjectSpec::new("b", 1 << 20) });
    let mut changed = false;
    for i in 0..256u64 {
        match rig.read(&old, i * 4096, 4096, 1) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
                changed = true;
            }
        }
    }
    let new = rig.open("b");
    assert_ne!(new.object().version, old.object().version);
    rig.read(&new, 0, 1 << 20, 2).expect("the second version");
    rig.testbed.remove_object("a");
    assert!(
        changed || rig.engine.stats().fetched_bytes >= 1 << 20,
        "either all was in memory or the change was noticed"
    );
}

#[test]
fn every_range_is_requested_on_condition_of_the_version() {
    let rig = rig(&[("a", 64 << 20)], &Options::default().with_patience(patience()));
    let file = rig.open("a");
    rig.testbed.set_object(&ObjectSpec { generation: 2, ..ObjectSpec::new("a", 64 << 20) });
    let error = rig.read(&file, 0, 4096, 1).expect_err("the version that was opened is gone");
    assert_eq!(error.kind(), ErrorKind::Changed);
    let gets: Vec<_> = rig.testbed.requests().into_iter().filter(|r| r.status == 412).collect();
    assert!(!gets.is_empty(), "the storage refused on the condition");
}

/// The storage asks for a wait that no clock can hold, or that is longer than patience: an error
/// for the read at once, and no panic.
#[test]
fn a_wait_that_is_too_long_fails_the_read_and_nothing_else() {
    for wish in ["18446744073709551615", "4000000000", "3600"] {
        let rig = faulty(&format!("status=503,retry-after={wish},key=a"));
        let (a, b) = (rig.open("a"), rig.open("b"));
        let failed = rig.read(&a, 0, 4096, 1).expect_err(wish);
        assert_eq!(failed.kind(), ErrorKind::Throttled, "{wish}: {failed}");
        assert!(failed.to_string().contains("after 1 attempts"), "{wish}: {failed}");
        rig.read(&b, 0, 1 << 20, 1).expect("another object is not affected");
        rig.testbed.set_faults(Vec::new());
        rig.read(&a, 0, 4096, 1).expect("the read works once the storage does");
    }
}

#[test]
fn a_body_that_trickles_is_given_up() {
    // 128 KiB at 5 kB/s take 26 s. Something comes in each step of patience, and patience ends.
    let rig = slow(5_000);
    let a = rig.open("a");
    let failed = rig.read(&a, 8 << 20, 128 << 10, 1).expect_err("it takes longer than patience");
    assert_eq!((failed.kind(), failed.key()), (ErrorKind::TimedOut, Some("a")), "{failed}");
    // A long read over a slow link is another thing: each of its pieces comes in time.
    let rig = slow(200_000);
    let a = rig.open("a");
    rig.read(&a, 8 << 20, 1 << 20, 1).expect("it takes 5 s, longer than patience for one piece");
}
