//! Programs that open the files of a tree in no order, such as a loader that shuffles them.

use foreread_policy::{Child, DirEvent, DirId, DirOptions, DirShares, Found, Nanos};

use super::by_name::learn;
use super::{Driver, OPTIONS, Tree, tree};

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
struct Loaded {
    opened: u64,
    waited: u64,
    /// Files that were fetched ahead, and of those the ones that were opened.
    fetched: u64,
    hits: u64,
}

fn load(dirs: u64, files: usize, pages: u64, percent: u64) -> Loaded {
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
    Loaded { opened, waited, fetched: counters.fetches, hits: counters.fetches_hit }
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
        let Loaded { opened, waited, fetched, hits } = load(dirs, files, pages, 100);
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
            let Loaded { opened, fetched, hits, .. } = load(dirs, files, pages, percent);
            // The first credit, and what that grows by where it is right.
            let first = ((2 << 20) / (pages * 4096)).min(128) * 24 / 10;
            let case = format!("{percent} % of {dirs} directories of {files} files of {pages} pages");
            assert!(fetched - hits <= first + opened * 3 / 10, "{} for {opened} opens: {case}", fetched - hits);
        }
    }
}

/// A directory of which a part fits: what was opened of parts that are gone says nothing of the
/// part that is there.
#[test]
fn of_a_directory_that_does_not_fit_little_is_fetched_in_vain() {
    let files = 200_000;
    let shares = DirShares { known_bytes: 4 << 20, contents_bytes: 256 << 20 };
    let mut driver = Driver::new(layout(1, files, 2), DirOptions { shares, below: true, ..OPTIONS });
    (driver.page, driver.side_by_side) = (1_000, 1);
    driver.read(0);
    driver.read(1);
    let mut opened = 0;
    for part in (0..files as u32).step_by(2_000) {
        // Names in order have a part listed; then a tenth of it is opened in no order.
        (part..part + 20).for_each(|entry| _ = driver.look_up(1, entry));
        for nth in shuffled(1_000).into_iter().take(100) {
            let entry = part + nth as u32;
            let (gone, known) =
                (driver.gone.get(&1).copied().unwrap_or(0), driver.known.get(&1).map_or(0, |known| known.0));
            if (gone..known as u32).contains(&entry) {
                driver.now = Nanos(driver.now.0 + 2_000_000);
                driver.open(1, entry);
                opened += 1;
            }
        }
    }
    let counters = driver.counters();
    let vain = counters.fetches - counters.fetches_hit;
    assert!(opened > 5_000, "{opened} were there");
    assert!(vain <= 128 * 24 / 10 + opened * 5 / 100, "{vain} in vain for {opened}");
}

#[test]
fn a_loader_has_each_file_fetched_at_its_lookup() {
    let mut driver = Driver::new(tree(1, 50, 20, 25), OPTIONS);
    driver.read(0);
    driver.dirs_of(0).into_iter().for_each(|dir| driver.read(dir));
    driver.now = Nanos(driver.now.0 + 2_000_000_000);
    let before = driver.requests;
    // In no order, and each file in another directory than the one before.
    for nth in 0..400u64 {
        let (dir, entry) = (nth * 37 % 50 + 1, (nth / 50 * 7 % 20) as u32);
        driver.tell(DirEvent::Named { dir: DirId(dir), entry: Some(entry), found: Found::Absent });
        driver.round();
        driver.open(dir, entry);
    }
    let counters = driver.counters();
    assert!(counters.fetches_hit >= 380, "{} of 400 files were there", counters.fetches_hit);
    // The more of a directory was opened, the more of the rest comes: three tenths at most, and
    // what the first credit buys, which is twenty files.
    assert!(driver.requests - before <= 400 * 13 / 10 + 20, "{} requests", driver.requests - before);
}
