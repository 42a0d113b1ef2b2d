//! Invariants of views under random threads and failures: every thread is answered, the budget
//! holds.

use std::collections::BTreeSet;

use foreread_policy::{Extent, ViewAction, ViewEvent, ViewOptions, ViewPath};
use proptest::prelude::*;

/// A driver with pages that hold nothing.
struct Driver {
    policy: ViewPath,
    pages: u64,
    budget: u64,
    /// Blocks that are being read, and blocks that are mapped.
    open: Vec<Extent>,
    mapped: Vec<Extent>,
    /// Pages that threads wait for, and pages that threads got an error for.
    waiting: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    /// The next block that is mapped is lost.
    loses: bool,
}

impl Driver {
    fn new(pages: u64, budget: u64) -> Self {
        let policy = ViewPath::new(ViewOptions { pages, budget });
        let (waiting, failed) = (BTreeSet::new(), BTreeSet::new());
        let budget = (budget / 32 * 32).max(32);
        Self { policy, pages, budget, open: Vec::new(), mapped: Vec::new(), waiting, failed, loses: false }
    }

    /// `completed` is the block that was just read.
    fn tell(&mut self, event: ViewEvent, completed: Option<Extent>) {
        self.policy.handle(event);
        let mut lost = None;
        while let Some(action) = self.policy.poll_action() {
            assert_eq!(lost, None, "mapping is the last thing to do");
            match action {
                ViewAction::Read { pages } => {
                    assert!(!pages.is_empty() && pages.end <= self.pages, "{pages:?} of {}", self.pages);
                    assert!(!self.open.contains(&pages), "{pages:?} is being read");
                    assert!(!self.mapped.contains(&pages), "{pages:?} is mapped");
                    assert!(self.waiting.iter().any(|&page| pages.contains(page)), "no thread wants {pages:?}");
                    self.open.push(pages);
                }
                ViewAction::Map { pages } => {
                    assert_eq!(Some(pages), completed);
                    if self.loses {
                        lost = Some(pages);
                        continue;
                    }
                    self.mapped.push(pages);
                    self.waiting.retain(|&page| !pages.contains(page));
                }
                ViewAction::Wake { page } => {
                    assert!(self.is_mapped(page), "page {page} is not mapped");
                    self.waiting.remove(&page);
                }
                ViewAction::Drop { pages } => {
                    let at = self.mapped.iter().position(|mapped| *mapped == pages);
                    self.mapped.remove(at.expect("it was mapped"));
                }
                ViewAction::Fail { pages } => {
                    assert!(!self.mapped.contains(&pages) && !self.open.contains(&pages));
                    let told: Vec<u64> = self.waiting.iter().copied().filter(|&page| pages.contains(page)).collect();
                    assert!(!told.is_empty(), "no thread waits for {pages:?}");
                    for page in told {
                        self.waiting.remove(&page);
                        self.failed.insert(page);
                    }
                }
            }
            let mapped: u64 = self.mapped.iter().map(|pages| pages.pages()).sum();
            assert!(mapped <= self.budget, "{mapped} of {}", self.budget);
        }
        if let Some(pages) = lost {
            self.tell(ViewEvent::Lost { pages }, None);
        }
        assert_eq!(self.policy.mapped(), self.mapped.iter().map(|pages| pages.pages()).sum::<u64>());
        for &page in &self.waiting {
            assert!(self.open.iter().any(|pages| pages.contains(page)), "no answer will come for page {page}");
        }
    }

    fn is_mapped(&self, page: u64) -> bool {
        self.mapped.iter().any(|pages| pages.contains(page))
    }

    /// A thread reads a page. `late`: the fault is reported though the page is mapped by now.
    fn touch(&mut self, page: u64, late: bool) {
        if !self.is_mapped(page) || late {
            self.waiting.insert(page);
            self.tell(ViewEvent::Fault { page }, None);
        }
    }

    /// The `nth` read ends.
    fn end(&mut self, nth: usize, came: bool) {
        if !self.open.is_empty() {
            let pages = self.open.remove(nth % self.open.len());
            self.tell(ViewEvent::Completed { pages, came }, Some(pages));
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Touch { page: u64, late: bool },
    End { nth: usize, came: bool, lost: bool },
}

const PAGES: u64 = 32 * 12 + 5;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..PAGES, proptest::bool::weighted(0.1)).prop_map(|(page, late)| Step::Touch { page, late }),
        2 => (any::<usize>(), proptest::bool::weighted(0.9), proptest::bool::weighted(0.1))
            .prop_map(|(nth, came, lost)| Step::End { nth, came, lost }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_thread_is_answered_within_the_budget(budget in 1..320_u64, steps in prop::collection::vec(step(), 1..300)) {
        let mut driver = Driver::new(PAGES, budget);
        for step in steps {
            match step {
                Step::Touch { page, late } => driver.touch(page, late),
                Step::End { nth, came, lost } => {
                    driver.loses = lost;
                    driver.end(nth, came);
                }
            }
        }
        driver.loses = false;
        while !driver.open.is_empty() {
            driver.end(0, true);
        }
        prop_assert!(driver.waiting.is_empty(), "no answer for pages {:?}", driver.waiting);
        // Every page can be read, those that failed once as well.
        driver.failed.clear();
        for page in 0..PAGES {
            driver.touch(page, false);
            driver.end(0, true);
            prop_assert!(driver.is_mapped(page) && driver.failed.is_empty());
        }
    }
}
