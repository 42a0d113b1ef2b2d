//! How long listings are believed: those in use are renewed before they expire, those of a tree by
//! as few requests as it came by.

use foreread_policy::{Child, DirEvent, DirId, DirOptions, Found, Nanos};

use super::{BELOW, Driver, OPTIONS, Tree, tree};

impl Driver {
    /// Whether a listing is still in the first half of its time.
    pub(super) fn is_early(&self, dir: u64) -> bool {
        self.known.get(&dir).is_some_and(|known| self.now.since(known.1).0 < self.options.ttl.0 / 2)
    }
}

/// Looks up the first name in each of these directories over and over, for ten times the time to
/// live. Returns how many requests that took, and how many names waited.
fn use_for_ten_times(driver: &mut Driver, dirs: &[u64]) -> (u32, u32) {
    let (before, mut waited, end) = (driver.requests, 0, driver.now.0 + 10 * driver.options.ttl.0);
    while driver.now.0 < end {
        for &dir in dirs {
            let found = if driver.is_fresh(dir) { Found::Resident } else { Found::Absent };
            driver.tell(DirEvent::Named { dir: DirId(dir), entry: None, found });
            waited += u32::from(found == Found::Absent);
        }
        driver.round();
        driver.now = Nanos(driver.now.0 + driver.options.ttl.0 / 20);
    }
    (driver.requests - before, waited)
}

/// A reader of names has had a tree listed by one request. While it looks up names there, the tree
/// is renewed by one request each time, and no name waits.
#[test]
fn a_tree_that_came_by_one_request_is_renewed_by_one_request() {
    for (depth, wide) in [(1, 20), (2, 4)] {
        let mut driver = Driver::new(tree(depth, wide, 3, 2), DirOptions { below: true, ..OPTIONS });
        driver.read(0);
        driver.tell(DirEvent::Named { dir: DirId(1), entry: None, found: Found::Absent });
        driver.round();
        let dirs: Vec<u64> = driver.tree.keys().copied().skip(1).collect();
        assert!(dirs.iter().all(|&dir| driver.is_fresh(dir)), "one request brings all");
        let (requests, waited) = use_for_ten_times(&mut driver, &dirs);
        // The directory above them, which was listed by itself, and they.
        assert!(requests <= 2 * 20, "{requests} requests in ten times the time to live, {} directories", dirs.len());
        assert_eq!(waited, 0, "names that waited, {} directories", dirs.len());
    }
}

/// What lies in a directory came by a request of its own at first, and then with that directory.
/// Only the request for both is made again.
#[test]
fn a_directory_is_renewed_with_the_one_above_it() {
    let mut driver = Driver::new(tree(2, 4, 3, 2), DirOptions { below: true, ..OPTIONS });
    driver.read(0);
    // No walk begins with the third one.
    driver.read(3);
    let below = driver.dirs_of(3);
    driver.tell(DirEvent::Named { dir: DirId(below[0]), entry: None, found: Found::Absent });
    driver.round();
    driver.now = Nanos(driver.now.0 + 2 * driver.options.ttl.0);
    driver.tell(DirEvent::Named { dir: DirId(3), entry: None, found: Found::Absent });
    driver.round();
    let dirs: Vec<u64> = std::iter::once(3).chain(below).collect();
    assert!(dirs.iter().all(|&dir| driver.is_fresh(dir)), "one request brings all");
    let look = |driver: &mut Driver| {
        for &dir in &dirs {
            driver.tell(DirEvent::Named { dir: DirId(dir), entry: None, found: Found::Resident });
        }
    };
    look(&mut driver);
    let before = driver.requests;
    driver.now = Nanos(driver.now.0 + driver.options.ttl.0 * 6 / 10);
    look(&mut driver);
    assert_eq!(driver.requests - before, 1);
    driver.round();
    assert!(dirs.iter().all(|&dir| driver.is_early(dir)), "one request renews all");
}

/// A tree that came by few requests, and has expired, is read from its start to its end. It comes
/// by as few again.
#[test]
fn a_tree_that_came_by_few_requests_is_read_by_few_when_it_has_expired() {
    for (depth, wide) in [(1, 20), (2, 4), (3, 3)] {
        let mut driver = Driver::new(tree(depth, wide, 3, 2), DirOptions { below: true, ..OPTIONS });
        driver.read(0);
        for dir in driver.tree.keys().copied().skip(1).collect::<Vec<_>>() {
            let found = if driver.is_fresh(dir) { Found::Resident } else { Found::Absent };
            driver.tell(DirEvent::Named { dir: DirId(dir), entry: None, found });
            driver.round();
        }
        let came = driver.counters().lists_below;
        driver.now = Nanos(driver.now.0 + 2 * driver.options.ttl.0);
        let before = lists(&driver);
        driver.walk(0, false);
        let listed = lists(&driver) - before;
        assert!(listed <= came + 8, "{listed} requests, {came} before, {} directories", driver.tree.len());
    }
}

fn lists(driver: &Driver) -> u64 {
    let counters = driver.counters();
    counters.lists_demand + counters.lists_speculative + counters.lists_below
}

/// A tree that does not come by subtree requests any more: one is tried for each directory, once.
#[test]
fn a_tree_that_has_grown_is_not_asked_for_together_again_and_again() {
    let mut driver = Driver::new(tree(2, 4, 3, 2), DirOptions { below: true, ..OPTIONS });
    driver.read(0);
    driver.tell(DirEvent::Named { dir: DirId(1), entry: None, found: Found::Absent });
    driver.round();
    // The lowest directories have become too large for an answer, and with them those above.
    grow(&mut driver.tree, 3, BELOW + 1);
    let before = driver.counters().lists_below;
    let dirs: Vec<u64> = driver.tree.keys().copied().filter(|&dir| driver.is_fresh(dir)).collect();
    use_for_ten_times(&mut driver, &dirs);
    let tried = driver.counters().lists_below - before;
    assert!(tried <= dirs.len() as u64, "{tried} subtree requests that brought nothing, {} directories", dirs.len());
}

/// Makes directories of as many files have more.
fn grow(tree: &mut Tree, few: usize, many: usize) {
    for children in tree.values_mut().filter(|children| children.len() == few) {
        children.extend(std::iter::repeat_n(Child::File { pages: 2, kind: 0, stem: 0 }, many - few));
    }
}

/// A tree that no program looks into any more is not renewed.
#[test]
fn a_tree_out_of_use_is_not_renewed() {
    let mut driver = Driver::new(tree(1, 20, 3, 2), DirOptions { below: true, ..OPTIONS });
    driver.read(0);
    driver.tell(DirEvent::Named { dir: DirId(1), entry: None, found: Found::Absent });
    driver.round();
    let before = driver.requests;
    // One more look, late.
    driver.now = Nanos(driver.now.0 + driver.options.ttl.0 * 3 / 4);
    driver.tell(DirEvent::Named { dir: DirId(7), entry: None, found: Found::Resident });
    for _ in 0..20 {
        driver.round();
    }
    assert!(driver.requests - before <= 2, "{} requests", driver.requests - before);
}

#[test]
fn without_a_time_to_live_or_readahead_nothing_is_listed_ahead() {
    for options in [DirOptions { ttl: Nanos(0), ..OPTIONS }, DirOptions { readahead: false, ..OPTIONS }] {
        let mut driver = Driver::new(tree(2, 4, 3, 2), options);
        driver.walk(0, false);
        assert_eq!(driver.counters().lists_speculative, 0);
        assert_eq!(driver.requests as usize, driver.tree.len());
    }
}

#[test]
fn a_listing_in_use_is_renewed_before_it_expires_and_else_not() {
    let mut driver = Driver::new(tree(0, 0, 8, 2), OPTIONS);
    driver.read(0);
    let before = driver.requests;
    // A name every 100 ms, each answered at once, for ten times the time to live.
    for _ in 0..100 {
        assert!(driver.is_fresh(0), "a name waits at {:?}", driver.now);
        driver.tell(DirEvent::Named { dir: DirId(0), entry: Some(3), found: Found::Resident });
        driver.now = Nanos(driver.now.0 + 70_000_000);
        driver.round();
    }
    let renewed = driver.requests - before;
    assert!((10..=20).contains(&renewed), "{renewed} listings in ten seconds");
    // No program looks any more.
    let before = driver.requests;
    driver.tree.insert(1, vec![Child::File { pages: 1, kind: 0, stem: 0 }; 3]);
    for _ in 0..50 {
        driver.now = Nanos(driver.now.0 + 1_000_000_000);
        driver.open(1, 0);
    }
    assert_eq!(driver.requests - before, 50, "the files, and no listing");
}
