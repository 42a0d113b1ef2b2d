//! Traces of `src/regions`: what comes with a fault, what is cleaned ahead of need, and what is
//! dropped.

use std::collections::{BTreeMap, BTreeSet};

use foreread_policy::{Advice, Extent, Nanos, RegionAction, RegionEvent, RegionOptions, RegionPath, RequestId};

use crate::trace::{self, Trace};

/// A request takes 100 us, and 5 us more a page.
const REQUEST_NS: u64 = 100_000;
const PAGE_NS: u64 = 5_000;

/// A driver: which pages are mapped, and a spill file that takes one request after the other.
struct Driver {
    policy: RegionPath,
    now: Nanos,
    mapped: BTreeSet<u64>,
    protected: BTreeSet<u64>,
    /// Requests in order: whether they read, and their pages.
    requests: BTreeMap<RequestId, (bool, Extent)>,
    trace: Trace,
}

impl Driver {
    fn new(pages: u64, budget: u64) -> Self {
        Self {
            policy: RegionPath::new(RegionOptions { pages, budget }),
            now: Nanos(0),
            mapped: BTreeSet::new(),
            protected: BTreeSet::new(),
            requests: BTreeMap::new(),
            trace: Trace::default(),
        }
    }

    fn tell(&mut self, event: RegionEvent) {
        self.policy.handle(self.now, event);
        let actions: Vec<RegionAction> = std::iter::from_fn(|| self.policy.poll_action()).collect();
        let texts: Vec<String> = actions.iter().map(|&action| action_text(action)).collect();
        self.trace.event(self.now, &event_text(event), &texts);
        for action in actions {
            match action {
                RegionAction::Zero { pages, protect } | RegionAction::Map { pages, protect } => {
                    self.mapped.extend(pages.start..pages.end);
                    if protect {
                        self.protected.extend(pages.start..pages.end);
                    }
                }
                RegionAction::Read { request, pages, .. } => drop(self.requests.insert(request, (true, pages))),
                RegionAction::Clean { request, pages, .. } => {
                    self.protected.extend(pages.start..pages.end);
                    self.requests.insert(request, (false, pages));
                }
                RegionAction::Drop { pages } => {
                    self.mapped.retain(|&page| !pages.contains(page));
                    self.protected.retain(|&page| !pages.contains(page));
                }
                RegionAction::Fail { .. } => {}
            }
        }
    }

    /// The oldest request ends. `false` if there is none.
    fn step(&mut self) -> bool {
        let Some((request, (read, pages))) = self.requests.pop_first() else { return false };
        self.now = Nanos(self.now.0 + REQUEST_NS + pages.pages() * PAGE_NS);
        self.tell(if read {
            RegionEvent::Completed { request, came: true }
        } else {
            RegionEvent::Cleaned { request, came: true }
        });
        true
    }

    /// A thread reads or writes a page, and waits for it.
    fn touch(&mut self, page: u64, write: bool) {
        if !self.mapped.contains(&page) {
            self.tell(RegionEvent::Fault { page, thread: 1, write });
            while !self.mapped.contains(&page) && self.step() {}
        }
        if write && self.protected.remove(&page) {
            self.tell(RegionEvent::Written { page });
        }
    }

    fn settle(&mut self) {
        while self.step() {}
    }

    /// All pages are written once, in order.
    fn fill(&mut self, pages: u64) {
        self.trace.hide(&format!("pages [0,{pages}) are written in order"));
        (0..pages).for_each(|page| self.touch(page, true));
        self.settle();
        self.trace.show();
    }
}

fn event_text(event: RegionEvent) -> String {
    let came = |came: bool| if came { "" } else { ", failed" };
    match event {
        RegionEvent::Fault { page, thread, write } => {
            format!("Fault p{page} by t{thread}{}", if write { ", write" } else { "" })
        }
        RegionEvent::Written { page } => format!("Written p{page}"),
        RegionEvent::Completed { request, came: done } => format!("Completed r{}{}", request.0, came(done)),
        RegionEvent::Zeroes { pages } => format!("Zeroes {}", trace::pages(pages)),
        RegionEvent::Cleaned { request, came: done } => format!("Cleaned r{}{}", request.0, came(done)),
        RegionEvent::Advised { pages, advice } => format!("Advised {} {advice:?}", trace::pages(pages)),
        RegionEvent::Budget { pages } => format!("Budget {pages}"),
        RegionEvent::Room { slots } => format!("Room {slots}"),
    }
}

fn action_text(action: RegionAction) -> String {
    let protection = |protect: bool| if protect { "protected" } else { "writable" };
    match action {
        RegionAction::Zero { pages, protect } => format!("Zero {} {}", trace::pages(pages), protection(protect)),
        RegionAction::Read { request, pages, slot, class } => {
            format!("Read r{} {} at slot {slot} {}", request.0, trace::pages(pages), trace::class(class))
        }
        RegionAction::Map { pages, protect } => format!("Map {} {}", trace::pages(pages), protection(protect)),
        RegionAction::Clean { request, pages, slot } => {
            format!("Clean r{} {} to slot {slot}", request.0, trace::pages(pages))
        }
        RegionAction::Drop { pages } => format!("Drop {}", trace::pages(pages)),
        RegionAction::Fail { pages } => format!("Fail {}", trace::pages(pages)),
    }
}

#[test]
fn forward_cluster() {
    let mut driver = Driver::new(65_536, 32_768);
    driver.fill(65_536);
    (50_000..50_300).for_each(|page| driver.touch(page, false));
    driver.trace.check(
        "regions_forward_cluster",
        "A thread reads evicted pages forward: its clusters double, and a mark asks for the next.",
    );
}

#[test]
fn random_faults() {
    let mut driver = Driver::new(4_096, 2_048);
    driver.fill(4_096);
    for page in [3_000, 2_300, 3_500, 2_700, 3_201, 2_450, 3_800] {
        driver.touch(page, false);
    }
    driver
        .trace
        .check("regions_random_faults", "A thread reads evicted pages at random: the clusters shrink to one page.");
}

#[test]
fn cleaning_and_dropping() {
    let mut driver = Driver::new(1_024, 256);
    driver.trace.hide("pages [0,252) are written in order");
    (0..252).for_each(|page| driver.touch(page, true));
    driver.trace.show();
    (252..262).for_each(|page| driver.touch(page, true));
    // It is being cleaned, and is written to.
    driver.touch(9, true);
    driver.settle();
    (262..270).for_each(|page| driver.touch(page, true));
    driver.trace.check(
        "regions_cleaning",
        "A thread writes more pages than the budget of 256: some are cleaned ahead, then dropped.",
    );
}

#[test]
fn discard() {
    let mut driver = Driver::new(1_024, 256);
    driver.fill(300);
    let pages = |start, end| Extent::new(start, end);
    driver.tell(RegionEvent::Advised { pages: pages(0, 8), advice: Advice::WillNeed });
    driver.tell(RegionEvent::Advised { pages: pages(0, 4), advice: Advice::DontNeed });
    driver.settle();
    driver.tell(RegionEvent::Advised { pages: pages(200, 232), advice: Advice::DontNeed });
    driver.touch(2, false);
    driver.touch(210, true);
    driver.trace.check(
        "regions_discard",
        "A program gives pages up: those in a request leave when it ends, and all are zeroes afterwards.",
    );
}
