//! What is kept of each page of a region's length: a process of its own.

#![allow(unsafe_code, reason = "a spill of the test's own")]

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use foreread_memory::{Region, Spill};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

/// A spill that takes room for what is written only, so that a long region needs no long file.
#[derive(Default)]
struct Sparse(Mutex<HashMap<u64, Vec<u8>>>);

// SAFETY: a read gives what was written.
unsafe impl Spill for Sparse {
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let pages = self.0.lock().expect("no thread panicked");
        for (at, page) in (offset..).step_by(PAGE).zip(into.chunks_mut(PAGE)) {
            page.copy_from_slice(pages.get(&at).ok_or(io::ErrorKind::NotFound)?);
        }
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        let mut pages = self.0.lock().expect("no thread panicked");
        pages.extend((offset..).step_by(PAGE).zip(from.chunks(PAGE).map(<[u8]>::to_vec)));
        Ok(())
    }
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("it is always there");
    let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * PAGE
}

/// What the process has for a region whose length is `ratio` times its budget, once every part of
/// it has been used and the budget is full: at most, in bytes, and when it was made.
fn used(ratio: usize, budget: usize) -> (usize, usize) {
    let len = ratio * budget;
    let spill = Arc::new(Sparse::default());
    let before = resident();
    let builder = Region::anonymous(len).budget(budget).spill_to(Arc::clone(&spill) as Arc<dyn Spill>);
    let mut region = builder.create().expect("a region");
    let made = resident().saturating_sub(before);
    let mut most = 0;
    let mut measure = |n: usize| {
        if n.is_multiple_of(1024) {
            let spilled = spill.0.lock().expect("no thread panicked").len() * (PAGE + 64);
            most = most.max(resident().saturating_sub(before + spilled));
        }
    };
    for round in 0..2 {
        // A page in each part; zeroes leave no copy.
        for (n, at) in (0..len).step_by(256 * PAGE).enumerate() {
            assert_eq!(region[at], 0);
            measure(n);
        }
        for n in 0..budget * 3 / 2 / PAGE {
            let at = (n * PAGE + 8) % len;
            assert_eq!(region[at], round);
            region[at] = round + 1;
            measure(n);
        }
    }
    (most, made)
}

/// A region takes the budget and a twentieth, tables of its pages included, where it is up to a
/// hundred times as long. Beyond that tables take at most a half of the budget, and the rest is
/// added.
#[test]
fn tables_of_pages_are_within_the_budget_whatever_the_length() {
    let budget = 32 * MIB;
    for ratio in [2, 8, 64, 512] {
        let (most, made) = used(ratio, budget);
        let tables = 21 * (ratio * budget / PAGE);
        let bound = budget + budget / 20 + tables.saturating_sub(budget / 2);
        println!("{ratio} times the budget: {made} bytes when it is made, {most} at most, of {bound}");
        assert!(made <= 2 * MIB, "{ratio} times the budget: {made} bytes when it was made");
        assert!(most <= bound, "{ratio} times the budget: {most} bytes, {bound} at most");
        assert!(most >= budget * 4 / 5, "{ratio} times the budget: {most} bytes, so it was not full");
    }
}
