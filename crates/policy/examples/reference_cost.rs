//! What a page reference costs policy: many streams, many reads that wait, many resident folios.
//!
//! ```text
//! cargo run --release -p foreread-policy --example reference_cost -- streams 16384
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!     target/release/examples/reference_cost waiting 16384 200000
//! ```
//!
//! The first argument is one of `streams` (so many sequential readers in turn, a file each),
//! `waiting` (so many random readers, all of which wait) and `resident` (random reads of single
//! folios, so many of which fit). The third one is the number of references. It prints the time of
//! one in ns. Instructions are the difference of two runs, divided by that of their references.
//!
//! The driver is as small as it can be: storage answers at once, a folio is 32 pages.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use foreread_policy::{
    Action, Event, Extent, FOLIO_PAGES_MAX, FileId, Found, Nanos, Options, PAGE_BYTES, ReadId, ReadPath, Replacement,
    RequestId, Touch,
};

/// Pages of each file.
const FILE_PAGES: u64 = 1 << 24;

/// Memory for so many folios of 128 KiB, and a quarter more.
fn options(folios: u64) -> Options {
    Options {
        capacity_bytes: folios * FOLIO_PAGES_MAX * PAGE_BYTES / 4 * 5,
        readahead: true,
        replacement: Replacement::S3Fifo,
        rotational: false,
        fair_queue: true,
        tier: false,
        bypass: true,
    }
}

#[derive(Debug)]
struct Folio {
    request: RequestId,
    marked: bool,
    there: bool,
    touched: bool,
}

/// A driver whose storage answers when it is asked to.
struct Driver {
    policy: ReadPath,
    now: Nanos,
    folios: HashMap<(FileId, u64), Folio>,
    requests: HashMap<RequestId, (FileId, Extent, u64)>,
    /// Requests in the order in which they were started.
    started: VecDeque<RequestId>,
    /// The folios that reads wait for, and the reads that have memory for theirs.
    reads: HashMap<ReadId, (FileId, u64)>,
    ready: HashMap<(FileId, u64), Vec<ReadId>>,
    /// Folios that have come, which reads may wait for.
    came: Vec<(FileId, u64)>,
    next_read: u64,
}

impl Driver {
    fn new(options: Options) -> Self {
        Self {
            policy: ReadPath::new(options),
            now: Nanos(0),
            folios: HashMap::new(),
            requests: HashMap::new(),
            started: VecDeque::new(),
            reads: HashMap::new(),
            ready: HashMap::new(),
            came: Vec::new(),
            next_read: 0,
        }
    }

    fn open(&mut self, files: u64) {
        for file in (0..files).map(FileId) {
            self.tell(Event::Open { file, pages: FILE_PAGES });
        }
    }

    fn tell(&mut self, event: Event) {
        self.policy.handle(self.now, event);
        while let Some(action) = self.policy.poll_action() {
            match action {
                Action::Submit { request, file, extent, mark, granted, .. } => {
                    let folio = |marked| Folio { request, marked, there: false, touched: false };
                    for part in extent.folios() {
                        let marked = mark.is_some_and(|mark| part.contains(mark));
                        self.folios.entry((file, part.start / FOLIO_PAGES_MAX)).or_insert_with(|| folio(marked));
                    }
                    self.requests.insert(request, (file, extent, granted));
                    if granted > extent.start {
                        self.started.push_back(request);
                    }
                }
                Action::Grant { request, granted } => {
                    let of = self.requests.get_mut(&request).expect("a request");
                    if of.2 == of.1.start {
                        self.started.push_back(request);
                    }
                    of.2 = granted;
                }
                Action::Join { request, .. } => {
                    let of = self.requests.get_mut(&request).expect("a request");
                    of.2 = of.1.end;
                    self.started.push_back(request);
                }
                Action::Ready { read, .. } => {
                    let folio = self.reads[&read];
                    self.ready.entry(folio).or_default().push(read);
                    self.came.push(folio);
                }
                Action::Cancel { request } => drop(self.requests.remove(&request)),
                Action::Drop { file, folio } => drop(self.folios.remove(&(file, folio.start / FOLIO_PAGES_MAX))),
                Action::Clear { .. }
                | Action::Mark { .. }
                | Action::Hedge { .. }
                | Action::Cache { .. }
                | Action::ForgetParts { .. }
                | Action::Forget { .. } => {}
            }
        }
    }

    /// The oldest request is answered, as far as it is granted memory.
    fn answer(&mut self) {
        let request = self.started.pop_front().expect("a request, while a read waits");
        while let Some(&(file, extent, granted)) = self.requests.get(&request) {
            for part in Extent::new(extent.start, granted).folios() {
                let name = (file, part.start / FOLIO_PAGES_MAX);
                if let Some(folio) = self.folios.get_mut(&name)
                    && folio.request == request
                    && !std::mem::replace(&mut folio.there, true)
                {
                    self.came.push(name);
                }
            }
            if granted == extent.end {
                self.requests.remove(&request);
                let total = Nanos(30_000_000 + extent.pages() * 50_000);
                self.tell(Event::Completed {
                    request,
                    first_byte: Nanos(30_000_000),
                    silence: Nanos(30_000_000),
                    total,
                });
            } else {
                self.tell(Event::Wants { request });
                if self.requests.get(&request).is_some_and(|of| of.2 == granted) {
                    // It waits for memory; others end first.
                    self.started.push_back(request);
                    break;
                }
            }
        }
        self.hand_over();
    }

    /// Reads that have memory and their folio are answered.
    fn hand_over(&mut self) {
        while let Some((file, number)) = self.came.pop() {
            if !self.folios.get(&(file, number)).is_some_and(|folio| folio.there) {
                continue;
            }
            for read in self.ready.remove(&(file, number)).unwrap_or_default() {
                self.reads.remove(&read);
                self.touch(file, number);
                self.tell(Event::Answered { read });
            }
        }
    }

    fn touch(&mut self, file: FileId, number: u64) {
        let Some(folio) = self.folios.get_mut(&(file, number)) else { return };
        let (request, start) = (folio.request, number * FOLIO_PAGES_MAX);
        if !std::mem::replace(&mut folio.touched, true) {
            for touch in [Touch::First, Touch::Finished] {
                self.tell(Event::Referenced { file, start, request, touch });
            }
        }
    }

    /// A read of one folio. Returns whether it waits.
    fn read(&mut self, file: FileId, number: u64) -> bool {
        self.now = Nanos(self.now.0 + 100_000);
        let found = self
            .folios
            .get_mut(&(file, number))
            .map_or(Found::Absent, |folio| if folio.there { Found::Resident } else { Found::InFlight });
        let folio = self.folios.get_mut(&(file, number));
        let marked = folio.is_some_and(|folio| std::mem::take(&mut folio.marked));
        if found == Found::Resident && !marked {
            self.touch(file, number);
            return false;
        }
        let read = ReadId(self.next_read);
        self.next_read += 1;
        if found != Found::Resident {
            self.reads.insert(read, (file, number));
        }
        let extent = Extent::new(number * FOLIO_PAGES_MAX, (number + 1) * FOLIO_PAGES_MAX);
        self.tell(Event::Read { read, file, extent, found, marked });
        if found == Found::Resident {
            self.touch(file, number);
        }
        self.hand_over();
        found != Found::Resident
    }
}

/// Numbers below `below`, by a multiplier of Knuth's.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (many, references) = (number(1, 16), number(2, 400_000));
    let what = arguments.first().map_or("streams", String::as_str);
    let folios = FILE_PAGES / FOLIO_PAGES_MAX;
    let mut state = 1;
    let (mut driver, before) = match what {
        "streams" => (Driver::new(options(many.max(64) * 64)), many * 8),
        "waiting" => (Driver::new(options(many.max(1_024) * 4)), many),
        "resident" => (Driver::new(options(many)), many),
        other => panic!("{other}: streams, waiting or resident is known"),
    };
    driver.open(if what == "streams" { many } else { 1 });
    let mut step = |driver: &mut Driver, nth: u64| match what {
        "streams" => {
            if driver.read(FileId(nth % many), nth / many) {
                while !driver.reads.is_empty() {
                    driver.answer();
                }
            }
        }
        "waiting" => {
            driver.read(FileId(0), random(&mut state, folios));
            while driver.reads.len() as u64 >= many {
                driver.answer();
            }
        }
        _ => {
            driver.read(FileId(0), random(&mut state, many * 2));
            while !driver.reads.is_empty() {
                driver.answer();
            }
        }
    };
    (0..before).for_each(|nth| step(&mut driver, nth));
    let began = Instant::now();
    (before..before + references).for_each(|nth| step(&mut driver, nth));
    let each = began.elapsed().as_nanos() as f64 / references as f64;
    println!("{what} {many}: {each:.0} ns a reference, {} folios", driver.folios.len());
}
