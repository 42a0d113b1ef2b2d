//! Submitted operations: their order, their bound, cancellation and deadlines.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use foreread_backend::{Body, Error as BackendError, ErrorKind as BackendKind, Operation as BackendOperation};
use foreread_engine::{
    Backend, Busy, Capabilities, Completion, Engine, ErrorKind, File, Key, ListPage, May, Object, Operation, Options,
    Outcome, Submissions, Version,
};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::oneshot;

/// Longer than any operation here takes.
const LONG: Duration = Duration::from_secs(30);

/// Storage that answers when it is told to.
#[derive(Default)]
struct Gate {
    asked: Mutex<HashMap<u64, Vec<oneshot::Sender<()>>>>,
}

impl Gate {
    /// Waits until bytes from `offset` on have been asked for, and answers.
    fn answer(&self, offset: u64) {
        loop {
            if let Some(asked) = self.asked.lock().unwrap().remove(&offset) {
                for asked in asked {
                    // The request may have been given up.
                    let _ = asked.send(());
                }
                return;
            }
            thread::yield_now();
        }
    }

    /// How many offsets have been asked for and not answered.
    fn waiting(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Backend for Gate {
    fn describe(&self) -> String {
        "a gate".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        (can.range, can.conditional_read, can.list) = (true, true, true);
        can
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, BackendError>> {
        let version = Version { size: 1 << 40, tag: Some("1".into()), modified: None };
        std::future::ready(Ok(Object { key: key.clone(), version })).boxed()
    }

    fn read<'a>(&'a self, _: &'a Key, _: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, BackendError>> {
        let (send, receive) = oneshot::channel();
        self.asked.lock().unwrap().entry(range.start).or_default().push(send);
        async move {
            let gone = |_| BackendError::new(BackendKind::Invalid, BackendOperation::Read, "gate", "it is gone");
            receive.await.map_err(gone)?;
            let bytes = vec![(range.start >> 30) as u8; (range.end - range.start) as usize];
            Ok(stream::iter([Ok(bytes.into())]).boxed() as Body)
        }
        .boxed()
    }

    fn list<'a>(&'a self, _: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, BackendError>> {
        std::future::ready(Ok(ListPage::default())).boxed()
    }
}

struct Rig {
    gate: Arc<Gate>,
    engine: Engine,
    file: File,
}

fn rig() -> Rig {
    let gate = Arc::new(Gate::default());
    let options = Options::default().with_readahead(false);
    let engine = Engine::new(Arc::clone(&gate) as Arc<dyn Backend>, &options).expect("an engine");
    let object = engine.runtime().block_on(engine.stat(&Key::new("object"))).expect("it is there");
    let file = engine.open(&object);
    Rig { gate, engine, file }
}

impl Rig {
    /// A read of a page, far from all others.
    fn page(&self, index: u64) -> Operation {
        Operation::Read { file: self.file.clone(), offset: index << 30, len: 4096 }
    }
}

fn expect_page(completion: Option<Completion>, index: u64) {
    match completion.expect("it completes").outcome {
        Ok(Outcome::Read(pages)) => assert_eq!(pages.as_slice(), Some(&vec![index as u8; 4096][..])),
        other => panic!("{other:?}"),
    }
}

/// Waits until only this many are in flight: another thread counts the last completion.
fn settle(submissions: &Submissions, in_flight: usize) {
    while submissions.in_flight() != in_flight {
        thread::yield_now();
    }
}

#[test]
fn completions_come_in_the_order_of_the_storage() {
    let rig = rig();
    let submissions = rig.engine.submissions(8);
    let tickets: Vec<_> = (1..=5).map(|page| submissions.submit(rig.page(page), None).expect("room")).collect();
    assert!(submissions.poll().is_none());
    for page in [4, 2, 5, 1, 3] {
        rig.gate.answer(page << 30);
        let completion = submissions.wait(LONG);
        assert_eq!(completion.as_ref().map(|c| c.ticket), Some(tickets[page as usize - 1]));
        expect_page(completion, page);
    }
    assert_eq!(submissions.in_flight(), 0);
}

#[test]
fn a_resident_read_completes_before_its_submission_returns() {
    let rig = rig();
    let submissions = rig.engine.submissions(8);
    submissions.submit(rig.page(1), None).expect("room");
    rig.gate.answer(1 << 30);
    expect_page(submissions.wait(LONG), 1);
    submissions.submit(rig.page(2), None).expect("room");
    submissions.submit(rig.page(1), None).expect("room");
    expect_page(submissions.poll(), 1);
    rig.gate.answer(2 << 30);
    expect_page(submissions.wait(LONG), 2);
}

#[test]
fn an_operation_beyond_the_bound_is_refused_and_taken_later() {
    let rig = rig();
    let submissions = rig.engine.submissions(2);
    submissions.submit(rig.page(1), None).expect("room");
    submissions.submit(rig.page(2), None).expect("room");
    let Err(Busy(operation)) = submissions.submit(rig.page(3), None) else { panic!("two may be in flight") };
    rig.gate.answer(1 << 30);
    // A completion that was not taken still counts.
    while rig.gate.waiting() != 1 {
        thread::yield_now();
    }
    let Err(Busy(operation)) = submissions.submit(operation, None) else { panic!("nothing was taken") };
    expect_page(submissions.wait(LONG), 1);
    submissions.submit(operation, None).expect("there is room again");
    for page in [3, 2] {
        rig.gate.answer(page << 30);
        expect_page(submissions.wait(LONG), page);
    }
}

#[test]
fn operations_are_submitted_together_up_to_the_bound() {
    let (rig, other) = (rig(), rig());
    let submissions = rig.engine.submissions(4);
    submissions.submit(rig.page(1), None).expect("room");
    rig.gate.answer(1 << 30);
    expect_page(submissions.wait(LONG), 1);
    // One is resident, and one is of another engine.
    let mut operations: VecDeque<Operation> =
        [rig.page(2), rig.page(1), other.page(3), rig.page(4), rig.page(5), rig.page(6)].into();
    let tickets = submissions.submit_all(&mut operations, None);
    assert_eq!((tickets.len(), operations.len()), (4, 2));
    let resident = submissions.poll();
    assert_eq!(resident.as_ref().map(|completion| completion.ticket), Some(tickets[1]));
    expect_page(resident, 1);
    for (gate, page, ticket) in [(&rig.gate, 4, 3), (&other.gate, 3, 2), (&rig.gate, 2, 0)] {
        gate.answer(page << 30);
        let completion = submissions.wait(LONG);
        assert_eq!(completion.as_ref().map(|completion| completion.ticket), Some(tickets[ticket]));
        expect_page(completion, page);
    }
    assert_eq!(submissions.submit_all(&mut operations, None).len(), 2);
    for page in [6, 5] {
        rig.gate.answer(page << 30);
        expect_page(submissions.wait(LONG), page);
    }
    assert!(submissions.submit_all(&mut operations, None).is_empty());
    assert_eq!(submissions.in_flight(), 0);
}

#[test]
fn a_cancelled_operation_never_completes_and_counts_until_the_storage_is_done() {
    let rig = rig();
    let submissions = rig.engine.submissions(2);
    let first = submissions.submit(rig.page(1), None).expect("room");
    submissions.submit(rig.page(1), None).expect("room");
    assert!(submissions.cancel(first));
    assert!(!submissions.cancel(first), "once");
    assert!(submissions.submit(rig.page(2), None).is_err(), "the storage still works on it");
    rig.gate.answer(1 << 30);
    // The other read of the same page gets it.
    let completion = submissions.wait(LONG);
    assert_ne!(completion.as_ref().map(|c| c.ticket), Some(first));
    expect_page(completion, 1);
    settle(&submissions, 0);
    assert!(submissions.poll().is_none());
    assert_eq!(rig.engine.stats().requests, 1, "one request served both");
}

#[test]
fn an_expired_operation_completes_once_without_bytes() {
    let rig = rig();
    let submissions = rig.engine.submissions(2);
    let ticket = submissions.submit(rig.page(1), Some(Instant::now())).expect("room");
    let completion = submissions.wait(LONG).expect("its time is over");
    assert_eq!(completion.ticket, ticket);
    assert_eq!(completion.outcome.expect_err("nothing came").kind(), ErrorKind::TimedOut);
    rig.gate.answer(1 << 30);
    settle(&submissions, 0);
    assert!(submissions.poll().is_none());
    let later = Instant::now() + 2 * LONG;
    submissions.submit(rig.page(2), Some(later)).expect("room");
    rig.gate.answer(2 << 30);
    expect_page(submissions.wait(LONG), 2);
    assert!(submissions.wait(Duration::ZERO).is_none(), "an operation that was in time does not expire");
}

#[test]
fn a_deadline_wakes_a_waiting_thread() {
    let rig = rig();
    let submissions = rig.engine.submissions(1);
    submissions.submit(rig.page(1), Some(Instant::now() + Duration::from_millis(5))).expect("room");
    let completion = submissions.wait(LONG).expect("it expires while it is waited for");
    assert_eq!(completion.outcome.expect_err("nothing came").kind(), ErrorKind::TimedOut);
}

#[test]
fn a_call_is_tried_on_this_thread_and_continues_on_another() {
    let rig = rig();
    let submissions = rig.engine.submissions(4);
    let here = thread::current().id();
    let call = |blocks: bool| {
        Operation::Call(Box::new(move |may| {
            let on = thread::current().id();
            (may == May::Block || !blocks).then(|| Box::new(on) as Box<dyn std::any::Any + Send>)
        }))
    };
    let ran_on = |completion: Option<Completion>| match completion.expect("it completes").outcome {
        Ok(Outcome::Returned(on)) => *on.downcast::<thread::ThreadId>().expect("what was returned"),
        other => panic!("{other:?}"),
    };
    submissions.submit(call(false), None).expect("room");
    assert_eq!(ran_on(submissions.poll()), here);
    submissions.submit(call(true), None).expect("room");
    assert_ne!(ran_on(submissions.wait(LONG)), here);
    submissions.submit(Operation::Call(Box::new(|_| None)), None).expect("room");
    assert!(submissions.wait(LONG).expect("it completes").outcome.is_err());
}

#[test]
fn opens_stats_and_lists_can_be_submitted() {
    let rig = rig();
    let submissions = rig.engine.submissions(4);
    submissions.submit(Operation::Stat(Key::new("a")), None).expect("room");
    // This storage knows without waiting.
    let stat = submissions.poll().expect("it is over").outcome;
    assert!(matches!(stat, Ok(Outcome::Described(object)) if object.key.as_str() == "a"));
    submissions.submit(Operation::Open(Key::new("b")), None).expect("room");
    let open = submissions.wait(LONG).expect("it completes").outcome;
    assert!(matches!(open, Ok(Outcome::Opened(file)) if file.object().key.as_str() == "b"));
    submissions.submit(Operation::List { prefix: String::new(), continuation: None }, None).expect("room");
    let list = submissions.wait(LONG).expect("it completes").outcome;
    assert!(matches!(list, Ok(Outcome::Listed(page)) if page.entries.is_empty()));
}

#[test]
fn a_stream_submitted_by_several_threads_is_one_stream() {
    let gate = rig();
    drop(gate);
    let Rig { gate, file, engine } = rig();
    let recording = engine.start_recording().expect("the only one");
    let submissions = engine.submissions(64);
    thread::scope(|scope| {
        for page in 0..32_u64 {
            let read = Operation::Read { file: file.clone(), offset: page * 4096, len: 4096 };
            let submissions = &submissions;
            scope.spawn(move || submissions.submit(read, None).expect("room")).join().expect("it submits");
        }
    });
    for page in 0..32 {
        gate.answer(page * 4096);
        submissions.wait(LONG).expect("it completes").outcome.expect("bytes");
    }
    let recorded = engine.recorded(recording, 1 << 20, true).expect("it is under way");
    assert_eq!(recorded.reads.len(), 32);
    assert!(recorded.reads.windows(2).all(|pair| pair[0].2 == pair[1].2), "one reader, not one a thread");
}

#[test]
fn submissions_dropped_with_operations_in_flight_deliver_nothing() {
    for _ in 0..20 {
        let rig = rig();
        let submissions = rig.engine.submissions(16);
        for page in 0..16 {
            submissions.submit(rig.page(page), None).expect("room");
        }
        drop(submissions);
        let Rig { gate, engine, file } = rig;
        drop((engine, file));
        drop(gate);
    }
}
