//! The page table and the reads that wait, under every schedule of two or three threads.
//!
//! ```text
//!   src/pages/*.rs, src/requests/joint.rs ── compiled here ── crate::sync: loom's types
//!        └── models: a few threads ──> loom: every order of their steps, and every value that an
//!                                      atomic number may show
//! ```
//!
//! The files are the engine's own. loom runs a model again for each schedule, with at most
//! [`PREEMPTIONS_MAX`] changes from one thread to another in mid-work; a schedule in which a
//! promise does not hold, or in which threads wait for each other, fails the test.
//!
//! This is no test of the harness, so that the files' own tests, which need no loom, are not in
//! it. An argument runs the models with that in their names.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "the models use a part of the engine's files")]

#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/numbers.rs"]
mod numbers;
mod sync;

#[path = "../../src/pages"]
mod pages {
    pub(crate) mod course;
    pub(crate) mod folio;
    pub(crate) mod opened;
    pub(crate) mod pinned;
    pub(crate) mod request;
    pub(crate) mod table;
    pub(crate) mod uses;
    pub(crate) mod waiting;
}

#[path = "../../src/requests"]
mod requests {
    pub(crate) mod joint;
}

use std::sync::Arc;
use std::sync::Mutex as Plain;

use foreread_backend::{Frames, Key, Object, Version};
use foreread_policy::{Extent, FileId, PAGE_BYTES, ReadId, RequestId, Source, Touch};
use loom::thread;

use error::{Error, ErrorKind};
use pages::folio::Folio;
use pages::opened::Opened;
use pages::pinned::Pages;
use pages::request::Request;
use pages::table::Lookup;
use pages::waiting::{Missed, Reader, Waiting};
use requests::joint::Joint;
use sync::Mutex;

/// Changes from a thread that could go on to another one, in one schedule. Almost every mistake
/// needs two. Lower: mistakes are missed. Higher: minutes.
const PREEMPTIONS_MAX: usize = 3;

/// A reader that notes how its read ended: the first byte of each folio, or an error.
struct Noted {
    opened: Arc<Opened>,
    ends: Ends,
}

impl Reader for Noted {
    fn opened(&self) -> &Opened {
        &self.opened
    }

    fn begins_anew(&self, _: u64, _: usize, _: Option<ReadId>) -> bool {
        false
    }

    fn finish(&self, result: Result<Pages, Error>, read: Option<ReadId>) {
        assert_eq!(read, Some(ReadId(7)));
        let bytes = result.map(|pages| {
            assert_eq!(pages.slices().map(<[u8]>::len).sum::<usize>(), pages.len(), "all its bytes are there");
            pages.slices().map(|slice| slice[0]).collect()
        });
        self.ends.lock().expect("no panic").push(bytes.map_err(|error| error.kind()));
    }
}

/// The first byte of each folio of a read, or its error.
type End = Result<Vec<u8>, ErrorKind>;

type Ends = Arc<Plain<Vec<End>>>;

fn opened(pages: u64) -> Arc<Opened> {
    let version = Version { size: pages * PAGE_BYTES, tag: None, modified: None };
    Opened::new(FileId(1), Object { key: Key::new("a"), version }, None, None)
}

fn request(extent: Extent, demanded: bool, granted: u64) -> Arc<Request> {
    Request::new(RequestId(3), extent, demanded, granted, None)
}

/// New folios in the holes of `[start, end)`.
fn folios(opened: &Opened, start: u64, end: u64) -> Vec<Arc<Folio>> {
    let new = |extent| Folio::new(extent, false, request(extent, true, end));
    opened.table.fill_holes(Extent::new(start, end), new).into_vec()
}

/// A read of the first `pages` pages, and how it ends.
fn read(opened: &Arc<Opened>, pages: u64) -> (Arc<Waiting<Noted>>, Ends) {
    let ends = Ends::default();
    let reader = Noted { opened: Arc::clone(opened), ends: Arc::clone(&ends) };
    let read = Waiting::new(reader, 0, (pages * PAGE_BYTES) as usize);
    read.told(ReadId(7));
    (read, ends)
}

fn filled(folio: &Folio, with: u8) {
    let mut frames = Frames::new((folio.extent.pages() * PAGE_BYTES) as usize);
    frames.fill(with);
    folio.fill(Ok(frames));
}

fn broken(folio: &Folio) {
    folio.fill(Err(Error::new(ErrorKind::Io, "it broke")));
}

fn present(missed: &dyn Missed) -> Option<Pages> {
    match missed.look_up(u64::MAX) {
        Lookup::Present(pages) => Some(pages),
        Lookup::Absent => None,
    }
}

fn ends(ends: &Ends) -> Vec<End> {
    ends.lock().expect("no panic").clone()
}

/// Two threads fill the folios of a read while a third one lets it wait for them.
fn a_read_is_answered_once_by_the_last_of_its_folios() {
    let opened = opened(33);
    let two = folios(&opened, 0, 33);
    let (read, ended) = read(&opened, 33);
    let pages = present(&*read).expect("both are in flight");
    let threads: Vec<_> =
        two.into_iter().zip(1..).map(|(folio, with)| thread::spawn(move || filled(&folio, with))).collect();
    read.wait_for(pages);
    for thread in threads {
        thread.join().expect("it ends");
    }
    assert_eq!(ends(&ended), [Ok(vec![1, 2])]);
}

/// A folio of a read fails, another one comes.
fn a_read_with_a_failed_folio_has_its_error_once() {
    let opened = opened(33);
    let two = folios(&opened, 0, 33);
    let (read, ended) = read(&opened, 33);
    let pages = present(&*read).expect("both are in flight");
    let (first, second) = (Arc::clone(&two[0]), Arc::clone(&two[1]));
    let fails = thread::spawn(move || broken(&first));
    let comes = thread::spawn(move || filled(&second, 2));
    read.wait_for(pages);
    fails.join().expect("it ends");
    comes.join().expect("it ends");
    assert_eq!(ends(&ended), [Err(ErrorKind::Io)]);
}

/// One request of a read fails, so the other one is given up. The read's error is the cause,
/// whichever is told first.
fn a_read_has_the_error_that_others_follow_from() {
    let opened = opened(33);
    let two = folios(&opened, 0, 33);
    let (read, ended) = read(&opened, 33);
    let pages = present(&*read).expect("both are in flight");
    let (first, second) = (Arc::clone(&two[0]), Arc::clone(&two[1]));
    let given_up = thread::spawn(move || first.fill(Err(Error::new(ErrorKind::Io, "it ended").with_given_up())));
    let fails = thread::spawn(move || second.fill(Err(Error::new(ErrorKind::Changed, "it was replaced"))));
    read.wait_for(pages);
    given_up.join().expect("it ends");
    fails.join().expect("it ends");
    assert_eq!(ends(&ended), [Err(ErrorKind::Changed)]);
}

/// A task fills a folio while another thread gives up what the task has not filled.
fn the_first_outcome_of_a_folio_counts_for_each_of_its_reads() {
    let opened = opened(1);
    let folio = folios(&opened, 0, 1).remove(0);
    let (one, one_ended) = read(&opened, 1);
    let (other, other_ended) = read(&opened, 1);
    let pages = present(&*one).expect("it is in flight");
    one.wait_for(pages);
    let (comes, fails) = (Arc::clone(&folio), Arc::clone(&folio));
    let comes = thread::spawn(move || filled(&comes, 1));
    let fails = thread::spawn(move || broken(&fails));
    let pages = present(&*other).expect("it is in the table");
    other.wait_for(pages);
    comes.join().expect("it ends");
    fails.join().expect("it ends");
    let outcome = if folio.is_resident() { Ok(vec![1]) } else { Err(ErrorKind::Io) };
    assert_eq!((ends(&one_ended), ends(&other_ended)), (vec![outcome.clone()], vec![outcome]));
}

/// The holder of the shard evicts a folio and has it fetched again while a reader looks it up.
fn a_look_up_beside_an_eviction_finds_all_or_nothing() {
    let opened = opened(34);
    for folio in folios(&opened, 0, 34) {
        filled(&folio, 1);
    }
    let holder = {
        let opened = Arc::clone(&opened);
        thread::spawn(move || {
            let gone = opened.table.remove(0).expect("it is there");
            assert!(gone.is_resident());
            for folio in folios(&opened, 0, 34) {
                filled(&folio, 2);
            }
        })
    };
    let (read, ended) = read(&opened, 34);
    let found = present(&*read);
    let was_found = found.is_some();
    if let Some(pages) = found {
        read.wait_for(pages);
    }
    holder.join().expect("it ends");
    let ends = ends(&ended);
    let allowed = [Ok(vec![1, 1]), Ok(vec![2, 1])];
    assert_eq!(ends.len(), usize::from(was_found));
    assert!(ends.iter().all(|end| allowed.contains(end)), "{ends:?}");
}

/// Two readers touch a folio, and its mark, at once.
fn a_mark_and_each_first_touch_are_told_once() {
    let extent = Extent::new(0, 2);
    let folio = Folio::new(extent, true, request(extent, false, 2));
    let reader = |read: Extent| {
        let folio = Arc::clone(&folio);
        thread::spawn(move || (folio.take_mark(), folio.reference(read)))
    };
    let (one, other) = (reader(extent), reader(extent));
    let told = [one.join().expect("it ends"), other.join().expect("it ends")];
    assert_eq!(told.iter().filter(|(mark, _)| *mark).count(), 1);
    assert_eq!(told.iter().filter(|(_, touch)| *touch == Some(Touch::Finished)).count(), 1, "{told:?}");
}

/// Policy clears the reference bit while a reader touches the folio again.
fn a_touch_is_told_or_the_bit_is_not_set() {
    let extent = Extent::new(0, 1);
    let folio = Folio::new(extent, false, request(extent, false, 1));
    assert_eq!(folio.reference(extent), Some(Touch::Finished));
    assert_eq!(folio.reference(extent), Some(Touch::Again { pages: 1 }));
    let touches = {
        let folio = Arc::clone(&folio);
        thread::spawn(move || folio.reference(extent))
    };
    folio.clear();
    let told = touches.join().expect("it ends");
    let next = folio.reference(extent);
    assert!(told.is_some() != next.is_some(), "{told:?}, then {next:?}: told once since the bit was cleared");
}

/// A task waits for memory that the shard grants in two steps.
fn a_grant_is_never_missed() {
    let extent = Extent::new(0, 96);
    let request = request(extent, true, 32);
    let task = {
        let request = Arc::clone(&request);
        thread::spawn(move || {
            loop {
                let granted = request.granted();
                if granted >= 96 {
                    return;
                }
                loom::future::block_on(request.outgrown(granted));
            }
        })
    };
    request.grant(64);
    request.grant(96);
    task.join().expect("it ends");
    assert!(request.is_granted());
}

/// A speculative request fails, and its task gives it up unless a reader waits; meanwhile a reader
/// finds its folio in flight and waits for it. As in `fetch.rs` and `driver.rs`: the task looks
/// once without the shard, and once more with it.
fn no_read_waits_for_a_request_that_was_given_up() {
    let opened = opened(32);
    let extent = Extent::new(0, 32);
    let speculative = request(extent, false, 32);
    let new = |extent| Folio::new(extent, false, Arc::clone(&speculative));
    let folios = opened.table.fill_holes(extent, new);
    let joint = Joint::new(Arc::clone(&opened), Arc::clone(&speculative), folios, Source::Storage);
    let shard = Arc::new(Mutex::new(()));
    let task = {
        let (shard, opened) = (Arc::clone(&shard), Arc::clone(&opened));
        thread::spawn(move || {
            if !joint.is_demanded(0) {
                let held = shard.lock();
                if !joint.is_demanded(0) {
                    // Policy drops what no reader has touched.
                    opened.table.remove(0);
                    return;
                }
                drop(held);
            }
            // It is made again, and succeeds.
            filled(&joint.folios[0], 1);
        })
    };
    let (read, ended) = read(&opened, 32);
    let found = {
        let _held = shard.lock();
        let found = present(&*read);
        if found.is_some() {
            speculative.demand();
        }
        found
    };
    let was_found = found.is_some();
    if let Some(pages) = found {
        read.wait_for(pages);
    }
    task.join().expect("it ends");
    assert_eq!(ends(&ended), if was_found { vec![Ok(vec![1])] } else { Vec::new() });
}

fn main() {
    let models: [(&str, fn()); 9] = [
        ("a_read_is_answered_once_by_the_last_of_its_folios", a_read_is_answered_once_by_the_last_of_its_folios),
        ("a_read_with_a_failed_folio_has_its_error_once", a_read_with_a_failed_folio_has_its_error_once),
        ("a_read_has_the_error_that_others_follow_from", a_read_has_the_error_that_others_follow_from),
        (
            "the_first_outcome_of_a_folio_counts_for_each_of_its_reads",
            the_first_outcome_of_a_folio_counts_for_each_of_its_reads,
        ),
        ("a_look_up_beside_an_eviction_finds_all_or_nothing", a_look_up_beside_an_eviction_finds_all_or_nothing),
        ("a_mark_and_each_first_touch_are_told_once", a_mark_and_each_first_touch_are_told_once),
        ("a_touch_is_told_or_the_bit_is_not_set", a_touch_is_told_or_the_bit_is_not_set),
        ("a_grant_is_never_missed", a_grant_is_never_missed),
        ("no_read_waits_for_a_request_that_was_given_up", no_read_waits_for_a_request_that_was_given_up),
    ];
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, model) in models.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let schedules = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let counted = Arc::clone(&schedules);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(PREEMPTIONS_MAX);
        println!("model {name} ...");
        let began = std::time::Instant::now();
        builder.check(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            model();
        });
        println!(
            "model {name}: {} schedules, {:.1?}",
            schedules.load(std::sync::atomic::Ordering::Relaxed),
            began.elapsed()
        );
    }
}
