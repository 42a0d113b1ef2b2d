//! Programs that open the files of a tree in no order, such as a loader that shuffles them.

use foreread_policy::{Child, DirId, DirOptions, DirShares, Nanos};

use super::by_name::learn;
use super::{Driver, OPTIONS, Tree};

/// So many directories of so many files each, of so many pages.
fn layout(dirs: u64, files: usize, pages: u64) -> Tree {
    let directory = |dir| Child::Directory(DirId(dir));
    let file = |nth| Child::File { pages, kind: 1, stem: nth as u32 + 1 };
    let mut tree = Tree::from([(0, (1..=dirs).map(directory).collect())]);
    tree.extend((1..=dirs).map(|dir| (dir, (0..files).map(file).collect())));
    tree
}

/// Numbers below `count` in no order.
fn shuffled(count: u64) -> Vec<u64> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut numbers: Vec<u64> = (0..count).collect();
    for last in (1..numbers.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers.swap(last, (state % (last as u64 + 1)) as usize);
    }
    numbers
}

/// What a loader found that opened a part of all files, each once.
struct Found {
    opened: u64,
    waited: u64,
    /// Files that were fetched ahead, and of those the ones that were opened.
    fetched: u64,
    hits: u64,
}

fn load(dirs: u64, files: usize, pages: u64, percent: u64) -> Found {
    let shares = DirShares { known_bytes: 64 << 20, contents_bytes: 256 << 20 };
    let mut driver = Driver::new(layout(dirs, files, pages), DirOptions { shares, ..OPTIONS });
    driver.page = 1_000;
    learn(&mut driver);
    let (opened, mut waited) = (dirs * files as u64 * percent / 100, 0);
    for nth in shuffled(dirs * files as u64).into_iter().take(opened as usize) {
        let (dir, entry) = (1 + nth / files as u64, (nth % files as u64) as u32);
        driver.now = Nanos(driver.now.0 + 2_000_000);
        driver.look_up(dir, entry);
        let before = driver.rounds;
        driver.open(dir, entry);
        waited += u64::from(driver.rounds - before);
    }
    let counters = driver.counters();
    Found { opened, waited, fetched: counters.fetches, hits: counters.fetches_hit }
}

#[test]
fn of_a_tree_that_is_opened_in_no_order_the_rest_comes_the_sooner_the_more_was_opened() {
    for (dirs, files, pages, percent) in [
        (20, 100, 2, 50),
        (1, 2_000, 2, 50),
        (200, 10, 2, 50),
        (2, 1_000, 25, 65),
        // What is ahead may take 128 MiB: a part of these.
        (1, 20_000, 25, 80),
        (1_000, 20, 25, 80),
    ] {
        let Found { opened, waited, fetched, hits } = load(dirs, files, pages, 100);
        let case = format!("{dirs} directories of {files} files of {pages} pages");
        assert!(waited * 100 <= opened * percent, "{waited} of {opened} were waited for: {case}");
        assert!((fetched - hits) * 50 <= opened, "{} of {opened} were fetched twice: {case}", fetched - hits);
    }
}

#[test]
fn a_loader_that_opens_a_part_has_three_tenths_of_it_fetched_in_vain_at_most() {
    for (dirs, files, pages) in [(20, 100, 2), (1, 2_000, 2), (200, 10, 2), (2, 1_000, 25), (1_000, 20, 25), (5, 4, 25)]
    {
        for percent in [1, 10, 20, 50, 80] {
            let Found { opened, fetched, hits, .. } = load(dirs, files, pages, percent);
            // The first credit, and what that grows by where it is right.
            let first = ((2 << 20) / (pages * 4096)).min(128) * 24 / 10;
            let case = format!("{percent} % of {dirs} directories of {files} files of {pages} pages");
            assert!(fetched - hits <= first + opened * 3 / 10, "{} for {opened} opens: {case}", fetched - hits);
        }
    }
}
