//! What is kept of each page of a region's length, beside its budget: a process of its own.

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

#[test]
fn a_page_of_the_length_takes_21_bytes_beside_the_budget() {
    let (len, budget) = (16 << 30, 4 * MIB);
    let before = resident();
    let spill = Arc::new(Sparse::default());
    let builder = Region::anonymous(len).budget(budget).spill_to(Arc::clone(&spill) as Arc<dyn Spill>);
    let mut region = builder.create().expect("a region");
    let made = resident() - before;
    // Pages everywhere; all but a few leave.
    let step = len / 8192;
    for at in (0..len).step_by(step) {
        region[at] = 1;
    }
    assert!((0..len).step_by(step).all(|at| region[at] == 1));
    let spilled = spill.0.lock().expect("no thread panicked").len() * (PAGE + 64);
    let used = resident() - before - spilled.min(resident() - before);
    let bound = 21 * (len / PAGE);
    assert!(made <= bound + 2 * MIB, "{made} bytes for {} pages when it was made", len / PAGE);
    // The kernel's and policy's own, for pages that have been used, are a part of it.
    assert!(used <= bound + budget + budget / 20 + 4 * MIB, "{used} bytes, budget {budget}: {:?}", region.stats());
    println!("{:.2} bytes a page when it is made", made as f64 / (len / PAGE) as f64);
}
