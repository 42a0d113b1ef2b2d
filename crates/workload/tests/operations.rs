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
        (seed, threads, count, size, record, streams, stride) in shape(), kind in 0..8usize,
    ) {
        let pattern = [
            format!("kind = \"sequential\"\nrecord = \"{record}B\""),
            format!("kind = \"backward\"\nrecord = \"{record}B\""),
            format!("kind = \"strided\"\nrecord = \"{record}B\"\nstride = \"{stride}B\""),
            format!("kind = \"interleaved\"\nrecord = \"{record}B\"\nstreams = {}", streams.min((size / record) as u32)),
            format!("kind = \"random\"\nrecord = \"{record}B\"\ndescriptor = \"shared\""),
            format!("kind = \"slow\"\nrecord = \"{record}B\"\nperiod = \"160ms\""),
            format!("kind = \"mmap-random\"\nrecord = \"{record}B\""),
            format!("kind = \"dealt\"\nrecord = \"{record}B\"\ndescriptor = \"own\""),
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
    fn what_is_dealt_out_is_read_once_and_in_turn(
        (seed, threads, count, size, record, _, _) in shape(),
    ) {
        let pattern = format!("kind = \"dealt\"\nrecord = \"{record}B\"\ndescriptor = \"shared\"");
        let workload = parse(&text(seed.into(), threads, count, size, &pattern));
        prop_assert!(counts(&workload).iter().flatten().all(|&times| times == 1));
        let mut threads: Vec<_> = (0..workload.threads).map(|thread| workload.operations(thread)).collect();
        let mut end = 0;
        for turn in 0..all(&workload).len() {
            let next = turn % threads.len();
            let op = threads[next].next().expect("its turn");
            let place = u64::from(op.file) * size + op.offset;
            prop_assert_eq!(place, end);
            end = place + u64::from(op.len);
        }
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
fn random_runs_take_every_record_once_and_neighbours_in_turn() {
    for repeats in [false, true] {
        let pattern = format!("kind = \"random\"\nrecord = \"4B\"\nrun = 8\nrepeats = {repeats}\ndescriptor = \"own\"");
        let workload = parse(&text(1, 16, 2, 4096, &pattern));
        let readers: Vec<Vec<_>> = (0..16).map(|thread| workload.operations(thread).collect()).collect();
        let mut seen = BTreeSet::new();
        for number in 0..readers[0].len() {
            for run in 0..2 {
                let ops: Vec<_> = readers[run * 8..run * 8 + 8].iter().map(|ops: &Vec<_>| ops[number]).collect();
                assert!(
                    ops.windows(2).all(|pair| pair[0].file == pair[1].file && pair[0].offset + 4 == pair[1].offset)
                );
                assert_eq!(ops[0].offset % 32, 0);
                seen.insert((ops[0].file, ops[0].offset));
            }
        }
        assert_eq!(readers[0].len(), 2 * 4096 / 4 / 16);
        assert_eq!(seen.len() == 2 * 4096 / 32, !repeats, "{} runs", seen.len());
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
fn a_reader_beside_has_its_own_files_and_starts_after_a_period() {
    let beside = "[beside]\nthreads = 1\noperations = 3\n[beside.files]\ncount = 1\nsize = \"1MiB\"\n\
                  [beside.pattern]\nkind = \"random\"\nrecord = \"4KiB\"\ndescriptor = \"own\"\nperiod = \"1s\"\n";
    let workload = parse(&(text(1, 2, 2, 4096, "kind = \"sequential\"\nrecord = \"4KiB\"") + beside));
    let readers: Vec<_> = workload.readers().map(|reader| (reader.beside, reader.operations().collect())).collect();
    let files = |ops: &Vec<Op>| ops.iter().map(|op| (op.file, op.not_before_ns / 1_000_000_000)).collect::<Vec<_>>();
    let told: Vec<_> = readers.iter().map(|(beside, ops)| (*beside, files(ops))).collect();
    assert_eq!(told, [(false, vec![(0, 0)]), (false, vec![(1, 0)]), (true, vec![(2, 1), (2, 2), (2, 3)])]);
    let files: Vec<_> = workload.all_files().collect();
    let named = |name: &str, bytes| (name.to_owned(), bytes);
    assert_eq!(files, [named("w-000.bin", 4096), named("w-001.bin", 4096), named("w-beside-000.bin", 1 << 20)]);
}

#[test]
fn a_limit_on_operations_holds_for_each_thread() {
    let workload = catalogue::find("random-4k-16").unwrap();
    assert!((0..16).all(|thread| workload.operations(thread).count() == 200));
}

#[test]
fn passes_read_the_same_file_again() {
    let workload = parse(&text(1, 1, 2, 100, "kind = \"sequential\"\nrecord = \"40B\"\npasses = 2"));
    let offsets: Vec<_> = all(&workload).iter().map(|op| (op.file, op.offset, op.len)).collect();
    let pass = |file| [(file, 0, 40), (file, 40, 40), (file, 80, 20)];
    assert_eq!(offsets, [pass(0), pass(0), pass(1), pass(1)].concat());
}

#[test]
fn each_pass_over_random_records_has_an_order_of_its_own() {
    let pattern = |passes| format!("kind = \"random\"\nrecord = \"10B\"\ndescriptor = \"own\"\npasses = {passes}");
    let once = all(&parse(&text(7, 1, 2, 500, &pattern(1))));
    let thrice = all(&parse(&text(7, 1, 2, 500, &pattern(3))));
    assert_eq!((once.len(), thrice.len()), (100, 300));
    assert_eq!(thrice[..100], once);
    let passes: Vec<_> = thrice.chunks(100).collect();
    assert!(passes[0] != passes[1] && passes[1] != passes[2] && passes[0] != passes[2]);
    assert!(counts(&parse(&text(7, 3, 2, 500, &pattern(3)))).concat().iter().all(|&count| count == 3));
}

#[test]
fn a_scan_reads_hot_files_before_the_others_and_after_them() {
    let pattern = "kind = \"scan\"\nrecord = \"60B\"\nhot = 3\npasses = 2";
    let workload = parse(&text(1, 2, 5, 100, pattern));
    let files = |thread| {
        let ops: Vec<_> = workload.operations(thread).collect();
        assert!(ops.chunks(2).all(|pair| (pair[0].len, pair[1].offset, pair[1].len) == (60, 60, 40)));
        ops.iter().step_by(2).map(|op| op.file).collect::<Vec<_>>()
    };
    assert_eq!(files(0), [0, 2, 0, 2, 4, 0, 2, 0, 2]);
    assert_eq!(files(1), [1, 1, 3, 1, 1]);
}

#[test]
fn random_reads_with_repeats_come_back_and_stay_on_records() {
    let pattern = "kind = \"random\"\nrecord = \"10B\"\nrepeats = true\ndescriptor = \"own\"";
    let workload = parse(&text(1, 4, 2, 5000, pattern));
    let ops = all(&workload);
    let different: BTreeSet<_> = ops.iter().map(|op| (op.file, op.offset)).collect();
    assert_eq!(ops.len(), 1000);
    assert!((550..720).contains(&different.len()), "1 - 1/e of them are new: {}", different.len());
    assert!(ops.iter().all(|op| op.offset % 10 == 0 && op.len == 10));
}

#[test]
fn hot_reads_fall_in_their_areas_and_some_are_followed_by_the_next_record() {
    let pattern = "kind = \"hot\"\nrecord = \"10B\"\nareas = 5\narea = \"200B\"\nhot_percent = 80\nfollow_percent = 20";
    let text = text(3, 4, 1, 100_000, pattern).replace("duration", "operations = 2500\nduration");
    let ops = all(&parse(&text));
    assert_eq!(ops.len(), 10_000);
    let mut by_place = std::collections::BTreeMap::new();
    for op in &ops {
        *by_place.entry(op.offset).or_insert(0u32) += 1;
    }
    let hot = by_place.values().filter(|&&count| count > 20).sum::<u32>();
    assert!((7500..8500).contains(&hot), "{hot} of 10000 in hot places");
    let follows = ops.windows(2).filter(|pair| pair[1].offset == pair[0].offset + 10).count();
    assert!((1300..2200).contains(&follows), "{follows} of 10000 go on");
    let endless = text.replace("operations = 2500\n", "");
    assert!(Workload::parse("test", &endless).unwrap_err().to_string().contains("operations: missing"));
}

#[test]
fn every_reader_is_in_one_of_the_processes() {
    let workload = catalogue::find("one-file-64").unwrap().with_threads(13);
    assert_eq!(workload.processes, 8);
    let in_each: Vec<usize> = (0..8).map(|process| workload.readers_of(process).count()).collect();
    assert_eq!(in_each, [2, 2, 2, 2, 2, 1, 1, 1]);
    let alone = catalogue::find("files-16").unwrap();
    assert_eq!(alone.readers_of(0).count(), alone.readers().count());
    assert_eq!(alone.with_threads(5).readers_of(0).count(), 5);
    assert_eq!(workload.with_threads(3).processes, 3, "no process is without a thread");
}
