//! Adjacent reads that wait for their turn: the storage is asked once, and each read gets its own
//! bytes or its own error.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use foreread_backend::{
    Body, Buffers, Error as BackendError, ErrorKind as BackendKind, InPlace, Mechanism, Operation as BackendOperation,
    Positioned, Submitter,
};
use foreread_engine::{
    Backend, Capabilities, Engine, Error, File, Key, ListPage, Object, Operation, Options, Outcome, Version, replay,
};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::oneshot;

const PAGE: u64 = 4096;

/// How many requests are made before any has to wait.
const FULL: usize = 256;

/// The bytes at `range`: no two pages are alike.
fn content(range: Range<u64>) -> Vec<u8> {
    range.map(|at| ((at / PAGE) as u8).wrapping_mul(31) ^ (at % 251) as u8).collect()
}

/// An answer of the storage.
enum Answer {
    Whole,
    /// So many bytes, and then an error.
    Broken(u64, BackendKind),
}

/// Where the answer goes.
enum To {
    Task(oneshot::Sender<Answer>),
    InPlace(Buffers, InPlace),
}

struct Asked {
    range: Range<u64>,
    to: To,
}

impl Asked {
    fn answer(self, answer: Answer) {
        match (self.to, answer) {
            (To::Task(task), answer) => assert!(task.send(answer).is_ok(), "{:?} is no longer wanted", self.range),
            (To::InPlace(mut buffers, done), Answer::Whole) => {
                let mut at = self.range.start;
                for buffer in &mut buffers {
                    let bytes = content(at..at + buffer.len() as u64);
                    buffer.copy_from_slice(&bytes);
                    at += buffer.len() as u64;
                }
                done(Ok(buffers).into());
            }
            (To::InPlace(_, done), Answer::Broken(_, kind)) => done(Err(failure(kind)).into()),
        }
    }
}

fn failure(kind: BackendKind) -> BackendError {
    BackendError::new(kind, BackendOperation::Read, "store", "it broke")
}

/// Storage that keeps requests, and answers when it is told to.
#[derive(Clone)]
struct Store {
    asked: Arc<Mutex<Sender<Asked>>>,
    in_place: bool,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

impl Positioned for Store {
    fn read(&self, offset: u64, buffers: Buffers, done: InPlace) {
        let bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let asked = Asked { range: offset..offset + bytes as u64, to: To::InPlace(buffers, done) };
        // The test may be over.
        let _ = self.asked.lock().unwrap().send(asked);
    }
}

impl Backend for Store {
    fn describe(&self) -> String {
        "a store".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        (can.range, can.conditional_read) = (true, true);
        can
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, BackendError>> {
        let version = Version { size: 1 << 30, tag: Some("1".into()), modified: None };
        std::future::ready(Ok(Object { key: key.clone(), version })).boxed()
    }

    fn read<'a>(&'a self, _: &'a Key, _: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, BackendError>> {
        let (send, receive) = oneshot::channel();
        let _ = self.asked.lock().unwrap().send(Asked { range: range.clone(), to: To::Task(send) });
        async move {
            match receive.await.map_err(|_| failure(BackendKind::Invalid))? {
                Answer::Whole => Ok(stream::iter([Ok(Bytes::from(content(range)))]).boxed() as Body),
                Answer::Broken(bytes, kind) => {
                    let come = Bytes::from(content(range.start..range.start + bytes));
                    Ok(stream::iter([Ok(come), Err(failure(kind))]).boxed() as Body)
                }
            }
        }
        .boxed()
    }

    fn list<'a>(&'a self, _: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, BackendError>> {
        std::future::ready(Ok(ListPage::default())).boxed()
    }

    fn positioned(&self, _: &Object) -> Option<Arc<dyn Positioned>> {
        self.in_place.then(|| Arc::new(self.clone()) as Arc<dyn Positioned>)
    }

    fn submission(&self) -> Option<&Submitter> {
        static UNUSED: LazyLock<Submitter> = LazyLock::new(|| Submitter::new(Mechanism::Threads));
        self.in_place.then_some(&UNUSED)
    }
}

/// An engine in front of a store that works on as many requests as it is given at a time.
struct Busy {
    engine: Engine,
    file: File,
    asked: Receiver<Asked>,
    /// The requests that the store works on.
    works_on: Vec<Asked>,
}

/// The result of a read.
type Read = Receiver<Result<Vec<u8>, Error>>;

impl Busy {
    fn new(in_place: bool, options: &Options) -> Self {
        let (send, asked) = channel();
        let store = Store { asked: Arc::new(Mutex::new(send)), in_place };
        let options = options.clone().with_readahead(false);
        let engine = Engine::new(Arc::new(store), &options).expect("an engine");
        let open = |key| engine.open(&engine.runtime().block_on(engine.stat(&Key::new(key))).expect("it is there"));
        let (file, other) = (open("file"), open("other"));
        // Demand of a file with nothing in flight would not have to wait.
        file.read(1 << 29, PAGE as usize, |_| {});
        for at in 1..FULL as u64 {
            other.read(at << 21, PAGE as usize, |_| {});
        }
        let works_on = asked.iter().take(FULL).collect();
        Self { engine, file, asked, works_on }
    }

    /// Reads pages. The read has to wait.
    fn read(&self, pages: Range<u64>) -> Read {
        let (send, receive) = channel();
        let (offset, len) = (pages.start * PAGE, (pages.end - pages.start) * PAGE);
        self.file.read(offset, len as usize, move |read| {
            // The test may be over.
            let _ = send.send(read.map(|pages| pages.slices().collect::<Vec<_>>().concat()));
        });
        receive
    }

    /// The store answers one request, and gets another one.
    fn next(&mut self) -> Asked {
        self.works_on.pop().expect("a request that it works on").answer(Answer::Whole);
        self.asked.recv().expect("an engine that is there")
    }

    /// The store gets no request.
    fn expect_idle(&self) {
        assert!(self.asked.try_recv().is_err(), "the store is asked for more");
    }
}

fn expect(read: &Read, pages: Range<u64>) {
    let bytes = read.recv().expect("an answer").expect("bytes");
    assert!(bytes == content(pages.start * PAGE..pages.end * PAGE), "the bytes of {pages:?}");
    assert!(read.recv().is_err(), "it completes once");
}

fn both(test: impl Fn(bool)) {
    test(false);
    test(true);
}

#[test]
fn adjacent_reads_that_wait_become_one_request() {
    both(|in_place| {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("record.log");
        let mut busy = Busy::new(in_place, &Options::default().with_record(path.clone()));
        // The second one is the last page of a folio; the third one needs two folios.
        let reads = [30..31, 31..32, 32..70, 28..30, 72..73].map(|pages: Range<u64>| (busy.read(pages.clone()), pages));
        let asked = busy.next();
        assert_eq!(asked.range, 28 * PAGE..70 * PAGE);
        busy.expect_idle();
        assert_eq!(busy.engine.stats().requests_coalesced, 3);
        asked.answer(Answer::Whole);
        for (read, pages) in &reads[..4] {
            expect(read, pages.clone());
        }
        let last = busy.asked.recv().expect("the last one has its turn");
        assert_eq!(last.range, 72 * PAGE..73 * PAGE);
        last.answer(Answer::Whole);
        expect(&reads[4].0, 72..73);
        drop(busy);
        let log = std::fs::File::open(&path).expect("the record");
        let replayed = replay(std::io::BufReader::new(log)).expect("the same actions");
        assert!(replayed.actions > FULL as u64, "{replayed:?}");
    });
}

#[test]
fn a_body_that_breaks_off_is_continued_for_all_joined_reads() {
    let mut busy = Busy::new(false, &Options::default());
    let reads = [5..6, 6..7, 7..9].map(|pages: Range<u64>| (busy.read(pages.clone()), pages));
    let asked = busy.next();
    assert_eq!(asked.range, 5 * PAGE..9 * PAGE);
    asked.answer(Answer::Broken(PAGE + 1_000, BackendKind::Transient));
    expect(&reads[0].0, 5..6);
    let again = busy.asked.recv().expect("readers wait");
    assert_eq!(again.range, 6 * PAGE + 1_000..9 * PAGE);
    again.answer(Answer::Whole);
    for (read, pages) in &reads[1..] {
        expect(read, pages.clone());
    }
    assert_eq!(busy.engine.stats().retries, 1);
}

#[test]
fn a_read_with_all_its_bytes_completes_and_the_others_get_the_error() {
    let mut busy = Busy::new(false, &Options::default());
    let (first, others) = (busy.read(5..6), [busy.read(6..8), busy.read(8..9)]);
    busy.next().answer(Answer::Broken(2 * PAGE, BackendKind::Invalid));
    expect(&first, 5..6);
    for read in others {
        read.recv().expect("an answer").expect_err("it never came");
    }
    // Pages that failed are absent, and pages that came are resident.
    expect(&busy.read(5..6), 5..6);
    let again = busy.read(6..9);
    let asked = busy.asked.recv().expect("it is asked for again");
    assert_eq!(asked.range, 6 * PAGE..9 * PAGE);
    asked.answer(Answer::Whole);
    expect(&again, 6..9);
}

#[test]
fn joined_reads_that_cannot_be_read_in_place_are_carried_by_a_task() {
    let mut busy = Busy::new(true, &Options::default());
    let reads = [5..6, 6..7].map(|pages: Range<u64>| (busy.read(pages.clone()), pages));
    let asked = busy.next();
    assert!(matches!(asked.to, To::InPlace(..)));
    asked.answer(Answer::Broken(0, BackendKind::Transient));
    let again = busy.asked.recv().expect("a task asks for it");
    assert!(matches!(again.to, To::Task(_)));
    assert_eq!(again.range, 5 * PAGE..7 * PAGE);
    again.answer(Answer::Whole);
    for (read, pages) in &reads {
        expect(read, pages.clone());
    }
}

#[test]
fn a_cancelled_read_leaves_the_other_joined_reads_their_bytes() {
    both(|in_place| {
        let mut busy = Busy::new(in_place, &Options::default());
        let submissions = busy.engine.submissions(8);
        let page = |page| Operation::Read { file: busy.file.clone(), offset: page * PAGE, len: PAGE as usize };
        let tickets = [5, 6, 7].map(|at| submissions.submit(page(at), None).expect("room"));
        let asked = busy.next();
        assert!(submissions.cancel(tickets[0]) && submissions.cancel(tickets[1]));
        assert_eq!(asked.range, 5 * PAGE..8 * PAGE);
        asked.answer(Answer::Whole);
        let completion = submissions.wait(Duration::from_secs(30)).expect("the third one completes");
        assert_eq!(completion.ticket, tickets[2]);
        let Ok(Outcome::Read(pages)) = completion.outcome else { panic!("bytes") };
        assert_eq!(pages.as_slice(), Some(&content(7 * PAGE..8 * PAGE)[..]));
        while submissions.in_flight() > 0 {
            thread::yield_now();
        }
        assert!(submissions.poll().is_none(), "cancelled reads never complete");
    });
}

#[test]
fn an_engine_that_is_dropped_leaves_no_read_waiting() {
    let mut busy = Busy::new(false, &Options::default());
    let reads = [5..6, 6..7].map(|pages: Range<u64>| busy.read(pages));
    let asked = busy.next();
    let waiting = [busy.read(8..9), busy.read(9..10)];
    drop((busy, asked));
    for read in reads.iter().chain(&waiting) {
        let told = read.recv_timeout(Duration::from_secs(30)).expect("each read is answered");
        told.expect_err("an error: no bytes came");
    }
}
