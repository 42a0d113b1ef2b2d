//! Directories of several pages that are gone through by name for longer than a page is believed.

use foreread_policy::{DirEvent, DirId, DirOptions, DirShares, Found, Nanos};

use super::{Driver, OPTIONS, tree};

const ENTRIES: u32 = 50_000;
const PAGE: u32 = 1_000;
const PAGES: u64 = (ENTRIES / PAGE) as u64;

/// A directory of so many files, all of which was read.
fn listed(entries: u32, pages: u64, first_byte: u64) -> Driver {
    let shares = DirShares { known_bytes: 256 << 20, contents_bytes: 64 << 20 };
    let options = DirOptions { shares, below: true, ..OPTIONS };
    let mut driver = Driver::new(tree(0, 0, entries as usize, pages), options);
    (driver.page, driver.first_byte) = (PAGE as usize, Nanos::from_millis(first_byte));
    driver.read(0);
    driver
}

impl Driver {
    /// Policy has a page asked for again.
    pub(super) fn renew(&mut self, dir: u64, from: u32, to: u32) {
        let is_page = self.pages.get(&(dir, from)).is_some_and(|page| page.0 == to);
        assert!(is_page && from < to, "{from} to {to} is no page of {dir}");
        assert!(!self.is_renewing(dir, from), "{from} of {dir} twice");
        self.renewing.push((dir, from, to, self.now));
        self.requests += 1;
    }

    /// The storage answers the first page that was asked for again.
    pub(super) fn answer_renewal(&mut self) {
        let (dir, from, to, asked) = self.renewing.remove(0);
        self.pages.insert((dir, from), (to, asked));
        let children = self.tree[&dir][from as usize..to as usize].to_vec();
        self.tell(DirEvent::Renewed { dir: DirId(dir), from, children: &children });
    }

    /// Whether the page of an entry is believed.
    pub(super) fn is_believed(&self, dir: u64, entry: u32) -> bool {
        let page = self.pages.range((dir, 0)..=(dir, entry)).next_back();
        page.is_some_and(|(_, &(end, asked))| entry < end && self.now.since(asked) <= self.options.ttl)
    }

    /// Whether the page of an entry is in flight again.
    pub(super) fn is_renewing(&self, dir: u64, entry: u32) -> bool {
        self.renewing.iter().any(|&(of, from, to, _)| of == dir && (from..to).contains(&entry))
    }
}

/// What names of a directory have cost.
#[derive(Debug, Default)]
struct Cost {
    alone: u64,
    waits: u64,
}

impl Cost {
    /// A reader looks up the name at `entry`, and waits for it.
    fn look_up(&mut self, driver: &mut Driver, entry: u32) {
        let is_known = driver.is_believed(0, entry);
        let found = if is_known { Found::Resident } else { Found::Absent };
        driver.tell(DirEvent::Named { dir: DirId(0), entry: Some(entry), found });
        if is_known {
            return;
        }
        self.waits += 1;
        self.alone += u64::from(!driver.is_renewing(0, entry));
        driver.round();
        while driver.is_renewing(0, entry) {
            driver.round();
        }
    }

    /// Looks up all of them, each so long after the one before.
    fn look_up_all(driver: &mut Driver, entries: impl IntoIterator<Item = u32>, nanos: u64) -> (Self, u64) {
        let (mut cost, before) = (Self::default(), lists(driver));
        for entry in entries {
            cost.look_up(driver, entry);
            driver.now = Nanos(driver.now.0 + nanos);
            // What is in flight arrives meanwhile.
            let due = |&(_, _, _, asked): &(u64, u32, u32, Nanos)| driver.now.since(asked) > driver.first_byte;
            for _ in 0..driver.renewing.iter().take_while(|page| due(page)).count().min(driver.side_by_side as usize) {
                driver.answer_renewal();
            }
        }
        (cost, lists(driver) - before)
    }
}

fn lists(driver: &Driver) -> u64 {
    driver.counters().lists_demand + driver.counters().lists_speculative
}

/// Names in order, at 20 us to 1 ms a name: a page each, and few waits but where the
/// next page is farther than it is believed.
#[test]
fn each_page_is_renewed_once_for_names_in_order() {
    for backward in [false, true] {
        for (first_byte, micros) in [(1, 20), (30, 20), (30, 100), (200, 20), (30, 700), (30, 1_000)] {
            let mut driver = listed(ENTRIES, 1, first_byte);
            driver.now = Nanos(driver.now.0 + 2_000_000_000);
            let entries = (0..ENTRIES).map(|nth| if backward { ENTRIES - 1 - nth } else { nth });
            let (cost, lists) = Cost::look_up_all(&mut driver, entries, micros * 1_000);
            let case = format!("{first_byte} ms, {micros} us, backward: {backward}: {lists} pages, {cost:?}");
            // One that takes longer for a page than it is believed has it renewed in between.
            let times = if micros * u64::from(PAGE) >= 1_000_000 { 2 } else { 1 };
            assert!(cost.alone <= 1 && lists <= times * PAGES * 5 / 4 + 1, "{case}");
            let most = if micros >= 500 { times * PAGES + 1 } else { 12 };
            assert!(cost.waits <= most, "{case}");
        }
    }
}

/// Names in no order have all pages renewed, once in the time that they are believed.
#[test]
fn all_pages_are_renewed_side_by_side_for_names_in_no_order() {
    for (first_byte, micros) in [(1, 20), (30, 40), (200, 40)] {
        let mut driver = listed(ENTRIES, 1, first_byte);
        driver.now = Nanos(driver.now.0 + 2_000_000_000);
        let began = driver.now;
        let entries = (0..ENTRIES).map(|nth| (nth * 20_011) % ENTRIES);
        let (cost, lists) = Cost::look_up_all(&mut driver, entries, micros * 1_000);
        let times = driver.now.since(began).0 / driver.options.ttl.0 + 1;
        let case = format!("{first_byte} ms: {lists} pages, {times} times, {cost:?}");
        assert!(cost.alone <= 2 && lists <= times * PAGES * 5 / 4, "{case}");
        assert!(cost.waits <= 12 + 4 * times, "{case}");
    }
}

/// Readers side by side, each in a part of its own.
#[test]
fn pages_are_renewed_for_readers_side_by_side() {
    let mut driver = listed(ENTRIES, 1, 30);
    driver.now = Nanos(driver.now.0 + 2_000_000_000);
    let began = driver.now;
    let part = ENTRIES / 16;
    let entries = (0..part).flat_map(|nth| (0..16).map(move |reader| reader * part + nth));
    let (cost, lists) = Cost::look_up_all(&mut driver, entries, 40_000);
    let times = driver.now.since(began).0 / driver.options.ttl.0 + 1;
    assert!(cost.alone <= 2 && lists <= times * PAGES * 5 / 4, "{lists} pages, {times} times, {cost:?}");
}

/// A program that asks for few names now and then has few pages renewed.
#[test]
fn few_names_in_no_order_have_few_pages_renewed() {
    for names in 1..=4u32 {
        let mut driver = listed(ENTRIES, 1, 30);
        let (mut all, times) = (0, 100);
        for time in 0..times {
            driver.now = Nanos(driver.now.0 + 2_000_000_000);
            let entries = (0..names).map(|nth| (time * 7_919 + nth * 20_011) % ENTRIES);
            let (_, lists) = Cost::look_up_all(&mut driver, entries, 0);
            all += lists;
        }
        assert!(all <= u64::from(times * names) + 96, "{all} pages for {names} names {times} times");
    }
}

/// A program comes back for one name, longer after the last time than a name is believed. In a
/// directory of few pages or of many it is asked for alone, whether it is there or not.
#[test]
fn one_name_now_and_then_has_no_page_renewed() {
    for entries in [3 * PAGE, ENTRIES] {
        for is_there in [true, false] {
            let mut driver = listed(entries, 1, 30);
            let (before, gone) = (lists(&driver), driver.gone.clone());
            let mut cost = Cost::default();
            for time in 0..50 {
                driver.now = Nanos(driver.now.0 + 2_000_000_000);
                let place = (time * 7_919) % entries;
                if is_there {
                    cost.look_up(&mut driver, place);
                } else {
                    driver.tell(DirEvent::Named { dir: DirId(0), entry: None, found: Found::Absent });
                    driver.tell(DirEvent::Sought { dir: DirId(0), from: 500, to: 501 });
                    cost.alone += u64::from(!driver.is_renewing(0, 500));
                    driver.round();
                }
            }
            let lists = lists(&driver) - before;
            assert_eq!((lists, cost.alone), (0, 50), "of {entries}, there: {is_there}");
            assert_eq!(driver.gone, gone, "its listing stays");
        }
    }
}

/// Files of a long directory are opened in order, for much longer than a page is believed: what is
/// ahead stays ahead.
#[test]
fn files_stay_ahead_while_pages_are_renewed() {
    let entries = 10_000;
    let mut driver = listed(entries, 2, 30);
    let (mut cost, mut waits, before) = (Cost::default(), 0, lists(&driver));
    for entry in 0..entries {
        // A file that was fetched ahead confirms its name.
        if !driver.fetched.contains(&(0, entry)) {
            cost.look_up(&mut driver, entry);
        }
        waits += u32::from(driver.begin_open(0, entry) == Found::Absent);
        driver.now = Nanos(driver.now.0 + 1_000_000);
        if entry % 16 == 0 {
            driver.round();
        }
    }
    let lists = lists(&driver) - before;
    assert!(waits <= 32, "{waits} files of {entries} were not ahead, {cost:?}");
    assert!(lists <= 2 * u64::from(entries / PAGE), "{lists} pages");
    assert!(driver.discarded <= 64, "{} files were fetched in vain", driver.discarded);
}

/// A page that is asked for again has other names: the directory is listed anew, once.
#[test]
fn a_directory_with_other_names_is_listed_anew() {
    let mut driver = listed(ENTRIES, 1, 30);
    driver.now = Nanos(driver.now.0 + 2_000_000_000);
    let before = lists(&driver);
    for entry in [10, 11] {
        driver.tell(DirEvent::Named { dir: DirId(0), entry: Some(entry), found: Found::Absent });
    }
    let (dir, from, _, _) = driver.renewing.remove(0);
    driver.tell(DirEvent::Renewed { dir: DirId(dir), from, children: &[] });
    for entry in [12, 13] {
        driver.tell(DirEvent::Named { dir: DirId(0), entry: Some(entry), found: Found::Absent });
    }
    assert!(driver.renewing.is_empty() && driver.listing.contains_key(&0), "it is listed from its start");
    driver.round();
    let (cost, _) = Cost::look_up_all(&mut driver, 14..PAGE, 0);
    assert_eq!(cost.waits, 0);
    assert!(lists(&driver) - before <= 8);
}
