//! Invariants of the read path under random events, checked by a driver that executes every
//! action.
//!
//! - No request goes past the end of a file, and no page is in flight or resident twice.
//! - What is held, and what policy says is charged, stays within the budget.
//! - A file that is released has no request, and one that is forgotten no page.
//! - A read is ready once. From then until it is answered, each of its folios is resident, or
//!   granted to a request at the storage.
//! - While a read waits, a ready read is being answered, or a request at the storage has memory
//!   for its next bytes.
//! - Once the readers stop, all that can arrive does, and every read is answered.
//! - Coalesced requests are one run of one file, and each ends by itself.
//!
//! The tests do not judge how much is read ahead or how fast that is: the simulator does
//! (`crates/sim/tests/patterns.rs`).

use foreread_policy::{
    Action, Class, Event, Extent, FileId, Found, Nanos, Options, PAGE_BYTES, ReadId, ReadPath, Replacement, Touch,
};
use proptest::prelude::*;

#[path = "invariants/driver.rs"]
mod driver;

use driver::Driver;

const CAPACITY_BYTES: u64 = 16 << 20;

/// Options in front of storage that works on many requests at a time.
const STORE: Options = Options {
    capacity_bytes: CAPACITY_BYTES,
    readahead: true,
    replacement: Replacement::S3Fifo,
    rotational: false,
    fair_queue: true,
    tier: false,
    bypass: true,
};

#[derive(Debug, Clone)]
enum Step {
    Random {
        file: u64,
        at: u64,
        pages: u64,
    },
    Next {
        file: u64,
        pages: u64,
    },
    Back {
        file: u64,
        pages: u64,
    },
    Skip {
        file: u64,
        pages: u64,
        gap: u64,
    },
    Complete {
        nth: usize,
        failed: bool,
    },
    Late {
        nth: usize,
        ms: u64,
    },
    Answer,
    Release {
        file: u64,
    },
    Pause {
        ms: u64,
    },
    Capacity {
        mib: u64,
    },
    Reserve {
        mib: u64,
    },
    Prefetch {
        file: u64,
    },
    Discard {
        file: u64,
    },
    Forget {
        file: u64,
    },
    Cache {
        file: u64,
        at: u64,
        pages: u64,
        has: bool,
    },
    /// The file says that its chunks are so long; each begins in the last page of another.
    Chunks {
        file: u64,
        pages: u64,
    },
    /// The first pages of a chunk, or all of it, if they are so long.
    Column {
        file: u64,
        nth: u64,
        chunk: u64,
        pages: u64,
    },
}

/// Steps in front of files that say where their parts lie.
fn columns() -> impl Strategy<Value = Step> {
    let chunk = prop_oneof![Just(40u64), Just(300u64)];
    prop_oneof![
        4 => step(),
        1 => (1..3u64, chunk.clone()).prop_map(|(file, pages)| Step::Chunks { file, pages }),
        6 => (1..3u64, 0..64u64, chunk, 1..64u64)
            .prop_map(|(file, nth, chunk, pages)| Step::Column { file, nth, chunk, pages }),
    ]
}

/// Steps in front of storage with a tier, which has long and short pieces of the files.
fn tiered() -> impl Strategy<Value = Step> {
    let pages = prop_oneof![1..5u64, 1..3_000u64];
    prop_oneof![
        6 => step(),
        1 => (0..3u64, 0..20_000u64, pages, prop::bool::weighted(0.8))
            .prop_map(|(file, at, pages, has)| Step::Cache { file, at, pages, has }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let file = 0..3u64;
    prop_oneof![
        2 => (file.clone(), 0..20_000u64, 1..64u64).prop_map(|(file, at, pages)| Step::Random { file, at, pages }),
        6 => (file.clone(), prop_oneof![Just(32u64), 1..300u64]).prop_map(|(file, pages)| Step::Next { file, pages }),
        3 => (file.clone(), Just(32u64)).prop_map(|(file, pages)| Step::Back { file, pages }),
        3 => (file.clone(), Just(16u64), Just(240u64)).prop_map(|(file, pages, gap)| Step::Skip { file, pages, gap }),
        8 => (any::<usize>(), prop::bool::weighted(0.1)).prop_map(|(nth, failed)| Step::Complete { nth, failed }),
        2 => late(),
        6 => Just(Step::Answer),
        1 => file.clone().prop_map(|file| Step::Release { file }),
        1 => (0..3_000u64).prop_map(|ms| Step::Pause { ms }),
        1 => (16..40u64).prop_map(|mib| Step::Capacity { mib }),
        1 => (0..12u64).prop_map(|mib| Step::Reserve { mib }),
        1 => file.clone().prop_map(|file| Step::Prefetch { file }),
        2 => file.clone().prop_map(|file| Step::Discard { file }),
        1 => file.prop_map(|file| Step::Forget { file }),
    ]
}

/// A request is silent for longer than usual, or has stalled.
fn late() -> impl Strategy<Value = Step> {
    (any::<usize>(), prop_oneof![Just(60u64), Just(3_000)]).prop_map(|(nth, ms)| Step::Late { nth, ms })
}

/// Steps that mostly read adjacent extents in a small part of one file.
fn crowd() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (1..3u64, 0..512u64, 1..9u64).prop_map(|(file, at, pages)| Step::Random { file, at: at * 8, pages }),
        2 => (1..3u64, 1..300u64).prop_map(|(file, pages)| Step::Next { file, pages }),
        12 => (any::<usize>(), prop::bool::weighted(0.1)).prop_map(|(nth, failed)| Step::Complete { nth, failed }),
        1 => late(),
        6 => Just(Step::Answer),
        1 => Just(Step::Release { file: 1 }),
    ]
}

const SIZES: [u64; 3] = [1, 5_000, 20_000];

fn run(steps: &[Step], options: Options) -> Driver {
    let mut driver = Driver::new(options);
    run_on(&mut driver, steps);
    driver
}

fn run_on(driver: &mut Driver, steps: &[Step]) {
    let mut at = [0u64; 3];
    for step in steps {
        let (index, start, pages) = match *step {
            Step::Random { file, at, pages } => (file, at, pages),
            Step::Column { file, nth, chunk, pages } => (file, nth * chunk, pages),
            Step::Next { file, pages } => (file, at[file as usize], pages),
            Step::Back { file, pages } => (file, at[file as usize].saturating_sub(2 * pages), pages),
            Step::Skip { file, pages, gap } => (file, at[file as usize] + gap, pages),
            Step::Complete { nth, failed } => {
                driver.complete(nth, failed);
                continue;
            }
            Step::Late { nth, ms } => {
                driver.late(nth, Nanos::from_millis(ms));
                continue;
            }
            Step::Answer => {
                driver.answer();
                continue;
            }
            Step::Release { file } => {
                if driver.files.contains_key(&FileId(file)) {
                    driver.end_reads(FileId(file));
                    driver.release(FileId(file));
                }
                continue;
            }
            Step::Pause { ms } => {
                driver.pause(ms);
                continue;
            }
            Step::Capacity { mib } => {
                driver.capacity_bytes = mib << 20;
                driver.tell(Event::Capacity { bytes: mib << 20 });
                continue;
            }
            Step::Reserve { mib } => {
                driver.tell(Event::Reserve { bytes: mib << 20 });
                continue;
            }
            Step::Prefetch { file } | Step::Discard { file } => {
                let file = FileId(file);
                if driver.files.contains_key(&file) && !driver.closed.contains_key(&file) {
                    driver.tell(match step {
                        Step::Prefetch { .. } => Event::Prefetch { file },
                        _ => Event::Discard { file },
                    });
                }
                continue;
            }
            Step::Cache { file, at, pages, has } => {
                let size = SIZES[file as usize];
                if driver.files.contains_key(&FileId(file)) {
                    let extent = Extent::new(at % size, (at % size + pages).min(size));
                    let file = FileId(file);
                    driver.tell(if has { Event::Cached { file, extent } } else { Event::Uncached { file, extent } });
                }
                continue;
            }
            Step::Chunks { file, pages } => {
                let size = SIZES[file as usize];
                if driver.files.contains_key(&FileId(file)) {
                    driver.tell(Event::Parts { file: FileId(file) });
                    let starts = (0..).zip((0..size - 1).step_by(pages as usize));
                    driver.tell_chunks(starts.map(|(nth, start)| {
                        let extent = Extent::new(start, (start + pages + 1).min(size));
                        match pages % 2 {
                            0 => Event::Member { file: FileId(file), extent },
                            _ => Event::Chunk { file: FileId(file), extent, group: nth / 4, column: nth % 4 },
                        }
                    }));
                }
                continue;
            }
            Step::Forget { file } => {
                driver.cached.retain(|&(of, _)| of != FileId(file));
                if driver.files.contains_key(&FileId(file)) {
                    driver.closed.remove(&FileId(file));
                    driver.end_reads(FileId(file));
                    // Until it hears of that, policy may fetch more of it.
                    driver.tell(Event::Forget { file: FileId(file) });
                    driver.files.remove(&FileId(file));
                    assert!(driver.folios.keys().all(|k| k.0 != FileId(file)), "a forgotten file leaves pages behind");
                }
                continue;
            }
        };
        let (file, size) = (FileId(index), SIZES[index as usize]);
        if driver.files.insert(file, size).is_none() | driver.closed.remove(&file).is_some() {
            driver.tell(Event::Open { file, pages: size });
        }
        let start = start % size;
        let extent = Extent::new(start, (start + pages).min(size));
        at[index as usize] = extent.end;
        driver.read(file, extent);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn invariants_hold_for_random_events(
        steps in prop::collection::vec(step(), 1..400),
        lru in any::<bool>(),
        rotational in any::<bool>(),
        fair_queue in any::<bool>(),
    ) {
        let replacement = if lru { Replacement::Lru } else { Replacement::S3Fifo };
        let mut driver = run(&steps, Options { replacement, rotational, fair_queue, ..STORE });
        // Everything that can arrive does. What then waits for memory is speculation, which no
        // reader waits for.
        for at in 0..10_000 {
            driver.answer();
            driver.complete(at, false);
        }
        prop_assert!(driver.reads.is_empty(), "readers starve: {:?}", driver.reads);
    }

    /// A request has one source, whatever the tier has; and what it has costs no place at the
    /// storage (the driver checks both).
    #[test]
    fn invariants_hold_with_a_tier(
        steps in prop::collection::vec(tiered(), 1..400),
        rotational in any::<bool>(),
        fair_queue in any::<bool>(),
    ) {
        let mut driver = run(&steps, Options { rotational, fair_queue, tier: true, ..STORE });
        for at in 0..10_000 {
            driver.answer();
            driver.complete(at, false);
        }
        prop_assert!(driver.reads.is_empty(), "readers starve: {:?}", driver.reads);
        prop_assert_eq!(driver.policy.counters().requests_tier, driver.asked_tier);
    }

    #[test]
    fn invariants_hold_for_files_that_say_where_their_parts_lie(
        steps in prop::collection::vec(columns(), 1..400),
        rotational in any::<bool>(),
    ) {
        let mut driver = run(&steps, Options { rotational, ..STORE });
        for at in 0..10_000 {
            driver.answer();
            driver.complete(at, false);
        }
        prop_assert!(driver.reads.is_empty(), "readers starve: {:?}", driver.reads);
    }

    /// Many readers of adjacent extents, in front of storage that is busy. The driver checks the
    /// joined requests when they start.
    #[test]
    fn adjacent_demand_is_requested_once_and_each_request_ends_once(
        steps in prop::collection::vec(crowd(), 100..400),
        readahead in any::<bool>(),
        rotational in any::<bool>(),
    ) {
        let mut driver = Driver::new(Options { readahead, rotational, ..STORE });
        for at in 0..300 {
            // Enough requests that all later ones wait.
            driver.files.insert(FileId(100 + at), 1);
            driver.tell(Event::Open { file: FileId(100 + at), pages: 1 });
            driver.read(FileId(100 + at), Extent::new(0, 1));
        }
        driver.files.insert(FileId(2), SIZES[2]);
        driver.tell(Event::Open { file: FileId(2), pages: SIZES[2] });
        for at in 0..16 {
            driver.read(FileId(2), Extent::new(8_000 + at * 5 % 16 * 8, 8_008 + at * 5 % 16 * 8));
        }
        run_on(&mut driver, &steps);
        // At the end no reader is left, and nothing is held.
        for at in 0..20_000 {
            driver.answer();
            driver.complete(at, false);
        }
        prop_assert!(driver.reads.is_empty(), "readers starve: {:?}", driver.reads);
        prop_assert_eq!(driver.policy.counters().requests_coalesced, driver.joined);
        prop_assert!(driver.joined > 0, "no request was coalesced");
        for file in driver.files.keys().copied().collect::<Vec<_>>() {
            driver.release(file);
            driver.tell(Event::Forget { file });
        }
        prop_assert_eq!((driver.policy.memory().charged_bytes, driver.requests.len(), driver.folios.len()), (0, 0, 0));
    }

    #[test]
    fn without_readahead_no_request_is_speculative(mut steps in prop::collection::vec(step(), 1..200)) {
        // A file is prefetched as it is said.
        steps.retain(|step| !matches!(step, Step::Prefetch { .. }));
        let driver = run(&steps, Options { readahead: false, ..STORE });
        prop_assert_eq!(driver.policy.counters().requests_speculative, 0);
    }
}

#[test]
fn a_random_reader_fetches_its_own_pages_only() {
    let mut driver = Driver::new(STORE);
    driver.files.insert(FileId(0), 1 << 20);
    driver.tell(Event::Open { file: FileId(0), pages: 1 << 20 });
    let mut x = 12_345u64;
    for _ in 0..2_000 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let page = (x >> 33) % (1 << 20);
        driver.read(FileId(0), Extent::new(page, page + 1));
        driver.complete(0, false);
        driver.answer();
    }
    assert!(driver.submitted_pages <= 2_000 * 102 / 100, "{} pages for 2000 reads", driver.submitted_pages);
}

/// Reads that the kernel cuts into pieces, and reads near the end of a file: nothing is fetched
/// beyond the pieces, and of the end no more pages than a read has.
#[test]
fn reads_in_pieces_and_near_the_end_fetch_little_beyond_themselves() {
    let mut x = 77u64;
    let mut random = |below: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % below
    };
    for _ in 0..300 {
        let mut driver = Driver::new(STORE);
        let pages = 20_000 + random(1_000);
        driver.files.insert(FileId(0), pages);
        driver.tell(Event::Open { file: FileId(0), pages });
        let (pieces, rest) = (1 + random(8), random(100));
        let start = if rest < 40 { pages - pieces * 32 - rest } else { 1_000 + random(10_000) };
        for piece in 0..pieces {
            driver.read(FileId(0), Extent::new(start + piece * 32, start + piece * 32 + 32));
        }
        let end = pages - start - pieces * 32;
        let most = pieces * 32 + if end <= 32 { end } else { 0 };
        assert!(driver.submitted_pages <= most, "{} pages for {pieces} pieces", driver.submitted_pages);
    }
}

/// Of an archive of long members only the start of each is read, in no order: after a few that
/// came whole in vain, no more comes than is read but for one now and then.
#[test]
fn of_long_members_that_are_not_read_to_their_ends_few_come_whole() {
    const MEMBERS: u64 = 500;
    for member_pages in [40, 400, 4_000] {
        let mut driver = Driver::new(Options { capacity_bytes: 256 << 20, ..STORE });
        let (file, pages) = (FileId(0), MEMBERS * member_pages);
        driver.files.insert(file, pages);
        driver.tell(Event::Open { file, pages });
        driver.tell(Event::Parts { file });
        for start in (0..pages).step_by(member_pages as usize) {
            driver.tell(Event::Member { file, extent: Extent::new(start, start + member_pages) });
        }
        for nth in 0..200 {
            let start = nth * 77 % MEMBERS * member_pages;
            driver.read(file, Extent::new(start, start + 1));
            while !driver.requests.is_empty() {
                driver.complete(0, false);
            }
            driver.answer();
        }
        let whole = driver.submitted_pages / member_pages;
        assert!(whole <= 50, "{whole} of 200 members of {member_pages} pages came whole");
    }
}

/// However many members archives have, what is known of them leaves most of the budget to pages.
#[test]
fn what_is_known_of_members_takes_a_fourth_of_the_budget_at_most() {
    for member_pages in [1, 5, 20] {
        let (mut policy, mut told) = (ReadPath::new(STORE), 0);
        for file in (0..3).map(FileId) {
            let pages = 200_000 * member_pages;
            policy.handle(Nanos(0), Event::Open { file, pages });
            for start in (0..pages).step_by(member_pages as usize) {
                told += u64::from(policy.members_max() > 0);
                policy.handle(Nanos(0), Event::Member { file, extent: Extent::new(start, start + member_pages) });
            }
        }
        assert_eq!(policy.members_max(), 0);
        assert!(told >= 20_000, "{told} members of {member_pages} pages");
        let pages_bytes = policy.memory().pages_bytes;
        assert!(pages_bytes >= CAPACITY_BYTES * 3 / 4, "{pages_bytes} bytes are left, of {member_pages}");
    }
}

/// Closed archives are given up where an open one needs the room: those that were closed first.
/// What is left is charged as before.
#[test]
fn closed_archives_make_room_for_open_ones_the_oldest_first() {
    const MEMBERS: u64 = 1_000;
    for (options, archives) in [(STORE, 200), (Options { capacity_bytes: 256 << 20, ..STORE }, 2_000)] {
        let (mut policy, mut given_up, pages) = (ReadPath::new(options), Vec::new(), 8 * MEMBERS);
        let tell = |policy: &mut ReadPath, given_up: &mut Vec<u64>, now, event| {
            policy.handle(Nanos(now), event);
            while let Some(action) = policy.poll_action() {
                given_up.extend(if let Action::ForgetParts { file } = action { Some(file.0) } else { None });
            }
        };
        tell(&mut policy, &mut given_up, 0, Event::Open { file: FileId(0), pages });
        let empty = policy.memory().pages_bytes;
        let least = options.capacity_bytes / 8 * 7 - (1 << 20);
        for file in 1..=archives {
            // One that is opened again was used last.
            let (now, again, file_id) = (file, FileId(1), FileId(file));
            tell(&mut policy, &mut given_up, now, Event::Open { file: file_id, pages });
            for start in (0..pages).step_by(8) {
                assert!(policy.members_max() > 0, "there is room for all of {file}");
                tell(
                    &mut policy,
                    &mut given_up,
                    now,
                    Event::Member { file: file_id, extent: Extent::new(start, start + 8) },
                );
            }
            tell(&mut policy, &mut given_up, now, Event::Release { file: file_id });
            if file % 7 == 0 {
                tell(&mut policy, &mut given_up, now, Event::Open { file: again, pages });
                tell(&mut policy, &mut given_up, now, Event::Release { file: again });
            }
            assert!(policy.memory().pages_bytes >= least - file * 2_000, "{file} archives");
        }
        assert!(given_up.len() as u64 > archives / 4, "{} of {archives}", given_up.len());
        assert!(given_up.iter().copied().eq((2..).take(given_up.len())), "{given_up:?}");
        for file in (0..=archives).map(FileId) {
            tell(&mut policy, &mut given_up, archives, Event::Forget { file });
        }
        tell(&mut policy, &mut given_up, archives, Event::Open { file: FileId(0), pages });
        assert_eq!(policy.memory().pages_bytes, empty);
    }
}

/// What a driver holds of directories that it reads is charged, until it holds none of it or the
/// file is closed.
#[test]
fn directories_that_are_read_are_charged() {
    let mut policy = ReadPath::new(STORE);
    let mut tell = |event| {
        policy.handle(Nanos(0), event);
        while policy.poll_action().is_some() {}
        (policy.memory().pages_bytes, policy.directory_members_max())
    };
    let files = [1, 2].map(FileId);
    let none = files.map(|file| tell(Event::Open { file, pages: 1 << 20 }))[1];
    let bytes = CAPACITY_BYTES / 32;
    let one = tell(Event::Directory { file: files[0], bytes });
    assert!(none.0 - one.0 >= bytes - (64 << 10), "{none:?} {one:?}");
    let two = tell(Event::Directory { file: files[1], bytes: 3 * bytes });
    assert_eq!(two.1, 0, "an eighth at most");
    assert_eq!(tell(Event::Directory { file: files[1], bytes: 0 }), one);
    assert_eq!(tell(Event::Release { file: files[0] }).1, none.1);
    assert_eq!(tell(Event::Directory { file: files[0], bytes }).1, none.1, "it is closed");
}

/// A file of up to 4 MiB comes whole with its first read, on credit: whatever is read of how many,
/// what is fetched in vain stays within it.
#[test]
fn files_that_come_whole_cost_no_more_than_their_credit() {
    for (heads, whole) in [(400, 0), (300, 100), (0, 100)] {
        let mut driver = Driver::new(STORE);
        let (pages, mut read) = (100, 0);
        for file in 0..heads + whole {
            let file_id = FileId(file);
            driver.files.insert(file_id, pages);
            driver.tell(Event::Open { file: file_id, pages });
            let end = if file % 4 == 0 && whole > 0 || heads == 0 { pages } else { 4 };
            for start in (0..end).step_by(4) {
                driver.read(file_id, Extent::new(start, start + 4));
                while !driver.requests.is_empty() {
                    driver.complete(0, false);
                }
                driver.answer();
            }
            read += end;
        }
        // A stream from a file's start is trusted eight times as far as it has been read.
        let trusted = if heads > 0 { heads * 32 } else { 0 };
        let most = read + trusted + CAPACITY_BYTES / 64 / PAGE_BYTES + read * 3 / 10;
        assert!(driver.submitted_pages <= most, "{} pages of at most {most}", driver.submitted_pages);
    }
}

/// One that is expected to be opened is bought as well: where no more is read of such files, they
/// soon do not come, and where all is, each does.
#[test]
fn files_that_are_expected_cost_no_more_than_their_credit() {
    const FIRST_PAGES: u64 = (4 << 20) / PAGE_BYTES;
    for read in [0, 4, 200] {
        let mut driver = Driver::new(Options { capacity_bytes: 256 << 20, ..STORE });
        let (pages, files, mut came) = (200, 100, 0);
        for file in 0..files {
            let file_id = FileId(file);
            driver.files.insert(file_id, pages);
            driver.tell(Event::Open { file: file_id, pages });
            let before = driver.submitted_pages;
            driver.tell(Event::Prefetch { file: file_id });
            while !driver.requests.is_empty() {
                driver.complete(0, false);
            }
            came += u64::from(driver.submitted_pages == before + pages);
            for start in (0..read).step_by(4) {
                driver.read(file_id, Extent::new(start, start + 4));
                while !driver.requests.is_empty() {
                    driver.complete(0, false);
                }
                driver.answer();
            }
        }
        if read == pages {
            assert_eq!(came, files, "files that came before they were read");
        }
        let trusted = if read == 4 { files * 32 } else { 0 };
        let most = read * files * 13 / 10 + trusted + FIRST_PAGES;
        assert!(driver.submitted_pages <= most, "{} pages of at most {most}", driver.submitted_pages);
    }
}

#[test]
fn late_requests_are_hedged_only_with_readahead() {
    for readahead in [true, false] {
        let mut driver = Driver::new(Options { readahead, ..STORE });
        driver.files.insert(FileId(0), 1 << 20);
        driver.tell(Event::Open { file: FileId(0), pages: 1 << 20 });
        let mut x = 12_345u64;
        for read in 0..2_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let page = (x >> 33) % (1 << 20);
            driver.read(FileId(0), Extent::new(page, page + 1));
            if read % 50 == 0 {
                driver.late(0, Nanos::from_millis(60));
            }
            driver.complete(0, false);
            driver.answer();
        }
        let counted = driver.policy.counters().requests_hedged;
        assert_eq!(counted, driver.hedged.len() as u64);
        assert!(if readahead { counted >= 35 } else { counted == 0 }, "{counted} with readahead {readahead}");
    }
}

#[test]
fn a_request_is_late_where_the_storage_answers_others() {
    // Three requests; one is answered, and another has been silent for 60 ms or 3 s.
    for (answered, silent, ms, hedged) in [
        (&[2usize][..], 0usize, 60u64, true),
        (&[2], 1, 60, true),
        (&[0], 0, 60, false),
        (&[0], 0, 3_000, true),
        (&[0, 0], 0, 60, true),
        (&[], 0, 60, false),
        (&[], 2, 3_000, true),
    ] {
        let mut driver = Driver::new(STORE);
        driver.files.insert(FileId(0), 1 << 20);
        driver.tell(Event::Open { file: FileId(0), pages: 1 << 20 });
        for page in [500_000, 100_000, 900_000] {
            driver.read(FileId(0), Extent::new(page, page + 1));
        }
        for &nth in answered {
            driver.complete(nth, false);
        }
        driver.late(silent, Nanos::from_millis(ms));
        assert_eq!(driver.hedged.len(), usize::from(hedged), "{answered:?}, then {silent} silent for {ms} ms");
    }
}

/// A file of four exbibytes, of which little is resident: a walk over its blocks would take hours.
#[test]
fn what_is_prefetched_and_discarded_takes_steps_for_what_is_resident_only() {
    let file = FileId(0);
    // One of up to 4 MiB is bought, and may not come whole.
    for pages in [(1 << 10) + 1, 1 << 50] {
        let mut driver = Driver::new(STORE);
        driver.files.insert(file, pages);
        driver.tell(Event::Open { file, pages });
        for page in [100, 900, pages - 1] {
            driver.read(file, Extent::new(page, page + 1));
            driver.complete(0, false);
            driver.answer();
        }
        let read = driver.folios.len();
        for _ in 0..20 {
            driver.tell(Event::Prefetch { file });
            (0..100).for_each(|nth| driver.complete(nth, false));
        }
        assert!(driver.folios.len() > read + 8, "{} folios", driver.folios.len());
        let covers = |page: u64| driver.folios.iter().any(|((_, start), (end, ..))| (*start..*end).contains(&page));
        assert!((0..1000).all(covers), "it is fetched from its start on, without holes");
        driver.tell(Event::Discard { file });
        let arrived = driver.folios.values().filter(|folio| folio.2).count();
        assert_eq!(arrived, read, "what was read stays, and the rest goes that has arrived");
    }
}

/// A read stands on a prefetched part that has arrived, and waits for the next one, when the open
/// that they were fetched for is no longer expected.
#[test]
fn what_a_read_stands_on_is_not_discarded() {
    let file = FileId(0);
    let mut driver = Driver::new(STORE);
    driver.files.insert(file, 5_000);
    driver.tell(Event::Open { file, pages: 5_000 });
    driver.tell(Event::Prefetch { file });
    driver.complete(0, false);
    let arrived = driver.folios.iter().filter(|(_, folio)| folio.2).map(|((_, start), folio)| (*start, folio.0));
    let (_, end) = arrived.max().expect("a part has arrived");
    assert!(driver.requests.values().any(|(_, extent, _)| extent.start == end), "the next part is in flight");
    driver.read(file, Extent::new(end - 8, end + 8));
    assert!(driver.reads.values().any(|(.., ready)| *ready), "the read has memory for all its pages");
    // The driver looks for the pages of each ready read.
    driver.tell(Event::Discard { file });
    driver.complete(0, false);
    driver.answer();
    assert!(driver.reads.is_empty());
}

/// A request that a read has waited for goes on after that read, and leaves memory for those that
/// were made before it. They wait for that memory themselves, and nothing else is on its way. The
/// driver sees that the storage is not idle.
#[test]
fn what_is_left_to_older_requests_is_given_to_them() {
    let file = FileId(0);
    for nth in 0..32 {
        let mut driver = Driver::new(STORE);
        driver.files.insert(file, 20_000);
        driver.tell(Event::Open { file, pages: 20_000 });
        driver.tell(Event::Prefetch { file });
        let Some(&(_, extent, _)) = driver.requests.values().nth(nth) else { continue };
        driver.read(file, Extent::new(extent.start, extent.start + 8));
        for at in 0..200 {
            driver.complete(at, false);
            driver.answer();
        }
        assert!(driver.reads.is_empty());
    }
}

#[test]
fn the_class_says_whether_a_read_waits() {
    let mut policy = ReadPath::new(STORE);
    policy.handle(Nanos(0), Event::Open { file: FileId(0), pages: 10_000 });
    let extent = Extent::new(0, 32);
    let read = Event::Read { read: ReadId(0), file: FileId(0), extent, found: Found::Absent, marked: false };
    policy.handle(Nanos(0), read);
    let mut classes = Vec::new();
    while let Some(action) = policy.poll_action() {
        if let Action::Submit { class, extent: submitted, .. } = action {
            assert_eq!(class == Class::Demand, submitted.overlaps(extent));
            classes.push(class);
        }
    }
    assert_eq!(classes.first(), Some(&Class::Demand), "demand goes first");
}

/// The first page of a folio that is dropped.
fn dropped(action: Action) -> Option<u64> {
    if let Action::Drop { folio, .. } = action { Some(folio.start) } else { None }
}

/// A read was given pages of a folio, which was evicted before policy heard of it; the same pages
/// are on their way again. Or policy has begun anew meanwhile.
#[test]
fn a_touch_of_a_folio_that_is_gone_leaves_the_next_one_as_it_is() {
    let options = Options { rotational: true, ..STORE };
    let mut policy = ReadPath::new(options);
    let file = FileId(1);
    let mut tell = |now: u64, event| {
        policy.handle(Nanos(now * 1_000_000), event);
        std::iter::from_fn(|| policy.poll_action()).collect::<Vec<_>>()
    };
    tell(1, Event::Open { file, pages: 2_000 });
    let read = |read, start| Event::Read {
        read: ReadId(read),
        file,
        extent: Extent::new(start, start + 200),
        found: Found::Absent,
        marked: false,
    };
    let request = |actions: &[Action]| {
        let submitted = actions.iter().find_map(|action| match *action {
            Action::Submit { request, granted, .. } => Some((request, granted)),
            _ => None,
        });
        submitted.expect("a request")
    };
    let (first, _) = request(&tell(2, read(1, 500)));
    let (second, granted) = request(&tell(3, read(2, 1_500)));
    assert_eq!(granted, 1_500, "it waits for its turn, without memory");
    let touches = [Touch::First, Touch::Finished];
    for touch in touches {
        tell(4, Event::Referenced { file, start: 1_500, request: first, touch });
    }
    tell(5, Event::Completed { request: first, first_byte: Nanos(1), silence: Nanos(1), total: Nanos(1_000_000) });
    // It has memory, and is on its way: touches of the one that is gone, and its own.
    for (start, request) in [(1_500, first), (1_600, first), (1_536, second)] {
        for touch in touches {
            tell(6, Event::Referenced { file, start, request, touch });
        }
    }
    let gone = tell(6, Event::Failed { request: second });
    let gone: Vec<u64> = gone.into_iter().filter_map(dropped).collect();
    assert!(gone.contains(&1_500) && gone.contains(&1_600) && !gone.contains(&1_536), "{gone:?}");
    tell(7, Event::Forget { file });
    assert_eq!(policy.memory().charged_bytes, 0);
}
