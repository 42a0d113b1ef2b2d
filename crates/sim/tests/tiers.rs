//! Streams over files of which a tier has some: a local disk in front of a store with 30 ms to the
//! first byte, 80 MB/s a connection and 900 MB/s in all.

#[path = "store/readers.rs"]
mod readers;

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
