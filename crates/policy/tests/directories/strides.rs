//! Files that are opened at equal distances, in one directory and across many, either way.

use foreread_policy::{Child, DirEvent, DirId, DirOptions, DirShares, Found};

use super::{Driver, OPTIONS, Tree, tree};

/// All files in the order of the listings, depth first.
fn files(tree: &Tree, dir: u64) -> Vec<(u64, u32)> {
    let below = |(entry, child): (usize, &Child)| match child {
        Child::Directory(DirId(below)) => files(tree, *below),
        Child::File { .. } => vec![(dir, entry as u32)],
    };
    tree[&dir].iter().enumerate().flat_map(below).collect()
}

/// Opens files of a tree that has been read, in an order that depends on all of them. Returns the
/// driver afterwards, and how many files were opened.
fn opened(tree: Tree, order: impl Fn(Vec<(u64, u32)>) -> Vec<(u64, u32)>) -> (Driver, u32) {
    let shares = DirShares { known_bytes: 64 << 20, ..OPTIONS.shares };
    let mut driver = Driver::new(tree, DirOptions { below: true, shares, ..OPTIONS });
    (driver.page, driver.below) = (1000, 1000);
    driver.walk(0, false);
    let order = order(files(&driver.tree, 0));
    (driver.rounds, driver.requests) = (0, 0);
    for &(dir, entry) in &order {
        driver.open(dir, entry);
    }
    (driver, order.len() as u32)
}

fn every(step: usize) -> impl Fn(Vec<(u64, u32)>) -> Vec<(u64, u32)> {
    move |files| files.into_iter().step_by(step).collect()
}

fn last_first(step: usize) -> impl Fn(Vec<(u64, u32)>) -> Vec<(u64, u32)> {
    move |files| files.into_iter().rev().step_by(step).collect()
}

#[test]
fn every_nth_file_is_fetched_before_it_is_opened() {
    for step in [2, 3, 7, 10, 63, 100] {
        for (shape, tree) in
            [("flat", tree(0, 0, 10_000, 2)), ("directories", tree(1, 1_000, 10, 2)), ("deep", tree(3, 10, 9, 2))]
        {
            for (way, (driver, opens)) in
                [("forward", opened(tree.clone(), every(step))), ("back", opened(tree.clone(), last_first(step)))]
            {
                let of = format!(
                    "{shape}, every {step}, {way}: {} rounds, {} requests for {opens} files",
                    driver.rounds, driver.requests
                );
                println!("{of}");
                // Each takes a round by itself; ahead are 64 at most.
                assert!(driver.rounds <= opens / 16 + 12, "{of}");
                assert!(driver.requests <= opens + opens / 50 + 32, "{of}");
            }
        }
    }
}

#[test]
fn files_from_the_last_to_the_first_are_fetched_across_directories() {
    let (driver, opens) = opened(tree(1, 300, 3, 2), last_first(1));
    assert!(driver.rounds <= opens / 16 + 12, "{} rounds for {opens} files", driver.rounds);
}

/// What has come of a listing ends in the middle of its directory.
#[test]
fn a_stride_does_not_leave_a_directory_of_which_only_a_part_is_known() {
    let mut all = tree(1, 2, 10, 2);
    all.insert(1, vec![Child::File { pages: 2, kind: 0, stem: 0 }; 5_000]);
    let mut driver = Driver::new(all, DirOptions { below: true, ..OPTIONS });
    driver.page = 1000;
    driver.read(0);
    driver.read(2);
    driver.tell(DirEvent::Read { dir: DirId(1), entry: 0, found: Found::Absent });
    driver.answer_listing(1);
    let known = driver.known[&1].0 as u32;
    assert!(known < 5_000, "{known} entries have come");
    driver.listing.clear();
    for entry in (0..known).step_by(7) {
        driver.open(1, entry);
    }
    let fetched: Vec<_> = driver.fetched.iter().chain(&driver.fetching).copied().collect();
    assert!(fetched.iter().all(|&(dir, _)| dir == 1), "{fetched:?}");
}
