//! Trees of every shape: how they are walked, and that subtree requests cost no rounds.

use foreread_policy::{Child, DirId, DirOptions, DirShares, Nanos};
use proptest::prelude::*;

use super::{Driver, OPTIONS, Tree, tree};

#[test]
fn a_deep_tree_takes_as_many_rounds_as_levels() {
    let mut driver = Driver::new(tree(6, 2, 1, 2), OPTIONS);
    driver.walk(0, false);
    assert_eq!(driver.known.len(), 127);
    assert!(driver.rounds <= 12, "{} rounds", driver.rounds);
}

#[test]
fn small_directories_are_listed_together() {
    let below = DirOptions { below: true, ..OPTIONS };
    let small = || tree(1, 200, 4, 2);
    let (mut single, mut together) = (Driver::new(small(), OPTIONS), Driver::new(small(), below));
    for driver in [&mut single, &mut together] {
        driver.read(0);
        (driver.rounds, driver.requests) = (0, 0);
        driver.walk(0, false);
    }
    assert!(together.rounds < single.rounds, "{} rounds, one by one {}", together.rounds, single.rounds);
    assert!(together.requests * 4 <= single.requests, "{} requests, one by one {}", together.requests, single.requests);
}

#[test]
fn large_and_deep_directories_are_listed_one_by_one() {
    for tree in [tree(1, 100, 200, 2), tree(3, 10, 20, 2)] {
        let dirs = tree.len();
        let mut driver = Driver::new(tree, DirOptions { below: true, ..OPTIONS });
        driver.walk(0, false);
        let tried = driver.counters().lists_below as usize;
        assert!(tried <= dirs.div_ceil(100), "{tried} subtree requests for {dirs} directories");
    }
}

/// A tree whose levels have so many subdirectories in each directory.
fn levels(wide: &[u64], files: usize) -> Tree {
    let (mut tree, mut level, mut next) = (Tree::new(), vec![0], 1);
    for wide in wide.iter().copied().chain([0]) {
        let mut under = Vec::new();
        for dir in level {
            let dirs = next..next + wide;
            next = dirs.end;
            under.extend(dirs.clone());
            // Names of directories are taken to come before those of files.
            let files =
                std::iter::repeat_n(Child::File { pages: 2, kind: 0, stem: 0 }, if wide == 0 { files } else { 0 });
            tree.insert(dir, dirs.map(|dir| Child::Directory(DirId(dir))).chain(files).collect());
        }
        level = under;
    }
    tree
}

/// Rounds and requests of a walk through a tree, with subtree requests or without.
fn walked(tree: Tree, below: bool, first_byte_ms: u64) -> (u32, u32) {
    let shares = DirShares { known_bytes: 64 << 20, ..OPTIONS.shares };
    let mut driver = Driver::new(tree, DirOptions { below, shares, ..OPTIONS });
    // As stores answer.
    (driver.page, driver.below, driver.first_byte) = (1000, 1000, Nanos::from_millis(first_byte_ms));
    driver.walk(0, false);
    (driver.rounds, driver.requests)
}

/// Whatever the shape, subtree requests cost neither rounds nor requests; most trees take a few
/// requests for each page of their names.
#[test]
fn trees_of_every_shape_are_listed_in_as_few_rounds_as_without_subtrees() {
    let shapes: [(&[u64], usize, bool); 16] = [
        (&[10], 10, false),
        (&[100], 10, true),
        (&[1000], 10, true),
        (&[10_000], 10, true),
        (&[1000], 300, false),
        (&[20, 20, 10], 10, true),
        (&[20, 20, 10], 1, true),
        (&[20, 20, 10], 60, false),
        (&[10, 10, 40], 10, true),
        (&[40, 10, 10], 10, true),
        (&[4, 4, 4, 4, 4, 4], 10, true),
        (&[3, 3, 3, 3, 3, 3], 10, false),
        (&[2, 2, 2, 2, 2, 100], 10, true),
        (&[100, 1, 1, 40], 10, true),
        (&[1, 1, 1, 1, 1, 500], 10, true),
        (&[30, 30], 300, false),
    ];
    for (wide, files, is_small) in shapes {
        for first_byte_ms in [30, 200] {
            let tree = || levels(wide, files);
            let (single, together) = (walked(tree(), false, first_byte_ms), walked(tree(), true, first_byte_ms));
            let of = format!("{wide:?}, {files} files, {first_byte_ms} ms: {together:?}, one by one {single:?}");
            assert!(together.0 * 50 <= single.0 * 51, "more rounds: {of}");
            assert!(together.1 * 50 <= single.1 * 51, "more requests: {of}");
            let pages = tree().values().map(Vec::len).sum::<usize>().div_ceil(1000) as u32;
            if is_small && first_byte_ms <= 30 {
                assert!(together.0 <= pages / 2 + 12, "more rounds than for {pages} pages: {of}");
                assert!(together.1 <= 16 * pages + 80, "more requests than for {pages} pages: {of}");
            }
        }
    }
}

/// A chain of directories, of one directory and one file each, and a tree at its end.
fn chain(links: u64, end: &[u64], files: usize) -> Tree {
    let file = Child::File { pages: 2, kind: 0, stem: 0 };
    let below = levels(end, files).into_iter().map(|(dir, children)| {
        let moved = children.into_iter().map(|child| match child {
            Child::Directory(below) => Child::Directory(DirId(below.0 + links)),
            Child::File { .. } => child,
        });
        (dir + links, moved.collect())
    });
    (0..links).map(|dir| (dir, vec![Child::Directory(DirId(dir + 1)), file])).chain(below).collect()
}

#[test]
fn a_chain_is_listed_by_one_request_once_it_is_known_for_one() {
    for (links, most) in [(5, 6), (50, 8), (500, 8)] {
        for first_byte_ms in [1, 30, 300] {
            let (rounds, requests) = walked(chain(links, &[], 1), true, first_byte_ms);
            let of = format!("{links} links, {first_byte_ms} ms");
            assert!(requests <= most, "{requests} requests: {of}");
            assert!(rounds <= most + 2, "{rounds} rounds: {of}");
        }
    }
}

/// What lies behind a chain may be more than an answer holds.
#[test]
fn a_large_tree_behind_a_chain_costs_few_requests_more() {
    for links in [3, 4, 5, 6, 10, 20, 50] {
        for (end, files) in [(&[100_u64][..], 100), (&[], 20_000), (&[3, 3, 3, 3], 300), (&[10, 10], 1000)] {
            let tree = || chain(links, end, files);
            let (single, together) = (walked(tree(), false, 30), walked(tree(), true, 30));
            let of = format!("{links} links, {end:?}, {files} files: {together:?}, one by one {single:?}");
            // One in vain, and four links that were listed one by one before the next.
            let tried = links.div_ceil(4) as u32;
            assert!(together.0 <= single.0 + tried, "more rounds: {of}");
            assert!(together.1 <= single.1 + tried, "more requests: {of}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn subtree_requests_cost_no_tree_rounds(
        wide in prop::collection::vec(1u64..30, 1..7),
        files in prop_oneof![0usize..20, 20usize..400],
        first_byte_ms in 1u64..200,
    ) {
        let mut dirs = 1;
        let fits = |wide: &&u64| { dirs *= **wide; dirs <= 3_000 };
        let wide: Vec<u64> = wide.iter().take_while(fits).copied().collect();
        let tree = || levels(&wide, files);
        let (single, together) = (walked(tree(), false, first_byte_ms), walked(tree(), true, first_byte_ms));
        let of = format!("{wide:?}, {files} files: {together:?}, one by one {single:?}");
        // A request on trial may be in vain at each depth: a round for each. Of many trees a few
        // take up to a sixth more rounds, for a quarter of the requests or a little less than all.
        let trials = wide.len() as u32;
        prop_assert!(together.0 * 5 <= single.0 * 6 + 5 * trials, "more rounds: {of}");
        prop_assert!(together.1 * 50 <= single.1 * 51 + 50 * 16, "more requests: {of}");
    }
}

/// A tree of 200 small directories of one to four files, below `above` levels of one directory.
fn small_directories(above: usize) -> Tree {
    let mut tree = levels(&[&vec![1; above][..], &[200]].concat(), 0);
    for (nth, entries) in tree.values_mut().filter(|entries| entries.is_empty()).enumerate() {
        let file = Child::File { pages: 1 + nth as u64 * 7 % 12, kind: 0, stem: 0 };
        *entries = vec![file; 1 + nth * 5 % 4];
    }
    tree
}

/// A program looks up each name below `dir`, and reads the files, as `tar` does. Each step takes
/// it as long.
fn pack(driver: &mut Driver, dir: u64, step: Nanos) {
    driver.read(dir);
    for (entry, child) in (0..).zip(driver.tree[&dir].clone()) {
        driver.now = Nanos(driver.now.0 + step.0);
        driver.look_up(dir, entry);
        match child {
            Child::Directory(below) => pack(driver, below.0, step),
            Child::File { .. } => driver.open(dir, entry),
        }
    }
}

/// A program that reads all files of a tree finds them as well where it begins higher.
#[test]
fn files_are_fetched_as_far_ahead_where_a_walk_begins_higher() {
    for step_ms in [0, 1, 10] {
        let rounds = [0, 1, 2, 4].map(|above| {
            let mut driver = Driver::new(small_directories(above), DirOptions { below: true, ..OPTIONS });
            (driver.page, driver.below) = (1000, 1000);
            pack(&mut driver, 0, Nanos::from_millis(step_ms));
            driver.rounds
        });
        assert!(rounds.iter().all(|&higher| higher <= rounds[0] + 8), "{rounds:?} rounds, {step_ms} ms");
    }
}
