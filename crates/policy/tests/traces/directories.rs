//! Traces of `src/directories`: what is listed, and which small files are fetched, ahead of a
//! reader.

use std::collections::{BTreeMap, BTreeSet};

use foreread_policy::{Child, DirAction, DirEvent, DirId, DirOptions, DirReadahead, DirShares, Found, Nanos};

use crate::trace::{self, Trace};

const OPTIONS: DirOptions = DirOptions {
    shares: DirShares { known_bytes: 1 << 20, contents_bytes: 64 << 20 },
    ttl: Nanos::from_millis(1_000),
    readahead: true,
    below: false,
};

/// A small file, of 25 pages.
const FILE: Child = Child::File { pages: 25, kind: 0, stem: 0 };

/// Entries of one answer of a listing, and the bytes that it takes to remember them.
const PAGE: usize = 4;
const PAGE_BYTES: u64 = 2_000;

/// From asking the storage to its answer.
const ANSWER_NS: u64 = 30_000_000;

/// A driver: storage that answers everything that it was asked after 30 ms.
struct Driver {
    policy: DirReadahead,
    now: Nanos,
    /// The children of each directory.
    tree: Vec<Vec<Child>>,
    /// How many entries of a directory are known, and since when.
    known: BTreeMap<u64, (usize, Nanos)>,
    /// The first entry of a directory that is not forgotten.
    gone: BTreeMap<u64, u32>,
    listing: BTreeMap<u64, usize>,
    /// Pages in flight again: the directory, the first entry, and the one after the last.
    renewing: Vec<(u64, u32, u32)>,
    fetching: BTreeSet<(u64, u32)>,
    fetched: BTreeSet<(u64, u32)>,
    trace: Trace,
}

impl Driver {
    fn new(tree: Vec<Vec<Child>>) -> Self {
        Self::with(tree, OPTIONS)
    }

    fn with(tree: Vec<Vec<Child>>, options: DirOptions) -> Self {
        Self {
            policy: DirReadahead::new(options),
            now: Nanos(0),
            tree,
            known: BTreeMap::new(),
            gone: BTreeMap::new(),
            listing: BTreeMap::new(),
            renewing: Vec::new(),
            fetching: BTreeSet::new(),
            fetched: BTreeSet::new(),
            trace: Trace::default(),
        }
    }

    fn tell(&mut self, event: DirEvent<'_>) {
        self.policy.handle(self.now, event);
        let actions: Vec<DirAction> = std::iter::from_fn(|| self.policy.poll_action()).collect();
        let texts: Vec<String> = actions.iter().map(|&action| action_text(action)).collect();
        self.trace.event(self.now, &event_text(event), &texts);
        for action in actions {
            match action {
                DirAction::List { dir, restarts, .. } => {
                    let from = if restarts { 0 } else { self.known.get(&dir.0).map_or(0, |known| known.0) };
                    self.listing.insert(dir.0, from);
                }
                DirAction::ListFrom { dir, from } => {
                    self.listing.insert(dir.0, from as usize);
                    self.known.insert(dir.0, (from as usize, self.now));
                }
                DirAction::Renew { dir, from, to } => self.renewing.push((dir.0, from, to)),
                DirAction::Trim { dir, to } => drop(self.gone.insert(dir.0, to)),
                DirAction::ListBelow { .. } | DirAction::Release { .. } => {}
                DirAction::Fetch { dir, entry, .. } => drop(self.fetching.insert((dir.0, entry))),
                DirAction::Discard { dir, entry } => drop(self.fetched.remove(&(dir.0, entry))),
                DirAction::Drop { dir } => drop(self.known.remove(&dir.0)),
            }
        }
    }

    /// The storage answers all that it was asked.
    fn answer(&mut self) {
        self.now = Nanos(self.now.0 + ANSWER_NS);
        for (dir, from, to) in std::mem::take(&mut self.renewing) {
            let children = self.tree[dir as usize][from as usize..to as usize].to_vec();
            self.tell(DirEvent::Renewed { dir: DirId(dir), from, children: &children });
        }
        for (dir, from) in std::mem::take(&mut self.listing) {
            let all = self.tree[dir as usize].clone();
            let end = (from + PAGE).min(all.len());
            let since = self.known.get(&dir).filter(|_| from > 0).map_or(self.now, |known| known.1);
            self.known.insert(dir, (end, since));
            let gone = self.gone.get(&dir).copied().unwrap_or(0) as usize;
            let bytes = end.saturating_sub(gone).div_ceil(PAGE) as u64 * PAGE_BYTES;
            let (first, last, children) = (from == 0, end == all.len(), &all[from..end]);
            self.tell(DirEvent::Listed { dir: DirId(dir), first, same: true, children, last, bytes });
        }
        for (dir, entry) in std::mem::take(&mut self.fetching) {
            self.fetched.insert((dir, entry));
            self.tell(DirEvent::Fetched { dir: DirId(dir), entry, came: true });
        }
    }

    /// A reader takes all entries of a directory.
    fn read(&mut self, dir: u64) {
        let len = self.tree[dir as usize].len();
        for entry in (0..=len).step_by(PAGE) {
            let there = |driver: &Self| {
                let known = driver.known.get(&dir).filter(|known| driver.now.since(known.1) <= OPTIONS.ttl);
                known.is_some_and(|&(known, _)| known > entry || known == len)
            };
            let found = match (there(self), self.listing.contains_key(&dir)) {
                (true, _) => Found::Resident,
                (false, true) => Found::InFlight,
                (false, false) => Found::Absent,
            };
            self.tell(DirEvent::Read { dir: DirId(dir), entry: entry as u32, found });
            while !there(self) && !self.listing.is_empty() {
                self.answer();
            }
        }
    }

    /// A reader opens a file and reads it.
    fn open(&mut self, dir: u64, entry: u32) {
        let file = (dir, entry);
        let found = match (self.fetched.remove(&file), self.fetching.contains(&file)) {
            (true, _) => Found::Resident,
            (false, true) => Found::InFlight,
            (false, false) => Found::Absent,
        };
        self.tell(DirEvent::Opened { dir: DirId(dir), entry, found });
        if found != Found::Resident {
            self.answer();
            self.fetched.remove(&file);
        }
    }

    /// A reader asks what a name is that the listing no longer tells.
    fn lookup(&mut self, dir: u64, entry: u32) {
        self.tell(DirEvent::Named { dir: DirId(dir), entry: Some(entry), found: Found::Absent });
        self.answer();
    }

    fn hidden(&mut self, text: &str, what: impl FnOnce(&mut Self)) {
        self.trace.hide(text);
        what(self);
        self.trace.show();
    }
}

fn event_text(event: DirEvent<'_>) -> String {
    match event {
        DirEvent::Capacity(DirShares { known_bytes, contents_bytes }) => {
            format!("Capacity {known_bytes}, contents {contents_bytes}")
        }
        DirEvent::Ttl(ttl) => format!("Ttl {} ms", ttl.0 / 1_000_000),
        DirEvent::Met { dir, bytes } => format!("Met d{} {bytes}", dir.0),
        DirEvent::Read { dir, entry, found } => format!("Read d{} from {entry} {found:?}", dir.0),
        DirEvent::Named { dir, entry: Some(entry), found } => format!("Named d{}/{entry} {found:?}", dir.0),
        DirEvent::Named { dir, entry: None, found } => format!("Named d{}/? {found:?}", dir.0),
        DirEvent::AnsweredByName { there } => format!("AnsweredByName {there}"),
        DirEvent::ReadByName { dir, .. } => format!("ReadByName d{}", dir.0),
        DirEvent::Sought { dir, from, to } => format!("Sought d{} [{from},{to})", dir.0),
        DirEvent::Closed { dir, entry, ends } => format!("Closed d{}/{entry} {}+{}", dir.0, ends.head, ends.tail),
        DirEvent::Cut { dir, entry, ends } => format!("Cut d{}/{entry} {}+{}", dir.0, ends.head, ends.tail),
        DirEvent::Opened { dir, entry, found } => format!("Opened d{}/{entry} {found:?}", dir.0),
        DirEvent::Expected { files, ahead_bytes, .. } => format!("Expected {} {ahead_bytes:?}", files.len()),
        DirEvent::Unexpected => "Unexpected".to_owned(),
        DirEvent::Listed { dir, children, last, .. } => {
            format!("Listed d{} {}{}", dir.0, children.len(), if last { ", the last" } else { "" })
        }
        DirEvent::Renewed { dir, from, children } => format!("Renewed d{} {from} {}", dir.0, children.len()),
        DirEvent::Older { listing, bytes } => format!("Older l{listing} {bytes}"),
        DirEvent::Failed { dir } => format!("Failed d{}", dir.0),
        DirEvent::Along { dir, .. } => format!("Along d{}", dir.0),
        DirEvent::ListedBelow { dir, from } => format!("ListedBelow d{} from {from}", dir.0),
        DirEvent::Fetched { dir, entry, .. } => format!("Fetched d{}/{entry}", dir.0),
    }
}

fn action_text(action: DirAction) -> String {
    match action {
        DirAction::List { dir, restarts, class, parallel } => {
            let restarts = if restarts { " anew" } else { "" };
            format!("List d{}{restarts} {} x{parallel}", dir.0, trace::class(class))
        }
        DirAction::ListFrom { dir, from } => format!("List d{} anew from {from}", dir.0),
        DirAction::Renew { dir, from, to } => format!("Renew d{} [{from},{to})", dir.0),
        DirAction::ListBelow { dir, from, to } => format!("ListBelow d{} [{from},{to})", dir.0),
        DirAction::Fetch { dir, entry, ends: None } => format!("Fetch d{}/{entry}", dir.0),
        DirAction::Fetch { dir, entry, ends: Some(ends) } => {
            format!("Fetch d{}/{entry} {}+{}", dir.0, ends.head, ends.tail)
        }
        DirAction::Discard { dir, entry } => format!("Discard d{}/{entry}", dir.0),
        DirAction::Trim { dir, to } => format!("Trim d{} {to}", dir.0),
        DirAction::Drop { dir } => format!("Drop d{}", dir.0),
        DirAction::Release { listing } => format!("Release l{listing}"),
    }
}

/// A directory of `dirs` directories, each of which holds `files` small files.
fn tree(dirs: u64, files: usize) -> Vec<Vec<Child>> {
    let mut tree = vec![(1..=dirs).map(|dir| Child::Directory(DirId(dir))).collect()];
    tree.extend((0..dirs).map(|_| vec![FILE; files]));
    tree
}

#[test]
fn listing() {
    let mut driver = Driver::new(vec![vec![FILE; 42]]);
    driver.read(0);
    driver
        .trace
        .check("directories_listing", "A reader lists a directory of 42 entries, which the storage tells 4 at a time.");
}

#[test]
fn walk() {
    let mut driver = Driver::new(tree(12, 2));
    (0..=7).for_each(|dir| driver.read(dir));
    driver.trace.check(
        "directories_walk",
        "A reader lists a directory, then the directories in it in order: the next are listed ahead.",
    );
}

#[test]
fn relisting() {
    let shares = DirShares { known_bytes: 32 << 10, ..OPTIONS.shares };
    let mut driver = Driver::with(vec![vec![FILE; 60]], DirOptions { shares, below: true, ..OPTIONS });
    driver.hidden("a directory is read of which a part does not fit", |driver| driver.read(0));
    for place in 0..14 {
        let (gone, known) = (driver.gone[&0], driver.known[&0].0 as u32);
        if place < gone && place >= known || place < gone.min(16) && known == 60 {
            driver.tell(DirEvent::Named { dir: DirId(0), entry: None, found: Found::Absent });
            let from = place / PAGE as u32 * PAGE as u32;
            driver.tell(DirEvent::Sought { dir: DirId(0), from, to: from + PAGE as u32 });
            driver.gone.extend((driver.known[&0].0 < 60).then_some((0, from)));
        } else {
            driver.tell(DirEvent::Named { dir: DirId(0), entry: Some(place), found: Found::Resident });
        }
        driver.answer();
    }
    driver.trace.check(
        "directories_relisting",
        "Names are looked up in order that are gone: the directory is listed again from there, ahead of the reader.",
    );
}

#[test]
fn contents() {
    let mut driver = Driver::new(vec![vec![FILE; 40]]);
    driver.hidden("the directory is listed", |driver| driver.read(0));
    (0..8).for_each(|entry| driver.open(0, entry));
    // The directory changes: its entries have other places.
    driver.tell(DirEvent::Listed {
        dir: DirId(0),
        first: true,
        same: false,
        children: &[FILE; 3],
        last: true,
        bytes: PAGE_BYTES,
    });
    driver.trace.check(
        "directories_contents",
        "Small files are opened in order: the next are fetched, and discarded when the listing changes.",
    );
}

#[test]
fn open_order() {
    let mut driver = Driver::new(vec![vec![FILE; 40]]);
    let order = (0..40).map(|nth| nth * 17 % 40);
    driver.hidden("the directory is listed; its 40 files are opened in an order of their own", |driver| {
        driver.read(0);
        order.clone().for_each(|entry| driver.open(0, entry));
    });
    order.take(12).for_each(|entry| driver.open(0, entry));
    driver.trace.check(
        "directories_open_order",
        "Files are opened a second time in the order of the first time: the next are fetched.",
    );
}

#[test]
fn lookups() {
    let mut driver = Driver::new(tree(12, 6));
    driver.hidden("all directories are listed; two seconds pass", |driver| {
        (0..=12).rev().for_each(|dir| driver.read(dir));
        driver.now = Nanos(driver.now.0 + 2_000_000_000);
    });
    for nth in 0..8 {
        let (dir, entry) = (nth * 5 % 12 + 1, (nth * 3 % 6) as u32);
        driver.lookup(dir, entry);
        driver.open(dir, entry);
    }
    driver
        .trace
        .check("directories_lookups", "Names of small files are looked up and then opened: a lookup fetches the file.");
}

#[test]
fn siblings() {
    let mut driver = Driver::new(tree(3, 12));
    driver.hidden("all directories are listed", |driver| (0..=3).for_each(|dir| driver.read(dir)));
    for (dir, entry) in [(1, 6), (1, 1), (1, 9), (1, 8), (1, 4), (2, 11), (2, 3), (2, 2), (2, 8)] {
        driver.open(dir, entry);
    }
    driver.now = Nanos(driver.now.0 + 2_000_000_000);
    driver.open(3, 5);
    driver.trace.check(
        "directories_siblings",
        "Files are opened in no order: from the second one on, those nearest to it are fetched; in the next directory \
         from the first one on, but not two seconds later.",
    );
}

#[test]
fn names() {
    let mut driver = Driver::new(tree(3, 4));
    driver.policy = DirReadahead::new(DirOptions { below: true, ..OPTIONS });
    driver.hidden("the parent is listed", |driver| driver.read(0));
    driver.tell(DirEvent::Named { dir: DirId(2), entry: None, found: Found::Absent });
    driver.now = Nanos(driver.now.0 + ANSWER_NS);
    let listed = |dir| DirEvent::Listed {
        dir: DirId(dir),
        first: true,
        same: false,
        children: &[FILE; 4],
        last: true,
        bytes: PAGE_BYTES,
    };
    driver.tell(listed(2));
    driver.tell(DirEvent::Along { dir: DirId(3), requested: Nanos(0) });
    driver.tell(listed(3));
    driver.tell(DirEvent::ListedBelow { dir: DirId(0), from: 1 });
    // It is in use: before a second has passed it is listed again, and so is its parent.
    for _ in 0..5 {
        driver.tell(DirEvent::Named { dir: DirId(2), entry: Some(1), found: Found::Resident });
        driver.now = Nanos(driver.now.0 + 200_000_000);
    }
    driver.trace.check(
        "directories_names",
        "A name in a directory that a listing has shown is looked up: the directory comes with those behind it, and is \
         listed again while names in it are looked up.",
    );
}
