//! Traces of `src/views`: blocks of an object that are read, mapped and dropped.

use foreread_policy::{Extent, Nanos, ViewAction, ViewEvent, ViewOptions, ViewPath};

use crate::trace::{self, Trace};

/// From asking the engine to all bytes of a block.
const READ_NS: u64 = 1_000_000;

/// A driver: the engine answers each read after a millisecond.
struct Driver {
    policy: ViewPath,
    now: Nanos,
    mapped: Vec<Extent>,
    reading: Vec<Extent>,
    trace: Trace,
}

impl Driver {
    fn new(pages: u64, budget: u64) -> Self {
        let policy = ViewPath::new(ViewOptions { pages, budget });
        Self { policy, now: Nanos(0), mapped: Vec::new(), reading: Vec::new(), trace: Trace::default() }
    }

    fn tell(&mut self, event: ViewEvent) {
        self.policy.handle(event);
        let actions: Vec<ViewAction> = std::iter::from_fn(|| self.policy.poll_action()).collect();
        let texts: Vec<String> = actions.iter().map(|&action| action_text(action)).collect();
        self.trace.event(self.now, &event_text(event), &texts);
        for action in actions {
            match action {
                ViewAction::Read { pages } => self.reading.push(pages),
                ViewAction::Map { pages } => self.mapped.push(pages),
                ViewAction::Drop { pages } => self.mapped.retain(|&mapped| mapped != pages),
                ViewAction::Wake { .. } | ViewAction::Fail { .. } => {}
            }
        }
    }

    fn fault(&mut self, page: u64) {
        self.tell(ViewEvent::Fault { page });
    }

    /// The oldest read ends.
    fn end(&mut self, came: bool) {
        let pages = self.reading.remove(0);
        self.now = Nanos(self.now.0 + READ_NS);
        self.tell(ViewEvent::Completed { pages, came });
    }

    /// A thread reads a page, and waits for it.
    fn touch(&mut self, page: u64) {
        if !self.mapped.iter().any(|pages| pages.contains(page)) {
            self.fault(page);
            self.end(true);
        }
    }
}

fn event_text(event: ViewEvent) -> String {
    match event {
        ViewEvent::Fault { page } => format!("Fault p{page}"),
        ViewEvent::Completed { pages, came: true } => format!("Completed {}", trace::pages(pages)),
        ViewEvent::Completed { pages, came: false } => format!("Completed {}, failed", trace::pages(pages)),
        ViewEvent::Lost { pages } => format!("Lost {}", trace::pages(pages)),
    }
}

fn action_text(action: ViewAction) -> String {
    match action {
        ViewAction::Read { pages } => format!("Read {}", trace::pages(pages)),
        ViewAction::Map { pages } => format!("Map {}", trace::pages(pages)),
        ViewAction::Wake { page } => format!("Wake p{page}"),
        ViewAction::Drop { pages } => format!("Drop {}", trace::pages(pages)),
        ViewAction::Fail { pages } => format!("Fail {}", trace::pages(pages)),
    }
}

#[test]
fn fault() {
    let mut driver = Driver::new(200, 128);
    for page in [5, 31, 150, 199] {
        driver.fault(page);
    }
    (0..3).for_each(|_| driver.end(true));
    driver.fault(7);
    driver.trace.check(
        "views_fault",
        "Threads touch an object of 200 pages: a block a fault, one read for all that wait for it.",
    );
}

#[test]
fn failure() {
    let mut driver = Driver::new(200, 128);
    driver.fault(5);
    driver.fault(40);
    driver.end(false);
    driver.end(true);
    driver.tell(ViewEvent::Lost { pages: Extent::new(32, 64) });
    driver.touch(5);
    driver.touch(40);
    driver.trace.check(
        "views_failure",
        "A block does not come, another cannot be mapped: the threads are told, and may ask again.",
    );
}

#[test]
fn eviction() {
    let mut driver = Driver::new(320, 128);
    for block in (0..10).chain([0, 3, 1, 9]) {
        driver.touch(block * 32);
    }
    driver
        .trace
        .check("views_eviction", "A thread touches ten blocks with room for four: which leaves as one is mapped.");
}
