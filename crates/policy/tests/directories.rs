//! Tests of directory readahead: readers of every kind go through trees. Checks the requests made
//! for them, and the invariants under random steps.

use std::collections::{BTreeMap, BTreeSet};

use foreread_policy::{
    Child, DirAction, DirCounters, DirEvent, DirId, DirOptions, DirReadahead, DirShares, Ends, Found, Nanos,
};
use proptest::prelude::*;

#[path = "directories/by_name.rs"]
mod by_name;
#[path = "directories/companions.rs"]
mod companions;
#[path = "directories/failed.rs"]
mod failed;
#[path = "directories/heads.rs"]
mod heads;
#[path = "directories/no_order.rs"]
mod no_order;
#[path = "directories/pages.rs"]
mod pages;
#[path = "directories/renewals.rs"]
mod renewals;
#[path = "directories/shapes.rs"]
mod shapes;
#[path = "directories/strides.rs"]
mod strides;
#[path = "directories/told.rs"]
mod told;

/// The entries of each directory, by its number.
type Tree = BTreeMap<u64, Vec<Child>>;

/// Entries of a page of a listing.
const PAGE: usize = 10;

/// Bytes that a page takes, as the driver reports it.
const PAGE_BYTES: u64 = 2_000;

/// Entries that a subtree request is answered with.
const BELOW: usize = 100;

const OPTIONS: DirOptions = DirOptions {
    shares: DirShares { known_bytes: 1 << 20, contents_bytes: 64 << 20 },
    ttl: Nanos::from_millis(1_000),
    readahead: true,
    below: false,
};

/// A tree of `depth` levels: `wide` subdirectories in each directory above the lowest level, and
/// `files` of `pages` pages in each directory.
fn tree(depth: u32, wide: u64, files: usize, pages: u64) -> Tree {
    let (mut tree, mut level, mut next) = (Tree::new(), vec![0], 1);
    for below in (0..=depth).rev() {
        let mut under = Vec::new();
        for dir in level {
            let dirs = if below > 0 { next..next + wide } else { 0..0 };
            next = next.max(dirs.end);
            under.extend(dirs.clone());
            let files = std::iter::repeat_n(Child::File { pages, kind: 0, stem: 0 }, files);
            tree.insert(dir, dirs.map(|dir| Child::Directory(DirId(dir))).chain(files).collect());
        }
        level = under;
    }
    tree
}

/// A driver and its storage, which answers when a test says so.
struct Driver {
    policy: DirReadahead,
    options: DirOptions,
    tree: Tree,
    now: Nanos,
    /// Listings in flight: the directory, the first entry requested, and pages side by side.
    listing: BTreeMap<u64, (usize, u32)>,
    /// Subtree requests in flight: the directory, and the range of its entries.
    belows: Vec<(u64, u32, u32)>,
    /// Pages in flight again: the directory, the first entry, the one after the last, and when it
    /// was asked for.
    renewing: Vec<(u64, u32, u32, Nanos)>,
    /// The pages of each directory, by their first entries: the entry after the last one, and when
    /// it was asked for.
    pages: BTreeMap<(u64, u32), (u32, Nanos)>,
    /// The directories that wait for subtree requests.
    along: BTreeSet<u64>,
    /// How many entries of each directory are known, and when they were requested.
    known: BTreeMap<u64, (usize, Nanos)>,
    /// The first entry of each directory that is not forgotten.
    gone: BTreeMap<u64, u32>,
    fetching: BTreeSet<(u64, u32)>,
    fetched: BTreeSet<(u64, u32)>,
    /// In flight, and discarded or opened: they are not ahead when they come.
    dropped: BTreeSet<(u64, u32)>,
    /// What was fetched of files of which ends were; if it `cuts`, no more than their heads.
    ends: BTreeMap<(u64, u32), Ends>,
    cuts: bool,
    /// What a program said that may be ahead of it.
    ahead_bytes: Option<u64>,
    rounds: u32,
    requests: u32,
    discarded: u32,
    released: Vec<u64>,
    /// Entries of a page of a listing, and names that a subtree request is answered with.
    page: usize,
    below: usize,
    first_byte: Nanos,
    /// Pages of a listing that the storage answers side by side.
    side_by_side: u32,
}

impl Driver {
    fn new(tree: Tree, options: DirOptions) -> Self {
        Self {
            policy: DirReadahead::new(options),
            options,
            tree,
            now: Nanos(0),
            listing: BTreeMap::new(),
            belows: Vec::new(),
            renewing: Vec::new(),
            pages: BTreeMap::new(),
            along: BTreeSet::new(),
            known: BTreeMap::new(),
            gone: BTreeMap::new(),
            fetching: BTreeSet::new(),
            fetched: BTreeSet::new(),
            dropped: BTreeSet::new(),
            ends: BTreeMap::new(),
            cuts: false,
            ahead_bytes: None,
            rounds: 0,
            requests: 0,
            discarded: 0,
            released: Vec::new(),
            page: PAGE,
            below: BELOW,
            first_byte: Nanos::from_millis(30),
            side_by_side: u32::MAX,
        }
    }

    fn tell(&mut self, event: DirEvent<'_>) {
        match event {
            DirEvent::Expected { ahead_bytes, .. } => self.ahead_bytes = self.ahead_bytes.or(ahead_bytes),
            DirEvent::Unexpected => self.ahead_bytes = None,
            _ => {}
        }
        self.policy.handle(self.now, event);
        while let Some(action) = self.policy.poll_action() {
            match action {
                DirAction::List { dir, restarts, parallel, .. } => {
                    assert!(parallel >= 1);
                    let from = if restarts { 0 } else { self.known.get(&dir.0).map_or(0, |known| known.0) };
                    self.listing.insert(dir.0, (from, parallel));
                    self.along.remove(&dir.0);
                    self.requests += 1;
                }
                DirAction::ListFrom { dir, from } => {
                    assert!((from as usize) < self.tree[&dir.0].len());
                    self.listing.insert(dir.0, (from as usize, 1));
                    self.along.remove(&dir.0);
                    self.known.insert(dir.0, (from as usize, self.now));
                    self.gone.insert(dir.0, from);
                    self.requests += 1;
                }
                DirAction::Renew { dir, from, to } => self.renew(dir.0, from, to),
                DirAction::ListBelow { dir, from, to } => {
                    assert!(self.options.below);
                    for below in self.dirs_among(dir.0, from, to) {
                        assert!(self.along.insert(below) && !self.listing.contains_key(&below), "{below} twice");
                    }
                    self.belows.push((dir.0, from, to));
                    self.requests += 1;
                }
                DirAction::Fetch { dir, entry, ends } => {
                    self.fetches_ends((dir.0, entry), ends);
                    assert!(self.fetching.insert((dir.0, entry)), "fetched while it is being fetched");
                    self.requests += 1;
                }
                DirAction::Discard { dir, entry } => {
                    let file = (dir.0, entry);
                    if !self.fetched.remove(&file) && !matches!(event, DirEvent::Closed { .. }) {
                        assert!(self.fetching.contains(&file), "{file:?} was not fetched");
                        self.dropped.insert(file);
                    }
                    self.discarded += 1;
                }
                DirAction::Trim { dir, to } => {
                    let before = self.gone.insert(dir.0, to).unwrap_or(0);
                    assert!(before < to && to < self.known[&dir.0].0 as u32, "{before} to {to} of {dir:?}");
                    let gone = |file: &(u64, u32)| file.0 == dir.0 && file.1 < to;
                    assert!(!self.fetched.iter().any(gone), "a fetched file is forgotten, and was not discarded");
                }
                DirAction::Drop { dir } => {
                    self.gone.remove(&dir.0);
                    self.known.remove(&dir.0);
                    self.listing.remove(&dir.0);
                    self.along.remove(&dir.0);
                }
                DirAction::Release { listing } => self.released.push(listing),
            }
        }
        assert!(self.fetching.len() <= 64);
        let charged = self.policy.charged_bytes();
        let goes_on = matches!(event, DirEvent::Capacity(_)) && self.policy.is_over();
        assert!(charged <= self.options.shares.known_bytes || goes_on, "{charged} bytes are charged");
        let ahead: u64 = self.fetched.iter().map(|&file| self.bytes_ahead(file)).sum();
        assert!(ahead <= self.options.shares.contents_bytes, "{ahead} bytes of files are ahead");
    }

    /// The storage answers one page of a listing.
    fn answer_listing(&mut self, dir: u64) {
        let Some((from, _)) = self.listing.remove(&dir) else { return };
        let children = self.tree[&dir].clone();
        let end = (from + self.page).min(children.len());
        let since = if from == 0 { self.now } else { self.known.get(&dir).map_or(self.now, |known| known.1) };
        self.known.insert(dir, (end, since));
        let (first, last) = (from == 0, end == children.len());
        if first {
            self.gone.remove(&dir);
            // What is in flight of a listing that is replaced is not told of.
            self.renewing.retain(|page| page.0 != dir);
            self.pages.retain(|page, _| page.0 != dir);
        }
        let asked = Nanos(self.now.0.saturating_sub(self.first_byte.0));
        self.pages.insert((dir, from as u32), (end as u32, asked));
        let gone = self.gone.get(&dir).copied().unwrap_or(0) as usize;
        let bytes = ((end - gone) as u64).div_ceil(self.page as u64) * PAGE_BYTES;
        let children = &children[from..end];
        self.tell(DirEvent::Listed { dir: DirId(dir), first, same: true, children, last, bytes });
    }

    /// The storage answers one subtree request.
    fn answer_below(&mut self, nth: usize) {
        let (dir, from, to) = self.belows.remove(nth);
        let requested = self.now;
        let (mut whole, mut left) = (Vec::new(), self.below);
        // A page ends in the middle of a directory, and of those above it.
        for below in self.dirs_among(dir, from, u32::MAX) {
            if !self.take(below, &mut left, &mut whole) {
                break;
            }
        }
        for below in self.dirs_among(dir, from, to) {
            if !self.along.remove(&below) {
                continue;
            }
            if whole.contains(&below) {
                self.tell_whole(below);
            } else {
                self.known.remove(&below);
            }
        }
        for below in whole {
            if !self.is_early(below) && !self.is_in_flight(below) {
                self.tell(DirEvent::Along { dir: DirId(below), requested });
                self.tell_whole(below);
            }
        }
        self.tell(DirEvent::ListedBelow { dir: DirId(dir), from });
    }

    /// What a page of a subtree, with room for `left` more files, holds of `dir`: whole
    /// directories, each after those in it. Returns whether it holds all.
    fn take(&self, dir: u64, left: &mut usize, whole: &mut Vec<u64>) -> bool {
        for child in &self.tree[&dir] {
            let fits = match child {
                Child::Directory(below) => self.take(below.0, left, whole),
                Child::File { .. } => left.checked_sub(1).map(|rest| *left = rest).is_some(),
            };
            if !fits {
                return false;
            }
        }
        whole.push(dir);
        true
    }

    fn tell_whole(&mut self, dir: u64) {
        let children = self.tree[&dir].clone();
        self.known.insert(dir, (children.len(), self.now));
        let (dir, bytes) = (DirId(dir), PAGE_BYTES);
        self.tell(DirEvent::Listed { dir, first: true, same: true, children: &children, last: true, bytes });
    }

    fn is_in_flight(&self, dir: u64) -> bool {
        self.listing.contains_key(&dir) || self.along.contains(&dir)
    }

    fn dirs_among(&self, dir: u64, from: u32, to: u32) -> Vec<u64> {
        let dirs = self.tree[&dir].iter().take(to as usize).skip(from as usize);
        dirs.filter_map(|child| if let Child::Directory(dir) = child { Some(dir.0) } else { None }).collect()
    }

    fn answer_fetch(&mut self, file: (u64, u32), came: bool) {
        if self.fetching.remove(&file) {
            let is_dropped = self.dropped.remove(&file);
            if came && !is_dropped {
                self.fetched.insert(file);
            }
            self.cut(file);
            self.tell(DirEvent::Fetched { dir: DirId(file.0), entry: file.1, came });
        }
    }

    /// The storage answers everything in flight.
    fn round(&mut self) {
        self.rounds += 1;
        self.now = Nanos(self.now.0 + self.first_byte.0);
        for (dir, (_, parallel)) in self.listing.clone() {
            for _ in 0..parallel.min(self.side_by_side) {
                self.answer_listing(dir);
            }
        }
        for _ in 0..self.renewing.len().min(self.side_by_side as usize) {
            self.answer_renewal();
        }
        for _ in 0..self.belows.len() {
            self.answer_below(0);
        }
        for file in self.fetching.clone() {
            self.answer_fetch(file, true);
        }
    }

    /// No reader does anything any more. Whether the storage is asked for nothing in the end,
    /// though some files do not come.
    fn comes_to_rest(&mut self) -> bool {
        for _ in 0..100 {
            for dir in self.listing.keys().copied().collect::<Vec<_>>() {
                self.answer_listing(dir);
            }
            for _ in 0..self.renewing.len() {
                self.answer_renewal();
            }
            for _ in 0..self.belows.len() {
                self.answer_below(0);
            }
            for (nth, file) in self.fetching.clone().into_iter().enumerate() {
                self.answer_fetch(file, nth % 4 != 3);
            }
        }
        self.listing.is_empty() && self.renewing.is_empty() && self.belows.is_empty() && self.fetching.is_empty()
    }

    fn is_fresh(&self, dir: u64) -> bool {
        self.known.get(&dir).is_some_and(|known| self.now.since(known.1) <= self.options.ttl)
    }

    /// A reader opens a directory, and reads it to its end: two reads from its start.
    fn read(&mut self, dir: u64) {
        for entry in std::iter::once(0).chain((0..=self.tree[&dir].len() as u32).step_by(self.page)) {
            let there = |driver: &Self| {
                driver.known.get(&dir).is_some_and(|known| known.0 as u32 > entry || known.0 == driver.tree[&dir].len())
            };
            let fresh = entry > 0 || self.is_fresh(dir);
            let found = match (there(self) && fresh, self.is_in_flight(dir)) {
                (true, _) => Found::Resident,
                (_, true) => Found::InFlight,
                _ => Found::Absent,
            };
            self.tell(DirEvent::Read { dir: DirId(dir), entry, found });
            while found != Found::Resident && (self.is_in_flight(dir) || !there(self)) {
                assert!(!self.listing.is_empty() || !self.belows.is_empty(), "a reader of {dir} waits for nothing");
                self.round();
                if !self.is_in_flight(dir) && !there(self) {
                    // It did not come whole with the subtree.
                    self.tell(DirEvent::Read { dir: DirId(dir), entry, found: Found::Absent });
                }
            }
        }
    }

    /// A reader opens a file. Returns what is there of it.
    fn begin_open(&mut self, dir: u64, entry: u32) -> Found {
        let file = (dir, entry);
        let found = match (self.fetched.remove(&file), self.fetching.contains(&file)) {
            (true, _) => Found::Resident,
            (_, true) => Found::InFlight,
            _ => Found::Absent,
        };
        self.tell(DirEvent::Opened { dir: DirId(dir), entry, found });
        // A long one is fetched whole because it is opened.
        let is_own = |child: &Child| matches!(child, Child::File { pages, .. } if *pages > 32);
        if found == Found::InFlight || self.fetching.contains(&file) && is_own(&self.tree[&dir][entry as usize]) {
            self.dropped.insert(file);
        }
        found
    }

    fn open(&mut self, dir: u64, entry: u32) {
        let found = self.begin_open(dir, entry);
        self.requests += u32::from(found == Found::Absent);
        if found != Found::Resident {
            self.round();
        }
    }

    fn dirs_of(&self, dir: u64) -> Vec<u64> {
        self.dirs_among(dir, 0, u32::MAX)
    }

    /// A reader goes through the tree below `dir`, depth first, and opens files if `contents`.
    fn walk(&mut self, dir: u64, contents: bool) {
        self.read(dir);
        for (entry, child) in self.tree[&dir].clone().into_iter().enumerate() {
            match child {
                Child::Directory(below) => self.walk(below.0, contents),
                Child::File { .. } if contents => self.open(dir, entry as u32),
                Child::File { .. } => {}
            }
        }
    }

    fn counters(&self) -> DirCounters {
        self.policy.counters()
    }
}

#[test]
fn a_walk_waits_for_a_few_rounds_and_lists_nothing_twice() {
    let mut driver = Driver::new(tree(1, 100, 20, 2), OPTIONS);
    driver.walk(0, false);
    // 100 directories of two pages each.
    assert!(driver.rounds <= 25, "{} rounds", driver.rounds);
    assert!(driver.requests <= 10 + 100 * 2 + 16, "{} requests", driver.requests);
    assert_eq!(driver.counters().fetches, 0);
}

#[test]
fn a_directory_larger_than_the_memory_is_read_once_and_forgotten_behind_its_reader() {
    let entries = 20_000;
    let mut driver = Driver::new(tree(0, 0, entries, 2), OPTIONS);
    driver.read(0);
    let gone = driver.gone[&0] as usize;
    assert!(gone > entries / 2 && gone < entries, "{gone} of {entries} entries are gone");
    assert!(driver.requests as usize <= entries / PAGE + 40, "{} requests", driver.requests);
    // What is left is known, and a directory beside it as well.
    driver.tree.insert(1, vec![Child::File { pages: 1, kind: 0, stem: 0 }; 15]);
    driver.read(1);
    assert_eq!(driver.gone[&0] as usize, gone);
    assert!(driver.known.contains_key(&0) && driver.known.contains_key(&1));
    // A smaller budget holds at once.
    driver.options.shares = DirShares { known_bytes: OPTIONS.shares.known_bytes / 4, contents_bytes: 0 };
    driver.tell(DirEvent::Capacity(driver.options.shares));
    assert!(!driver.known.contains_key(&0), "the directory used least recently went");
}

/// A budget that is made much smaller is made so in steps, between which readers go on.
#[test]
fn a_smaller_budget_forgets_a_part_at_a_time_and_all_in_the_end() {
    let shares = DirShares { known_bytes: 64 << 20, ..OPTIONS.shares };
    let mut driver = Driver::new(tree(1, 10_000, 1, 1), DirOptions { shares, ..OPTIONS });
    driver.walk(0, false);
    assert!(driver.known.len() > 9_000, "{}", driver.known.len());
    driver.options.shares = OPTIONS.shares;
    let mut steps = 0;
    loop {
        let before = driver.known.len();
        driver.tell(DirEvent::Capacity(driver.options.shares));
        assert!(before - driver.known.len() <= 1024, "{} at a time", before - driver.known.len());
        steps += 1;
        if !driver.policy.is_over() {
            break;
        }
    }
    assert!((5..=12).contains(&steps), "{steps} steps");
    assert!(driver.policy.charged_bytes() <= OPTIONS.shares.known_bytes);
}

/// Listings that only readers keep are charged, have a half of the share, and go before what is
/// known.
#[test]
fn older_listings_have_a_share_and_the_one_used_least_recently_is_released() {
    let mut driver = Driver::new(tree(1, 10, 10, 1), OPTIONS);
    driver.walk(0, false);
    let known = driver.policy.charged_bytes();
    let share = OPTIONS.shares.known_bytes / 2;
    for listing in 1..=4 {
        driver.tell(DirEvent::Older { listing, bytes: share / 4 });
    }
    assert_eq!(driver.released, []);
    assert!(driver.policy.charged_bytes() >= known + share);
    driver.tell(DirEvent::Older { listing: 1, bytes: share / 4 });
    driver.tell(DirEvent::Older { listing: 5, bytes: share / 4 });
    assert_eq!(driver.released, [2]);
    // One that takes more than all may is released at once.
    driver.tell(DirEvent::Older { listing: 6, bytes: share + 1 });
    assert_eq!(driver.released, [2, 3, 4, 1, 5, 6]);
    assert_eq!(driver.policy.charged_bytes(), known);
    driver.tell(DirEvent::Older { listing: 7, bytes: share });
    driver.tell(DirEvent::Older { listing: 7, bytes: 0 });
    assert_eq!(driver.policy.charged_bytes(), known);
    assert_eq!(driver.known.len(), 11);
}

/// Which entry the name is that is looked up so many names after the first one.
type Place = fn(u32) -> u32;

/// Names in order in a directory of which a small part fits: of any of its names, forward or back,
/// from the start or the middle, a few are asked for alone, and no page is listed often.
#[test]
fn a_directory_larger_than_the_memory_is_listed_again_where_names_are_in_order() {
    let entries = 20_000;
    let options = DirOptions { below: true, ..OPTIONS };
    let orders: [(&str, Place); 3] =
        [("forward", |nth| nth), ("from the middle", |nth| nth + 5_000), ("backward", |nth| 9_999 - nth)];
    for (order, entry) in orders {
        for step in [1, 3, 10] {
            let mut driver = Driver::new(tree(0, 0, entries, 2), options);
            driver.read(0);
            let (before, names) = (driver.requests, 10_000 / step);
            let mut alone = 0;
            for nth in 0..names {
                alone += u32::from(driver.look_up(0, entry(nth * step)));
                // Meanwhile a page may come.
                if nth % (8 / step).max(1) == 0 {
                    driver.round();
                }
            }
            // Backward each page begins with a name that waits for it.
            let most = if order == "backward" { 10_000 / PAGE as u32 + 8 } else { 24 };
            assert!(alone <= most, "{order}, every {step}: {alone} of {names} names are asked for alone");
            let requests = driver.requests - before;
            let pages = 10_000 / PAGE as u32;
            assert!(requests <= pages * 9 / 4 + 64, "{order}, every {step}: {requests} requests for {pages} pages");
        }
    }
}

#[test]
fn names_at_random_places_of_a_large_directory_have_little_listed() {
    let entries = 20_000;
    let mut driver = Driver::new(tree(0, 0, entries, 2), DirOptions { below: true, ..OPTIONS });
    driver.read(0);
    let before = driver.requests;
    let mut seed = 1_u64;
    for _ in 0..5_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        driver.look_up(0, (seed >> 33) as u32 % entries as u32);
    }
    let requests = driver.requests - before;
    assert!(requests <= 100, "{requests} requests");
}

/// Directories in a parent of which a small part fits are entered in order.
#[test]
fn a_walk_goes_on_where_the_parent_does_not_fit() {
    for wide in [1_600, 16_000] {
        let shares = DirShares { known_bytes: 4 << 20, ..OPTIONS.shares };
        let mut driver = Driver::new(tree(1, wide, 1, 2), DirOptions { shares, below: true, ..OPTIONS });
        driver.read(0);
        let gone = driver.gone.get(&0).copied().unwrap_or(0);
        assert_eq!(gone > 0, wide > 10_000, "{gone} of {wide} entries are gone");
        let (rounds, requests, mut alone) = (driver.rounds, driver.requests, 0);
        for entry in 0..wide as u32 {
            alone += u32::from(driver.look_up(0, entry));
            driver.read(u64::from(entry) + 1);
            // Meanwhile a page may come.
            if entry % 8 == 0 {
                driver.round();
            }
        }
        let (rounds, requests) = (driver.rounds - rounds - wide as u32 / 8, driver.requests - requests);
        assert!(alone <= 8, "{wide}: {alone} are asked for alone");
        assert!(rounds <= wide as u32 / 20, "{wide}: {rounds} rounds");
        assert!(requests <= wide as u32 / 4, "{wide}: {requests} requests");
    }
}

#[test]
fn directories_of_which_only_names_were_looked_up_are_charged() {
    let mut driver = Driver::new(Tree::new(), OPTIONS);
    for dir in 0..10_000 {
        driver.tell(DirEvent::Met { dir: DirId(dir), bytes: 100 });
        driver.tell(DirEvent::Named { dir: DirId(dir), entry: None, found: Found::Absent });
    }
    let known = (0..10_000).filter(|&dir| driver.policy.knows(DirId(dir))).count() as u64;
    assert!(known > 0 && known * 1000 <= OPTIONS.shares.known_bytes, "{known} directories are known");
}

#[test]
fn breadth_first_is_a_walk_as_well() {
    let mut driver = Driver::new(tree(3, 5, 1, 2), OPTIONS);
    let mut queue = std::collections::VecDeque::from([0]);
    while let Some(dir) = queue.pop_front() {
        driver.read(dir);
        queue.extend(driver.dirs_of(dir));
    }
    assert!(driver.rounds <= 25, "{} rounds for {} directories", driver.rounds, driver.tree.len());
    assert!(driver.requests as usize <= driver.tree.len() * 11 / 10, "{} requests", driver.requests);
}

#[test]
fn a_reader_that_only_looks_names_up_has_no_file_fetched() {
    let mut driver = Driver::new(tree(1, 50, 20, 25), OPTIONS);
    driver.read(0);
    driver.dirs_of(0).into_iter().for_each(|dir| driver.read(dir));
    driver.now = Nanos(driver.now.0 + 2_000_000_000);
    for nth in 0..400u64 {
        let (dir, entry) = (nth * 37 % 50 + 1, (nth / 50 * 7 % 20) as u32);
        driver.tell(DirEvent::Named { dir: DirId(dir), entry: Some(entry), found: Found::Absent });
        driver.round();
    }
    assert_eq!(driver.counters().fetches, 0);
}

#[test]
fn one_directory_is_no_walk_and_one_file_no_order() {
    let mut driver = Driver::new(tree(1, 9, 9, 2), OPTIONS);
    driver.read(0);
    let listed = driver.requests;
    driver.tell(DirEvent::Named { dir: DirId(3), entry: None, found: Found::Absent });
    driver.read(5);
    driver.open(5, 3);
    assert_eq!(driver.requests, listed + 2, "the directory and the file");
}

#[test]
fn files_in_order_are_there_when_they_are_opened() {
    for backward in [false, true] {
        let mut driver = Driver::new(tree(0, 0, 1000, 25), OPTIONS);
        driver.read(0);
        (driver.rounds, driver.requests) = (0, 0);
        let order: Vec<u32> = if backward { (0..1000).rev().collect() } else { (0..1000).collect() };
        for entry in order {
            driver.open(0, entry);
        }
        assert!(driver.rounds <= 100, "{} rounds, backward {backward}", driver.rounds);
        assert_eq!(driver.requests, 1000, "each once, backward {backward}");
    }
}

#[test]
fn a_reader_that_stops_half_way_has_little_fetched_in_vain() {
    let mut driver = Driver::new(tree(0, 0, 2000, 2), OPTIONS);
    driver.read(0);
    (0..1000).for_each(|entry| driver.open(0, entry));
    let unused = driver.fetched.len() + driver.fetching.len();
    assert!(unused <= 100, "{unused} files in vain");
}

#[test]
fn an_epoch_in_the_order_of_the_last_waits_for_little() {
    let mut driver = Driver::new(tree(1, 20, 50, 27), OPTIONS);
    driver.walk(0, false);
    let mut order: Vec<(u64, u32)> = (1..=20).flat_map(|dir| (0..50).map(move |entry| (dir, entry))).collect();
    let mut state = 1u64;
    for at in (1..order.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        order.swap(at, (state >> 33) as usize % (at + 1));
    }
    let epoch = |driver: &mut Driver| {
        let before = driver.rounds;
        for &(dir, entry) in &order {
            driver.open(dir, entry);
        }
        driver.rounds - before
    };
    let first = epoch(&mut driver);
    let second = epoch(&mut driver);
    assert!(second <= 250 && second * 2 <= first, "{first} rounds, then {second}");
}

#[test]
fn fetches_that_never_hit_soon_stop() {
    let mut driver = Driver::new(tree(0, 0, 2000, 2), OPTIONS);
    driver.read(0);
    let before = driver.requests;
    for entry in 0..1000 {
        driver.fetched.remove(&(0, entry));
        // The fetched file is never the one that is opened.
        driver.tell(DirEvent::Opened { dir: DirId(0), entry, found: Found::Absent });
        driver.round();
    }
    assert!(driver.requests - before <= 50, "{} requests", driver.requests - before);
}

#[derive(Debug, Clone)]
enum Step {
    Read(u64),
    Named(u64, u32),
    ReadByName(u64),
    Sought(u64, u32, u32),
    Open(u64, u32),
    Expect(u64, u32),
    Ahead(Option<u64>),
    ExpectNone,
    AnswerListing(usize),
    AnswerFetch(usize, bool),
    Fail(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let dir = 0..21u64;
    let file = (dir.clone(), 0..30u32);
    prop_oneof![
        4 => dir.clone().prop_map(Step::Read),
        2 => file.clone().prop_map(|(dir, entry)| Step::Named(dir, entry)),
        2 => dir.clone().prop_map(Step::ReadByName),
        2 => (0..3u64, 0..160u32, 0..40u32).prop_map(|(dir, entry, len)| Step::Sought(dir, entry, len)),
        6 => file.clone().prop_map(|(dir, entry)| Step::Open(dir, entry)),
        2 => file.prop_map(|(dir, entry)| Step::Expect(dir, entry)),
        1 => prop::option::of(0..400_000u64).prop_map(Step::Ahead),
        1 => Just(Step::ExpectNone),
        6 => any::<usize>().prop_map(Step::AnswerListing),
        6 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(nth, came)| Step::AnswerFetch(nth, came)),
        1 => any::<usize>().prop_map(Step::Fail),
        1 => (0..2_000u64).prop_map(Step::Wait),
    ]
}

proptest! {
    /// What is known and what is ahead stay within their bounds, and a reader's own listing is in
    /// flight whenever the reader waits for it.
    #[test]
    fn what_is_known_and_ahead_is_bounded_whatever_readers_do(steps in prop::collection::vec(step(), 1..300), small in any::<bool>(), shape in 0..3) {
        // The small one holds all directories of the flat tree, and few of their entries.
        let known_bytes = if small { 50_000 } else { 1 << 20 };
        let shares = DirShares { known_bytes, contents_bytes: 300_000 };
        let options = DirOptions { shares, below: shape > 0, ..OPTIONS };
        let tree = match shape {
            0 => tree(2, 4, 30, 20),
            1 => tree(1, 20, 3, 20),
            _ => tree(1, 160, 3, 20),
        };
        let mut driver = Driver::new(tree, options);
        for step in steps {
            match step {
                Step::Read(dir) => {
                    let found = match (driver.is_fresh(dir), driver.is_in_flight(dir)) {
                        (true, _) => Found::Resident,
                        (_, true) => Found::InFlight,
                        _ => Found::Absent,
                    };
                    driver.tell(DirEvent::Read { dir: DirId(dir), entry: 0, found });
                    prop_assert!(found == Found::Resident || driver.is_in_flight(dir));
                }
                Step::Named(dir, entry) => {
                    let entry = Some(entry).filter(|&entry| driver.known.get(&dir).is_some_and(|known| known.0 as u32 > entry));
                    let found = if driver.is_fresh(dir) { Found::Resident } else { Found::Absent };
                    driver.tell(DirEvent::Named { dir: DirId(dir), entry, found });
                }
                Step::ReadByName(dir) => driver.read_by_name(dir),
                Step::Sought(dir, entry, len) => {
                    if (entry as usize) < driver.tree[&dir].len() {
                        driver.tell(DirEvent::Sought { dir: DirId(dir), from: entry, to: entry + len });
                    }
                }
                Step::Open(dir, entry) => {
                    if driver.known.get(&dir).is_some_and(|known| known.0 as u32 > entry) {
                        driver.begin_open(dir, entry);
                    }
                }
                Step::Expect(dir, entry) => {
                    let is_file = matches!(driver.tree[&dir].get(entry as usize), Some(Child::File { .. }));
                    if is_file && driver.known.get(&dir).is_some_and(|known| known.0 as u32 > entry) {
                        let (files, ahead_bytes) = ([(DirId(dir), entry)], None);
                        driver.tell(DirEvent::Expected { files: &files, ahead_bytes, continues: true });
                    }
                }
                Step::Ahead(ahead_bytes) => driver.tell(DirEvent::Expected { files: &[], ahead_bytes, continues: false }),
                Step::ExpectNone => driver.tell(DirEvent::Unexpected),
                Step::AnswerListing(nth) => {
                    let dirs: Vec<u64> = driver.listing.keys().copied().collect();
                    if let Some(&dir) = dirs.get(nth % dirs.len().max(1)) {
                        driver.answer_listing(dir);
                    } else if !driver.belows.is_empty() {
                        driver.answer_below(nth % driver.belows.len());
                    }
                }
                Step::AnswerFetch(nth, came) => {
                    let files: Vec<_> = driver.fetching.iter().copied().collect();
                    if let Some(&file) = files.get(nth % files.len().max(1)) {
                        driver.answer_fetch(file, came);
                    }
                }
                Step::Fail(nth) => {
                    let dirs: Vec<u64> = driver.listing.keys().copied().collect();
                    if let Some(&dir) = dirs.get(nth % dirs.len().max(1)) {
                        driver.listing.remove(&dir);
                        driver.known.remove(&dir);
                        driver.tell(DirEvent::Failed { dir: DirId(dir) });
                    }
                }
                Step::Wait(millis) => driver.now = Nanos(driver.now.0 + millis * 1_000_000),
            }
            let bytes = driver.policy.charged_bytes();
            prop_assert!(bytes <= known_bytes, "{bytes} of {known_bytes} bytes");
        }
        prop_assert!(driver.comes_to_rest(), "{:?} is fetched for no reader", driver.fetching);
    }
}
