//! Orders that a program tells, and how much of them may be ahead of it.

use super::*;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// Tells an order, and how much of it may be ahead, and lets what is fetched come.
fn told(driver: &mut Driver, order: &[(u64, u32)], bytes: Option<u64>) {
    driver.tell(DirEvent::Ahead { bytes });
    for &(dir, entry) in order {
        driver.tell(DirEvent::Expected { dir: DirId(dir), entry });
    }
    rest(driver);
}

fn rest(driver: &mut Driver) {
    while !driver.fetching.is_empty() {
        driver.round();
    }
}

/// Each file of the directory 0, in another order than that of the listing.
fn shuffled(files: u32) -> Vec<(u64, u32)> {
    (0..files).map(|nth| (0, nth * 389 % files)).collect()
}

#[test]
fn no_more_is_ahead_than_the_program_says() {
    let sorted: Vec<_> = (0..2000).map(|entry| (0, entry)).collect();
    for order in [shuffled(2000), sorted] {
        for bytes in [0, 3 * PAGE_BYTES - 1, 40 * PAGE_BYTES, 700 * PAGE_BYTES] {
            let mut driver = Driver::new(tree(0, 0, 2000, 2), OPTIONS);
            driver.read(0);
            let before = driver.requests;
            told(&mut driver, &order, Some(bytes));
            let files = bytes / (2 * PAGE_BYTES);
            assert_eq!(driver.fetched.len() as u64, files, "{bytes} bytes, at first");
            // Behind the end of the order begins its next epoch.
            for (nth, &(dir, entry)) in order.iter().enumerate().take(1000) {
                driver.open(dir, entry);
                rest(&mut driver);
                assert_eq!(driver.fetched.len() as u64, files, "{bytes} bytes: as much as may be");
                assert_eq!((driver.requests - before) as u64, nth as u64 + 1 + files, "each file once");
            }
            assert_eq!(driver.discarded, 0);
        }
    }
}

#[test]
fn siblings_are_within_what_the_program_says() {
    for (bytes, are_fetched) in [(100 * 2 * PAGE_BYTES, false), (300 * 2 * PAGE_BYTES, true)] {
        let mut driver = Driver::new(tree(0, 0, 2000, 2), OPTIONS);
        driver.read(0);
        told(&mut driver, &shuffled(2000)[..110], Some(bytes));
        let before = driver.fetched.len();
        // Not in the order that was told, and in none.
        let order = shuffled(2000);
        for entry in [700, 1500, 1100].map(|nth| order[nth].1) {
            driver.open(0, entry);
            rest(&mut driver);
        }
        assert_eq!(driver.fetched.len() > before, are_fetched, "{bytes} bytes");
    }
}

#[test]
fn the_budget_bounds_what_the_program_says() {
    let shares = DirShares { contents_bytes: 400 * PAGE_BYTES, ..OPTIONS.shares };
    let mut driver = Driver::new(tree(0, 0, 2000, 2), DirOptions { shares, ..OPTIONS });
    driver.read(0);
    told(&mut driver, &shuffled(2000), Some(u64::MAX));
    assert_eq!(driver.fetched.len(), 100, "a half of what may be fetched");
}

#[test]
fn what_the_program_says_ends_with_its_order() {
    let mut driver = Driver::new(tree(0, 0, 2000, 2), OPTIONS);
    driver.read(0);
    told(&mut driver, &shuffled(2000), Some(0));
    driver.tell(DirEvent::Unexpected);
    assert_eq!(driver.fetched.len(), 0);
    told(&mut driver, &shuffled(2000), None);
    assert_eq!(driver.fetched.len(), 8);
}
