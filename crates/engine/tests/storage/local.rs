//! Local files through the engine, with both mechanisms.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use foreread_backend::{
    Backend, Body, Buffers, Capabilities, ConnectOptions, Error, ErrorKind, InPlace, Key, ListPage, Mechanism, Object,
    Operation as BackendOperation, Positioned, Submitter, Version, connect,
};
use foreread_engine::{
    Completion, Engine, ErrorKind as EngineErrorKind, File, Node, Operation, Options, Outcome, Panic,
};
use foreread_testbed::content::Content;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};

struct Site {
    dir: tempfile::TempDir,
    engine: Engine,
}

fn each(test: impl Fn(Site)) {
    each_with(&Options::default(), test);
}

fn each_with(options: &Options, test: impl Fn(Site)) {
    for local in [Mechanism::IoUring, Mechanism::Threads] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let storage = ConnectOptions::default().with_local(local);
        let connected = connect(dir.path().to_str().expect("a path"), &storage).expect("a backend");
        let mechanism = connected.backend.submission().expect("it is local").mechanism().to_string();
        let engine = Engine::new(Arc::clone(&connected.backend), options).expect("an engine");
        assert_eq!(engine.stats().submission, Some(mechanism.clone()));
        assert!(local == Mechanism::IoUring || mechanism == "threads");
        test(Site { dir, engine });
    }
}

impl Site {
    fn put(&self, name: &str, size: usize) {
        let mut bytes = vec![0; size];
        Content::new(name, 1).fill(0, &mut bytes);
        let mut file = fs::File::create(self.dir.path().join(name)).expect("a file");
        file.write_all(&bytes).and_then(|()| file.sync_all()).expect("room for it");
    }

    /// Drops the file from the kernel's page cache.
    fn forget(&self, name: &str) {
        let file = fs::File::open(self.dir.path().join(name)).expect("it is there");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice is taken");
    }

    fn open(&self, name: &str) -> File {
        let object = self.engine.runtime().block_on(self.engine.stat(&Key::new(name))).expect("it is there");
        self.engine.open(&object)
    }
}

#[test]
fn a_directory_without_anything_in_it_exists() {
    each(|site| {
        fs::create_dir_all(site.dir.path().join("a/b")).expect("directories");
        site.put("a/file", 5);
        // An engine of its own for each: no answer is known from the one before.
        let node = |prefix: &str, name: &str| {
            let connected = connect(site.dir.path().to_str().expect("a path"), &ConnectOptions::default());
            let engine = Engine::new(connected.expect("a backend").backend, &Options::default()).expect("an engine");
            engine.runtime().block_on(engine.look_up(prefix, name)).map(|named| named.node)
        };
        assert_eq!(node("a/", "b").expect("it is there"), Node::Directory("a/b/".to_owned()));
        assert!(matches!(node("a/", "file").expect("it is there"), Node::File(_)));
        for (prefix, name) in [("", "c"), ("a/", "c"), ("a/b/", "c"), ("a/file/", "c"), ("c/", "c")] {
            let found = node(prefix, name);
            assert_eq!(found.expect_err("it is not there").kind(), EngineErrorKind::NotFound, "{prefix}{name}");
        }
    });
}

#[test]
fn every_byte_is_the_stored_one_cold_and_warm() {
    each(|site| {
        for size in [1, 4095, 4096, 4097, 131_072, 5_000_001] {
            let name = format!("{size}");
            site.put(&name, size);
            for cold in [true, false] {
                if cold {
                    site.forget(&name);
                }
                let file = site.open(&name);
                for (offset, len) in [(0, size), (size / 2, 4096), (size - 1, 10)] {
                    let read = site.engine.runtime().block_on(file.read_at(offset as u64, len)).expect("bytes");
                    assert_eq!(read.len(), len.min(size - offset));
                    Content::new(&name, 1).verify(offset as u64, &read).expect("the bytes that are stored");
                }
            }
        }
    });
}

#[test]
fn pages_in_the_kernels_cache_are_read_on_the_callers_thread() {
    each(|site| {
        site.put("warm", 1 << 20);
        let file = site.open("warm");
        let (send, receive) = channel();
        file.read(512 << 10, 4096, move |read| {
            let _ = send.send((thread::current().id(), read.expect("bytes").len()));
        });
        assert_eq!(receive.try_recv(), Ok((thread::current().id(), 4096)), "answered before the call returned");
    });
}

#[test]
fn a_changed_file_is_noticed() {
    // What was read ahead before the change may still be read after it.
    each_with(&Options::default().with_readahead(false), |site| {
        site.put("file", 4 << 20);
        let file = site.open("file");
        site.engine.runtime().block_on(file.read_at(0, 4096)).expect("bytes");
        let mut other = fs::OpenOptions::new().write(true).open(site.dir.path().join("file")).expect("it is there");
        other.seek(SeekFrom::Start(3 << 20)).and_then(|_| other.write_all(b"changed")).expect("it is changed");
        let error = site.engine.runtime().block_on(file.read_at(2 << 20, 4096)).expect_err("another version");
        assert_eq!(error.kind(), EngineErrorKind::Changed);
    });
}

#[test]
fn a_file_truncated_during_a_read_gives_right_bytes_or_an_error() {
    each(|site| {
        let (bytes_all, stop) = (2_usize << 20, AtomicBool::new(false));
        site.put("file", bytes_all);
        thread::scope(|scope| {
            for reader in 0..3_u64 {
                let (site, stop) = (&site, &stop);
                scope.spawn(move || {
                    let mut at = reader;
                    while !stop.load(Relaxed) {
                        let Ok(object) = site.engine.runtime().block_on(site.engine.stat(&Key::new("file"))) else {
                            continue;
                        };
                        let file = site.engine.open(&object);
                        at = at.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
                        let offset = at % (bytes_all as u64 / 4096) * 4096;
                        if let Ok(read) = site.engine.runtime().block_on(file.read_at(offset, 4096)) {
                            Content::new("file", 1).verify(offset, &read).expect("right bytes or none");
                        }
                    }
                });
            }
            let path = site.dir.path().join("file");
            for round in 0..100_u64 {
                let cut = fs::OpenOptions::new().write(true).open(&path).expect("it is there");
                cut.set_len(round % 7 * 100_000).expect("it is cut");
                let fresh = site.dir.path().join("fresh");
                let mut bytes = vec![0; bytes_all];
                Content::new("file", 1).fill(0, &mut bytes);
                fs::write(&fresh, bytes).and_then(|()| fs::rename(&fresh, &path)).expect("it is whole again");
                site.forget("file");
            }
            stop.store(true, Relaxed);
        });
    });
}

#[test]
fn an_engine_dropped_with_reads_in_flight_answers_all_of_them() {
    for _ in 0..10 {
        each(|site| {
            site.put("file", 4 << 20);
            site.forget("file");
            let file = site.open("file");
            let (send, receive) = channel();
            for page in 0..512_u64 {
                let (send, offset) = (send.clone(), page * 7 % 1024 * 4096);
                file.read(offset, 4096, move |read| {
                    let whole = read.as_ref().is_ok_and(|pages| {
                        pages.as_slice().is_some_and(|bytes| Content::new("file", 1).verify(offset, bytes).is_ok())
                    });
                    let _ = send.send(whole || read.is_err());
                });
            }
            drop((file, send, site));
            assert!(receive.iter().all(|right| right));
        });
    }
}

/// Longer than any operation here takes.
const LONG: Duration = Duration::from_secs(30);

/// A page of `name`, and its bytes.
fn page(file: &File, page: u64) -> Operation {
    Operation::Read { file: file.clone(), offset: page * 4096, len: 4096 }
}

fn expect_page(completion: Option<Completion>, name: &str, page: u64) {
    match completion.expect("it completes").outcome {
        Ok(Outcome::Read(pages)) => {
            let bytes = pages.as_slice().expect("a page lies in one piece");
            Content::new(name, 1).verify(page * 4096, bytes).expect("the bytes that are stored");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_thread_that_waits_takes_reads_that_others_submitted() {
    each(|site| {
        site.put("file", 4 << 20);
        site.forget("file");
        let file = site.open("file");
        let submissions = site.engine.submissions(256);
        thread::scope(|scope| {
            let takers: Vec<_> = (0..3)
                .map(|_| {
                    let submissions = &submissions;
                    scope.spawn(move || {
                        (0..64).map(|_| submissions.wait(LONG).expect("it completes")).collect::<Vec<_>>()
                    })
                })
                .collect();
            let tickets: Vec<_> =
                (0..192).map(|at| (submissions.submit(page(&file, at * 5), None).expect("room"), at * 5)).collect();
            for completion in takers.into_iter().flat_map(|taker| taker.join().expect("it took its completions")) {
                let (_, at) =
                    tickets.iter().find(|(ticket, _)| *ticket == completion.ticket).expect("it was submitted");
                expect_page(Some(completion), "file", *at);
            }
        });
        assert_eq!(submissions.in_flight(), 0);
    });
}

#[test]
fn a_read_of_a_page_that_another_one_requested_completes() {
    each(|site| {
        site.put("file", 4 << 20);
        let file = site.open("file");
        for round in 0..20 {
            site.forget("file");
            // The first one is not waited for until the second one has completed.
            let (first, second) = (site.engine.submissions(1), site.engine.submissions(1));
            let at = round * 37;
            first.submit(page(&file, at), None).expect("room");
            second.submit(page(&file, at), None).expect("room");
            expect_page(second.wait(LONG), "file", at);
            expect_page(first.wait(LONG), "file", at);
        }
    });
}

#[test]
fn requests_continue_when_their_submissions_are_dropped() {
    each(|site| {
        site.put("file", 4 << 20);
        site.forget("file");
        let file = site.open("file");
        let submissions = site.engine.submissions(128);
        for at in 0..128 {
            submissions.submit(page(&file, at * 7), None).expect("room");
        }
        drop(submissions);
        // Asynchronous reads wait for the same pages.
        for at in 0..128 {
            let read = site.engine.runtime().block_on(file.read_at(at * 7 * 4096, 4096)).expect("bytes");
            Content::new("file", 1).verify(at * 7 * 4096, &read).expect("the bytes that are stored");
        }
    });
}

/// Storage that keeps reads in place, and answers when it is told to. Other reads get sevens, or
/// nothing.
#[derive(Debug, Default)]
struct Silent(Arc<Mutex<Vec<Asked>>>, bool);

type Asked = (Buffers, Answer);

/// Called with the bytes.
struct Answer(InPlace);

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answer")
    }
}

impl Positioned for Silent {
    fn read(&self, _: u64, buffers: Buffers, done: InPlace) {
        self.0.lock().unwrap().push((buffers, Answer(done)));
    }
}

impl Backend for Silent {
    fn describe(&self) -> String {
        "silent".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        let version = Version { size: 1 << 30, tag: None, modified: None };
        Box::pin(std::future::ready(Ok(Object { key: key.clone(), version })))
    }

    fn read<'a>(&'a self, _: &'a Key, _: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        if !self.1 {
            return Box::pin(std::future::pending());
        }
        let bytes = vec![7; (range.end - range.start) as usize];
        Box::pin(std::future::ready(Ok(stream::iter([Ok(bytes.into())]).boxed())))
    }

    fn list<'a>(&'a self, _: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        Box::pin(std::future::pending())
    }

    fn positioned(&self, _: &Object) -> Option<Arc<dyn Positioned>> {
        Some(Arc::new(Self(Arc::clone(&self.0), self.1)))
    }

    fn submission(&self) -> Option<&Submitter> {
        static UNUSED: LazyLock<Submitter> = LazyLock::new(|| Submitter::new(Mechanism::Threads));
        Some(&UNUSED)
    }
}

#[test]
fn a_silent_disk_is_given_up_on_and_its_late_bytes_are_dropped() {
    let silent = Silent::default();
    let asked = Arc::clone(&silent.0);
    let options = Options::default().with_patience(super::patience()).with_readahead(false);
    let engine = Engine::new(Arc::new(silent), &options).expect("an engine");
    let object = engine.runtime().block_on(engine.stat(&Key::new("x"))).expect("it is there");
    let file = engine.open(&object);
    let error = engine.runtime().block_on(file.read_at(0, 4096)).expect_err("nothing came");
    assert_eq!(error.kind(), EngineErrorKind::TimedOut);
    let (mut buffers, Answer(done)) = asked.lock().unwrap().pop().expect("it was asked");
    for buffer in &mut buffers {
        buffer.fill(9);
    }
    done(Ok(buffers).into());
    let (send, receive) = channel();
    file.read(0, 4096, move |read| send.send(read.map(|pages| pages.as_slice().map(<[u8]>::to_vec))).unwrap());
    assert!(receive.try_recv().is_err(), "late bytes are not resident");
    let (mut buffers, Answer(done)) = asked.lock().unwrap().pop().expect("it was asked again");
    for buffer in &mut buffers {
        buffer.fill(7);
    }
    done(Ok(buffers).into());
    assert_eq!(receive.recv().unwrap().expect("in time"), Some(vec![7; 4096]));
}

/// A read that is under way in place when policy panics: what the storage was asked, and how the
/// read ends: with its bytes?
fn read_across_a_panic(answers: bool) -> (Engine, Asked, Receiver<Result<bool, EngineErrorKind>>) {
    let silent = Silent(Arc::default(), answers);
    let asked = Arc::clone(&silent.0);
    let folder = tempfile::tempdir().expect("a directory");
    // The first file, its read, the second file.
    let options = Options::default().with_patience(super::patience()).with_readahead(false);
    let options = options.with_panics(&[Panic::Policy(3)]).with_events_folder(folder.path());
    let engine = Engine::new(Arc::new(silent), &options).expect("an engine");
    let object = |key| engine.runtime().block_on(engine.stat(&Key::new(key))).expect("it is there");
    let file = engine.open(&object("x"));
    let (send, receive) = channel();
    file.read(0, 4096, move |read| {
        let _ = send.send(read.map(|pages| pages.as_slice() == Some(&[7; 4096])).map_err(|error| error.kind()));
    });
    engine.open(&object("y"));
    assert_eq!(engine.stats().panics, 1);
    let asked = asked.lock().unwrap().pop().expect("it was asked");
    (engine, asked, receive)
}

#[test]
fn a_read_in_place_that_the_disk_refuses_after_a_panic_goes_on_as_a_task() {
    let (engine, (_, Answer(done)), receive) = read_across_a_panic(true);
    let refused = Error::new(ErrorKind::Throttled, BackendOperation::Read, "x", "too many reads are in flight");
    done(Err(refused).into());
    assert_eq!(receive.recv_timeout(LONG), Ok(Ok(true)));
    // The task ends after its last reader is answered.
    while engine.stats().in_flight > 0 {
        thread::yield_now();
    }
}

#[test]
fn a_read_in_place_that_the_disk_leaves_unanswered_after_a_panic_is_given_up() {
    let (engine, asked, receive) = read_across_a_panic(false);
    assert_eq!(receive.recv_timeout(LONG), Ok(Err(EngineErrorKind::TimedOut)));
    drop(asked);
    assert_eq!(engine.stats().in_flight, 0);
}

#[test]
fn a_read_in_place_that_the_disk_forgets_is_an_error() {
    for answers in [true, false] {
        let (_engine, asked, receive) = read_across_a_panic(answers);
        drop(asked);
        assert_eq!(receive.recv_timeout(LONG), Ok(Err(EngineErrorKind::Io)));
    }
}

#[test]
fn a_read_ends_when_one_of_its_requests_has_failed_and_the_memory_of_another_is_taken() {
    let silent = Silent::default();
    let asked = Arc::clone(&silent.0);
    let options = Options::default().with_readahead(false).with_memory_bytes(16 << 20);
    let engine = Engine::new(Arc::new(silent), &options).expect("an engine");
    let object = engine.runtime().block_on(engine.stat(&Key::new("x"))).expect("it is there");
    let file = engine.open(&object);
    let reads = |at: u64| {
        let (send, receive) = channel();
        let end = move |read: Result<_, foreread_engine::Error>| {
            let _ = send.send(read.map(drop).map_err(|error| error.kind()));
        };
        file.read(at * (2 << 20), (2 << 20) - 8192, end);
        receive
    };
    let read = reads(0);
    let two = std::mem::take(&mut *asked.lock().unwrap());
    let [first, second] = <[Asked; 2]>::try_from(two).expect("one request for each half");
    drop(second);
    // The first half is asked for still, and no read needs it. Others need its memory.
    let others: Vec<_> = (1..16).map(reads).collect();
    assert!(engine.stats().cancelled > 0);
    assert_eq!(read.recv_timeout(LONG), Ok(Err(EngineErrorKind::Io)));
    drop((first, others));
}

#[test]
fn answers_that_come_at_once_take_no_deeper_stack_than_one() {
    each(|site| {
        site.put("a", 32 << 20);
        let (engine, file) = (site.engine.clone(), site.open("a"));
        // Each request that waits for its turn starts as the one before is answered, on the same
        // thread: the kernel has all of the file.
        let submit = move || {
            let submissions = engine.submissions(8000);
            let mut operations = (0..8000).map(|nth| page(&file, nth * 7919 % 8192)).collect();
            assert_eq!(submissions.submit_all(&mut operations, None).len(), 8000);
            let mut completions = Vec::new();
            while completions.len() < 8000 {
                assert!(submissions.wait_all(&mut completions, Duration::from_secs(30)) > 0, "reads that end");
            }
            assert!(completions.iter().all(|completion| completion.outcome.is_ok()));
        };
        let thread = thread::Builder::new().stack_size(256 << 10).spawn(submit).expect("a thread");
        thread.join().expect("it has room on its stack");
    });
}
