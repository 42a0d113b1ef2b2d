//! What the read path makes of whole patterns, in virtual time, in front of a store that answers after 30 ms, sends 80 MB/s a
//! request and 900 MB/s in all. Asserted: throughput against the pattern's limit, bytes fetched against bytes asked, requests.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use foreread_policy::{Action, Event, Extent, FileId, Found, Nanos, Options, PAGE_BYTES, ReadPath, RequestId};

const LATENCY_NS: u64 = 30_000_000;
const REQUEST_BYTES_PER_S: u64 = 80_000_000;
const ALL_BYTES_PER_S: u64 = 900_000_000;
/// The kernel's readahead window: what a mount is asked for at a time.
const KERNEL_PAGES: u64 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// The connection would have the next folio by now.
    Sends {
        request: RequestId,
    },
    /// The link has carried it.
    Arrives {
        request: RequestId,
    },
    Reads {
        reader: usize,
    },
}

struct InFlight {
    file: FileId,
    extent: Extent,
    since: u64,
    granted: u64,
    /// The next page that the connection has, were it granted.
    next: u64,
    paused: bool,
}

struct Folio {
    end: u64,
    request: RequestId,
    there: bool,
    marked: bool,
    waiting: Vec<usize>,
}

struct Reader {
    file: FileId,
    reads: std::vec::IntoIter<Extent>,
    think_ns: u64,
    missing: usize,
    current: Extent,
    done_ns: u64,
    late: u64,
    due_ns: u64,
}

struct World {
    policy: ReadPath,
    now: u64,
    agenda: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    order: u64,
    folios: BTreeMap<(FileId, u64), Folio>,
    requests: BTreeMap<RequestId, InFlight>,
    referenced: Vec<(FileId, u64, bool)>,
    readers: Vec<Reader>,
    link_free_ns: u64,
    fetched_pages: u64,
    made: u64,
}

struct Outcome {
    seconds: f64,
    asked_bytes: u64,
    amplification: f64,
    requests: u64,
    late: u64,
}

impl Outcome {
    fn megabytes_per_s(&self) -> f64 {
        self.asked_bytes as f64 / 1e6 / self.seconds
    }

    fn requests_per_gib(&self) -> f64 {
        self.requests as f64 / (self.asked_bytes as f64 / f64::from(1 << 30))
    }
}

/// Runs `readers`, each `(file, reads, think time in ns)`, to their end.
fn run(memory_bytes: u64, file_pages: u64, readers: Vec<(u64, Vec<Extent>, u64)>) -> Outcome {
    let mut world = World {
        policy: ReadPath::new(Options { capacity_bytes: memory_bytes, readahead: true }),
        now: 0,
        agenda: BinaryHeap::new(),
        order: 0,
        folios: BTreeMap::new(),
        requests: BTreeMap::new(),
        referenced: Vec::new(),
        readers: Vec::new(),
        link_free_ns: 0,
        fetched_pages: 0,
        made: 0,
    };
    let asked: u64 = readers.iter().flat_map(|r| &r.1).map(|e| e.pages()).sum();
    let mut opened = std::collections::BTreeSet::new();
    for (at, (file, reads, think_ns)) in readers.into_iter().enumerate() {
        let file = FileId(file);
        if opened.insert(file) {
            world.tell(Event::Open { file, pages: file_pages });
        }
        // What the kernel sends: 128 KiB at a time.
        let split = |e: Extent| {
            (e.start..e.end).step_by(KERNEL_PAGES as usize).map(move |s| Extent::new(s, (s + KERNEL_PAGES).min(e.end)))
        };
        let reads: Vec<_> = reads.into_iter().flat_map(split).collect();
        let current = Extent::new(0, 0);
        let reads = reads.into_iter();
        world.readers.push(Reader { file, reads, think_ns, missing: 0, current, done_ns: 0, late: 0, due_ns: 0 });
        world.at(0, Happening::Reads { reader: at });
    }
    world.live();
    let seconds = world.readers.iter().map(|r| r.done_ns).max().unwrap_or(0) as f64 / 1e9;
    Outcome {
        seconds,
        asked_bytes: asked * PAGE_BYTES,
        amplification: world.fetched_pages as f64 / asked as f64,
        requests: world.made,
        late: world.readers.iter().map(|r| r.late).sum(),
    }
}

impl World {
    fn at(&mut self, time: u64, what: Happening) {
        self.order += 1;
        self.agenda.push(Reverse((time, self.order, what)));
    }

    fn live(&mut self) {
        while let Some(Reverse((time, _, what))) = self.agenda.pop() {
            self.now = time;
            match what {
                Happening::Sends { request } => self.sends(request),
                Happening::Arrives { request } => self.arrives(request),
                Happening::Reads { reader } => self.reads(reader),
            }
        }
    }

    fn tell(&mut self, event: Event) {
        for (file, start, finished) in std::mem::take(&mut self.referenced) {
            self.policy.handle(Nanos(self.now), Event::Referenced { file, start, finished });
        }
        self.policy.handle(Nanos(self.now), event);
        while let Some(action) = self.policy.poll_action() {
            match action {
                Action::Submit { request, file, extent, mark, granted, .. } => {
                    self.submit(request, file, extent, mark);
                    self.requests.get_mut(&request).unwrap().granted = granted;
                }
                Action::Grant { request, granted } => {
                    let this = self.requests.get_mut(&request).unwrap();
                    this.granted = granted;
                    if std::mem::take(&mut this.paused) {
                        self.at(self.now, Happening::Arrives { request });
                    }
                }
                Action::Cancel { request } => {
                    self.requests.remove(&request);
                }
                Action::Drop { file, folio } => {
                    self.folios.remove(&(file, folio.start));
                }
            }
        }
    }

    fn submit(&mut self, request: RequestId, file: FileId, extent: Extent, mark: Option<u64>) {
        let (since, next) = (self.now, extent.start);
        self.requests.insert(request, InFlight { file, extent, since, granted: 0, next, paused: false });
        self.fetched_pages += extent.pages();
        self.made += 1;
        for folio in extent.folios() {
            let marked = mark.is_some_and(|m| folio.contains(m));
            let entry = Folio { end: folio.end, request, there: false, marked, waiting: Vec::new() };
            self.folios.insert((file, folio.start), entry);
        }
        self.schedule(request, self.now + LATENCY_NS);
    }

    /// The bytes of the next folio of `request`.
    fn next_bytes(&self, request: RequestId) -> Option<u64> {
        let this = self.requests.get(&request)?;
        Extent::new(this.next, this.extent.end).folios().next().map(|f| f.pages() * PAGE_BYTES)
    }

    /// The next folio of `request` is sent from `from` on, at the rate of one request.
    fn schedule(&mut self, request: RequestId, from: u64) {
        if let Some(bytes) = self.next_bytes(request) {
            self.at(from + bytes * 1_000_000_000 / REQUEST_BYTES_PER_S, Happening::Sends { request });
        }
    }

    /// The link carries what has been sent, at the rate of all.
    fn sends(&mut self, request: RequestId) {
        let Some(bytes) = self.next_bytes(request) else { return };
        let takes = bytes * 1_000_000_000 / ALL_BYTES_PER_S;
        self.link_free_ns = self.link_free_ns.max(self.now - takes) + takes;
        self.at(self.link_free_ns, Happening::Arrives { request });
    }

    /// The next folio of `request` has come, if it is granted.
    fn arrives(&mut self, request: RequestId) {
        let Some(this) = self.requests.get_mut(&request) else { return };
        if this.next >= this.granted {
            this.paused = true;
            return self.tell(Event::Wants { request });
        }
        let (file, start) = (this.file, this.next);
        this.next = Extent::new(start, this.extent.end).folios().next().unwrap().end;
        let (ended, since) = (this.next == this.extent.end, this.since);
        if let Some(folio) = self.folios.get_mut(&(file, start)).filter(|f| f.request == request) {
            folio.there = true;
            let (waiting, end) = (std::mem::take(&mut folio.waiting), folio.end);
            for reader in waiting {
                self.referenced.push((file, start, self.readers[reader].current.end >= end));
                self.readers[reader].missing -= 1;
                if self.readers[reader].missing == 0 {
                    self.done(reader);
                }
            }
        }
        if ended {
            self.requests.remove(&request);
            let total = Nanos(self.now - since);
            self.tell(Event::Completed { request, first_byte: Nanos(LATENCY_NS), total });
        } else {
            self.schedule(request, self.now);
        }
    }

    fn done(&mut self, reader: usize) {
        let now = self.now;
        let this = &mut self.readers[reader];
        this.done_ns = now;
        if this.think_ns > 0 && now > this.due_ns + this.think_ns {
            this.late += 1;
        }
        this.due_ns = now.max(this.due_ns) + this.think_ns;
        let next = this.due_ns.max(now);
        self.at(next, Happening::Reads { reader });
    }

    fn reads(&mut self, at: usize) {
        let Some(extent) = self.readers[at].reads.next() else { return };
        let file = self.readers[at].file;
        self.readers[at].current = extent;
        let mut next = extent.start;
        let mut stalled = false;
        let mut touched = Vec::new();
        for (&(_, start), folio) in
            self.folios.range((file, 0)..(file, extent.end)).filter(|(_, f)| f.end > extent.start)
        {
            if start > next {
                break;
            }
            next = folio.end;
            stalled |= !folio.there;
            touched.push(start);
        }
        let absent = next < extent.end;
        let mut marked = false;
        if !absent {
            for &start in &touched {
                marked |= std::mem::take(&mut self.folios.get_mut(&(file, start)).unwrap().marked);
            }
        }
        let found = if absent {
            Found::Absent
        } else if stalled {
            Found::InFlight
        } else {
            Found::Resident
        };
        if found != Found::Resident || marked {
            self.tell(Event::Read { file, extent, found, marked });
        }
        let keys: Vec<_> = self
            .folios
            .range((file, 0)..(file, extent.end))
            .filter(|(_, f)| f.end > extent.start)
            .map(|(&k, _)| k)
            .collect();
        assert!(!keys.is_empty(), "memory for {extent:?}");
        let mut missing = 0;
        for key in keys {
            let folio = self.folios.get_mut(&key).unwrap();
            if folio.there {
                self.referenced.push((key.0, key.1, extent.end >= folio.end));
            } else {
                missing += 1;
                folio.waiting.push(at);
            }
        }
        self.readers[at].missing = missing;
        if missing == 0 {
            // A hit costs what copying 128 KiB does.
            self.now += 20_000;
            self.done(at);
        }
    }
}

const MIB: u64 = 256;
const GIB: u64 = 1024 * MIB;

fn forward(from: u64, to: u64, step: u64) -> Vec<Extent> {
    (from..to).step_by(step as usize).map(|s| Extent::new(s, (s + step).min(to))).collect()
}

#[test]
fn one_sequential_reader_fills_the_link_with_few_requests() {
    let outcome = run(256 << 20, 2 * GIB, vec![(0, forward(0, 2 * GIB, MIB), 0)]);
    assert!(outcome.megabytes_per_s() >= 800.0, "{}", outcome.megabytes_per_s());
    assert!(outcome.requests_per_gib() <= 160.0, "{}", outcome.requests_per_gib());
    assert!(outcome.amplification <= 1.0);
    let start = run(96 << 20, 64 * MIB, vec![(0, forward(0, 64 * MIB, MIB), 0)]);
    assert!(start.seconds <= 0.22, "{}", start.seconds);
}

#[test]
fn a_sequential_reader_in_little_memory() {
    let outcome = run(96 << 20, 2 * GIB, vec![(0, forward(0, 2 * GIB, MIB), 0)]);
    assert!(outcome.megabytes_per_s() >= 780.0, "{}", outcome.megabytes_per_s());
    assert!(outcome.requests_per_gib() <= 160.0, "{}", outcome.requests_per_gib());
}

#[test]
fn sixteen_files_at_once_share_the_link() {
    let readers = (0..16).map(|f| (f, forward(0, 256 * MIB, MIB), 0)).collect();
    let outcome = run(256 << 20, 256 * MIB, readers);
    assert!(outcome.megabytes_per_s() >= 780.0, "{}", outcome.megabytes_per_s());
    assert!(outcome.amplification <= 1.001, "{}", outcome.amplification);
}

#[test]
fn a_backward_reader_of_megabytes() {
    let reads = forward(0, GIB, MIB).into_iter().rev().collect();
    let outcome = run(256 << 20, GIB, vec![(0, reads, 0)]);
    assert!(outcome.megabytes_per_s() >= 600.0, "{}", outcome.megabytes_per_s());
    assert!(outcome.amplification <= 1.05, "{}", outcome.amplification);
}

#[test]
fn a_strided_reader() {
    let reads: Vec<_> = (0..2048).map(|i| Extent::new(i * MIB, i * MIB + 16)).collect();
    let outcome = run(256 << 20, 2 * GIB, vec![(0, reads, 0)]);
    let per_s = 2048.0 / outcome.seconds;
    assert!(per_s >= 1000.0, "{per_s}");
    assert!(outcome.amplification <= 1.2, "{}", outcome.amplification);
}

#[test]
fn a_strided_reader_whose_first_window_ends_where_its_second_record_begins() {
    // 64 KiB read at the start of a file come as 128 KiB from the kernel: eight times that is a megabyte.
    let reads: Vec<_> = (0..2048).map(|i| Extent::new(i * MIB, i * MIB + if i == 0 { 32 } else { 16 })).collect();
    let outcome = run(256 << 20, 2 * GIB, vec![(0, reads, 0)]);
    let per_s = 2048.0 / outcome.seconds;
    assert!(per_s >= 1000.0, "{per_s}");
    assert!(outcome.amplification <= 1.2, "{}", outcome.amplification);
}

#[test]
fn interleaved_streams_on_one_file() {
    for streams in [2, 5] {
        let part = 2 * GIB / streams / MIB * MIB;
        let mut reads = Vec::new();
        for i in 0..part / MIB {
            reads.extend((0..streams).map(|s| Extent::new(s * part + i * MIB, s * part + (i + 1) * MIB)));
        }
        let outcome = run(256 << 20, 2 * GIB, vec![(0, reads, 0)]);
        assert!(outcome.megabytes_per_s() >= 600.0, "{streams}: {}", outcome.megabytes_per_s());
        assert!(outcome.amplification <= 1.1, "{streams}: {}", outcome.amplification);
    }
}

#[test]
fn random_readers_on_one_file_fetch_what_they_ask_for() {
    let mut x = 99u64;
    let mut random = |pages: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let start = (x >> 33) % (2 * GIB / pages) * pages;
        Extent::new(start, start + pages)
    };
    for (pages, most) in [(1, 1.1), (32, 1.05)] {
        let readers = (0..16).map(|_| (0, (0..200).map(|_| random(pages)).collect(), 0)).collect();
        let outcome = run(256 << 20, 2 * GIB, readers);
        assert!(outcome.amplification <= most, "{}", outcome.amplification);
    }
}

#[test]
fn two_hundred_slow_streams_in_little_memory() {
    // 100 KB/s each: the kernel asks for 128 KiB every 1.3 s.
    let readers = (0..200).map(|f| (f, forward(0, 24 * MIB, KERNEL_PAGES), 1_310_000_000)).collect();
    let outcome = run(64 << 20, GIB, readers);
    assert_eq!(outcome.late, 0);
    assert!(outcome.amplification <= 1.1, "{}", outcome.amplification);
}

#[test]
fn two_hundred_slow_streams_that_stand_between_folios() {
    // The kernel's window grows from 32 KiB: later requests lie across two folios.
    let start = |f: u64| {
        let mut reads = vec![Extent::new(0, 8), Extent::new(8, 24)];
        reads.extend((24..24 * MIB).step_by(32).map(|s| Extent::new(s, s + 32)));
        (f, reads, 1_310_000_000)
    };
    let outcome = run(64 << 20, GIB, (0..200).map(start).collect());
    assert_eq!(outcome.late, 0);
    assert!(outcome.amplification <= 1.1, "{}", outcome.amplification);
}

#[test]
fn a_stream_that_turns_random_and_back_is_found_again() {
    let mut reads = forward(0, 64 * MIB, MIB);
    let mut x = 7u64;
    reads.extend((0..50).map(|_| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let start = (x >> 33) % 200_000 + 200_000;
        Extent::new(start, start + 1)
    }));
    reads.extend(forward(64 * MIB, 256 * MIB, MIB));
    let outcome = run(256 << 20, 2 * GIB, vec![(0, reads, 0)]);
    // 50 random reads take 1.5 s; the rest runs at the link's speed.
    assert!(outcome.seconds <= 1.55 + 0.5 + 0.4, "{}", outcome.seconds);
    assert!(outcome.amplification <= 1.5, "{}", outcome.amplification);
}
