//! Random reads from several threads, with faults: every byte is compared with the stored one.

use std::time::Duration;

use foreread_engine::Options;
use proptest::prelude::*;

use crate::{patience, rig, rig_after};

const SIZES: [(&str, u64); 6] =
    [("empty", 0), ("one", 1), ("page", 4096), ("odd", 1_000_003), ("folios", 9 << 20), ("huge", 5 << 40)];

/// Transient faults: every read succeeds in spite of them.
const PASSING: [&str; 9] = [
    "status=500,every=9",
    "status=503,every=7",
    "reset,every=8",
    "reset-body=70KiB,every=6",
    "truncate=5KiB,every=7",
    "short=100,every=9",
    "wrong-range,every=8",
    "stall,every=23",
    "stall-body=64KiB,every=19",
];

#[derive(Debug, Clone)]
enum Walk {
    Random,
    Forward(u64),
    Backward(u64),
    Strided { record: u64, stride: u64 },
}

fn walk() -> impl Strategy<Value = Walk> {
    prop_oneof![
        Just(Walk::Random),
        (1..300_000u64).prop_map(Walk::Forward),
        (1..300_000u64).prop_map(Walk::Backward),
        (1..70_000u64, 70_000..1_000_000u64).prop_map(|(record, stride)| Walk::Strided { record, stride }),
        // Gaps that are read through.
        (1..9_000u64, 9_000..100_000u64).prop_map(|(record, stride)| Walk::Strided { record, stride }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_the_stored_one(
        walks in prop::collection::vec((0..SIZES.len(), walk(), any::<u64>()), 1..6),
        fault in prop::option::of(0..PASSING.len()),
        memory in prop_oneof![Just(16u64 << 20), Just(64 << 20)],
    ) {
        let rig = rig(&SIZES, &Options::default().with_memory_bytes(memory).with_patience(patience()));
        if let Some(fault) = fault {
            rig.testbed.set_faults(vec![PASSING[fault].parse().expect("a fault")]);
        }
        std::thread::scope(|threads| {
            for (object, walk, seed) in walks {
                let rig = &rig;
                threads.spawn(move || {
                    let (key, size) = SIZES[object];
                    let file = rig.open(key);
                    let mut random = seed;
                    let mut at = seed % size.max(1);
                    for _ in 0..40 {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        let (offset, len) = match walk {
                            Walk::Random => ((random >> 20) % size.max(1), (random >> 8) % 200_000),
                            Walk::Forward(record) | Walk::Strided { record, .. } => (at, record),
                            Walk::Backward(record) => (at.saturating_sub(record), record),
                        };
                        rig.read(&file, offset, len as usize, 1).expect("a transient fault fails no read");
                        at = match walk {
                            Walk::Backward(_) => offset,
                            Walk::Strided { stride, .. } => offset + stride,
                            _ => offset + len,
                        };
                    }
                });
            }
        });
        let stats = rig.engine.stats();
        prop_assert!(stats.memory_charged_bytes <= memory);
        prop_assert_eq!(stats.read_errors, 0);
    }
}

#[test]
fn fetching_stops_when_the_reader_stops() {
    let rig = rig(&[("big", 1 << 30)], &Options::default().with_memory_bytes(64 << 20).with_patience(patience()));
    let file = rig.open("big");
    for i in 0..32u64 {
        rig.read(&file, i << 20, 1 << 20, 1).expect("a read");
    }
    let before = rig.engine.stats();
    drop(file);
    // Bounded, so that a request that is never given up fails the test instead of hanging it.
    for _ in 0..3_000 {
        if rig.engine.stats().in_flight == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let after = rig.engine.stats();
    assert_eq!(after.in_flight, 0);
    let fetched = after.fetched_bytes;
    // What a cancelled request had brought was fetched as well, and is held no longer.
    assert!(
        fetched <= (32 << 20) + (64 << 20) + after.wasted_bytes,
        "{fetched} bytes for 32 MiB read, 64 MiB of memory and {} dropped unread",
        after.wasted_bytes
    );
    assert!(fetched - before.fetched_bytes <= 64 << 20, "{} bytes without a reader", fetched - before.fetched_bytes);
    assert!(after.requests - before.requests <= 16, "{} requests without a reader", after.requests - before.requests);
    let file = rig.open("big");
    rig.read(&file, 31 << 20, 1 << 20, 1).expect("a read");
    assert_eq!(rig.engine.stats().fetched_bytes, fetched, "a file opened again finds its pages");
}

/// How many are read through depends on what the link shows to carry, and so on the machine: what
/// passes in the 40 ms of a first byte is more than a gap on any.
#[test]
fn the_gaps_of_a_progression_are_read_through_and_not_kept() {
    let options = Options::default().with_memory_bytes(16 << 20);
    let rig = rig_after(Duration::from_millis(40), &[("big", 1 << 30)], &options);
    let file = rig.open("big");
    rig.testbed.reset_counters();
    let mut read = 0;
    for record in 0..2_000u64 {
        rig.read(&file, record << 16, 4096, 1).expect("a read");
        read += 1;
        if record % 50 == 49 {
            // Behind the reader and before it: a page of a gap is like any other.
            for page in [(record << 4) - 7, (record << 4) + 16 * 9 + 5] {
                rig.read(&file, page << 12, 4096, 1).expect("a read of a gap");
                read += 1;
            }
        }
    }
    let (stats, requests) = (rig.engine.stats(), rig.testbed.counters().get);
    assert!(requests < read, "{requests} requests for {read} reads");
    assert!(stats.fetched_bytes > 2 * read * 4096, "{} bytes: no gap was fetched", stats.fetched_bytes);
    assert!(stats.memory_charged_bytes <= 16 << 20);
}

#[test]
fn readers_of_the_same_bytes_share_one_request() {
    let rig = rig(&[("big", 1 << 30)], &Options::default().with_patience(patience()).with_readahead(false));
    let file = rig.open("big");
    rig.testbed.reset_counters();
    std::thread::scope(|threads| {
        for _ in 0..8 {
            let (rig, file) = (&rig, file.clone());
            threads.spawn(move || rig.read(&file, 500 << 20, 128 << 10, 1).expect("a read"));
        }
    });
    assert_eq!(rig.testbed.counters().get, 1);
}

#[test]
fn the_rest_of_a_hot_block_comes_with_few_requests() {
    let options = Options::default().with_patience(patience());
    let rig = rig_after(Duration::from_millis(10), &[("table", 1 << 30)], &options);
    let file = rig.open("table");
    rig.testbed.reset_counters();
    let mut x = 12_345u64;
    let mut random = |below: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % below
    };
    // 128 records of 16 KiB anywhere, then all 128 of one block, shuffled.
    let mut records: Vec<u64> = (0..128).collect();
    for left in (1..records.len()).rev() {
        rig.read(&file, random(1 << 16) << 14, 16 << 10, 1).expect("a read");
        records.swap(left, random(left as u64 + 1) as usize);
    }
    // On a busy machine some answers are late, and their requests are hedged.
    let once = || rig.testbed.counters().get - rig.engine.stats().requests_hedged;
    let elsewhere = once();
    assert!((120..=128).contains(&elsewhere), "{elsewhere} requests for 127 random reads");
    for record in records {
        rig.read(&file, (512 << 20) + (record << 14), 16 << 10, 1).expect("a read");
    }
    let requests = once() - elsewhere;
    assert!(requests <= 64, "{requests} requests for 128 records of a block");
    let fetched = rig.engine.stats().fetched_bytes;
    assert!(fetched <= 8 << 20, "{fetched} bytes for 4 MiB");
}

/// Pages have what front doors leave them of the budget, and at least half of it.
#[test]
fn what_a_front_door_reserves_is_taken_from_pages() {
    let options = Options::default().with_memory_bytes(16 << 20);
    let rig = rig_after(Duration::ZERO, &[("a", 32 << 20)], &options);
    let file = rig.open("a");
    let charged = || {
        for nth in 0..32 << 3 {
            rig.read(&file, nth * (128 << 10), 128 << 10, 1).expect("a read");
        }
        rig.engine.stats().memory_charged_bytes
    };
    let (first, second) = (rig.engine.reserve(), rig.engine.reserve());
    assert!(charged() > 12 << 20, "all of it is for pages");
    first.set(3 << 20);
    second.set(2 << 20);
    assert_eq!(rig.engine.stats().memory_names_bytes, 5 << 20);
    assert!(charged() <= 11 << 20);
    first.set(300 << 20);
    assert!((6 << 20..=8 << 20).contains(&charged()), "half stays");
    drop((first, second));
    assert_eq!(rig.engine.stats().memory_names_bytes, 0);
    assert!(charged() > 12 << 20, "it is given back");
}
