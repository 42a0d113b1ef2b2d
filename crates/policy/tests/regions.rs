//! Invariants of regions under random threads, advice and failures: no page is lost, the budget
//! holds, every thread is answered.

use std::collections::{BTreeMap, BTreeSet};

use foreread_policy::{
    Advice, Extent, Nanos, RegionAction, RegionCounters, RegionEvent, RegionOptions, RegionPath, RequestId,
};
use proptest::prelude::*;

/// Where the driver has a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Away,
    Arriving,
    Staged,
    Mapped { protected: bool },
}

/// An open request: the pages that are read and their first slot, or the pages that are written,
/// with their contents, and the first slot.
#[derive(Debug)]
enum Open {
    Read(Extent, u64),
    Clean(Vec<(u64, u64)>, u64),
}

/// A driver with a number in each page in place of bytes: each write makes a new number.
struct Driver {
    policy: RegionPath,
    budget: u64,
    at: Vec<At>,
    /// The contents of each page in memory, and of its copy in the spill file. 0: zeroes.
    held: Vec<u64>,
    spilled: Vec<Option<u64>>,
    /// The contents of each slot of the spill file, and the slots of open requests.
    slots: Vec<u64>,
    busy: BTreeSet<u64>,
    /// The contents that each page must have.
    wanted: Vec<u64>,
    /// Pages that the program has given up: they may be dropped dirty.
    given_up: BTreeSet<u64>,
    waiting: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    open: BTreeMap<RequestId, Open>,
    writes: u64,
    /// The budget was made smaller, and pages beyond it have not left yet.
    shrunk: bool,
    /// A request has failed.
    broken: bool,
}

impl Driver {
    fn new(pages: u64, budget: u64) -> Self {
        Self {
            policy: RegionPath::new(RegionOptions { pages, budget }),
            budget,
            at: vec![At::Away; pages as usize],
            held: vec![0; pages as usize],
            spilled: vec![None; pages as usize],
            slots: vec![0; pages as usize],
            busy: BTreeSet::new(),
            wanted: vec![0; pages as usize],
            given_up: BTreeSet::new(),
            waiting: BTreeSet::new(),
            failed: BTreeSet::new(),
            open: BTreeMap::new(),
            writes: 0,
            shrunk: false,
            broken: false,
        }
    }

    fn resident(&self) -> u64 {
        self.at.iter().filter(|&&at| at != At::Away).count() as u64
    }

    fn tell(&mut self, event: RegionEvent) {
        self.policy.handle(Nanos(0), event);
        while let Some(action) = self.policy.poll_action() {
            self.act(action);
        }
        assert_eq!(self.policy.held(), self.resident(), "policy knows which pages are in memory");
        self.shrunk &= self.resident() > self.budget;
        assert!(self.shrunk || self.resident() <= self.budget, "{} of {}", self.resident(), self.budget);
    }

    fn dirty(&self, page: u64) -> bool {
        self.spilled[page as usize].unwrap_or(0) != self.held[page as usize]
    }

    /// A request begins: its slots are busy.
    fn go_to(&mut self, slot: u64, pages: Extent) {
        for slot in slot..slot + pages.pages() {
            assert!(slot < self.policy.slots(), "slot {slot} is beyond the file");
            assert!(self.busy.insert(slot), "two requests are at slot {slot}");
        }
    }

    fn act(&mut self, action: RegionAction) {
        let cleaning = |open: &BTreeMap<RequestId, Open>, page: u64| {
            open.values().any(|open| matches!(open, Open::Clean(pages, _) if pages.iter().any(|&(of, _)| of == page)))
        };
        match action {
            RegionAction::Zero { pages, protect } => {
                for page in pages.start..pages.end {
                    assert_eq!(self.at[page as usize], At::Away, "zeroes over page {page}");
                    assert!(self.spilled[page as usize].is_none(), "page {page} is in the spill file");
                    self.held[page as usize] = 0;
                    self.at[page as usize] = At::Mapped { protected: protect };
                    self.waiting.remove(&page);
                }
                assert!(self.shrunk || self.resident() <= self.budget);
            }
            RegionAction::Read { request, pages, slot, .. } => {
                assert!(!pages.is_empty());
                self.go_to(slot, pages);
                for page in pages.start..pages.end {
                    assert_eq!(self.at[page as usize], At::Away, "page {page} is read twice");
                    assert!(self.spilled[page as usize].is_some(), "page {page} is not in the spill file");
                    self.at[page as usize] = At::Arriving;
                }
                assert!(self.open.insert(request, Open::Read(pages, slot)).is_none());
                assert!(self.shrunk || self.resident() <= self.budget);
            }
            RegionAction::Map { pages, protect } => {
                for page in pages.start..pages.end {
                    assert_eq!(self.at[page as usize], At::Staged, "page {page} is mapped");
                    self.at[page as usize] = At::Mapped { protected: protect };
                    self.waiting.remove(&page);
                }
            }
            RegionAction::Clean { request, pages, slot } => {
                self.go_to(slot, pages);
                let mut written = Vec::new();
                for page in pages.start..pages.end {
                    assert_eq!(self.at[page as usize], At::Mapped { protected: false }, "page {page} is clean");
                    assert!(!cleaning(&self.open, page), "page {page} is written twice at a time");
                    self.at[page as usize] = At::Mapped { protected: true };
                    written.push((page, self.held[page as usize]));
                }
                assert!(self.open.insert(request, Open::Clean(written, slot)).is_none());
            }
            RegionAction::Drop { pages } => {
                for page in pages.start..pages.end {
                    let given_up = self.given_up.remove(&page);
                    match self.at[page as usize] {
                        At::Staged => {}
                        At::Mapped { protected } => {
                            assert!(given_up || protected && !self.dirty(page), "page {page} is dirty and is lost");
                            assert!(!cleaning(&self.open, page), "page {page} is being written");
                        }
                        at => panic!("page {page} is {at:?} and leaves"),
                    }
                    if given_up {
                        (self.spilled[page as usize], self.wanted[page as usize]) = (None, 0);
                    }
                    self.at[page as usize] = At::Away;
                }
            }
            RegionAction::Fail { pages } => {
                for page in pages.start..pages.end {
                    assert!(self.broken, "nothing has failed");
                    assert!(self.waiting.remove(&page), "no thread waits for page {page}");
                    self.failed.insert(page);
                }
            }
        }
    }

    /// A thread reads or writes a page.
    fn touch(&mut self, page: u64, thread: u32, write: bool) {
        let at = self.at[page as usize];
        if let At::Mapped { protected } = at {
            let held = self.held[page as usize];
            assert!(
                self.given_up.contains(&page) || held == self.wanted[page as usize],
                "page {page} is not what it was"
            );
            if write && protected {
                self.at[page as usize] = At::Mapped { protected: false };
                self.given_up.remove(&page);
                self.tell(RegionEvent::Written { page });
            }
            if write && self.at[page as usize] == (At::Mapped { protected: false }) {
                self.writes += 1;
                self.held[page as usize] = self.writes;
                self.wanted[page as usize] = self.writes;
            }
            return;
        }
        self.waiting.insert(page);
        self.tell(RegionEvent::Fault { page, thread, write });
    }

    /// The `nth` request ends.
    fn end(&mut self, nth: usize, came: bool) {
        let Some(&request) = self.open.keys().nth(nth % self.open.len().max(1)) else { return };
        self.broken |= !came;
        match self.open.remove(&request) {
            Some(Open::Read(pages, slot)) => {
                for (page, slot) in (pages.start..pages.end).zip(slot..) {
                    self.busy.remove(&slot);
                    self.at[page as usize] = if came { At::Staged } else { At::Away };
                    self.held[page as usize] = self.slots[slot as usize];
                    assert_eq!(
                        Some(self.held[page as usize]),
                        self.spilled[page as usize],
                        "page {page} in slot {slot}"
                    );
                    if !came && self.given_up.remove(&page) {
                        (self.spilled[page as usize], self.wanted[page as usize]) = (None, 0);
                    }
                }
                self.tell(RegionEvent::Completed { request, came });
            }
            Some(Open::Clean(pages, slot)) => {
                for (&(page, held), slot) in pages.iter().zip(slot..) {
                    self.busy.remove(&slot);
                    // A write that fails may have changed the slots.
                    self.slots[slot as usize] = held;
                    if came {
                        self.spilled[page as usize] = Some(held);
                    } else {
                        self.at[page as usize] = At::Mapped { protected: false };
                    }
                    if came && held == 0 {
                        self.spilled[page as usize] = None;
                        self.tell(RegionEvent::Zeroes { pages: Extent::new(page, page + 1) });
                    }
                }
                self.tell(RegionEvent::Cleaned { request, came });
            }
            None => {}
        }
    }

    fn advise(&mut self, pages: Extent, advice: Advice) {
        let pages = Extent::new(pages.start, pages.end.min(self.at.len() as u64));
        if advice == Advice::DontNeed {
            for page in pages.start..pages.end {
                if self.at[page as usize] == At::Away {
                    (self.spilled[page as usize], self.wanted[page as usize]) = (None, 0);
                } else {
                    self.given_up.insert(page);
                }
            }
        }
        self.tell(RegionEvent::Advised { pages, advice });
    }

    /// All open requests end, until there is none.
    fn rest(&mut self) {
        for _ in 0..100_000 {
            if self.open.is_empty() {
                break;
            }
            self.end(0, true);
        }
        assert!(self.open.is_empty(), "requests without end");
        assert!(self.waiting.is_empty(), "no answer for pages {:?}", self.waiting);
        assert_eq!(self.policy.discarding(), 0);
    }

    fn counters(&self) -> RegionCounters {
        self.policy.counters()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Touch { page: u64, thread: u32, write: bool },
    Run { page: u64, pages: u64, thread: u32, write: bool, backward: bool },
    End { nth: usize, came: bool },
    Advise { page: u64, pages: u64, advice: Advice },
    Budget { pages: u64 },
    Room { slots: u64 },
}

const PAGES: u64 = 96;

fn advice() -> impl Strategy<Value = Advice> {
    prop_oneof![
        Just(Advice::Normal),
        Just(Advice::Sequential),
        Just(Advice::Random),
        Just(Advice::WillNeed),
        Just(Advice::DontNeed),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..PAGES, 0..3_u32, any::<bool>()).prop_map(|(page, thread, write)| Step::Touch { page, thread, write }),
        2 => (0..PAGES, 2..40_u64, 0..3_u32, any::<bool>(), any::<bool>())
            .prop_map(|(page, pages, thread, write, backward)| Step::Run { page, pages, thread, write, backward }),
        6 => (any::<usize>(), proptest::bool::weighted(0.9)).prop_map(|(nth, came)| Step::End { nth, came }),
        1 => (0..PAGES, 1..40_u64, advice())
            .prop_map(|(page, pages, advice)| Step::Advise { page, pages, advice }),
        1 => (1..80_u64).prop_map(|pages| Step::Budget { pages }),
        1 => (0..2 * PAGES).prop_map(|slots| Step::Room { slots }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_page_is_lost_and_the_budget_holds(budget in 1..64_u64, steps in prop::collection::vec(step(), 1..300)) {
        let mut driver = Driver::new(PAGES, budget);
        for step in steps {
            match step {
                Step::Touch { page, thread, write } => driver.touch(page, thread, write),
                Step::Run { page, pages, thread, write, backward } => {
                    for nth in 0..pages {
                        let page = if backward { page.checked_sub(nth) } else { Some(page + nth) };
                        let Some(page) = page.filter(|&page| page < PAGES) else { break };
                        driver.touch(page, thread, write);
                        if driver.waiting.contains(&page) {
                            driver.end(0, true);
                        }
                    }
                }
                Step::End { nth, came } => driver.end(nth, came),
                Step::Advise { page, pages, advice } => driver.advise(Extent::new(page, page + pages), advice),
                Step::Budget { pages } => {
                    driver.shrunk |= pages < driver.resident();
                    driver.budget = pages;
                    driver.tell(RegionEvent::Budget { pages });
                }
                Step::Room { slots } => {
                    // A touch may find no room in memory.
                    driver.broken |= slots < PAGES;
                    driver.tell(RegionEvent::Room { slots });
                    prop_assert!((slots.min(PAGES)..=PAGES).contains(&driver.policy.slots()));
                }
            }
        }
        driver.tell(RegionEvent::Room { slots: PAGES });
        driver.rest();
        // Every page can be read, and holds what was written.
        for page in 0..PAGES {
            for _ in 0..2 {
                driver.touch(page, 0, false);
                driver.rest();
            }
            prop_assert!(!driver.failed.contains(&page) || driver.broken);
        }
    }
}

/// One thread, which waits for each page before the next.
fn walk(driver: &mut Driver, pages: impl Iterator<Item = u64>, write: bool) {
    for page in pages {
        driver.touch(page, 7, write);
        driver.rest();
        if write {
            driver.touch(page, 7, true);
        }
    }
}

#[test]
fn a_loop_is_read_in_long_clusters_and_misses_few_pages() {
    let mut driver = Driver::new(8_192, 7_168);
    for _ in 0..3 {
        walk(&mut driver, 0..8_192, true);
    }
    let before = driver.counters();
    walk(&mut driver, 0..8_192, true);
    let after = driver.counters();
    let read = after.pages_read - before.pages_read;
    assert!((1_024..1_800).contains(&read), "{read} pages are read, where there is no room for 1,024");
    let reads = after.reads_demand + after.reads_speculative - before.reads_demand - before.reads_speculative;
    assert!(reads * 6 < read, "{reads} reads of {read} pages");
}

#[test]
fn at_random_no_page_is_read_ahead() {
    let mut driver = Driver::new(8_192, 4_096);
    walk(&mut driver, 0..8_192, true);
    let mut state = 1_u64;
    let random = std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % 8_192
    });
    let before = driver.counters();
    walk(&mut driver, random.take(10_000), false);
    let after = driver.counters();
    let (faults, read) = (after.faults_major - before.faults_major, after.pages_read - before.pages_read);
    assert!(faults > 4_000 && read * 100 < faults * 105, "{read} pages for {faults} faults");
}

#[test]
fn room_for_fewer_slots_holds_what_is_in_use() {
    let mut driver = Driver::new(4_096, 256);
    driver.tell(RegionEvent::Room { slots: 1_100 });
    for first in [0, 3_000, 1_000, 2_000] {
        for _ in 0..2 {
            walk(&mut driver, first..first + 1_000, true);
        }
        driver.advise(Extent::new(first, first + 1_000), Advice::DontNeed);
        driver.rest();
        assert!(driver.failed.is_empty() && driver.policy.slots() == 1_100);
    }
    walk(&mut driver, 0..300, true);
    driver.tell(RegionEvent::Room { slots: 0 });
    let slots = driver.policy.slots();
    assert!((1..1_100).contains(&slots), "{slots} for the pages that have left");
    driver.advise(Extent::new(0, 300), Advice::DontNeed);
    driver.tell(RegionEvent::Room { slots: 0 });
    assert_eq!(driver.policy.slots(), 0);
    // What does not fit in memory is refused.
    driver.broken = true;
    walk(&mut driver, 0..300, true);
    assert!(driver.failed.contains(&299) && driver.waiting.is_empty() && driver.open.is_empty());
    driver.tell(RegionEvent::Room { slots: 100 });
    driver.touch(301, 0, true);
    driver.rest();
    assert!(!driver.failed.contains(&301));
}

/// Pages of zeroes take a place in the file for as long as they leave.
#[test]
fn pages_that_leave_together_wait_for_places() {
    let mut driver = Driver::new(4_096, 1_024);
    driver.tell(RegionEvent::Room { slots: 100 });
    (0..600).for_each(|page| driver.touch(page, 0, true));
    driver.rest();
    // What is written into them is zeroes.
    driver.held.fill(0);
    driver.wanted.fill(0);
    (driver.budget, driver.shrunk) = (64, true);
    driver.tell(RegionEvent::Budget { pages: 64 });
    driver.touch(3_000, 0, true);
    assert!(driver.waiting.contains(&3_000) && !driver.open.is_empty(), "too many are in memory");
    driver.rest();
    assert!(driver.failed.is_empty() && driver.resident() <= 64);
}

#[test]
fn pages_that_are_only_read_are_written_once() {
    let mut driver = Driver::new(4_096, 2_048);
    walk(&mut driver, 0..4_096, true);
    for _ in 0..4 {
        walk(&mut driver, 0..4_096, false);
    }
    assert!(driver.counters().pages_cleaned <= 4_096, "{:?}", driver.counters());
}

#[test]
fn pages_of_zeroes_are_never_read() {
    let mut driver = Driver::new(4_096, 1_024);
    for _ in 0..3 {
        walk(&mut driver, 0..4_096, false);
    }
    let counters = driver.counters();
    assert_eq!((counters.pages_read, counters.pages_cleaned, counters.faults_major), (0, 0, 0), "{counters:?}");
}

#[test]
fn a_fault_without_room_fails_and_a_later_one_may_have_room() {
    let mut driver = Driver::new(64, 8);
    for page in 0..8 {
        driver.touch(page, 0, true);
        driver.touch(page, 0, true);
    }
    driver.touch(40, 0, true);
    while !driver.open.is_empty() {
        driver.end(0, false);
    }
    assert!(driver.failed.contains(&40) && driver.waiting.is_empty(), "{:?}", driver.waiting);
    driver.touch(41, 0, true);
    driver.rest();
    assert!(matches!(driver.at[41], At::Mapped { .. }) && !driver.failed.contains(&41));
}

#[test]
fn a_page_that_is_read_and_then_written_takes_one_fault_while_most_do() {
    let mut driver = Driver::new(4_096, 2_048);
    walk(&mut driver, 0..4_096, true);
    let mut state = 1_u64;
    let mut random = std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % 4_096
    });
    // Of the pages that were away when they were read, the percentage mapped protected.
    let mut protected = |driver: &mut Driver, write: bool| {
        let (mut came, mut told) = (0_u32, 0_u32);
        for page in random.by_ref().take(8_000) {
            let away = driver.at[page as usize] == At::Away;
            walk(driver, std::iter::once(page), false);
            came += u32::from(away);
            told += u32::from(away && driver.at[page as usize] == At::Mapped { protected: true });
            if write {
                driver.touch(page, 7, true);
            }
        }
        told * 100 / came
    };
    protected(&mut driver, true);
    let share = protected(&mut driver, true);
    assert!(share < 15, "{share} % of the pages that are written to are protected");
    // A page without a write is counted when it leaves: a few rounds until most have.
    (0..2).for_each(|_| _ = protected(&mut driver, false));
    let share = protected(&mut driver, false);
    assert!(share > 90, "{share} % of the pages that are only read are protected");
}

#[test]
fn pages_that_will_be_needed_are_asked_for_in_pieces_and_a_fault_is_served_before_them() {
    let mut policy = RegionPath::new(RegionOptions { pages: 40_000, budget: 2_000 });
    // Cleans at once, and returns what is read.
    let mut tell = |event: RegionEvent| {
        let (mut events, mut reads) = (vec![event], Vec::new());
        while let Some(event) = events.pop() {
            policy.handle(Nanos(0), event);
            while let Some(action) = policy.poll_action() {
                match action {
                    RegionAction::Clean { request, .. } => events.push(RegionEvent::Cleaned { request, came: true }),
                    RegionAction::Read { request, pages, .. } => reads.push((request, pages)),
                    _ => {}
                }
            }
        }
        reads
    };
    for page in 0..40_000 {
        assert_eq!(tell(RegionEvent::Fault { page, thread: 1, write: true }), []);
    }
    tell(RegionEvent::Budget { pages: 40_000 });
    let mut open = tell(RegionEvent::Advised { pages: Extent::new(0, 40_000), advice: Advice::WillNeed });
    let in_flight = |open: &[(RequestId, Extent)]| open.iter().map(|(_, pages)| pages.pages()).sum::<u64>();
    assert!((1..=1_024).contains(&in_flight(&open)), "{} pages at once", in_flight(&open));
    // Some of these pages are in memory.
    let mut fault =
        |page| Some(tell(RegionEvent::Fault { page, thread: 2, write: false })).filter(|reads| !reads.is_empty());
    let waited = (20_000..40_000).step_by(1_000).find_map(|page| fault(page).map(|reads| (page, reads)));
    let (page, waited) = waited.expect("a page that is away");
    assert!(waited.iter().any(|(_, pages)| pages.contains(page)), "{page}: {waited:?}");
    open.extend(waited);
    let mut read = 0;
    while let Some((request, pages)) = open.pop() {
        read += pages.pages();
        open.extend(tell(RegionEvent::Completed { request, came: true }));
        assert!(in_flight(&open) <= 1_024, "{} pages at once", in_flight(&open));
    }
    // At most half of the budget, and nearly all of that.
    assert!((18_000..=20_500).contains(&read), "{read} pages");
}
