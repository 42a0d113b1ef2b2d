//! Programs that open files in pairs, whose names are equal up to the first dot.

use foreread_policy::{Child, DirId, DirOptions, DirShares};

use super::by_name::learn;
use super::{Driver, OPTIONS, Tree};

const PICTURE: u8 = 1;
const LABEL: u8 = 2;

fn file(pages: u64, kind: u8, stem: usize) -> Child {
    Child::File { pages, kind, stem: stem as u32 + 1 }
}

/// Pictures and labels, each in a directory of their own, or side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Apart,
    Together,
    /// Labels in a subdirectory of the pictures' directory.
    Below,
}

/// `count` pairs, of so many pages each.
fn pairs(layout: Layout, count: usize, pages: [u64; 2]) -> Tree {
    let picture = |nth| file(pages[0], PICTURE, nth);
    let label = |nth| file(pages[1], LABEL, nth);
    let directory = |dir| Child::Directory(DirId(dir));
    match layout {
        Layout::Apart => Tree::from([
            (0, vec![directory(1), directory(2)]),
            (1, (0..count).map(picture).collect()),
            (2, (0..count).map(label).collect()),
        ]),
        Layout::Together => {
            Tree::from([(0, vec![directory(1)]), (1, (0..count).flat_map(|nth| [picture(nth), label(nth)]).collect())])
        }
        Layout::Below => Tree::from([
            (0, vec![directory(1)]),
            (1, std::iter::once(directory(2)).chain((0..count).map(picture)).collect()),
            (2, (0..count).map(label).collect()),
        ]),
    }
}

/// Where the n-th picture or label lies.
fn place(layout: Layout, nth: u64, kind: u8) -> (u64, u32) {
    let (nth, is_label) = (nth as u32, kind == LABEL);
    match layout {
        Layout::Apart => (1 + u64::from(is_label), nth),
        Layout::Together => (1, nth * 2 + u32::from(is_label)),
        Layout::Below => (1 + u64::from(is_label), nth + u32::from(!is_label)),
    }
}

/// A permutation: no two in turn are neighbours.
fn shuffled(nth: u64, count: usize) -> u64 {
    nth * 617 % count as u64
}

fn driver(layout: Layout, count: usize, pages: [u64; 2]) -> Driver {
    let shares = DirShares { known_bytes: 64 << 20, ..OPTIONS.shares };
    let mut driver = Driver::new(pairs(layout, count, pages), DirOptions { shares, ..OPTIONS });
    learn(&mut driver);
    (driver.rounds, driver.requests) = (0, 0);
    driver
}

#[test]
fn of_pairs_that_are_opened_at_random_one_round_trip_is_waited_for() {
    for layout in [Layout::Apart, Layout::Together, Layout::Below] {
        for (count, pages) in [
            (100, [25, 1]),
            (10_000, [25, 1]),
            (1_000, [25, 1]),
            (1_000, [1, 25]),
            (1_000, [200, 1]),
            (1_000, [1, 200]),
        ] {
            let mut driver = driver(layout, count, pages);
            let opened = count as u64 / 2;
            for nth in 0..opened {
                for kind in [PICTURE, LABEL] {
                    let (dir, entry) = place(layout, shuffled(nth, count), kind);
                    driver.open(dir, entry);
                }
            }
            // Pictures that are longer than a first read are asked for twice: whole by policy, and
            // by their reader.
            let twice = if pages[0] > 32 { opened } else { 0 };
            let (rounds, requests) = (u64::from(driver.rounds), u64::from(driver.requests) - twice);
            let case = format!("{layout:?}, {count} pairs of {pages:?} pages");
            assert!(rounds <= opened + opened / 20 + 4, "{rounds} rounds for {opened} pairs: {case}");
            // The first credit of siblings buys as many of them in vain as it holds.
            let credit = 2 * (2 << 20) / 4096 / pages.into_iter().max().unwrap_or(1).clamp(4, 64);
            assert!(requests <= opened * 2 * 13 / 10 + 64 + credit, "{requests} requests for {opened} pairs: {case}");
        }
    }
}

#[test]
fn the_parts_of_a_file_come_with_the_first_that_is_opened() {
    let mut driver = Driver::new(Tree::from([(0, vec![Child::Directory(DirId(1))])]), OPTIONS);
    let parts = |nth| [10, 11, 12].map(|kind| file(8, kind, nth));
    driver.tree.insert(1, (0..600).flat_map(parts).collect());
    learn(&mut driver);
    (driver.rounds, driver.requests) = (0, 0);
    let opened = 100;
    for nth in 0..opened {
        (0..3).for_each(|part| driver.open(1, shuffled(nth, 600) as u32 * 3 + [2, 0, 1][part]));
    }
    assert!(driver.rounds <= opened as u32 + 8, "{} rounds for {opened} files of three parts", driver.rounds);
}

#[test]
fn readers_side_by_side_open_several_before_their_companions() {
    let layout = Layout::Apart;
    let mut driver = driver(layout, 1_000, [25, 1]);
    let opened = 480;
    for batch in 0..opened / 6 {
        for kind in [PICTURE, LABEL] {
            for nth in 0..6 {
                let (dir, entry) = place(layout, shuffled(batch * 6 + nth, 1_000), kind);
                driver.open(dir, entry);
            }
        }
    }
    let rounds = u64::from(driver.rounds);
    assert!(rounds <= opened + opened / 10, "{rounds} rounds for {opened} pairs");
}

#[test]
fn files_whose_companions_are_not_opened_bring_few_of_them() {
    for layout in [Layout::Apart, Layout::Below] {
        let mut driver = driver(layout, 1_000, [25, 1]);
        for nth in 0..400 {
            let (dir, entry) = place(layout, shuffled(nth, 1_000), PICTURE);
            driver.open(dir, entry);
        }
        let labels = |driver: &Driver| driver.fetched.iter().filter(|&&(dir, _)| dir == 2).count();
        assert_eq!(labels(&driver), 0, "{layout:?}");
        // Some are, for a while.
        for nth in 400..500 {
            for kind in [PICTURE, LABEL] {
                let (dir, entry) = place(layout, shuffled(nth, 1_000), kind);
                driver.open(dir, entry);
            }
        }
        let before = labels(&driver);
        for nth in 500..1_000 {
            let (dir, entry) = place(layout, shuffled(nth, 1_000), PICTURE);
            driver.open(dir, entry);
        }
        let vain = labels(&driver) - before;
        assert!(vain <= 16 + 8, "{vain} labels in vain, {layout:?}");
    }
}

/// An import of modules whose compiled forms lie in a folder of their own, and are stale.
#[test]
fn siblings_bring_their_companions() {
    let (wide, files) = (20, 20);
    let mut tree = Tree::from([(0, (1..=wide).map(|dir| Child::Directory(DirId(dir))).collect())]);
    for dir in 1..=wide {
        let below = Child::Directory(DirId(dir + wide));
        tree.insert(dir, std::iter::once(below).chain((0..files).map(|nth| file(8, 1, nth))).collect());
        tree.insert(dir + wide, (0..files).map(|nth| file(8, 2, nth)).collect());
    }
    let mut driver = Driver::new(tree, OPTIONS);
    learn(&mut driver);
    (driver.rounds, driver.requests) = (0, 0);
    let opened = files as u64 * 9 / 10;
    for dir in 1..=wide {
        for nth in 0..opened {
            let nth = (nth * 7 % files as u64) as u32;
            driver.open(dir + wide, nth);
            driver.open(dir, nth + 1);
        }
    }
    let files = 2 * wide * opened;
    assert!(driver.rounds <= 2 * wide as u32 + 8, "{} rounds for {files} files", driver.rounds);
    assert!(u64::from(driver.requests) * 10 <= files * 13, "{} files fetched for {files}", driver.requests);
}

#[test]
fn pairs_in_order_are_there_before_they_are_opened() {
    for layout in [Layout::Apart, Layout::Together, Layout::Below] {
        for (count, pages) in [(100, [25, 1]), (1_000, [25, 1]), (1_000, [1, 25])] {
            let mut driver = driver(layout, count, pages);
            for nth in 0..count as u64 {
                for kind in [PICTURE, LABEL] {
                    let (dir, entry) = place(layout, nth, kind);
                    driver.open(dir, entry);
                }
            }
            let (rounds, requests) = (driver.rounds, driver.requests);
            let case = format!("{layout:?}, {count} pairs of {pages:?} pages");
            assert!(rounds <= 12 + count as u32 / 25, "{rounds} rounds: {case}");
            assert_eq!(requests, 2 * count as u32, "{case}");
        }
    }
}

const TEXT: u8 = 3;
const MODULE: u8 = 4;
const MANIFEST: u8 = 5;
/// Names of a package's files: two that no program opens, its first module, another module, its
/// manifest. They lie in this order, and none is alike in its stem.
const NAMES: [(u8, usize); 5] = [(TEXT, 10), (TEXT, 11), (MODULE, 12), (MODULE, 13), (MANIFEST, 14)];
const FIRST_MODULE: u32 = 2;
const OTHER_MODULE: u32 = 3;

/// Packages as a package manager installs them: each has a directory, with so many other texts of
/// its own before the files that it has in common with the others.
fn packages(count: u64) -> Driver {
    let mut tree = Tree::from([(0, (1..=count).map(|dir| Child::Directory(DirId(dir))).collect())]);
    for dir in 1..=count {
        let own = (0..dir % 3).map(|nth| file(1, TEXT, 100 + nth as usize));
        tree.insert(dir, own.chain(NAMES.map(|(kind, stem)| file(1, kind, stem))).collect());
    }
    let mut driver = Driver::new(tree, OPTIONS);
    learn(&mut driver);
    (driver.rounds, driver.requests) = (0, 0);
    driver
}

/// Where a file of [`NAMES`] lies in a package.
fn of_package(dir: u64, name: u32) -> u32 {
    (dir % 3) as u32 + name
}

#[test]
fn what_was_opened_after_a_name_in_other_directories_comes_with_it() {
    let count = 200;
    let mut driver = packages(count);
    let opened = count / 2;
    for nth in 0..opened {
        let dir = 1 + shuffled(nth, count as usize);
        driver.open(dir, of_package(dir, 4));
        driver.open(dir, of_package(dir, FIRST_MODULE));
    }
    assert!(u64::from(driver.rounds) <= opened + 4, "{} rounds for {opened} packages", driver.rounds);
    // Of packages that are not opened, some come with those beside them, on credit.
    assert!(u64::from(driver.requests) <= 2 * opened * 13 / 10 + 32, "{} requests", driver.requests);
}

#[test]
fn names_that_no_program_opens_any_more_bring_few_files() {
    let count = 600;
    let mut driver = packages(count);
    for nth in 0..count / 6 {
        let dir = 1 + shuffled(nth, count as usize);
        driver.open(dir, of_package(dir, 4));
        driver.open(dir, of_package(dir, FIRST_MODULE));
    }
    let others =
        |driver: &Driver| driver.fetched.iter().filter(|&&(dir, entry)| entry == of_package(dir, FIRST_MODULE)).count();
    let before = others(&driver);
    for nth in count / 6..count / 2 {
        let dir = 1 + shuffled(nth, count as usize);
        driver.open(dir, of_package(dir, 4));
        driver.open(dir, of_package(dir, OTHER_MODULE));
    }
    let vain = others(&driver) - before;
    assert!(vain <= 16 + 40, "{vain} modules in vain");
}
