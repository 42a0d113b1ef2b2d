//! Pages of one listing that come side by side: policy is told of them in their order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use foreread_backend::{Body, Entry, Error as BackendError, ErrorKind as BackendKind, Operation};
use foreread_engine::{Backend, Capabilities, Engine, ErrorKind, Key, ListPage, Object, Options, Version};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

/// Entries of a page.
const PAGE: usize = 1000;

/// One directory, whose pages are answered when the test says so.
struct Store {
    keys: Vec<String>,
    /// The requests that wait, by the first entry that was asked for.
    waiting: Mutex<BTreeMap<usize, oneshot::Sender<()>>>,
    /// Whether requests wait.
    waits: AtomicBool,
    /// Listings from the directory's start.
    begun: AtomicUsize,
}

impl Store {
    /// Names that lie half as close from the third page on: a guess where the fourth begins lies
    /// in the middle of the third one.
    fn new() -> Self {
        let numbers = (0..2 * PAGE).chain((2 * PAGE..4 * PAGE + 200).step_by(2));
        let keys = numbers.map(|number| format!("d/f{number:06}")).collect();
        Self { keys, waiting: Mutex::default(), waits: AtomicBool::new(true), begun: AtomicUsize::new(0) }
    }

    fn page(&self, from: usize) -> ListPage {
        let version = Version { size: 1, tag: Some("1".into()), modified: None };
        let object = |key: &String| Entry::Object(Object { key: Key::new(key.as_str()), version: version.clone() });
        let to = (from + PAGE).min(self.keys.len());
        let continuation = (to < self.keys.len()).then(|| to.to_string());
        ListPage { entries: self.keys[from..to].iter().map(object).collect(), continuation }
    }

    fn answer(&self, from: usize) -> BoxFuture<'_, Result<ListPage, BackendError>> {
        let (send, receive) = oneshot::channel();
        if self.waits.load(SeqCst) {
            self.waiting.lock().unwrap().insert(from, send);
        } else {
            send.send(()).expect("it is waited for");
        }
        async move {
            let gone = |_| error(Operation::List, "d/");
            receive.await.map_err(gone)?;
            Ok(self.page(from))
        }
        .boxed()
    }

    /// Answers the waiting request for the first of the entries that are waited for, or the last.
    fn release(&self, first: bool) {
        let mut waiting = self.waiting.lock().unwrap();
        let released = if first { waiting.pop_first() } else { waiting.pop_last() };
        released.expect("a request that waits").1.send(()).expect("it was not given up");
    }
}

fn error(operation: Operation, name: &str) -> BackendError {
    BackendError::new(BackendKind::NotFound, operation, name, "there is no such name")
}

impl Backend for Store {
    fn describe(&self) -> String {
        "pages side by side".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        (can.range, can.conditional_read, can.list) = (true, true, true);
        can.with_list_after(true)
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, BackendError>> {
        std::future::ready(Err(error(Operation::Stat, key.as_str()))).boxed()
    }

    fn read<'a>(&'a self, key: &'a Key, _: &'a Version, _: Range<u64>) -> BoxFuture<'a, Result<Body, BackendError>> {
        std::future::ready(Err(error(Operation::Read, key.as_str()))).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, from: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, BackendError>> {
        if prefix != "d/" {
            return std::future::ready(Ok(ListPage::default())).boxed();
        }
        self.begun.fetch_add(usize::from(from.is_none()), SeqCst);
        self.answer(from.map_or(0, |from| from.parse().expect("a token")))
    }

    fn list_after<'a>(&'a self, _: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, BackendError>> {
        self.answer(self.keys.partition_point(|key| key.as_str() <= after))
    }
}

/// A reader that is woken by the thread which has taken in a page, before that tells policy, and
/// keeps the thread until the test goes on.
struct Woken {
    woken: mpsc::Sender<()>,
    goes_on: Mutex<mpsc::Receiver<()>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.woken.send(()).expect("the test waits");
        self.goes_on.lock().unwrap().recv_timeout(LONG).expect("the test goes on");
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        thread::yield_now();
    }
}

/// The task that brings the third page is held between taking it in and telling policy, and the
/// one that brings the last page overtakes it. If policy heard of the last page first, it would
/// wait for more of the listing for ever, and never list the directory again.
#[test]
fn a_last_page_that_overtakes_another_does_not_end_the_listing_before_it() {
    let store = Arc::new(Store::new());
    let options = Options::default().with_metadata_ttl(Duration::from_mins(10)).with_hedges(false);
    let engine = Engine::new(Arc::clone(&store) as Arc<dyn Backend>, &options).expect("an engine");
    let directory = engine.open_directory("d/");
    for page in 0..2 {
        wait_until("the next page is asked for", || store.waiting.lock().unwrap().contains_key(&(page * PAGE)));
        store.release(true);
        assert!(engine.runtime().block_on(directory.wait((page * PAGE) as u32)).expect("a page"));
    }
    wait_until("two requests side by side", || store.waiting.lock().unwrap().len() == 2);
    let tasks = || engine.runtime().metrics().num_alive_tasks();
    let (told, waiting) = (|| engine.stats().memory_directories_bytes, tasks());
    let before = told();

    let ((woken, is_woken), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
    let waker = Waker::from(Arc::new(Woken { woken, goes_on: Mutex::new(goes_on) }));
    let mut third = Box::pin(directory.wait(2 * PAGE as u32));
    assert!(matches!(third.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending));
    store.release(true);
    is_woken.recv_timeout(LONG).expect("the third page is taken in");
    store.release(false);
    wait_until("policy is told of a page", || told() != before);
    go_on.send(()).expect("the task that is held");
    wait_until("both tasks are done", || tasks() + 2 <= waiting);
    drop(third);

    store.waits.store(false, SeqCst);
    engine.forget_names();
    // The storage answers for no name alone: pages do that, from the second name on, if policy
    // knows where each lies.
    let look_up = |at: usize| engine.runtime().block_on(engine.look_up("d/", &store.keys[at]["d/".len()..]));
    assert_eq!(look_up(0).expect_err("it is asked for alone").kind(), ErrorKind::NotFound);
    for at in [1, PAGE, 2 * PAGE, 2 * PAGE + 700, store.keys.len() - 1] {
        look_up(at).expect("its page has come again");
    }
    assert_eq!(store.begun.load(SeqCst), 2, "its first page came again, and no page had other names");
}
