//! Streams over files of which a tier has some: a local disk in front of a store with 30 ms to the
//! first byte, 80 MB/s a connection and 900 MB/s in all.

#[path = "store/readers.rs"]
mod readers;

use foreread_device::latency::FirstByte;
use foreread_device::{Profile, Random, Rate, object_store};
use foreread_policy::Extent;
use foreread_sim::{Tally, Tiered, profile};
use foreread_workload::Metric;
use readers::{MIB, Readers};

/// A tier that has `warm` of each file from the start.
fn tier(warm: Vec<Vec<Extent>>) -> Tiered {
    Tiered { device: profile::find("nvme").expect("a built-in disk"), size_bytes: None, warm }
}

/// One reader of one file, of which the tier has `warm`.
fn alone(file_pages: u64, warm: Vec<Extent>, reads: Vec<Extent>) -> Tally {
    let readers = vec![(0, reads, 0)];
    Readers { tier: Some(tier(vec![warm])), ..Readers::new(256 << 20, file_pages, readers) }.run()
}

fn forward(from: u64, to: u64) -> Vec<Extent> {
    readers::forward(from, to, MIB)
}

fn seconds(tally: &Tally) -> f64 {
    tally.elapsed_ns() as f64 / 1e9
}

/// Requests that the storage was asked for.
fn requests(tally: &Tally) -> u64 {
    tally.requests()
}

#[test]
fn what_the_tier_has_is_read_at_its_speed_and_asks_the_storage_for_nothing() {
    let pages = 512 * MIB;
    let tally = alone(pages, vec![Extent::new(0, pages)], forward(0, pages));
    assert_eq!(requests(&tally), 0);
    assert!(seconds(&tally) <= 0.6, "{}", seconds(&tally));
}

/// The second reader comes to each MiB when the first has read it long ago: what was read stays in
/// the tier, though memory holds a part of it only.
#[test]
fn what_was_read_once_is_not_asked_for_again() {
    let pages = 512 * MIB;
    let twice = [forward(0, pages), forward(0, pages)].concat();
    let tally = Readers { tier: Some(tier(vec![])), ..Readers::new(64 << 20, pages, vec![(0, twice, 0)]) }.run();
    let amplification = tally.figure(Metric::Amp).expect("bytes were read");
    assert!(amplification <= 0.51, "{amplification} of two passes");
}

#[test]
fn a_stream_from_cached_to_remote_pages_does_not_stop_in_between() {
    let (half, pages) = (256 * MIB, 512 * MIB);
    let cold = alone(pages, vec![], forward(0, half));
    let warm = alone(pages, vec![Extent::new(0, half)], forward(0, half));
    let both = alone(pages, vec![Extent::new(0, half)], forward(0, pages));
    // The first half hides the round trips with which the second begins.
    let most = seconds(&warm) + seconds(&cold);
    assert!(seconds(&both) <= most, "{} s of {} + {}", seconds(&both), seconds(&warm), seconds(&cold));
}

#[test]
fn a_file_in_patches_is_read_no_slower_than_one_that_is_all_remote() {
    let pages = 512 * MIB;
    let cold = alone(pages, vec![], forward(0, pages));
    for patch in [1, 16, 32, MIB, 4 * MIB, 32 * MIB] {
        let patches = (0..pages).step_by(2 * patch as usize).map(|start| Extent::new(start, start + patch)).collect();
        let tally = alone(pages, patches, forward(0, pages));
        let (took, most) = (seconds(&tally), seconds(&cold) * 1.1);
        println!("patches of {patch} pages: {took:.3} s, {} requests; cold {:.3} s", requests(&tally), seconds(&cold));
        assert!(took <= most, "patches of {patch} pages: {took} s for {most}");
    }
}

/// Sixteen readers of what the tier has take no place at the storage from one that reads what it
/// does not have: it has its share of memory, and the whole link.
#[test]
fn cached_streams_cost_remote_ones_no_place_at_the_storage() {
    let pages = 256 * MIB;
    let remote = alone(pages, vec![], forward(0, pages));
    let warm = |file: u64| if file == 0 { vec![] } else { vec![Extent::new(0, pages)] };
    let readers = Readers::new(256 << 20, pages, (0..17).map(|file| (file, forward(0, pages), 0)).collect());
    let beside = Readers { beside: Some(1), tier: Some(tier((0..17).map(warm).collect())), ..readers }.run();
    assert!(seconds(&beside) <= seconds(&remote) * 1.5, "{} for {}", seconds(&beside), seconds(&remote));
    assert!(requests(&beside) <= requests(&remote) * 3 / 2, "{} for {}", requests(&beside), requests(&remote));
}

/// A file that lies on the disk but for a hole of 192 KiB after each 3.5 MiB: what came too fast
/// to be written. It is read through the page cache of a kernel, with small windows and large
/// ones.
#[test]
fn a_file_with_holes_is_read_no_slower_than_one_that_is_all_remote() {
    let pages = 1024 * MIB;
    let (cached, step) = (MIB * 7 / 2, MIB * 7 / 2 + 48);
    let warm: Vec<Extent> =
        (0..pages).step_by(step as usize).map(|start| Extent::new(start, (start + cached).min(pages))).collect();
    for (memory_mib, window_kib) in [(96, 128), (96, 1024), (256, 128), (256, 1024), (1024, 128)] {
        let run = |warm: Vec<Extent>| {
            let readers = Readers::new(memory_mib << 20, pages, vec![(0, forward(0, pages), 0)]);
            let tier = Some(tier(vec![warm]));
            Readers { kernel_window_bytes: Some(window_kib << 10), tier, ..readers }.run()
        };
        let (cold, holes) = (run(vec![]), run(warm.clone()));
        println!("{memory_mib} MiB, {window_kib} KiB: {:.2} s, all remote {:.2} s", seconds(&holes), seconds(&cold));
        assert!(seconds(&holes) <= seconds(&cold), "{memory_mib} MiB, {window_kib} KiB");
    }
}

/// A disk that has `warm`, answers after `first_byte_us`, and carries `mb_per_s`.
fn disk(first_byte_us: u64, mb_per_s: u64, warm: Vec<Vec<Extent>>) -> Tiered {
    let rate = Rate::per_second(mb_per_s * 1_000_000);
    let device = Profile::ObjectStore(object_store::Config {
        first_byte: FirstByte::fixed(first_byte_us * 1000),
        connection_rate: rate,
        total_rate: rate,
        ..object_store::Config::default()
    });
    Tiered { device, ..tier(warm) }
}

fn spinning(warm: Vec<Vec<Extent>>) -> Tiered {
    Tiered { device: profile::find("hdd-w1").expect("a built-in disk"), ..tier(warm) }
}

#[test]
fn a_disk_that_is_slower_than_the_link_makes_no_stream_slower_than_the_link() {
    let pages = 512 * MIB;
    let warm = || vec![vec![Extent::new(0, pages)]];
    let run = |memory_mib: u64, tier: Tiered| {
        let readers = vec![(0, forward(0, pages), 0)];
        Readers { tier: Some(tier), ..Readers::new(memory_mib << 20, pages, readers) }.run()
    };
    let disks = [(1_000, 60), (1_000, 125), (1_000, 250), (200, 800), (10_000, 500)];
    for memory_mib in [64, 256, 1024] {
        let cold = seconds(&run(memory_mib, tier(vec![])));
        let disks = disks.iter().map(|&(us, mb)| (format!("{us} us, {mb} MB/s"), disk(us, mb, warm())));
        for (name, tier) in disks.chain([("hdd-w1".into(), spinning(warm()))]) {
            let tally = run(memory_mib, tier);
            let took = seconds(&tally);
            println!("{name}, {memory_mib} MiB: {took:.2} s, {} requests; cold {cold:.2} s", requests(&tally));
            assert!(took <= 1.05 * cold, "{name}, {memory_mib} MiB: {took} s for {cold}");
        }
        let fast = run(memory_mib, disk(200, 2_000, warm()));
        assert_eq!(requests(&fast), 0, "{memory_mib} MiB: the disk is faster than the link");
    }
}

/// What the link carries shows with what is remote. Until then it is not tried on behalf of a disk
/// that is no slow one.
#[test]
fn a_disk_is_helped_by_a_link_that_is_known_to_be_faster() {
    let pages = 512 * MIB;
    let half = vec![vec![Extent::new(256 * MIB, pages)]];
    let tally = alone_with(disk(200, 500, half), pages);
    let cold = alone_with(tier(vec![]), pages);
    assert!(seconds(&tally) <= 1.05 * seconds(&cold), "{} for {}", seconds(&tally), seconds(&cold));
    let all = vec![vec![Extent::new(0, pages)]];
    assert_eq!(requests(&alone_with(disk(200, 500, all), pages)), 0);
}

fn alone_with(tier: Tiered, pages: u64) -> Tally {
    let readers = vec![(0, forward(0, pages), 0)];
    Readers { tier: Some(tier), ..Readers::new(256 << 20, pages, readers) }.run()
}

#[test]
fn a_reader_that_a_slow_disk_keeps_up_with_asks_the_storage_for_little() {
    let pages = 64 * MIB;
    // 128 KiB each 5 ms: 26 MB/s of the 60 that the disk carries.
    let reads = readers::forward(0, pages, 32);
    let readers = Readers::new(256 << 20, pages, vec![(0, reads, 5_000_000)]);
    let tally = Readers { tier: Some(disk(1_000, 60, vec![vec![Extent::new(0, pages)]])), ..readers }.run();
    assert!(requests(&tally) <= 4, "{}", requests(&tally));
}

/// A disk that spins gives a hundred pages a second to many readers. The storage gives each of
/// them thirty.
#[test]
fn random_readers_of_a_busy_disk_are_sent_past_it() {
    let pages = 1024 * MIB;
    let random = |reader: u64| {
        let mut random = Random::new(reader);
        (0..100).map(|_| random.below(pages)).map(|page| Extent::new(page, page + 1)).collect()
    };
    for (readers, most) in [(64, 1.5), (8, 1.5), (2, 0.5)] {
        let each: Vec<_> = (0..readers).map(|reader| (0, random(reader), 0)).collect();
        let run = |tier: Tiered| Readers { tier: Some(tier), ..Readers::new(256 << 20, pages, each.clone()) }.run();
        let warm = vec![vec![Extent::new(0, pages)]];
        let (busy, cold) = (run(spinning(warm.clone())), run(tier(vec![])));
        println!("{readers}: {:.2} s, cold {:.2} s, {} requests", seconds(&busy), seconds(&cold), requests(&busy));
        assert!(seconds(&busy) <= most * seconds(&cold), "{readers}: {} s", seconds(&busy));
        assert_eq!(requests(&run(tier(warm))), 0, "{readers}: a fast disk");
    }
}

/// Of many readers each has a small window, and all of it is demanded: a late disk is passed
/// by them as well.
#[test]
fn many_readers_of_a_slow_disk_are_little_slower_than_without_it() {
    let pages = 128 * MIB;
    for (mb_per_s, memory_mib, readers) in
        [(60, 16, 16), (60, 64, 16), (60, 1024, 16), (60, 64, 200), (60, 1024, 200), (6, 16, 16), (6, 64, 16)]
    {
        let length = if readers > 16 { pages / 16 } else { pages };
        let run = |tier: Tiered| {
            let each = (0..readers).map(|file| (file, forward(0, length), 0)).collect();
            Readers { tier: Some(tier), ..Readers::new(memory_mib << 20, pages, each) }.run()
        };
        let warm = (0..readers).map(|_| vec![Extent::new(0, pages)]).collect();
        let (slow, cold) = (run(disk(100, mb_per_s, warm)), run(tier(vec![vec![]; readers as usize])));
        // Nothing is known of a disk of 6 MB/s at the start: what it is asked for takes longest.
        let times = if mb_per_s < 60 { 1.6 } else { 1.5 };
        let (took, most) = (seconds(&slow), (times * seconds(&cold)).min(5.0));
        println!("{mb_per_s} MB/s, {memory_mib} MiB, {readers} readers: {took:.2} s, cold {:.2} s", seconds(&cold));
        assert!(took <= most, "{mb_per_s} MB/s, {memory_mib} MiB, {readers} readers: {took} s for {most}");
    }
}
