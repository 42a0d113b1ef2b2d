//! Orders that a program tells, and how much of them may be ahead of it.

use super::*;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// Tells an order, and how much of it may be ahead, and lets what is fetched come.
fn told(driver: &mut Driver, order: &[(u64, u32)], bytes: Option<u64>) {
    let files: Vec<_> = order.iter().map(|&(dir, entry)| (DirId(dir), entry)).collect();
    driver.tell(DirEvent::Expected { files: &files, ahead_bytes: bytes, continues: false });
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
                assert_eq!(u64::from(driver.requests - before), nth as u64 + 1 + files, "each file once");
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

/// A driver may tell places before it tells the page that they are of.
#[test]
fn what_is_told_before_the_first_page_is_not_forgotten_with_it() {
    let mut driver = Driver::new(tree(0, 0, 100, 2), OPTIONS);
    driver.tell(DirEvent::Read { dir: DirId(0), entry: 0, found: Found::Absent });
    let files = [7, 3, 9].map(|entry| (DirId(0), entry));
    driver.tell(DirEvent::Expected { files: &files, ahead_bytes: Some(u64::MAX), continues: false });
    driver.listing.clear();
    // None was there before: they are like nothing.
    let children = driver.tree[&0].clone();
    let (page, others) = children.split_at(50);
    let (dir, same, bytes) = (DirId(0), false, 1);
    driver.tell(DirEvent::Listed { dir, first: true, same, children: page, last: false, bytes });
    driver.tell(DirEvent::Listed { dir, first: false, same, children: others, last: true, bytes });
    assert_eq!(driver.fetching, BTreeSet::from([(0, 3), (0, 7), (0, 9)]));
    // The files have other names from now on.
    rest(&mut driver);
    driver.tell(DirEvent::Listed { dir, first: true, same, children: &children, last: true, bytes });
    driver.open(0, 7);
    assert_eq!(driver.fetching, BTreeSet::new());
}

/// Files that had no room, or whose room was taken for others, say nothing of the order.
#[test]
fn an_order_that_is_told_is_followed_though_its_files_do_not_stay() {
    let order = shuffled(2000);
    for bytes in [None, Some(40 * PAGE_BYTES)] {
        let mut driver = Driver::new(tree(0, 0, 2000, 2), OPTIONS);
        driver.read(0);
        told(&mut driver, &order, bytes);
        for pair in order[..100].windows(2) {
            let (dir, entry) = pair[0];
            driver.tell(DirEvent::Opened { dir: DirId(dir), entry, found: Found::Absent });
            driver.fetched.remove(&pair[0]);
            rest(&mut driver);
            assert!(driver.fetched.contains(&pair[1]), "{entry} is opened, and the next one is ahead");
        }
    }
}

/// Workers of two programs, each with an order of its own over the same files.
#[test]
fn the_orders_of_two_programs_are_both_followed() {
    for bytes in [None, Some(40 * PAGE_BYTES)] {
        let mut driver = Driver::new(tree(0, 0, 2000, 2), OPTIONS);
        driver.read(0);
        let orders = [shuffled(2000), shuffled(2000).into_iter().rev().collect()];
        for order in &orders {
            told(&mut driver, order, bytes);
        }
        let (mut opened, mut absent) = (BTreeSet::new(), 0);
        for nth in 0..500 {
            for order in &orders {
                absent += u32::from(!driver.fetched.contains(&order[nth]) && opened.insert(order[nth]));
                driver.open(order[nth].0, order[nth].1);
                rest(&mut driver);
            }
        }
        assert!(absent <= 10, "{absent} of 1,000 files were not ahead");
    }
}
