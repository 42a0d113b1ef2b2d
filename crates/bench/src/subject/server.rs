//! The testbed of one row, a process of its own: its processor time is not charged to the reader,
//! and its counters are read over HTTP.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use foreread_workload::{Store, Workload};
use serde_json::Value;

use crate::error::Error;
use crate::process::interrupt::Interrupt;
use crate::process::{Process, TICK};

/// The name of the testbed's only bucket.
pub(crate) const BUCKET: &str = "testbed";
/// The generation of its objects' content: the first, as nothing replaces them.
pub(crate) const GENERATION: u64 = 1;
/// The longest time from start to the line that says where it listens.
const START_MAX: Duration = Duration::from_secs(10);
/// The longest time for one answer with counters.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A running testbed that holds files behind a device. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    endpoint: String,
}

/// What the testbed has served so far.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct Counters {
    /// Requests for data.
    pub(crate) gets: u64,
    /// Bytes of objects in their answers.
    pub(crate) bytes: u64,
    /// Requests for attributes.
    pub(crate) heads: u64,
    /// Pages of listings.
    pub(crate) lists: u64,
    /// Requests of other kinds.
    pub(crate) others: u64,
}

/// What the testbed holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    /// The files of a workload, whose bytes follow from their names.
    Files(&'a Workload),
    /// What lies in a folder.
    Folder(&'a Path),
    /// What another server holds, at this URL.
    Upstream(&'a str),
}

impl Server {
    pub(crate) fn start(content: Content<'_>, store: Store, interrupt: &Interrupt) -> Result<Self, Error> {
        let program = std::env::current_exe().map_err(Error::io("finding this program"))?;
        let mut command = Command::new(program);
        command.args(["testbed", "--listen", "127.0.0.1:0"]);
        command.args(["--first-byte", &format!("{}us", store.first_byte_ns / 1000)]);
        command.args(["--connection-rate", &format!("{}B/s", store.connection_bytes_per_s)]);
        if let Some(rate) = store.total_bytes_per_s {
            command.args(["--total-rate", &format!("{rate}B/s")]);
        }
        if let Some(most) = store.concurrency {
            command.args(["--concurrency", &most.to_string()]);
        }
        if let Some(slow) = store.slow {
            let probability = 1.0 / f64::from(slow.one_in);
            command.args(["--fault", &format!("slow={},probability={probability}", slow.times)]);
        }
        // In a file: there may be more objects than a command line holds.
        let mut config = tempfile::NamedTempFile::new().map_err(Error::io("making a temporary file"))?;
        if !matches!(content, Content::Upstream(_)) {
            // The bare client does not sign. Signatures that are there are still checked.
            command.arg("--allow-anonymous");
        }
        match content {
            Content::Files(workload) => {
                let objects = workload.all_files().fold(String::new(), |mut text, (name, bytes)| {
                    let _ = writeln!(text, "[[objects]]\nkey = {name:?}\nsize = \"{bytes}B\"");
                    text
                });
                config.write_all(objects.as_bytes()).map_err(Error::io("writing the testbed's objects"))?;
            }
            Content::Folder(dir) => {
                command.arg("--dir").arg(dir);
            }
            Content::Upstream(url) => {
                command.args(["--upstream", url]);
            }
        }
        command.arg("--config").arg(config.path());
        let mut process = Process::start(&mut command, "foreread testbed".to_owned())?;
        let stdout = process.stdout().expect("it was just started");
        let (send, said) = mpsc::channel();
        thread::spawn(move || {
            // Reads to the end: a testbed that cannot write stops.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let deadline = Instant::now() + START_MAX;
        loop {
            match said.recv_timeout(TICK) {
                Ok(line) => {
                    if let Some(at) = line.find("http://") {
                        return Ok(Self { process, endpoint: line[at..].trim().to_owned() });
                    }
                }
                Err(_) if Instant::now() >= deadline => return Err(process.timed_out("listen", START_MAX)),
                Err(mpsc::RecvTimeoutError::Timeout) => process.check()?,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    process.check()?;
                    thread::sleep(TICK);
                }
            }
            Error::if_interrupted(interrupt)?;
        }
    }

    /// `http://127.0.0.1:PORT`
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it has served since it was started.
    pub(crate) fn counters(&self) -> Result<Counters, Error> {
        let body = get(&self.endpoint, "/-/counters").map_err(Error::io("asking the testbed for its counters"))?;
        let value: Value = serde_json::from_str(&body)
            .map_err(|error| Error::Protocol { what: format!("the testbed's counters: {error}") })?;
        let number = |name: &str| value.get(name).and_then(Value::as_u64);
        let wanted = |name: &str| {
            number(name).ok_or_else(|| Error::Protocol { what: format!("no `{name}` among the testbed's counters") })
        };
        let others = ["put", "other"].iter().filter_map(|name| number(name)).sum();
        Ok(Counters {
            gets: wanted("get")?,
            bytes: wanted("object_bytes_sent")?,
            heads: wanted("head")?,
            lists: wanted("list")?,
            others,
        })
    }
}

impl Counters {
    /// The part that came after `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            gets: self.gets - earlier.gets,
            bytes: self.bytes - earlier.bytes,
            heads: self.heads - earlier.heads,
            lists: self.lists - earlier.lists,
            others: self.others - earlier.others,
        }
    }
}

/// The body of an answer with status 200.
fn get(endpoint: &str, path: &str) -> std::io::Result<String> {
    let host = endpoint.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    if head.split(' ').nth(1) == Some("200") {
        // A chunked body this small is one piece, so its braces bound the JSON.
        let from = body.find('{').unwrap_or(0);
        let to = body.rfind('}').map_or(body.len(), |at| at + 1);
        Ok(body[from..to].to_owned())
    } else {
        Err(std::io::Error::other(head.lines().next().unwrap_or_default().to_owned()))
    }
}
