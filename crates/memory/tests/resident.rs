//! How much memory a region and its pager take: at most the budget and a twentieth of it, in every
//! access pattern. A process of its own.

use foreread_memory::Region;

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("it is always there");
    let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * PAGE
}

#[test]
fn a_region_stays_within_its_budget() {
    let (len, budget) = (384 * MIB, 96 * MIB);
    let dir = tempfile::tempdir().expect("a directory");
    let before = resident();
    let mut region = Region::anonymous(len).budget(budget).spill(dir.path()).create().expect("a region");
    let pages = len / PAGE;
    let mut most = 0;
    let mut touched = |region: &mut Region, page: usize, write: bool| {
        if write {
            region[page * PAGE..][..8].copy_from_slice(&page.to_le_bytes());
        } else {
            assert_eq!(region[page * PAGE..][..8], page.to_le_bytes());
        }
        if page.is_multiple_of(512) {
            most = most.max(resident().saturating_sub(before));
        }
    };
    (0..pages).for_each(|page| touched(&mut region, page, true));
    (0..pages).for_each(|page| touched(&mut region, page, false));
    (0..pages).rev().for_each(|page| touched(&mut region, page, false));
    // A quarter of the pages, in no order; one in three is written.
    (0..pages / 4).map(|n| n * 52_541 % pages).for_each(|page| touched(&mut region, page, page % 3 == 0));
    assert!(most >= budget * 9 / 10, "{most} bytes of {budget} were used");
    assert!(most <= budget + budget / 20, "{most} bytes with a budget of {budget}: {:?}", region.stats());
    drop(region);
    let after = resident().saturating_sub(before);
    assert!(after <= budget / 20, "{after} bytes are left");
}
