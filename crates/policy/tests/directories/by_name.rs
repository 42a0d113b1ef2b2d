//! Programs that open files by name: they look names up and open files, and read no directory.

use foreread_policy::{Child, DirEvent, DirId, DirOptions, DirShares, Found, LEVELS_ABOVE, Nanos};

use super::{BELOW, Driver, OPTIONS, PAGE, Tree, tree};

impl Driver {
    /// A reader looks up an entry of `dir`. Returns whether it had to be asked for alone.
    pub(super) fn look_up(&mut self, dir: u64, entry: u32) -> bool {
        let (gone, end) = (self.gone.get(&dir).copied().unwrap_or(0), self.known.get(&dir).map_or(0, |known| known.0));
        let there = entry >= gone && (entry as usize) < end;
        let (found, place) = if there { (Found::Resident, Some(entry)) } else { (Found::Absent, None) };
        self.tell(DirEvent::Named { dir: DirId(dir), entry: place, found });
        if !there {
            let part = entry / self.page as u32 * self.page as u32;
            let (from, to) = (part, part + self.page as u32);
            let clamp = |place: u32| if entry < gone { place.min(gone) } else { place.max(end as u32) };
            self.tell(DirEvent::Sought { dir: DirId(dir), from: clamp(from), to: clamp(to) });
            self.round();
        }
        !there
    }

    /// A reader reads a file in `dir` of whose name nothing is known.
    pub(super) fn read_by_name(&mut self, dir: u64) {
        let is_in =
            |dir: u64| move |(_, children): &(&u64, &Vec<Child>)| children.contains(&Child::Directory(DirId(dir)));
        let parent = |dir: &u64| self.tree.iter().find(is_in(*dir)).map(|(above, _)| *above);
        let levels = if self.policy.wants_above(DirId(dir)) { LEVELS_ABOVE } else { 0 };
        let above: Vec<DirId> = std::iter::successors(parent(&dir), parent).take(levels).map(DirId).collect();
        self.tell(DirEvent::ReadByName { dir: DirId(dir), above: &above });
    }
}

/// Looks up the first name in each of these directories, in this order, and waits for it.
fn look_into(driver: &mut Driver, dirs: impl IntoIterator<Item = u64>) {
    for dir in dirs {
        for _ in 0..2 {
            let found = if driver.is_fresh(dir) { Found::Resident } else { Found::Absent };
            driver.tell(DirEvent::Named { dir: DirId(dir), entry: None, found });
            if found == Found::Absent {
                driver.round();
            }
        }
    }
}

#[test]
fn names_in_directories_have_them_listed_with_those_beside_them() {
    for (wide, files) in [(20, 4), (200, 4), (20, 40), (20, 1)] {
        let mut driver = Driver::new(tree(1, wide, files, 2), DirOptions { below: true, ..OPTIONS });
        driver.read(0);
        (driver.rounds, driver.requests) = (0, 0);
        // In no order, and so that no two are neighbours.
        look_into(&mut driver, (0..wide).map(|nth| nth * 7 % wide + 1));
        let together = (BELOW / files).min(wide as usize);
        // A request lists those behind it, and overlaps with others.
        let most = (3 * wide as usize).div_ceil(together) as u32 + 8;
        assert!(driver.rounds <= most, "{} rounds, {wide} directories of {files}", driver.rounds);
        assert!(driver.requests <= most, "{} requests, {wide} directories of {files}", driver.requests);
    }
}

/// A shell goes through what `*/file` stands for from its end.
#[test]
fn names_in_directories_may_come_from_the_last_to_the_first() {
    let shares = DirShares { known_bytes: 64 << 20, contents_bytes: 64 << 20 };
    for (wide, files) in [(20, 4), (200, 4), (2_000, 1), (20, 40), (400, 1)] {
        let mut driver = Driver::new(tree(1, wide, files, 2), DirOptions { shares, below: true, ..OPTIONS });
        driver.read(0);
        (driver.rounds, driver.requests) = (0, 0);
        look_into(&mut driver, (1..=wide).rev());
        let together = (BELOW / files).min(wide as usize);
        let most = (3 * wide as usize).div_ceil(together) as u32 + 12;
        assert!(driver.rounds <= most, "{} rounds, {wide} directories of {files}", driver.rounds);
        assert!(driver.requests <= most, "{} requests, {wide} directories of {files}", driver.requests);
    }
}

/// Names of a large directory from its last one on, of which nothing is known.
#[test]
fn a_large_directory_is_listed_for_names_from_its_end_on() {
    let entries = 4_000;
    let shares = DirShares { known_bytes: 64 << 20, contents_bytes: 64 << 20 };
    let mut driver = Driver::new(tree(0, 0, entries, 2), DirOptions { shares, ..OPTIONS });
    let mut alone = 0;
    for entry in (0..entries as u32).rev() {
        let there = driver.is_fresh(0) && driver.known.get(&0).is_some_and(|known| known.0 as u32 > entry);
        let (found, place) = if there { (Found::Resident, Some(entry)) } else { (Found::Absent, None) };
        driver.tell(DirEvent::Named { dir: DirId(0), entry: place, found });
        alone += usize::from(!there);
        if there {
            driver.now = Nanos(driver.now.0 + 100_000);
        } else {
            driver.round();
        }
    }
    assert!(alone <= 100, "{alone} of {entries} names are asked for alone");
    assert!(lists(&driver) <= 2 * (entries / PAGE) as u64, "{} pages of {}", lists(&driver), entries / PAGE);
}

#[test]
fn directories_too_large_for_one_answer_are_soon_listed_by_themselves() {
    let mut driver = Driver::new(tree(1, 100, BELOW + 1, 2), DirOptions { below: true, ..OPTIONS });
    driver.read(0);
    look_into(&mut driver, 1..=100);
    let tried = driver.counters().lists_below;
    assert!(tried <= 6, "{tried} subtree requests that brought nothing");
}

/// Files of a directory of many pages are looked up in order, for longer than a listing is
/// believed, whether the directory was read or not. Each time the listing has expired, it comes up
/// to the reader again, wherever that is.
#[test]
fn a_large_directory_is_listed_up_to_its_reader_each_time_it_has_expired() {
    let (entries, per_name) = (4_000, 2);
    let shares = DirShares { known_bytes: 64 << 20, contents_bytes: 64 << 20 };
    for was_read in [true, false] {
        let mut driver = Driver::new(tree(0, 0, entries as usize, 2), DirOptions { shares, ..OPTIONS });
        if was_read {
            driver.read(0);
        }
        let (mut alone, before, mut most) = (0, driver.requests, 0);
        for entry in 0..entries {
            let end = driver.known.get(&0).map_or(0, |known| known.0 as u32);
            most = most.max(end);
            let there = entry < end && driver.is_fresh(0);
            let found = if there { Found::Resident } else { Found::Absent };
            // The listing before tells the place.
            driver.tell(DirEvent::Named { dir: DirId(0), entry: (entry < most).then_some(entry), found });
            if there {
                driver.now = Nanos(driver.now.0 + per_name * 1_000_000);
            } else {
                alone += 1;
                driver.round();
            }
        }
        let expired = u64::from(entries) * per_name / 1_000 + 8;
        assert!(alone <= expired * 24, "{alone} of {entries} names are asked for alone, read before: {was_read}");
        let (pages, requests) = (u64::from(entries) / PAGE as u64, u64::from(driver.requests - before));
        assert!(requests <= expired * pages, "{requests} requests for {pages} pages, {expired} times");
    }
}

/// Files of a directory of many pages are looked up in order, and nothing is known of it. The
/// place of a name that its listing has not come to is not known either.
#[test]
fn a_large_directory_is_listed_ahead_of_names_that_are_not_known() {
    let (entries, ttl) = (1_000, Nanos::from_millis(60_000));
    let mut driver = Driver::new(tree(0, 0, entries as usize, 2), DirOptions { ttl, ..OPTIONS });
    let mut alone = 0;
    for entry in 0..entries {
        let is_known = driver.known.get(&0).is_some_and(|known| known.0 as u32 > entry);
        let (found, place) = if is_known { (Found::Resident, Some(entry)) } else { (Found::Absent, None) };
        driver.tell(DirEvent::Named { dir: DirId(0), entry: place, found });
        alone += usize::from(!is_known);
        driver.round();
    }
    assert!(alone <= entries as usize / PAGE * 6 / 10, "{alone} of {entries} names are asked for alone");
}

/// Files of a directory of many pages are looked up and opened in no order, by a loader that has
/// them fetched at their look-ups. Its pages cost less than its names.
#[test]
fn a_large_directory_is_listed_again_for_a_loader_in_no_order() {
    // One loader has as many names answered in this time as many side by side in a second.
    let (entries, ttl) = (1_000, Nanos::from_millis(60_000));
    let shares = DirShares { known_bytes: 64 << 20, contents_bytes: 4 << 20 };
    let mut driver = Driver::new(tree(0, 0, entries as usize, 25), DirOptions { shares, ttl, ..OPTIONS });
    driver.read(0);
    driver.now = Nanos(driver.now.0 + 2 * ttl.0);
    let (before, mut alone) = (lists(&driver), 0);
    let steps = [37, 51, 73, 91, 117, 133, 147, 159, 171, 187];
    for entry in steps.iter().flat_map(|step| (0..entries).map(move |nth| nth * step % entries)) {
        alone += u64::from(look_up(&mut driver, entry));
        driver.open(0, entry);
    }
    let listed = lists(&driver) - before;
    assert!(alone + listed <= 1_500, "{alone} of 10,000 names are asked for alone, and {listed} pages");
}

/// `ls -l` of a directory whose listing takes longer than it is believed: names in order, from
/// any of them on.
#[test]
fn a_long_directory_whose_listing_expires_is_listed_from_where_its_reader_is() {
    for (first_byte, from) in [(30, 0), (80, 0), (80, 30_000), (400, 0)] {
        let entries = 50_000;
        let shares = DirShares { known_bytes: 256 << 20, contents_bytes: 4 << 20 };
        let mut driver = Driver::new(tree(0, 0, entries as usize, 1), DirOptions { shares, below: true, ..OPTIONS });
        (driver.page, driver.side_by_side, driver.first_byte) = (1_000, 1, Nanos::from_millis(first_byte));
        driver.read(0);
        let (before, mut alone) = (lists(&driver), 0);
        for entry in from..entries {
            alone += u64::from(look_up(&mut driver, entry));
            driver.now = Nanos(driver.now.0 + 20_000);
        }
        let (listed, pages) = (lists(&driver) - before, u64::from(entries - from) / 1_000);
        let case = format!("{first_byte} ms, from {from}");
        assert!(alone <= pages * 4 && listed <= pages * 4, "{alone} names alone, {listed} pages of {pages}: {case}");
    }
}

/// A directory that did not fit is listed as any other once it does.
#[test]
fn a_directory_that_fits_by_now_is_listed_for_names_in_no_order() {
    let entries = 2_000;
    let small = DirShares { known_bytes: 100 << 10, contents_bytes: 4 << 20 };
    let mut driver = Driver::new(tree(0, 0, entries as usize, 25), DirOptions { shares: small, ..OPTIONS });
    driver.read(0);
    assert!(driver.gone[&0] > 0, "it fits");
    driver.options.shares = DirShares { known_bytes: 64 << 20, ..small };
    driver.tell(DirEvent::Capacity(driver.options.shares));
    driver.now = Nanos(driver.now.0 + 2_000_000_000);
    driver.options.ttl = Nanos::from_millis(60_000);
    driver.tell(DirEvent::Ttl(driver.options.ttl));
    driver.known.remove(&0);
    let alone = (0..entries).filter(|nth| look_up(&mut driver, nth * 37 % entries)).count();
    assert!(alone <= 200, "{alone} of {entries} names are asked for alone");
}

/// A directory that did not fit has become smaller, and was read since.
#[test]
fn a_directory_that_has_become_smaller_is_listed_for_names_in_no_order() {
    let (entries, left) = (2_000, 100);
    let shares = DirShares { known_bytes: 100 << 10, contents_bytes: 4 << 20 };
    let mut driver = Driver::new(tree(0, 0, entries as usize, 25), DirOptions { shares, ..OPTIONS });
    driver.read(0);
    assert!(driver.gone[&0] > 0, "it fits");
    driver.tree.entry(0).or_default().truncate(left as usize);
    driver.now = Nanos(driver.now.0 + 2_000_000_000);
    driver.read(0);
    driver.now = Nanos(driver.now.0 + 2_000_000_000);
    let alone = (0..left).filter(|nth| look_up(&mut driver, nth * 37 % left)).count();
    assert!(alone <= 20, "{alone} of {left} names are asked for alone");
}

/// A program looks up few names at the end of a large directory, each time its listing has
/// expired. It comes no further than names had use for, even if all were looked up before.
#[test]
fn a_large_directory_is_not_listed_up_to_few_names_each_time() {
    let (entries, names, times) = (4_000, 4, 50);
    let pages = u64::from(entries) / PAGE as u64;
    let shares = DirShares { known_bytes: 64 << 20, contents_bytes: 64 << 20 };
    for (was_walked, most) in [(false, 0), (true, pages)] {
        let mut driver = Driver::new(tree(0, 0, entries as usize, 2), DirOptions { shares, ..OPTIONS });
        driver.read(0);
        for entry in 0..if was_walked { entries } else { 0 } {
            driver.tell(DirEvent::Named { dir: DirId(0), entry: Some(entry), found: Found::Resident });
        }
        let before = lists(&driver);
        for _ in 0..times {
            driver.now = Nanos(driver.now.0 + 2_000_000_000);
            for nth in 1..=names {
                look_up(&mut driver, entries - nth);
            }
        }
        let (listed, each) = (lists(&driver) - before, u64::from(2 * names));
        assert!(listed <= times * each + most, "{listed} pages of {pages}, {times} times, {was_walked}");
    }
}

/// Looks up a name of the first directory, which an earlier listing told, and waits for it.
/// Returns whether it had to be asked for alone.
fn look_up(driver: &mut Driver, entry: u32) -> bool {
    let gone = driver.gone.get(&0).copied().unwrap_or(0);
    let is_there = driver.known.get(&0).is_some_and(|known| known.0 as u32 > entry && entry >= gone);
    let is_known = is_there && (driver.is_fresh(0) || driver.is_believed(0, entry));
    let found = if is_known { Found::Resident } else { Found::Absent };
    driver.tell(DirEvent::Named { dir: DirId(0), entry: Some(entry), found });
    let is_alone = !is_known && !driver.is_renewing(0, entry);
    if !is_known {
        driver.round();
    }
    is_alone
}

/// Pages of listings that were asked for, with those of which more was asked for.
fn lists(driver: &Driver) -> u64 {
    driver.counters().lists_demand + driver.counters().lists_speculative
}

/// Opens files of each directory in an order of its own, as an import does.
fn import(driver: &mut Driver, dirs: &[u64], part: usize) {
    for &dir in dirs {
        let files = driver.tree[&dir].len();
        for nth in 0..files * part / 100 {
            driver.open(dir, (nth * 7 % files) as u32);
        }
    }
}

#[test]
fn files_opened_in_no_order_come_with_their_siblings() {
    for (dirs, files, pages) in [(20u64, 20, 8), (5, 60, 8), (40, 5, 8), (20, 20, 1), (20, 20, 25)] {
        let mut driver = Driver::new(tree(1, dirs, files, pages), OPTIONS);
        driver.walk(0, false);
        (driver.rounds, driver.requests) = (0, 0);
        let listings = |driver: &Driver| (driver.counters().lists_speculative + driver.counters().lists_below) as u32;
        let before = listings(&driver);
        import(&mut driver, &(1..=dirs).collect::<Vec<_>>(), 90);
        let opened = dirs as u32 * (files as u32 * 90 / 100);
        let most = dirs as u32 * 3 + 8;
        assert!(driver.rounds <= most, "{} rounds for {opened} files in {dirs} directories", driver.rounds);
        let listings = listings(&driver) - before;
        let files = driver.requests - listings;
        assert!(files * 10 <= opened * 13, "{files} files fetched for {opened} in {dirs} directories");
        assert!(listings <= dirs as u32, "{listings} listings of {dirs} directories");
    }
}

#[test]
fn a_program_that_opens_few_of_many_has_little_fetched_in_vain() {
    let mut driver = Driver::new(tree(1, 200, 50, 25), OPTIONS);
    driver.walk(0, false);
    driver.requests = 0;
    import(&mut driver, &(1..=200).collect::<Vec<_>>(), 4);
    let vain = u64::from(driver.requests) - 400;
    assert!(vain * 25 * 4096 <= (2 << 20) + 400 * 25 * 4096 * 3 / 10, "{vain} files in vain for 400");
}

#[test]
fn a_lone_open_fetches_no_other_file() {
    let mut driver = Driver::new(tree(1, 20, 20, 8), OPTIONS);
    driver.walk(0, false);
    driver.requests = 0;
    for dir in 1..=20 {
        driver.open(dir, 7);
    }
    // They lie at equal distances: so does one of the files behind the directories.
    let behind: Vec<_> = driver.fetched.iter().copied().collect();
    assert_eq!((driver.requests, behind), (21, vec![(0, 27)]), "one file of each directory");
    let before = driver.requests;
    for _ in 0..20 {
        driver.open(3, 11);
    }
    assert_eq!(driver.requests - before, 20, "one file again and again");
}

/// All directories are listed, and no reader has read any.
pub(super) fn learn(driver: &mut Driver) {
    for dir in driver.tree.keys().rev().copied().collect::<Vec<_>>() {
        driver.tell(DirEvent::Along { dir: DirId(dir), requested: driver.now });
        driver.tell_whole(dir);
    }
}

/// Opens the files of `dir` and of all directories below it by name, in the order of the listings,
/// by `threads` that each take the next file.
fn open_all(driver: &mut Driver, dir: u64, threads: usize) {
    let mut files = Vec::new();
    in_order(driver, dir, &mut files);
    for batch in files.chunks(threads) {
        // The threads overtake one another.
        for &(dir, entry) in batch.iter().rev() {
            let found = if driver.is_fresh(dir) { Found::Resident } else { Found::Absent };
            driver.tell(DirEvent::Named { dir: DirId(dir), entry: Some(entry), found });
            if found == Found::Absent && !driver.fetching.contains(&(dir, entry)) {
                driver.round();
            }
            driver.open(dir, entry);
        }
    }
}

fn in_order(driver: &Driver, dir: u64, files: &mut Vec<(u64, u32)>) {
    for (entry, child) in driver.tree[&dir].iter().enumerate() {
        match child {
            Child::Directory(below) => in_order(driver, below.0, files),
            Child::File { .. } => files.push((dir, entry as u32)),
        }
    }
}

#[test]
fn files_opened_by_name_in_the_order_of_listings_are_there_across_directories() {
    for threads in [1, 4] {
        for (depth, wide, files) in [(1, 20, 5), (1, 200, 5), (1, 20, 50), (3, 5, 3), (1, 200, 1)] {
            let mut driver = Driver::new(tree(depth, wide, files, 2), DirOptions { below: true, ..OPTIONS });
            learn(&mut driver);
            (driver.rounds, driver.requests) = (0, 0);
            open_all(&mut driver, 0, threads);
            let (dirs, opened) = (driver.tree.len() as u32, (driver.tree.len() * files) as u32);
            // A walk begins, and its confidence grows; a directory is waited for here and there.
            let most = 24 + opened / 16;
            let rounds = driver.rounds;
            assert!(rounds <= most, "{rounds} rounds for {opened} files in {dirs} directories, {threads} threads");
            let requests = driver.requests;
            assert!(requests <= opened + dirs + 16, "{requests} requests for {opened} files in {dirs} directories");
        }
    }
}

#[test]
fn a_reader_of_one_directory_after_the_other_in_no_order_has_none_fetched_of_the_next() {
    for files in [2, 5, 50] {
        let mut driver = Driver::new(tree(1, 40, files, 2), DirOptions { below: true, ..OPTIONS });
        learn(&mut driver);
        (driver.rounds, driver.requests) = (0, 0);
        for nth in 0..30 {
            for entry in 0..files as u32 {
                driver.open(nth * 17 % 40 + 1, entry);
            }
        }
        let opened = 30 * files as u32;
        let requests = driver.requests;
        assert!(requests <= opened + 24, "{requests} requests for {opened} files");
    }
}

/// A path of directories that are too large to come together: each is listed beside the one above
/// it when a program comes back.
#[test]
fn directories_on_a_path_that_have_expired_are_listed_beside_those_above() {
    let mut driver = Driver::new(tree(6, 2, 8, 2), DirOptions { below: true, ..OPTIONS });
    let mut path = vec![0];
    while let Some(&below) = driver.dirs_of(path[path.len() - 1]).last() {
        path.push(below);
    }
    let look_up = |driver: &mut Driver| {
        for (at, &dir) in path.iter().enumerate() {
            let below = path.get(at + 1);
            let is_there = below.is_some_and(|&below| driver.is_fresh(below));
            let is_next = |child: &Child| below.is_some_and(|&below| *child == Child::Directory(DirId(below)));
            let entry = driver.tree[&dir].iter().position(is_next);
            let found = if driver.is_fresh(dir) || is_there { Found::Resident } else { Found::Absent };
            driver.tell(DirEvent::Named { dir: DirId(dir), entry: entry.map(|at| at as u32), found });
            if found == Found::Absent {
                driver.round();
            }
        }
    };
    learn(&mut driver);
    look_up(&mut driver);
    for _ in 0..3 {
        driver.now = Nanos(driver.now.0 + 3_000_000_000);
        driver.rounds = 0;
        look_up(&mut driver);
        assert!(driver.rounds <= 4, "{} rounds for {} directories", driver.rounds, path.len());
    }
}

/// A directory of `wide` packages, each of which has a directory of `files` files besides files of
/// its own.
fn packages(wide: u64, files: usize) -> Tree {
    let file = |kind| Child::File { pages: 2, kind, stem: 0 };
    let mut tree = Tree::new();
    tree.insert(0, (1..=wide).map(|dir| Child::Directory(DirId(dir))).collect());
    for dir in 1..=wide {
        let below = Child::Directory(DirId(dir + wide));
        tree.insert(dir, std::iter::once(below).chain((0..files).map(|_| file(1))).collect());
        tree.insert(dir + wide, (0..files).map(|_| file(2)).collect());
    }
    tree
}

#[test]
fn the_file_that_is_opened_first_in_each_directory_is_there_in_the_next_ones() {
    for level in [0, 1] {
        let wide = 40;
        let mut driver = Driver::new(packages(wide, 6), OPTIONS);
        learn(&mut driver);
        (driver.rounds, driver.requests) = (0, 0);
        let entry = if level == 0 { 3 } else { 0 };
        // In no order.
        for nth in 0..wide {
            driver.open(nth * 7 % wide + 1 + level * wide, entry);
        }
        assert!(driver.rounds <= 12, "{} rounds for {wide} files", driver.rounds);
        assert_eq!(u64::from(driver.requests), wide, "no other file");
    }
}

/// What is compiled of a module lies in a folder of its own, and is older than the module.
#[test]
fn files_that_are_opened_in_two_directories_in_turn_come_with_those_beside_and_in_the_next_ones() {
    let wide = 40;
    let mut driver = Driver::new(packages(wide, 30), OPTIONS);
    learn(&mut driver);
    (driver.rounds, driver.requests) = (0, 0);
    for nth in 0..30 {
        driver.open(1 + wide, nth * 7 % 30);
        driver.open(1, nth * 7 % 30 + 1);
    }
    assert!(driver.rounds <= 14, "{} rounds for 60 files", driver.rounds);
    (driver.rounds, driver.requests) = (0, 0);
    for is_walked in [false, true] {
        let mut driver = Driver::new(packages(wide, 6), OPTIONS);
        learn(&mut driver);
        // An import reads each directory that it comes to, which makes it a walk.
        if is_walked {
            driver.read(0);
            (1..3).for_each(|dir| driver.read(dir));
        }
        (driver.rounds, driver.requests) = (0, 0);
        for nth in 4..wide {
            driver.open((nth ^ 1) + 1 + wide, 0);
            driver.open((nth ^ 1) + 1, 1);
        }
        let files = 2 * (wide as u32 - 4);
        assert!(driver.rounds <= 20, "{} rounds for {files} first files, {is_walked}", driver.rounds);
        assert!(driver.requests <= files * 13 / 10 + 16, "{} files for {files}", driver.requests);
    }
}

#[test]
fn files_that_are_opened_long_after_one_another_bring_none_of_other_directories() {
    let wide = 40;
    let mut driver = Driver::new(packages(wide, 6), DirOptions { ttl: Nanos(600_000_000_000), ..OPTIONS });
    learn(&mut driver);
    driver.requests = 0;
    for nth in 0..20 {
        driver.open(nth * 7 % wide + 1, 3);
        driver.now = Nanos(driver.now.0 + 1_500_000_000);
    }
    assert_eq!(driver.requests, 20, "no other file");
}

#[test]
fn a_program_that_comes_to_few_of_many_directories_has_few_cousins_fetched_in_vain() {
    let wide = 400;
    let mut driver = Driver::new(packages(wide, 6), OPTIONS);
    learn(&mut driver);
    driver.requests = 0;
    for nth in 0..40 {
        driver.open(nth * 167 % wide + 1 + wide, 0);
    }
    let vain = driver.requests - 40;
    assert!(vain <= 16 + 40 * 3 / 10, "{vain} files in vain for 40");
}

#[test]
fn siblings_are_of_a_kind_that_is_opened() {
    let mut driver = Driver::new(tree(1, 1, 0, 0), OPTIONS);
    let both = |nth: u8| Child::File { pages: 20, kind: nth % 2, stem: 0 };
    driver.tree.insert(1, (0..60).map(both).collect());
    learn(&mut driver);
    (driver.rounds, driver.requests) = (0, 0);
    for nth in 0..30 {
        driver.open(1, nth * 7 % 30 * 2);
    }
    // Opens that are in order by chance make a walk, which takes files of any kind.
    assert!(driver.requests * 10 <= 30 * 13, "{} files fetched for 30", driver.requests);
    assert!(driver.rounds <= 8, "{} rounds for 30 files", driver.rounds);
}

#[test]
fn libraries_that_are_not_small_come_with_their_siblings() {
    let mut driver = Driver::new(tree(1, 1, 24, 200), OPTIONS);
    learn(&mut driver);
    (driver.rounds, driver.requests) = (0, 0);
    for nth in 0..24 {
        driver.open(1, nth * 7 % 24);
    }
    // The first credit buys five of them.
    assert!(driver.rounds <= 16, "{} rounds for 24 files", driver.rounds);
    let mut driver = Driver::new(tree(1, 400, 24, 200), OPTIONS);
    learn(&mut driver);
    driver.requests = 0;
    for dir in 0..200 {
        for nth in 0..2 {
            driver.open(dir + 1, nth * 11 + 3);
        }
    }
    // The second one of each directory is asked for twice: whole by policy, and by its reader.
    let vain = u64::from(driver.requests) - 600;
    assert!(vain * 800 <= 4096 + 400 * 800 / 32, "{vain} files in vain for 400");
}

/// A tree of `levels`, so many directories in each directory, with `files` in those of the last.
fn chunks(levels: &[u64], files: usize) -> Tree {
    let (mut tree, mut level, mut next) = (Tree::new(), vec![0], 1);
    for &wide in levels {
        let mut under = Vec::new();
        for dir in level {
            tree.insert(dir, (next..next + wide).map(|dir| Child::Directory(DirId(dir))).collect());
            under.extend(next..next + wide);
            next += wide;
        }
        level = under;
    }
    for dir in level {
        tree.insert(dir, vec![Child::File { pages: 4, kind: 0, stem: 0 }; files]);
    }
    tree
}

/// Reads files by name: in one request each where nothing is known of it. Returns how many of them
/// a reader waited for.
fn read_by_name(driver: &mut Driver, files: impl IntoIterator<Item = (u64, u32)>) -> u32 {
    let before = driver.rounds;
    for (dir, entry) in files {
        if driver.is_fresh(dir) {
            driver.tell(DirEvent::Named { dir: DirId(dir), entry: Some(entry), found: Found::Resident });
            driver.open(dir, entry);
        } else {
            driver.read_by_name(dir);
            driver.requests += 1;
            driver.round();
            driver.tell(DirEvent::AnsweredByName { there: true });
        }
        driver.now = Nanos(driver.now.0 + 100_000);
    }
    driver.rounds - before
}

/// Chunks of an array, in the order of their names: nothing was listed before.
#[test]
fn files_read_by_name_in_directories_that_nothing_listed_are_there() {
    // Levels of directories, files in each of the last ones, names of a page, and waits.
    let trees = [
        (&[200][..], 4, 100, 40),
        (&[50, 4], 4, 100, 50),
        (&[10, 4, 4], 4, 100, 60),
        (&[20], 20, 100, 60),
        // A file of each directory is bought with credit, which grows.
        (&[400], 1, 1000, 160),
    ];
    for (levels, files, page, most) in trees {
        let mut driver = Driver::new(chunks(levels, files), DirOptions { below: true, ..OPTIONS });
        (driver.page, driver.below) = (page, 1000);
        let dirs: Vec<_> = driver.tree.keys().copied().filter(|dir| driver.dirs_of(*dir).is_empty()).collect();
        let order: Vec<_> = dirs.iter().flat_map(|&dir| (0..files as u32).map(move |entry| (dir, entry))).collect();
        let all = order.len() as u32;
        let waits = read_by_name(&mut driver, order);
        assert!(waits <= most, "{waits} of {all} are waited for: {levels:?} directories of {files}");
        let most = all + all / 10 + 8;
        assert!(driver.requests <= most, "{} requests for {all}: {levels:?} directories of {files}", driver.requests);
    }
}

/// A program that reads one file here and one there, seldom or often, soon has nothing listed.
#[test]
fn files_read_by_name_in_no_order_have_few_directories_listed() {
    for pause in [0, 1_500] {
        let mut driver = Driver::new(chunks(&[40, 40], 1), DirOptions { below: true, ..OPTIONS });
        let dirs: Vec<_> = driver.tree.keys().copied().filter(|dir| driver.dirs_of(*dir).is_empty()).collect();
        let mut lists = 0;
        for nth in 0..dirs.len() {
            let dir = dirs[nth * 611 % dirs.len()];
            read_by_name(&mut driver, [(dir, 0)]);
            driver.now = Nanos(driver.now.0 + pause * 1_000_000);
            let counters = driver.counters();
            lists = counters.lists_demand + counters.lists_speculative + counters.lists_below;
        }
        let all = dirs.len() as u64;
        assert!(lists <= all / 12, "{lists} listings for {all} files, {pause} ms apart");
    }
}

/// A program at random beside one that reads in order elsewhere: what that one has fetched ahead
/// pays for no listing of the other.
#[test]
fn files_read_by_name_in_no_order_beside_a_walk_have_few_directories_listed() {
    let mut driver = Driver::new(chunks(&[2, 800], 1), DirOptions { below: true, ..OPTIONS });
    (driver.page, driver.below) = (1000, 1000);
    let [here, there] = [1, 2].map(|dir| driver.dirs_of(dir));
    driver.read(0);
    driver.read(1);
    let mut lists = 0;
    for (nth, &dir) in here.iter().enumerate() {
        driver.read(dir);
        driver.open(dir, 0);
        let before = driver.counters();
        read_by_name(&mut driver, [(there[nth * 611 % there.len()], 0)]);
        let after = driver.counters();
        lists += after.lists_below - before.lists_below;
        driver.now = Nanos(driver.now.0 + 20_000_000);
    }
    assert!(lists <= 80, "{lists} subtree requests for 800 files at random");
}

/// Files of one directory, by several readers, for longer than a listing is believed: nothing else
/// is listed.
#[test]
fn files_read_by_name_in_one_directory_have_no_other_listed() {
    let mut driver = Driver::new(chunks(&[4, 4], 40), DirOptions { below: true, ..OPTIONS });
    let last = *driver.tree.keys().last().expect("a directory");
    for round in 0..4 {
        for _ in 0..20 {
            driver.read_by_name(last);
        }
        assert!(driver.listing.keys().all(|&dir| dir == last), "{:?}, {round}", driver.listing);
        assert!(driver.belows.is_empty(), "{:?}, {round}", driver.belows);
        driver.round();
        driver.now = Nanos(driver.now.0 + 2_000_000_000);
    }
}

/// Where listings are not believed, or no subtree can be listed, there is none.
#[test]
fn files_read_by_name_have_nothing_listed_where_that_is_of_no_use() {
    for options in [DirOptions { below: true, ttl: Nanos(0), ..OPTIONS }, OPTIONS] {
        let mut driver = Driver::new(chunks(&[10, 10], 4), options);
        let dirs: Vec<_> = driver.tree.keys().copied().filter(|dir| driver.dirs_of(*dir).is_empty()).collect();
        for dir in dirs {
            driver.read_by_name(dir);
            driver.round();
        }
        assert_eq!(driver.requests, 0);
    }
}
