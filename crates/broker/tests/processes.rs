//! Several processes, made by running this test's program again with a role.
//!
//! Each child connects to the same folder, does what its role says and writes a line for each
//! step.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use foreread_backend::{ConnectOptions, connect};
use foreread_broker::{Helps, Identity, Role, ShareOptions, Shared, SharedFile, SharedPages};
use foreread_engine::{Engine, Error, ErrorKind, Key, Options};
use foreread_testbed::{Config, ObjectSpec, Testbed, content};

const ENDPOINT: &str = "FOREREAD_TEST_ENDPOINT";
const FOLDER: &str = "FOREREAD_TEST_FOLDER";
const SILENCE: &str = "FOREREAD_TEST_SILENCE_MS";

/// The size of the object `big`.
const BIG: u64 = 24 << 20;

fn shared(endpoint: &str, folder: &Path, options: ShareOptions) -> Shared {
    let url = "s3://testbed";
    let storage = ConnectOptions::default().with_endpoint(endpoint).with_anonymous(true);
    let identity = Identity::new(url).with("endpoint", Some(endpoint));
    let make = move |memory_bytes| {
        let connected = connect(url, &storage)?;
        Engine::new(connected.backend, &Options::default().with_memory_bytes(memory_bytes))
    };
    Shared::connect(identity, options.with_folder(folder), make).expect("an engine")
}

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

fn start_reading(file: &SharedFile, offset: u64, len: usize) -> Receiver<Result<SharedPages, Error>> {
    let (send, receive) = channel();
    file.read(offset, len, move |pages| _ = send.send(pages));
    receive
}

fn read(file: &SharedFile, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let (at, left) = (offset + bytes.len() as u64, len - bytes.len());
        let pages = start_reading(file, at, left).recv().expect("an answer")?;
        assert!(!pages.is_empty(), "no bytes at {at}");
        let mut piece = vec![0; pages.len()];
        pages.copy_to(&mut piece);
        bytes.extend(piece);
    }
    Ok(bytes)
}

/// Reads, compares, and says how many bytes.
fn check(file: &SharedFile, offset: u64, len: usize) {
    let bytes = read(file, offset, len).expect("the bytes");
    content::verify(file.object().key.as_str(), 1, offset, &bytes).expect("the object's bytes");
}

fn open(shared: &Shared, key: &str) -> SharedFile {
    shared.open(&wait(shared.stat(&Key::new(key))).expect("an object"))
}

/// The child: does one command a line of its standard input, and answers each with a line.
#[test]
#[ignore = "the program of the children of other tests"]
fn child() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else { return };
    let folder = std::env::var_os(FOLDER).expect("a folder");
    let silence = std::env::var(SILENCE).ok().and_then(|text| text.parse().ok()).map(Duration::from_millis);
    let mut options = ShareOptions::default();
    options.silence = silence.unwrap_or(options.silence);
    let shared = shared(&endpoint, folder.as_ref(), options);
    let mut files: std::collections::HashMap<String, SharedFile> = std::collections::HashMap::new();
    say(&format!("{:?}", shared.role()));
    for line in std::io::stdin().lines() {
        let line = line.expect("a command");
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "open" => {
                files.insert(words[1].to_owned(), open(&shared, words[1]));
                say("opened");
            }
            "read" => {
                check(&files[words[1]], number(2), number(3) as usize);
                say("read");
            }
            "fails" => {
                let failed = read(&files[words[1]], number(2), number(3) as usize).expect_err("a failure");
                say(&format!("{:?}", failed.kind()));
            }
            // Reads of four threads, from a seed, until the line "enough" comes.
            "storm" => {
                say("begun");
                storm(&files["big"], number(1), number(2));
                say("over");
            }
            "memory" => {
                shared.set_part(true, number(1), number(1)).expect("a budget");
                let stats = shared.stats().expect("counters");
                say(&stats.engine.memory_budget_bytes.to_string());
            }
            "stats" => {
                let stats = shared.stats().expect("counters");
                say(&format!("{:?} {} {}", stats.role, stats.clients, stats.engine.reads));
            }
            "list" => {
                let mut found = Vec::new();
                wait(shared.entries(words[1], &mut found)).expect("a listing");
                say(&found.len().to_string());
            }
            other => panic!("unknown command {other}"),
        }
    }
}

fn say(line: &str) {
    // Behind a mark: the test harness prints as well.
    println!("\n> {line}");
    std::io::stdout().flush().expect("the parent listens");
}

fn storm(file: &SharedFile, seed: u64, reads: u64) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let mut state = seed * 4 + thread + 1;
                for _ in 0..reads {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let len = 1 + (state >> 40) % 300_000;
                    check(file, (state >> 20) % (BIG - len), len as usize);
                }
            });
        }
    });
}

struct Process {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(testbed: &Testbed, folder: &Path, silence_ms: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
            .env(ENDPOINT, testbed.endpoint())
            .env(FOLDER, folder)
            .env(SILENCE, silence_ms.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let commands = child.stdin.take().expect("its input");
        let answers = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, commands, answers }
    }

    fn send(&mut self, command: &str) {
        writeln!(self.commands, "{command}").expect("the child listens");
    }

    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).expect("a line") > 0, "the child has ended");
            if let Some(answer) = line.trim_end().strip_prefix("> ") {
                return answer.to_owned();
            }
        }
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    fn kill(&mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("its end");
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).expect("a signal");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Setup {
    testbed: Testbed,
    folder: tempfile::TempDir,
}

fn setup() -> Setup {
    let mut objects = vec![ObjectSpec::new("big", BIG), ObjectSpec::new("small", 5000)];
    objects.extend((0..5000).map(|nth| ObjectSpec::new(format!("many/{nth:04}"), 10)));
    let testbed = Testbed::start(Config { objects, anonymous: true, ..Config::default() }).expect("a testbed");
    Setup { testbed, folder: tempfile::tempdir().expect("a directory") }
}

impl Setup {
    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("meet")
    }

    fn here(&self, options: ShareOptions) -> Shared {
        shared(&self.testbed.endpoint(), &self.path(), options)
    }

    fn process(&self) -> Process {
        Process::start(&self.testbed, &self.path(), 10_000)
    }

    fn gets(&self) -> u64 {
        self.testbed.counters().get
    }
}

#[test]
fn what_one_process_has_read_costs_another_no_request() {
    let setup = setup();
    let first = setup.here(ShareOptions::default());
    assert_eq!(first.role(), Role::Serves);
    let file = open(&first, "big");
    check(&file, 0, 2 << 20);
    check(&file, 9 << 20, 4096);
    let mut second = setup.process();
    assert_eq!(second.answer(), "Joins");
    assert_eq!(second.ask("open big"), "opened");
    let gets = setup.gets();
    assert_eq!(second.ask("read big 0 2097152"), "read");
    assert_eq!(second.ask("read big 9437184 4096"), "read");
    assert_eq!(setup.gets(), gets, "what the first one has read");
    assert_eq!(first.stats().expect("counters").clients, 1);
    assert!(second.ask("stats").starts_with("Joins 1 "));
}

#[test]
fn of_processes_that_are_killed_no_reader_notices() {
    let seeds = std::env::var("FOREREAD_STORMS").ok().map_or(2, |text| text.parse().expect("a number"));
    for seed in 0..seeds {
        let setup = setup();
        let mut processes: Vec<Process> = (0..4).map(|_| setup.process()).collect();
        // One after the other, so that the first one serves.
        for process in &mut processes {
            process.answer();
            assert_eq!(process.ask("open big"), "opened");
        }
        for (nth, process) in processes.iter_mut().enumerate() {
            assert_eq!(process.ask(&format!("storm {} 150", seed * 10 + nth as u64)), "begun");
        }
        // The server and its successor die amid reads; the others read all they were told to.
        let first = processes.remove(0);
        drop(first);
        let mut killed = None;
        while killed.is_none() {
            killed = processes.iter().position(|process| serves(&setup, process));
        }
        drop(processes.remove(killed.expect("a successor")));
        for process in &mut processes {
            assert_eq!(process.answer(), "over", "seed {seed}");
        }
        let roles: Vec<String> = processes.iter_mut().map(|process| process.ask("stats")).collect();
        let serving = roles.iter().filter(|role| role.starts_with("Serves 1 ")).count();
        assert_eq!(serving, 1, "seed {seed}: {roles:?}");
    }
}

/// Whether the process holds the lock, as the kernel says.
fn serves(setup: &Setup, process: &Process) -> bool {
    let path = setup.path();
    let held =
        |entry: std::fs::DirEntry| std::fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(&path));
    let mut open = std::fs::read_dir(format!("/proc/{}/fd", process.child.id())).into_iter().flatten().flatten();
    open.any(held)
}

#[test]
fn a_server_that_is_stopped_is_left() {
    let setup = setup();
    let mut server = Process::start(&setup.testbed, &setup.path(), 1000);
    assert_eq!(server.answer(), "Serves");
    let mut client = Process::start(&setup.testbed, &setup.path(), 1000);
    assert_eq!(client.answer(), "Joins");
    assert_eq!(client.ask("open big"), "opened");
    assert_eq!(client.ask("read big 0 4096"), "read");
    server.signal(rustix::process::Signal::STOP);
    assert_eq!(client.ask("read big 12000000 300000"), "read");
    let stats = client.ask("stats");
    assert!(stats.starts_with("Alone 0 "), "{stats}");
    // Another one that comes meanwhile.
    let mut late = Process::start(&setup.testbed, &setup.path(), 1000);
    assert_eq!(late.answer(), "Alone");
    server.signal(rustix::process::Signal::CONT);
    assert!(server.ask("stats").starts_with("Serves "));
}

#[test]
fn storage_that_is_slow_is_not_silence() {
    let setup = setup();
    let mut server = Process::start(&setup.testbed, &setup.path(), 400);
    assert_eq!(server.answer(), "Serves");
    let mut client = Process::start(&setup.testbed, &setup.path(), 400);
    assert_eq!(client.answer(), "Joins");
    assert_eq!(client.ask("open big"), "opened");
    setup.testbed.set_faults(vec!["stall,kind=get,key=big".parse().expect("a fault")]);
    client.send("read big 0 4096");
    std::thread::sleep(Duration::from_secs(2));
    setup.testbed.set_faults(Vec::new());
    assert_eq!(client.answer(), "read");
    assert!(client.ask("stats").starts_with("Joins 1 "));
}

#[test]
fn a_listing_is_complete_in_each_process() {
    let setup = setup();
    let first = setup.here(ShareOptions::default());
    let mut found = Vec::new();
    wait(first.entries("many/", &mut found)).expect("a listing");
    assert_eq!(found.len(), 5000);
    let second = setup.here(ShareOptions::default());
    assert_eq!(second.role(), Role::Joins);
    let mut again = Vec::new();
    wait(second.entries("many/", &mut again)).expect("a listing");
    assert_eq!(found, again);
    drop(first);
    let mut later = Vec::new();
    wait(second.entries("many/", &mut later)).expect("a listing");
    assert_eq!((found, second.role()), (later, Role::Serves));
}

#[test]
fn reads_wait_for_room_in_the_shared_memory() {
    let setup = setup();
    let first = setup.here(ShareOptions::default());
    let second = setup.here(ShareOptions::default());
    let file = open(&second, "big");
    let all: Vec<_> = (0..20).map(|nth| start_reading(&file, nth << 20, 1 << 20)).collect();
    let mut held = Vec::new();
    for (nth, receive) in all.into_iter().enumerate() {
        let pages = receive.recv().expect("an answer").expect("the bytes");
        let mut bytes = vec![0; pages.len()];
        pages.copy_to(&mut bytes);
        content::verify("big", 1, (nth as u64) << 20, &bytes).expect("the object's bytes");
        held.push(pages);
        if held.len() > 3 {
            // Not the last to come: parts come back in another order than they were taken.
            held.remove(0);
        }
    }
    drop(held);
    let many: Vec<_> = (0..9000).map(|nth| start_reading(&file, nth * 100, 100)).collect();
    assert!(many.iter().all(|read| read.recv().expect("an answer").expect("the bytes").len() == 100));
    assert_eq!(second.role(), Role::Joins);
    drop(first);
}

#[test]
fn reads_that_are_made_together_come_together() {
    let setup = setup();
    let first = setup.here(ShareOptions::default());
    let second = setup.here(ShareOptions::default());
    let file = open(&second, "big");
    let (send, receive) = channel();
    second.read_together((0..64_u64).map(|nth| {
        let send = send.clone();
        (file.clone(), nth * 4096, 4096, move |pages: Result<SharedPages, Error>| {
            send.send((nth, pages.expect("the bytes"))).expect("it is received");
        })
    }));
    for _ in 0..64 {
        let (nth, pages) = receive.recv().expect("an answer");
        let mut bytes = vec![0; pages.len()];
        pages.copy_to(&mut bytes);
        content::verify("big", 1, nth * 4096, &bytes).expect("the object's bytes");
    }
    // Adjacent ones share requests, as in one process.
    assert!(setup.gets() < 32, "{} requests", setup.gets());
    drop(first);
}

#[test]
fn a_helping_thread_gets_the_answers_of_others() {
    let setup = setup();
    let _first = setup.here(ShareOptions::default());
    let second = setup.here(ShareOptions::default());
    let file = open(&second, "big");
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let file = &file;
            scope.spawn(move || {
                for nth in 0..300 {
                    let offset = (thread * 977 + nth * 131) * 1000 % (BIG - 5000);
                    let helped = file.helped();
                    let (send, receive) = channel();
                    helped.read(offset, 3000, move |pages| _ = send.send(pages));
                    let pages = loop {
                        let mut come = receive.try_recv().ok();
                        if come.is_none()
                            && helped.turn(|| {
                                come = receive.try_recv().ok();
                                come.is_some()
                            }) == Helps::Wait
                        {
                            come = Some(receive.recv().expect("an answer"));
                        }
                        if let Some(pages) = come {
                            break pages.expect("the bytes");
                        }
                    };
                    assert_eq!(pages.len(), 3000);
                    let mut bytes = vec![0; 3000];
                    pages.copy_to(&mut bytes);
                    content::verify("big", 1, offset, &bytes).expect("the object's bytes");
                }
            });
        }
    });
}

#[test]
fn the_budget_is_the_largest_that_a_process_was_told() {
    let setup = setup();
    let told = |bytes: u64| setup.here(ShareOptions::default().with_memory_bytes(Some(bytes)));
    let budget = |shared: &Shared| shared.stats().expect("counters").engine.memory_budget_bytes;
    let first = told(32 << 20);
    assert_eq!(budget(&first), 32 << 20);
    let plain = setup.here(ShareOptions::default());
    assert_eq!(budget(&plain), 32 << 20, "a default is no wish");
    let second = told(64 << 20);
    assert_eq!((budget(&first), budget(&second)), (64 << 20, 64 << 20));
    let mut other = setup.process();
    assert_eq!(other.answer(), "Joins");
    assert_eq!(other.ask(&format!("memory {}", 96 << 20)), (96 << 20).to_string());
    second.set_part(true, 48 << 20, 48 << 20).expect("a budget");
    assert_eq!(budget(&second), 96 << 20);
    other.kill();
    while second.stats().expect("counters").clients > 2 {}
    assert_eq!(budget(&second), 48 << 20, "the wish of a process ends with it");
    drop(second);
    while first.stats().expect("counters").clients > 1 {}
    assert_eq!(budget(&first), 32 << 20);
}

#[test]
fn what_a_client_says_is_checked() {
    use std::os::unix::net::UnixStream;
    let setup = setup();
    let first = setup.here(ShareOptions::default());
    let file = open(&first, "small");
    let socket = std::fs::read_dir(setup.path()).expect("the folder").flatten().map(|entry| entry.path());
    let socket = socket.into_iter().find(|path| path.extension().is_some_and(|name| name == "sock")).expect("a socket");
    for hello in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 64], &[5, 0, 0, 0, 6, 0, 0, 0, 0]] {
        let mut stranger = UnixStream::connect(&socket).expect("a connection");
        stranger.write_all(hello).expect("it is taken");
        stranger.shutdown(std::net::Shutdown::Write).expect("the end");
        let mut answer = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stranger, &mut answer);
        assert!(answer.is_empty() || answer[4] == 65, "refused: {answer:?}");
    }
    check(&file, 0, 5000);
    assert_eq!(first.stats().expect("counters").clients, 0);
}

#[test]
fn errors_are_those_of_the_engine() {
    let setup = setup();
    let first = setup.here(ShareOptions::default());
    let second = setup.here(ShareOptions::default());
    for shared in [&first, &second] {
        let missing = wait(shared.stat(&Key::new("none"))).expect_err("no object");
        assert_eq!((missing.kind(), missing.key()), (ErrorKind::NotFound, Some("none")));
        let file = open(shared, "big");
        setup.testbed.set_object(&ObjectSpec { generation: 2, ..ObjectSpec::new("big", BIG) });
        let changed = read(&file, 20 << 20, 10).expect_err("another version");
        assert_eq!((changed.kind(), changed.key()), (ErrorKind::Changed, Some("big")));
        setup.testbed.set_object(&ObjectSpec::new("big", BIG));
    }
}
