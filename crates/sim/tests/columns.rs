//! Files of one column that say where its chunks lie, beside the same files that do not say it: in
//! a store that answers after 30 ms, sends 80 MB/s a request and 900 MB/s in all.
//!
//! Such a file has a chunk a group, one behind the other, so a stream does well without being
//! told. What the file says should be worth no less.

#[path = "store/readers.rs"]
mod readers;

use foreread_policy::Extent;
use foreread_sim::{Chunk, Tally};
use foreread_workload::Metric;
use readers::{MIB, Readers, forward};

/// The windows of kernels: that of Linux, and the largest that a mount has.
const WINDOWS: [u64; 2] = [128 << 10, 4 << 20];

/// One column in `groups` of so many pages, none of them a whole number of windows.
struct Column {
    groups: u64,
    pages: u64,
}

impl Column {
    /// 128 MiB in chunks of so many MiB, and a little more.
    fn of(mib: u64) -> Self {
        Self { groups: 128 / mib, pages: mib * MIB + 5 + mib * 4 }
    }

    fn chunks(&self) -> Vec<Chunk> {
        let lies = |group: u64| Extent::new(group * self.pages, (group + 1) * self.pages);
        (0..self.groups).map(|group| Chunk { extent: lies(group), group: group as u32, column: 0 }).collect()
    }

    /// What `threads` read that take one group after the other in turn, `step` pages a read.
    fn readers(&self, threads: u64, step: u64) -> Vec<(u64, Vec<Extent>, u64)> {
        let chunk = |group: u64| forward(group * self.pages, (group + 1) * self.pages, step);
        let of = |thread: u64| (thread..self.groups).step_by(threads as usize).flat_map(chunk).collect();
        (0..threads).map(|thread| (0, of(thread), 0)).collect()
    }

    /// Reads all of it through a kernel with such a `window`: as the file says where its chunks
    /// lie, or does not.
    fn read(&self, threads: u64, step: u64, window: u64, is_told: bool) -> Tally {
        let chunks = if is_told { self.chunks() } else { Vec::new() };
        let readers = Readers::new(256 << 20, self.groups * self.pages, self.readers(threads, step));
        Readers { kernel_window_bytes: Some(window), chunks, ..readers }.run()
    }

    /// The time with what the file says for each 100 without, the bytes fetched for each byte
    /// asked, and the requests of both.
    fn compare(&self, threads: u64, step: u64, window: u64) -> (u64, f64, [u64; 2]) {
        let [told, without] = [true, false].map(|is_told| self.read(threads, step, window, is_told));
        let amplification = told.figure(Metric::Amp).unwrap();
        (told.elapsed_ns() * 100 / without.elapsed_ns(), amplification, [told.requests(), without.requests()])
    }
}

/// Each reads a chunk of its own, 128 KiB at a time or all of it.
#[test]
fn four_threads_are_no_slower() {
    for (mib, window) in [1, 8, 32].into_iter().flat_map(|mib| WINDOWS.map(|window| (mib, window))) {
        let column = Column::of(mib);
        let (time, amplification, [told, without]) = column.compare(4, 32, window);
        assert!(time <= 101, "{mib} MiB, a window of {window}: {time} %");
        assert!(amplification <= 1.01, "{mib} MiB, a window of {window}: {amplification}");
        assert!(told <= without * 2, "{mib} MiB, a window of {window}: {told} requests, {without}");
        // Whole chunks through large windows: four of them fill the link from the first moment.
        let (time, ..) = column.compare(4, column.pages, window);
        assert!(time <= 114, "whole chunks of {mib} MiB, a window of {window}: {time} %");
    }
}

/// One thread reads the whole file. Without what the file says its stream is trusted from the
/// first read on; with it, the second group has to be read first. That costs a round trip, and of
/// chunks of 32 MiB, of which few are on their way at first, two.
#[test]
fn one_thread_waits_for_few_round_trips_more() {
    let chunks = [(1, 40), (8, 40), (32, 70)];
    for ((mib, most_ms), window) in chunks.into_iter().flat_map(|chunk| WINDOWS.map(|window| (chunk, window))) {
        let column = Column::of(mib);
        let [told, without] = [true, false].map(|is_told| column.read(1, 32, window, is_told));
        let more_ms = told.elapsed_ns().saturating_sub(without.elapsed_ns()) / 1_000_000;
        assert!(more_ms <= most_ms, "{mib} MiB, a window of {window}: {more_ms} ms");
    }
}

/// A reader of single groups here and there has nothing else fetched.
#[test]
fn groups_that_are_read_alone_come_alone() {
    let column = Column::of(8);
    let reads: Vec<Extent> =
        [9, 3, 14, 6].iter().flat_map(|&group| column.readers(column.groups, 32)[group].1.clone()).collect();
    let readers = || Readers::new(256 << 20, column.groups * column.pages, vec![(0, reads.clone(), 0)]);
    let told = Readers { chunks: column.chunks(), ..readers() }.run();
    assert!(told.figure(Metric::Amp).unwrap() <= 1.01, "{:?}", told.figure(Metric::Amp));
    let without = readers().run();
    assert!(without.figure(Metric::Amp).unwrap() > 1.3, "{:?}", without.figure(Metric::Amp));
}
