//! Several processes, made by running this test's program again with a role.
//!
//! Each child connects to the same folder, does what its role says and writes a line for each step.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use foreread_backend::{ConnectOptions, connect};
use foreread_broker::{Identity, Role, ShareOptions, Shared, SharedFile, SharedPages};
use foreread_engine::{Engine, Error, Key, Options};
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
                shared.set_memory_bytes(Some(number(1)), 256 << 20).expect("a budget");
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
