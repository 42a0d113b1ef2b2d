//! Storage that is killed and started again, and a mount that is stopped: reads wait, and go on.
//! `engine/tests/outage.rs` has the same in virtual time, for as long as an outage lasts.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use foreread_testbed::{Config, ObjectSpec};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{Mount, SECRET, Store, expected, foreread, until};

const SIZE: u64 = 1 << 30;

/// An emulated store that is a process of its own.
struct Process {
    child: Child,
    endpoint: String,
}

impl Process {
    /// Listens on this port of the loopback; 0 for a free one.
    fn start(port: u16) -> Self {
        let mut command = foreread();
        command.args(["testbed", "--listen", &format!("127.0.0.1:{port}"), "--first-byte", "5ms"]);
        for nth in 0..4 {
            command.args(["--object", &format!("big{nth}={SIZE}")]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("foreread testbed");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its stdout")).read_line(&mut line).expect("a line");
        let endpoint = line.trim().rsplit(' ').next().expect("a word").to_owned();
        assert!(endpoint.starts_with("http://"), "{line}");
        Self { child, endpoint }
    }

    fn port(&self) -> u16 {
        self.endpoint.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// SIGKILL: the kernel closes its connections and its port.
    fn kill(&mut self) {
        self.child.kill().expect("the signal");
        self.child.wait().expect("its end");
    }

    fn foreread(&self) -> Command {
        let mut command = foreread();
        command.env("AWS_ACCESS_KEY_ID", "testbed").env("AWS_SECRET_ACCESS_KEY", SECRET).env("AWS_REGION", "us-east-1");
        command.env("AWS_ENDPOINT_URL", &self.endpoint);
        command
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Threads that read big files from end to end and compare each byte, and stop at an error.
struct Readers {
    ends: Arc<AtomicBool>,
    /// Reads that were right.
    reads: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    fn start(dir: &Path) -> Self {
        let (ends, reads) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let thread = |nth: u64| {
            let key = format!("big{}", nth % 4);
            let file = File::open(dir.join(&key)).expect("it opens");
            let (ends, reads) = (Arc::clone(&ends), Arc::clone(&reads));
            thread::spawn(move || {
                let (mut bytes, mut at) = (vec![0; 64 << 10], nth * (100 << 20));
                while !ends.load(Relaxed) {
                    file.read_exact_at(&mut bytes, at).unwrap_or_else(|error| panic!("{key} at {at}: {error}"));
                    assert!(bytes == expected(&key, at, bytes.len()), "{key} at {at}");
                    reads.fetch_add(1, Relaxed);
                    // Half of them in order, half of them here and there.
                    at = (at + if nth.is_multiple_of(2) { 64 << 10 } else { 77 << 20 }) % (SIZE - (1 << 20));
                    thread::sleep(Duration::from_millis(2));
                }
            })
        };
        let threads = (0..8).map(thread).collect();
        Self { ends, reads, threads }
    }

    /// Waits until so many more reads have been right.
    fn more(&self, count: u64) {
        let before = self.reads.load(Relaxed);
        until("reads are answered", || {
            // One that has ended has met an error.
            self.threads.iter().any(JoinHandle::is_finished) || self.reads.load(Relaxed) >= before + count
        });
    }

    fn end(self) {
        self.ends.store(true, Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("each read was right"));
    }
}

/// All readers have gone: nothing is in flight, and nothing is charged beyond the budget.
fn settled(mounted: &Mount) {
    until("no request is in flight", || mounted.stats()["in_flight"] == 0);
    let stats = mounted.stats();
    assert!(stats["memory_charged_bytes"].as_u64() <= stats["memory_budget_bytes"].as_u64(), "{stats}");
    assert_eq!((&stats["read_errors"], &stats["panics"]), (&Value::from(0), &Value::from(0)), "{stats}");
}

#[test]
fn storage_that_is_killed_and_started_again_is_waited_for() {
    let mut storage = Process::start(0);
    let mounted = Mount::background(storage.foreread(), "s3://testbed", &["--memory", "32M"]);
    let readers = Readers::start(mounted.path());
    for _ in 0..2 {
        readers.more(400);
        let port = storage.port();
        storage.kill();
        // `stats` answers although nothing else does.
        let before = mounted.stats();
        until("requests fail and are made again", || {
            mounted.stats()["retries"].as_u64() > before["retries"].as_u64().map(|retries| retries + 8)
        });
        storage = Process::start(port);
    }
    readers.more(400);
    readers.end();
    settled(&mounted);
}

/// SIGSTOP for two seconds, in which the storage stays, or is another process behind the same
/// address. Ten minutes are tested in virtual time.
#[test]
fn a_mount_that_was_stopped_goes_on() {
    let objects = || (0..4).map(|nth| ObjectSpec::new(format!("big{nth}"), SIZE)).collect();
    let config = Config { objects: objects(), first_byte: Duration::from_millis(20), ..Config::default() };
    let mut store = Store::start(config.clone());
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &["--memory", "32M"]);
    let readers = Readers::start(mounted.path());
    for begins_anew in [false, true] {
        readers.more(400);
        mounted.signal(Signal::STOP);
        if begins_anew {
            let address = store.testbed.address();
            store.testbed.stop();
            store = Store::start(Config { listen: address, ..config.clone() });
        }
        thread::sleep(Duration::from_secs(2));
        mounted.signal(Signal::CONT);
    }
    readers.more(400);
    readers.end();
    settled(&mounted);
}
