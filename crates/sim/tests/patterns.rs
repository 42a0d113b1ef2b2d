//! The read path under whole patterns, in front of a store that answers after 30 ms, sends 80 MB/s
//! a request and 900 MB/s in all. Asserted: throughput against the limit of the pattern, bytes
//! fetched over bytes asked, requests.

#[path = "store/readers.rs"]
mod readers;

use foreread_device::Random;
use foreread_policy::{Extent, PAGE_BYTES};
use foreread_sim::{Busy, Tally};
use foreread_workload::Metric;
use readers::{MIB, Readers, forward};

/// Pages of the kernel's readahead window: the largest READ of a mount.
const KERNEL_PAGES: u64 = 32;

struct Outcome {
    seconds: f64,
    asked_bytes: u64,
    amplification: f64,
    tally: Tally,
}

impl Outcome {
    fn megabytes_per_s(&self) -> f64 {
        self.asked_bytes as f64 / 1e6 / self.seconds
    }

    fn requests_per_gib(&self) -> f64 {
        self.tally.figure(Metric::RequestsPerGib).unwrap()
    }

    fn late(&self) -> u64 {
        self.tally.figure(Metric::Late).unwrap() as u64
    }
}

/// Runs `readers`, each `(file, reads, time between two in ns)`, to their end.
fn run(memory_bytes: u64, file_pages: u64, readers: Vec<(u64, Vec<Extent>, u64)>) -> Outcome {
    run_behind(None, memory_bytes, file_pages, readers)
}

/// The same through the page cache of a kernel with readahead windows of at most so many bytes.
fn run_behind(
    kernel_window_bytes: Option<u64>,
    memory_bytes: u64,
    file_pages: u64,
    readers: Vec<(u64, Vec<Extent>, u64)>,
) -> Outcome {
    let asked_bytes = readers.iter().flat_map(|(_, reads, _)| reads).map(|read| read.pages() * PAGE_BYTES).sum();
    let tally = Readers { kernel_window_bytes, ..Readers::new(memory_bytes, file_pages, readers) }.run();
    let amplification = tally.figure(Metric::Amp).unwrap();
    Outcome { seconds: tally.elapsed_ns() as f64 / 1e9, asked_bytes, amplification, tally }
}

const GIB: u64 = 1024 * MIB;

#[test]
fn one_sequential_reader_fills_the_link_with_few_requests() {
    let outcome = run(256 << 20, 2 * GIB, vec![(0, forward(0, 2 * GIB, MIB), 0)]);
    assert!(outcome.megabytes_per_s() >= 800.0, "{}", outcome.megabytes_per_s());
    assert!(outcome.requests_per_gib() <= 160.0, "{}", outcome.requests_per_gib());
    assert!(outcome.amplification <= 1.0);
    let start = run(96 << 20, 64 * MIB, vec![(0, forward(0, 64 * MIB, MIB), 0)]);
    assert!(start.seconds <= 0.22, "{}", start.seconds);
}

/// The MB/s of a reader of 2 GiB, on a machine that does nothing for `for_ms` of each `every_ms`.
fn on_busy_machine(every_ms: u64, for_ms: u64, kernel_window_bytes: Option<u64>) -> f64 {
    let busy = Some(Busy { every_ns: every_ms * 1_000_000, for_ns: for_ms * 1_000_000 });
    let readers = Readers::new(256 << 20, 2 * GIB, vec![(0, forward(0, 2 * GIB, MIB), 0)]);
    Readers { kernel_window_bytes, busy, ..readers }.run().figure(Metric::Throughput).unwrap()
}

/// First bytes are noticed late, with all that came behind them.
#[test]
fn a_machine_that_is_busy_with_other_work_fills_the_link() {
    for (every_ms, for_ms) in [(1, 0), (2, 1), (10, 5)] {
        for window in [None, Some(128 << 10), Some(1 << 20)] {
            let rate = on_busy_machine(every_ms, for_ms, window);
            assert!(rate >= 730.0, "{for_ms} of {every_ms} ms, windows of {window:?}: {rate} MB/s");
        }
    }
}

/// Pauses are as long as a request: what all requests show is a burst, and a connection seems to
/// carry five times what it does.
#[test]
fn a_limit_that_followed_from_bursts_is_left() {
    let window = Some(1 << 20);
    for (every_ms, for_ms, window, least) in
        [(20, 15, None, 650.0), (50, 30, None, 600.0), (50, 30, window, 590.0), (100, 50, None, 500.0)]
    {
        let rate = on_busy_machine(every_ms, for_ms, window);
        assert!(rate >= least, "{for_ms} of {every_ms} ms, windows of {window:?}: {rate} MB/s");
    }
}

#[test]
fn a_sequential_reader_in_little_memory() {
    let outcome = run(96 << 20, 2 * GIB, vec![(0, forward(0, 2 * GIB, MIB), 0)]);
    assert!(outcome.megabytes_per_s() >= 780.0, "{}", outcome.megabytes_per_s());
    assert!(outcome.requests_per_gib() <= 160.0, "{}", outcome.requests_per_gib());
}

#[test]
fn sixteen_files_at_once_share_the_link() {
    let readers = (0..16).map(|f| (f, forward(0, 256 * MIB, MIB), 0)).collect();
    let outcome = run(256 << 20, 256 * MIB, readers);
    assert!(outcome.megabytes_per_s() >= 780.0, "{}", outcome.megabytes_per_s());
    assert!(outcome.amplification <= 1.001, "{}", outcome.amplification);
}

#[test]
fn a_backward_reader_of_megabytes() {
    let reads = forward(0, GIB, MIB).into_iter().rev().collect();
    let outcome = run(256 << 20, GIB, vec![(0, reads, 0)]);
    assert!(outcome.megabytes_per_s() >= 600.0, "{}", outcome.megabytes_per_s());
    assert!(outcome.amplification <= 1.05, "{}", outcome.amplification);
}

#[test]
fn a_strided_reader() {
    let reads: Vec<_> = (0..2048).map(|i| Extent::new(i * MIB, i * MIB + 16)).collect();
    let outcome = run(256 << 20, 2 * GIB, vec![(0, reads, 0)]);
    let per_s = 2048.0 / outcome.seconds;
    assert!(per_s >= 1000.0, "{per_s}");
    assert!(outcome.amplification <= 1.2, "{}", outcome.amplification);
}

/// The pages of `bytes` bytes at each of `count` places, so many bytes apart.
fn apart(count: u64, distance: u64, bytes: u64) -> Vec<Extent> {
    let pages = |start: u64| Extent::new(start / PAGE_BYTES, (start + bytes).div_ceil(PAGE_BYTES));
    (0..count).map(|nth| pages(nth * distance)).collect()
}

/// Programs count in bytes: few distances are a whole number of pages.
#[test]
fn a_strided_reader_whose_distance_is_no_whole_number_of_pages() {
    for (distance, bytes, amplification) in [
        (1_000_000, 65_536, 1.2),
        (1_001_000, 65_000, 1.2),
        (1_050_624, 65_536, 1.2),
        (10_000_000, 1_000_000, 1.05),
        (300_000, 4_096, 2.1),
        // Gaps that cost less than a request are read through.
        (50_000, 1_000, 12.3),
    ] {
        let forward = apart(2_000, distance, bytes);
        let backward = forward.iter().rev().copied().collect();
        for (what, reads) in [("forward", forward), ("backward", backward)] {
            let what = format!("{what}, {bytes} bytes of every {distance}");
            let outcome = run(256 << 20, 2_000 * distance / PAGE_BYTES + 1, vec![(0, reads, 0)]);
            let feasible = outcome.seconds * 900e6 / outcome.asked_bytes as f64;
            assert!(feasible <= 2.5 || 2_000.0 / outcome.seconds >= 1_000.0, "{what}: {} s", outcome.seconds);
            assert!(outcome.amplification <= amplification, "{what}: {}", outcome.amplification);
        }
    }
}

#[test]
fn a_backward_reader_whose_records_are_no_whole_number_of_pages() {
    for bytes in [30_000, 100_000, 1_000_000] {
        let mut reads = apart(2_000_000_000 / bytes, bytes, bytes);
        reads.reverse();
        let outcome = run(256 << 20, 1_000_000, vec![(0, reads, 0)]);
        assert!(outcome.megabytes_per_s() >= 600.0, "{bytes}: {}", outcome.megabytes_per_s());
        assert!(outcome.amplification <= 1.05, "{bytes}: {}", outcome.amplification);
    }
}

/// What a reader skipped is behind it, and takes no room from what is ahead of it.
#[test]
fn a_forward_reader_that_skips_a_part_of_its_file_stays_fast() {
    for (distance, bytes) in [(100_000, 60_000), (102_400, 61_440), (114_688, 32_768), (1 << 20, 700_000)] {
        let reads = apart((4 << 30) / distance, distance, bytes);
        let outcome = run(256 << 20, 4 * GIB, vec![(0, reads, 0)]);
        let fetched = outcome.megabytes_per_s() * outcome.amplification;
        assert!(fetched >= 700.0, "{bytes} of every {distance}: {fetched} MB/s are fetched");
        assert!(outcome.amplification <= distance as f64 / bytes as f64 + 0.1, "{}", outcome.amplification);
    }
}

#[test]
fn a_strided_reader_whose_first_window_ends_where_its_second_record_begins() {
    // 64 KiB read at the start of a file come as 128 KiB from the kernel: eight times that is a
    // megabyte.
    let reads: Vec<_> = (0..2048).map(|i| Extent::new(i * MIB, i * MIB + if i == 0 { 32 } else { 16 })).collect();
    let outcome = run(256 << 20, 2 * GIB, vec![(0, reads, 0)]);
    let per_s = 2048.0 / outcome.seconds;
    assert!(per_s >= 1000.0, "{per_s}");
    assert!(outcome.amplification <= 1.2, "{}", outcome.amplification);
}

/// A link of 900 MB/s carries 60 KiB in 68 us, and object stores promise 5,500 requests a second.
#[test]
fn gaps_that_cost_less_than_a_request_are_read_through() {
    let records = |from: u64| (0..GIB / 16).map(move |nth| Extent::new(from + nth * 16, from + nth * 16 + 1));
    let backward = records(0).collect::<Vec<_>>().into_iter().rev().collect();
    // The second one reads where the gaps of the first are.
    let two: Vec<_> = records(0).zip(records(7)).flat_map(|(a, b)| [a, b]).collect();
    for (what, reads) in [("forward", records(0).collect()), ("backward", backward), ("two", two)] {
        let read = reads.len() as f64;
        let outcome = run(256 << 20, GIB, vec![(0, reads, 0)]);
        assert!(outcome.tally.requests() as f64 <= read / 50.0, "{what}: {}", outcome.tally.requests());
        assert!(outcome.amplification <= 16.1, "{what}: {}", outcome.amplification);
        let per_s = read / outcome.seconds;
        assert!(per_s >= 5.0 * 1_000.0, "{what}: {per_s}");
    }
}

/// Members of an archive that are all as long: their headers lie at a distance of bytes.
#[test]
fn gaps_of_records_at_a_distance_of_bytes_are_read_through() {
    for (distance, bytes) in [(16_896, 512), (20_992, 512), (33_280, 512)] {
        let forward = apart(20_000, distance, bytes);
        let backward = forward.iter().rev().copied().collect();
        for (what, reads) in [("forward", forward), ("backward", backward)] {
            let what = format!("{what}, {bytes} bytes of every {distance}");
            let outcome = run(256 << 20, 20_000 * distance / PAGE_BYTES + 1, vec![(0, reads, 0)]);
            assert!(outcome.tally.requests() <= 20_000 / 50, "{what}: {}", outcome.tally.requests());
            let through = distance as f64 / PAGE_BYTES as f64;
            assert!(outcome.amplification <= through + 0.2, "{what}: {}", outcome.amplification);
            let per_s = 20_000.0 / outcome.seconds;
            assert!(per_s >= 5_000.0, "{what}: {per_s}");
        }
    }
}

/// Members of an archive of 10 MB, taken in no order: a header, and what lies behind it.
#[test]
fn a_small_file_that_is_read_in_no_order_comes_whole() {
    let (pages, mut drawn) = (2_500, 7u64);
    let member = |_| {
        drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let start = 1 + (drawn >> 33) % (pages - 10);
        [Extent::new(start, start + 1), Extent::new(start + 1, start + 5)]
    };
    let reads: Vec<_> = (0..300).flat_map(member).collect();
    let outcome = run(256 << 20, pages, vec![(0, reads, 0)]);
    assert!(outcome.tally.requests() <= 100, "{}", outcome.tally.requests());
    assert!(outcome.amplification <= 2.1, "{}", outcome.amplification);
}

/// The headers of an archive, of three pages, which lie up to 75 pages from each other.
fn headers(file_pages: u64) -> Vec<Extent> {
    let mut drawn = 7u64;
    let mut page = 0;
    let mut reads = Vec::new();
    while page + 3 <= file_pages {
        reads.push(Extent::new(page, page + 3));
        drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        page += 3 + (drawn >> 33) % 73;
    }
    reads
}

#[test]
fn the_gaps_between_small_reads_that_go_forward_are_read_through() {
    let pages = 24 * MIB;
    let alone = headers(pages).len() as f64 * 0.030;
    for (memory_mib, seconds) in [(256, alone / 10.0), (32, alone / 8.0), (8, alone / 4.0)] {
        let outcome = run(memory_mib << 20, pages, vec![(0, headers(pages), 0)]);
        assert!(outcome.seconds <= seconds, "{memory_mib} MiB: {} s of {alone}", outcome.seconds);
        assert!(outcome.amplification <= 16.0, "{memory_mib} MiB: {}", outcome.amplification);
        let requests = outcome.tally.requests() as usize;
        assert!(requests <= headers(pages).len() / 2, "{memory_mib} MiB: {requests}");
    }
}

#[test]
fn a_reader_whose_small_reads_lie_too_far_apart_fetches_them_alone() {
    // One of three pages in two hundred.
    let reads: Vec<_> = headers(24 * MIB).iter().map(|read| Extent::new(read.start * 6, read.start * 6 + 3)).collect();
    let outcome = run(256 << 20, 6 * 24 * MIB, vec![(0, reads.into_iter().skip(1).collect(), 0)]);
    assert!(outcome.amplification <= 1.5, "{}", outcome.amplification);
}

#[test]
fn gaps_that_cost_more_than_a_request_are_not_read_through() {
    let reads = (0..GIB / 64).map(|nth| Extent::new(nth * 64, nth * 64 + 2)).collect();
    let outcome = run(256 << 20, GIB, vec![(0, reads, 0)]);
    assert!(outcome.amplification <= 1.02, "{}", outcome.amplification);
}

#[test]
fn interleaved_streams_on_one_file() {
    for streams in [2, 5] {
        let part = 2 * GIB / streams / MIB * MIB;
        let mut reads = Vec::new();
        for i in 0..part / MIB {
            reads.extend((0..streams).map(|s| Extent::new(s * part + i * MIB, s * part + (i + 1) * MIB)));
        }
        let outcome = run(256 << 20, 2 * GIB, vec![(0, reads, 0)]);
        assert!(outcome.megabytes_per_s() >= 600.0, "{streams}: {}", outcome.megabytes_per_s());
        assert!(outcome.amplification <= 1.1, "{streams}: {}", outcome.amplification);
    }
}

/// A reader of columns, or of many files in one: each record lies as far behind the one before it.
#[test]
fn a_reader_that_takes_many_streams_in_turn_is_read_ahead_for_row_by_row() {
    for (streams, pages, rows, memory_mib) in [
        (200, 4, 600, 64),
        (200, 4, 600, 256),
        (200, 32, 100, 256),
        (1_000, 4, 120, 256),
        (1_000, 32, 40, 64),
        (1_000, 32, 40, 256),
        (10_000, 32, 4, 64),
    ] {
        let part = 1_200 * pages;
        let reads = (0..rows).flat_map(|row| (0..streams).map(move |stream| stream * part + row * pages));
        let reads = reads.map(|start| Extent::new(start, start + pages)).collect();
        let outcome = run(memory_mib << 20, streams * part, vec![(0, reads, 0)]);
        let what = format!("{streams} streams of {pages} pages in {memory_mib} MiB");
        assert!(outcome.megabytes_per_s() >= 0.8 * 900.0, "{what}: {}", outcome.megabytes_per_s());
        assert!(outcome.amplification <= 1.1, "{what}: {}", outcome.amplification);
    }
}

/// A merge of sorted runs: each goes on where it was left, after about a thousand reads of others.
/// Without readahead it reads 4 MB/s.
#[test]
fn many_streams_in_no_order_are_read_ahead_for() {
    for (memory_mib, least, most) in [(64, 5.0, 1.03), (256, 50.0, 1.05), (1_024, 70.0, 1.12)] {
        let (streams, pages, records) = (1_000, 32, 64);
        let part = records * pages + 512;
        let mut random = Random::new(7);
        let mut left: Vec<(u64, u64)> = (0..streams).map(|stream| (stream, 0)).collect();
        let mut reads = Vec::new();
        while !left.is_empty() {
            let at = (random.next_u64() % left.len() as u64) as usize;
            let (stream, record) = left[at];
            let start = stream * part + record * pages;
            reads.push(Extent::new(start, start + pages));
            if record + 1 == records {
                left.swap_remove(at);
            } else {
                left[at].1 += 1;
            }
        }
        let outcome = run(memory_mib << 20, streams * part, vec![(0, reads, 0)]);
        assert!(outcome.megabytes_per_s() >= least, "{memory_mib} MiB: {} MB/s", outcome.megabytes_per_s());
        assert!(outcome.amplification <= most, "{memory_mib} MiB: {}", outcome.amplification);
    }
}

#[test]
fn random_readers_on_one_file_fetch_what_they_ask_for() {
    let mut x = 99u64;
    let mut random = |pages: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let start = (x >> 33) % (2 * GIB / pages) * pages;
        Extent::new(start, start + pages)
    };
    for (pages, most) in [(1, 1.1), (32, 1.05)] {
        let readers = (0..16).map(|_| (0, (0..200).map(|_| random(pages)).collect(), 0)).collect();
        let outcome = run(256 << 20, 2 * GIB, readers);
        assert!(outcome.amplification <= most, "{}", outcome.amplification);
    }
}

#[test]
fn two_hundred_slow_streams_in_little_memory() {
    // 100 KB/s each: the kernel asks for 128 KiB every 1.3 s.
    let readers = (0..200).map(|f| (f, forward(0, 24 * MIB, KERNEL_PAGES), 1_310_000_000)).collect();
    let outcome = run(64 << 20, GIB, readers);
    assert_eq!(outcome.late(), 0);
    assert!(outcome.amplification <= 1.1, "{}", outcome.amplification);
}

#[test]
fn two_hundred_slow_streams_that_stand_between_folios() {
    // The kernel's window grows from 32 KiB: later requests lie across two folios.
    let start = |f: u64| {
        let mut reads = vec![Extent::new(0, 8), Extent::new(8, 24)];
        reads.extend((24..24 * MIB).step_by(32).map(|s| Extent::new(s, s + 32)));
        (f, reads, 1_310_000_000)
    };
    let outcome = run(64 << 20, GIB, (0..200).map(start).collect());
    assert_eq!(outcome.late(), 0);
    assert!(outcome.amplification <= 1.1, "{}", outcome.amplification);
}

/// What streams leave behind unread when they stop once filled the part of memory that is for
/// speculation, and nothing was read ahead any more. It takes hundreds of streams to show.
#[test]
fn streams_that_stop_do_not_end_readahead() {
    let seconds = |runs: u64| {
        let mut random = Random::new(1);
        let starts = (0..runs).map(|_| random.below(39_990) * MIB);
        let reads = starts.flat_map(|start| forward(start + 5, start + 5 + 24 * 16, 16)).collect();
        run(32 << 20, 40_000 * MIB, vec![(0, reads, 0)]).seconds
    };
    let (few, many) = (seconds(200), seconds(2_000));
    assert!(many <= 10.0 * few * 1.1, "200 streams took {few} s, 2,000 took {many} s");
}

/// Like column chunks, tiles, or blocks of a database: the first ones show how long the others
/// are.
/// What was read ahead for the place that was left makes room for what is read ahead at the next.
#[test]
fn a_reader_that_jumps_is_read_ahead_for_where_it_goes_on() {
    let (part, far) = (384 * MIB, 3 * GIB);
    let once = run(256 << 20, 6 * GIB, vec![(0, forward(0, part, MIB), 0)]);
    for from in [far, 0] {
        let reads = [forward(0, part, MIB), forward(from, from + part, MIB)].concat();
        let both = run(256 << 20, 6 * GIB, vec![(0, reads, 0)]);
        println!("{:.2} s once, {:.2} s with a jump to {from}", once.seconds, both.seconds);
        assert!(both.seconds < 2.0 * once.seconds + 2.2, "{:.2} s", both.seconds);
        assert!(both.amplification < 1.1 * once.amplification);
    }
}

/// A reader that comes to the end of its file and begins anew, as in each epoch, is about as fast
/// in the last pass as in the first: the streams of the passes before need nothing. When they
/// counted as if they did, a pass took 2.3 times as long.
#[test]
fn passes_over_an_open_file_do_not_slow_down() {
    for (memory_mib, passes) in [(16, 2), (16, 8), (64, 8)] {
        let size = 128 * MIB;
        let pass = || forward(0, size, MIB);
        let once = run(memory_mib << 20, size, vec![(0, pass(), 0)]);
        let all = run(memory_mib << 20, size, vec![(0, (0..passes).flat_map(|_| pass()).collect(), 0)]);
        println!("{memory_mib} MiB: {:.2} s once, {:.2} s {passes} times", once.seconds, all.seconds);
        assert!(all.seconds < 1.3 * f64::from(passes) * once.seconds, "{:.2} s", all.seconds);
    }
}

/// Sixteen readers stop in the middle of their files, which stay open. Another one has the memory
/// soon.
#[test]
fn readers_that_stop_keep_no_memory_from_one_that_goes_on() {
    for memory_mib in [64, 256] {
        let stopped = (0..16).map(|file| (file, forward(0, 64 * MIB, MIB), 0));
        let other = (16, [forward(0, MIB, MIB), forward(MIB, GIB, MIB)].concat(), 0);
        let outcome = run(memory_mib << 20, GIB, stopped.chain([other]).collect());
        println!("{memory_mib} MiB: {:.1} MB/s", outcome.megabytes_per_s());
        assert!(outcome.megabytes_per_s() > 350.0);
    }
}

/// Loaders that read 32 MiB at once, and then nothing for two seconds, keep what is read ahead for
/// them meanwhile.
#[test]
fn loaders_that_pause_find_what_was_read_ahead_for_them() {
    for memory_mib in [128, 512] {
        let each = (0..8).map(|file| (file, forward(0, 320 * MIB, MIB), 2_000_000_000)).collect();
        let tally = Readers { batch: 32, ..Readers::new(memory_mib << 20, 320 * MIB, each) }.run();
        let amp = tally.figure(Metric::Amp).unwrap();
        println!("{memory_mib} MiB: {:.2} s, amp {amp:.3}", tally.elapsed_ns() as f64 / 1e9);
        assert!(tally.elapsed_ns() < 18_600_000_000 && amp < 1.06);
    }
}

#[test]
fn runs_that_are_all_alike_are_fetched_whole_at_their_first_read() {
    let mut random = Random::new(1);
    let starts = (0..1_000).map(|_| random.below(39_990) * MIB);
    let reads = starts.flat_map(|start| forward(start + 5, start + 5 + 24 * 16, 16)).collect();
    let outcome = run(32 << 20, 40_000 * MIB, vec![(0, reads, 0)]);
    // A round trip for each run, and 1.5 MiB at 80 MB/s or a little more.
    assert!(outcome.seconds <= 1_000.0 * 0.055, "{}", outcome.seconds);
    assert!(outcome.amplification <= 1.05, "{}", outcome.amplification);
    assert!(outcome.tally.requests() <= 8_000, "{}", outcome.tally.requests());
}

#[test]
fn a_stream_that_turns_random_and_back_is_found_again() {
    let mut reads = forward(0, 64 * MIB, MIB);
    let mut x = 7u64;
    reads.extend((0..50).map(|_| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let start = (x >> 33) % 200_000 + 200_000;
        Extent::new(start, start + 1)
    }));
    reads.extend(forward(64 * MIB, 256 * MIB, MIB));
    let outcome = run(256 << 20, 2 * GIB, vec![(0, reads, 0)]);
    // 50 random reads take 1.5 s; the rest runs at the link's speed.
    assert!(outcome.seconds <= 1.55 + 0.5 + 0.4, "{}", outcome.seconds);
    assert!(outcome.amplification <= 1.5, "{}", outcome.amplification);
}

/// Requests of one window of the kernel overtake each other on their way to policy.
#[test]
fn a_kernel_with_larger_windows_costs_no_throughput() {
    for window in [128 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20] {
        let halves = || [0, GIB].map(|from| (0, forward(from, from + GIB, MIB), 0)).to_vec();
        let one = run_behind(Some(window), 256 << 20, 2 * GIB, vec![(0, forward(0, 2 * GIB, MIB), 0)]);
        assert!(one.megabytes_per_s() >= 800.0, "{window}: {}", one.megabytes_per_s());
        assert!(one.requests_per_gib() <= 165.0, "{window}: {}", one.requests_per_gib());
        let small = run_behind(Some(window), 96 << 20, 2 * GIB, vec![(0, forward(0, 2 * GIB, MIB), 0)]);
        assert!(small.megabytes_per_s() >= 770.0, "{window}: {}", small.megabytes_per_s());
        let two = run_behind(Some(window), 256 << 20, 2 * GIB, halves());
        assert!(two.megabytes_per_s() >= 770.0, "{window}: {}", two.megabytes_per_s());
        assert!(two.requests_per_gib() <= 340.0, "{window}: {}", two.requests_per_gib());
        assert!(two.amplification <= 1.13, "{window}: {}", two.amplification);
    }
}

/// Reads of whole column chunks, of which the kernel sees each at once: what follows a chunk is
/// not read.
#[test]
fn a_read_that_the_kernel_cuts_is_no_stream() {
    let place = |at: u64| at * 1_900 + at * at * 37 % 701;
    let chunks = |pages: u64| (0..60).map(move |at| Extent::new(place(at), place(at) + pages));
    for pages in [62, 299, 400, 850, 1_000] {
        let reads = || chunks(pages).skip(1).collect::<Vec<_>>();
        let outcome = run_behind(Some(4 << 20), 256 << 20, 120_000, vec![(0, reads(), 0)]);
        assert!(outcome.amplification <= 1.05, "{pages}: {}", outcome.amplification);
        // A round trip and the slowest of its requests for each chunk.
        let each_s = outcome.seconds / 59.0;
        assert!(each_s <= 0.052, "{pages}: {each_s}");
    }
}

/// The footer of a file, longer than a window of the kernel: what is cut from it lies at the end.
#[test]
fn the_end_of_a_file_comes_in_one_round_trip() {
    for beyond in [1, 5, 31, 32] {
        let footer = || vec![Extent::new(100_000 - 32 - beyond, 100_000)];
        let outcome = run_behind(Some(128 << 10), 256 << 20, 100_000, vec![(0, footer(), 0)]);
        assert_eq!(outcome.tally.requests(), 1, "{beyond}");
        assert!(outcome.seconds < 0.036, "{beyond}: {}", outcome.seconds);
    }
    let far = run_behind(Some(128 << 10), 256 << 20, 100_000, vec![(0, vec![Extent::new(99_900, 99_932)], 0)]);
    assert!(far.amplification <= 1.0, "{}", far.amplification);
}

/// Files of a few megabytes that are read from their starts, such as libraries and pictures.
#[test]
fn a_file_that_is_not_long_comes_in_one_round_trip() {
    for pages in [40, 64, 250, 500, 1_000] {
        for step in [4, 32] {
            let outcome = run(1 << 30, pages, vec![(0, forward(0, pages, step), 0)]);
            let most = 0.032 + pages.min(MIB) as f64 * 4096.0 / 80e6;
            assert!(outcome.seconds <= most, "{pages}, {step}: {}", outcome.seconds);
            assert_eq!(outcome.tally.requests(), pages.div_ceil(MIB), "{pages}, {step}");
        }
    }
}

/// Programs that read the heads of such files: what is fetched in vain is the first credit, and a
/// part of what is read.
#[test]
fn heads_of_files_have_little_fetched_in_vain() {
    for (pages, memory_bytes) in [(100, 16 << 20), (250, 256 << 20), (1_000, 1 << 30)] {
        let heads = (0..400).map(|file| (file, vec![Extent::new(0, 4)], 0)).collect();
        let outcome = run(memory_bytes, pages, heads);
        let fetched = outcome.amplification * outcome.asked_bytes as f64;
        // A stream from the start of a file is trusted eight times as far as it has been read.
        let trusted = outcome.asked_bytes * 9;
        let most = trusted + memory_bytes.min(256 << 20) / 64 + outcome.asked_bytes * 3 / 10;
        assert!(fetched <= most as f64, "{pages}: {fetched} of at most {most} bytes");
    }
}
