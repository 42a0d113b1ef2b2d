//! What every pattern promises about its operations, for workloads of random shape.

use std::collections::BTreeSet;

use foreread_workload::{Op, Workload, catalogue};
use proptest::prelude::*;

/// A workload's text.
fn text(seed: u64, threads: u32, count: u32, size: u64, pattern: &str) -> String {
    format!(
        "name = \"w\"\ndescription = \"d\"\nseed = {seed}\nthreads = {threads}\nduration = \"1000s\"\n\
         [files]\ncount = {count}\nsize = \"{size}B\"\n[pattern]\n{pattern}\n\
         [device]\nfirst_byte = \"30ms\"\nconnection_rate = \"80MB/s\"\n[mount]\nmemory = \"1MiB\"\n"
    )
}

fn parse(text: &str) -> Workload {
    Workload::parse("test", text).unwrap()
}

fn all(workload: &Workload) -> Vec<Op> {
    (0..workload.threads).flat_map(|thread| workload.operations(thread)).collect()
}

/// How often each byte of each file is read.
fn counts(workload: &Workload) -> Vec<Vec<u32>> {
    let mut counts = vec![vec![0; workload.files.size_bytes as usize]; workload.files.count as usize];
    for op in all(workload) {
        for byte in &mut counts[op.file as usize][op.offset as usize..][..op.len as usize] {
            *byte += 1;
        }
    }
    counts
}

prop_compose! {
    fn shape()(
        seed in any::<u32>(), threads in 1..6u32, count in 1..6u32, size in 64..2000u64, record in 1..33u64,
        streams in 2..5u32, stride in 0..50u64,
    ) -> (u32, u32, u32, u64, u64, u32, u64) {
        (seed, threads, count, size, record, streams, record + stride)
    }
}

proptest! {
    #[test]
    fn no_operation_is_empty_or_past_the_end(
        (seed, threads, count, size, record, streams, stride) in shape(), kind in 0..7usize,
    ) {
        let pattern = [
            format!("kind = \"sequential\"\nrecord = \"{record}B\""),
            format!("kind = \"backward\"\nrecord = \"{record}B\""),
            format!("kind = \"strided\"\nrecord = \"{record}B\"\nstride = \"{stride}B\""),
            format!("kind = \"interleaved\"\nrecord = \"{record}B\"\nstreams = {}", streams.min((size / record) as u32)),
            format!("kind = \"random\"\nrecord = \"{record}B\"\ndescriptor = \"shared\""),
            format!("kind = \"slow\"\nrecord = \"{record}B\"\nperiod = \"160ms\""),
            format!("kind = \"mmap-random\"\nrecord = \"{record}B\""),
        ];
        let text = text(seed.into(), threads, count, size, &pattern[kind]);
        let workload = parse(&text);
        let ops = all(&workload);
        prop_assert!(!ops.is_empty());
        for op in &ops {
            prop_assert!(op.len > 0 && u64::from(op.len) <= record && op.file < count);
            prop_assert!(op.offset + u64::from(op.len) <= size);
        }
        prop_assert_eq!(ops, all(&parse(&text)), "the same text gives the same operations");
    }

    #[test]
    fn walks_read_every_byte_of_every_file_once(
        (seed, threads, count, size, record, streams, _) in shape(), kind in 0..3usize,
    ) {
        let pattern = [
            format!("kind = \"sequential\"\nrecord = \"{record}B\""),
            format!("kind = \"backward\"\nrecord = \"{record}B\""),
            format!("kind = \"interleaved\"\nrecord = \"{record}B\"\nstreams = {}", streams.min((size / record) as u32)),
        ];
        let workload = parse(&text(seed.into(), threads.min(count), count, size, &pattern[kind]));
        prop_assert!(counts(&workload).iter().flatten().all(|&times| times == 1));
    }

    #[test]
    fn strides_read_the_start_of_each_and_nothing_else(
        (seed, _, count, size, record, _, stride) in shape(),
    ) {
        let pattern = format!("kind = \"strided\"\nrecord = \"{record}B\"\nstride = \"{stride}B\"");
        let workload = parse(&text(seed.into(), 1, count, size, &pattern));
        for file in counts(&workload) {
            for (offset, &times) in file.iter().enumerate() {
                prop_assert_eq!(times, u32::from(offset as u64 % stride < record));
            }
        }
    }

    #[test]
    fn random_reads_take_every_whole_record_once_whatever_the_threads(
        (seed, threads, count, size, record, _, _) in shape(),
    ) {
        let pattern = format!("kind = \"random\"\nrecord = \"{record}B\"\ndescriptor = \"own\"");
        let workload = parse(&text(seed.into(), threads, count, size, &pattern));
        let ops = all(&workload);
        let places: BTreeSet<(u32, u64)> = ops.iter().map(|op| (op.file, op.offset / record)).collect();
        prop_assert_eq!(places.len(), ops.len());
        prop_assert_eq!(ops.len() as u64, u64::from(count) * (size / record));
    }
}

#[test]
fn another_seed_gives_another_order() {
    let pattern = "kind = \"random\"\nrecord = \"4B\"\ndescriptor = \"own\"";
    assert_ne!(all(&parse(&text(1, 1, 1, 4096, pattern))), all(&parse(&text(2, 1, 1, 4096, pattern))));
}

#[test]
fn more_threads_than_files_read_the_same_file_each_in_full() {
    let workload = parse(&text(1, 6, 2, 100, "kind = \"sequential\"\nrecord = \"10B\""));
    assert!(counts(&workload).iter().flatten().all(|&times| times == 3));
}

#[test]
fn interleaved_streams_take_turns() {
    let workload = parse(&text(1, 1, 1, 70, "kind = \"interleaved\"\nrecord = \"10B\"\nstreams = 3"));
    let offsets: Vec<u64> = workload.operations(0).map(|op| op.offset).collect();
    assert_eq!(offsets, [0, 20, 40, 10, 30, 50, 60]);
}

#[test]
fn slow_streams_are_due_a_period_apart_until_the_duration_ends() {
    let workload = catalogue::find("slow-200").unwrap();
    let ops: Vec<Op> = workload.operations(199).collect();
    assert_eq!(ops.len(), 375, "60 s of one read every 160 ms");
    for (number, op) in ops.iter().enumerate() {
        assert_eq!((op.file, op.len), (199, 16 << 10));
        assert_eq!(op.not_before_ns, number as u64 * 160_000_000);
    }
}

#[test]
fn a_limit_on_operations_holds_for_each_thread() {
    let workload = catalogue::find("random-4k-16").unwrap();
    assert!((0..16).all(|thread| workload.operations(thread).count() == 200));
}
