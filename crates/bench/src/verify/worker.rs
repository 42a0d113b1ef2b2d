//! The process that reads and compares: one thread, one call at a time.
//!
//! ```text
//!   each step:  board: "reading file 7 at 4096 since t" ──> pread ──> board: nothing
//!               source ──> compare ──> a difference, an error, a long wait: a line of findings
//! ```
//!
//! A page of a mapping that cannot be delivered ends the process by SIGBUS. Its parent reads from
//! the board which one, and starts the next process of this number, which goes on with the next
//! task.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::readers::mapping::Mapping;
use crate::verify::board::{Board, State, now_ns};
use crate::verify::finding::{Finding, Kind, Operation};
use crate::verify::pattern::Pattern;
use crate::verify::plan::{Choices, How, READ_BYTES_MAX, Step};
use crate::verify::source::{Opened, Original, Source};
use crate::verify::tree::{self, Tree, below};

/// Buffers start on a page, as `O_DIRECT` wants.
const PAGE_BYTES: usize = 4096;
/// Findings that one worker writes down; it counts the others.
const FINDINGS_MAX: u64 = 1000;
/// The pause after an error, so that a dead mount does not cost all processor time.
const AFTER_ERROR: Duration = Duration::from_millis(10);
/// Entries of one listing whose attributes are asked for.
const STATS_MAX: usize = 64;

/// What a worker is to do, from its parent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Check that `dir` is a directory that can be read.
    Check { dir: PathBuf },
    /// Write the source's tree to `to`.
    Survey { source: Source, to: PathBuf },
    /// Read and compare until the board says stop, or until a time or a number of reads.
    Torture(Torture),
}

/// What one worker reads.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Torture {
    pub(crate) dir: PathBuf,
    pub(crate) source: Source,
    pub(crate) tree: PathBuf,
    pub(crate) board: PathBuf,
    pub(crate) findings: PathBuf,
    pub(crate) seed: u64,
    pub(crate) process: u32,
    pub(crate) until_ns: u64,
    pub(crate) reads_max: u64,
    pub(crate) bound_ns: u64,
    pub(crate) replaced: bool,
}

/// The answer to a check: the number of the error, if there is one.
pub(crate) type Checked = Option<i32>;

/// The answer to a survey.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Survey {
    Done { files: u64, bytes: u64 },
    Failed { said: String },
}

/// Obeys; returns an answer in JSON.
pub(crate) fn run(order: &Order) -> Result<String, Error> {
    match order {
        Order::Check { dir } => {
            let checked: Checked = fs::read_dir(dir).err().map(|cause| cause.raw_os_error().unwrap_or_default());
            serde_json::to_string(&checked).map_err(Error::protocol)
        }
        Order::Survey { source, to } => {
            let answer = match survey(source) {
                Err(cause) => Survey::Failed { said: cause.to_string() },
                Ok(tree) => {
                    let text = serde_json::to_vec(&tree).map_err(Error::protocol)?;
                    fs::write(to, text).map_err(Error::io("writing the names"))?;
                    Survey::Done { files: tree.files.len() as u64, bytes: tree.bytes() }
                }
            };
            serde_json::to_string(&answer).map_err(Error::protocol)
        }
        Order::Torture(torture) => {
            let text = fs::read(&torture.tree).map_err(Error::io("reading the names"))?;
            let tree: Tree = serde_json::from_slice(&text).map_err(Error::protocol)?;
            let source = Opened::new(&torture.source)
                .map_err(|cause| Error::Source { path: torture.source.shown(), said: cause.to_string() })?;
            Worker::new(torture, &tree, &source)?.run().map_err(Error::io("keeping the board and the findings"))?;
            Ok("{}".to_owned())
        }
    }
}

fn survey(source: &Source) -> io::Result<Tree> {
    let source = Opened::new(source)?;
    Tree::of(|path| source.list(path))
}

/// A file, open on both sides.
struct Pair<'s> {
    file: File,
    /// The length of the file that is verified, when it was opened.
    size_bytes: u64,
    original: Original<'s>,
    /// Which generation of the object this is, once a read has shown it.
    generation: Cell<Option<u64>>,
}

struct Worker<'s> {
    orders: &'s Torture,
    tree: &'s Tree,
    source: &'s Opened,
    board: Board,
    findings: File,
    state: State,
    /// The end of the read before, and its file.
    ended: Option<(usize, u64)>,
    got: Vec<u8>,
    expected: Vec<u8>,
}

impl<'s> Worker<'s> {
    fn new(orders: &'s Torture, tree: &'s Tree, source: &'s Opened) -> Result<Self, Error> {
        let board = Board::open(&orders.board).map_err(Error::io("opening the board"))?;
        let findings = OpenOptions::new().append(true).create(true).open(&orders.findings);
        let state = board.read().map_err(Error::io("reading the board"))?;
        let buffer = || vec![0; READ_BYTES_MAX as usize + PAGE_BYTES];
        Ok(Self {
            orders,
            tree,
            source,
            board,
            findings: findings.map_err(Error::io("opening the findings"))?,
            state,
            ended: None,
            got: buffer(),
            expected: buffer(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let choices = Choices { seed: self.orders.seed, process: u64::from(self.orders.process) };
        while !self.is_over()? {
            let task = choices.task(self.state.task, self.tree);
            let pattern = Pattern::ALL.iter().position(|known| *known == task.pattern);
            self.state.pattern = pattern.unwrap_or_default();
            let mut open = HashMap::new();
            for step in &task.steps {
                if self.is_over()? {
                    break;
                }
                if !self.step(*step, task.dropping, &mut open)? {
                    thread::sleep(AFTER_ERROR);
                }
            }
            self.state.task += 1;
        }
        self.state.done = true;
        self.board.write(&self.state)
    }

    fn is_over(&self) -> io::Result<bool> {
        let enough = now_ns() >= self.orders.until_ns || self.state.reads() >= self.orders.reads_max;
        Ok(enough || self.board.is_stopped()?)
    }

    /// True if the step was made without an error.
    fn step(&mut self, step: Step, dropping: bool, open: &mut HashMap<(usize, bool), Pair<'s>>) -> io::Result<bool> {
        match step {
            Step::List { listing } => self.list(listing),
            Step::Read { file, offset, len, how, pause_us, reopen } => {
                let direct = how == How::Direct;
                let held = open.remove(&(file, direct)).filter(|_| !reopen);
                let pair = match held {
                    Some(pair) => pair,
                    None => match self.open(file, direct, dropping)? {
                        Some(pair) => pair,
                        None => return Ok(false),
                    },
                };
                let stale = self.state.stale;
                let right = self.compare(&pair, file, offset, len as usize, how)?;
                if !reopen && self.state.stale == stale {
                    open.insert((file, direct), pair);
                }
                if pause_us > 0 {
                    thread::sleep(Duration::from_micros(pause_us));
                }
                Ok(right)
            }
        }
    }

    /// The file on both sides; `None` where a side cannot be opened.
    fn open(&mut self, file: usize, direct: bool, dropping: bool) -> io::Result<Option<Pair<'s>>> {
        let name = &self.tree.files[file];
        let path = self.orders.dir.join(&name.path);
        let opened = self.timed(Operation::Open, file, 0, 0, |_, _| {
            let open =
                |flags: OFlags| OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&path);
            let opened = match open(if direct { OFlags::DIRECT } else { OFlags::empty() }) {
                // A file system without direct reads.
                Err(cause) if direct && cause.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    open(OFlags::empty())
                }
                opened => opened,
            }?;
            let size_bytes = opened.metadata()?.len();
            Ok((opened, size_bytes))
        })?;
        let (opened, size_bytes) = match opened {
            Ok(opened) => opened,
            Err(cause) => {
                self.failed(Operation::Open, file, 0, 0, &cause)?;
                return Ok(None);
            }
        };
        if size_bytes != name.size_bytes {
            let message = format!("has {size_bytes} bytes; the source has {}", name.size_bytes);
            let mut finding = self.finding(Kind::Wrong, Operation::Open, file, 0, 0, message);
            finding.differs_at = Some(size_bytes.min(name.size_bytes));
            self.tell(&finding)?;
        }
        if dropping {
            // Only advice: where it is refused, the kernel's pages are compared.
            let _ = rustix::fs::fadvise(&opened, 0, None, Advice::DontNeed);
        }
        let source = self.source;
        match self.timed(Operation::Source, file, 0, 0, |_, _| source.open(&name.path))? {
            Ok(original) => Ok(Some(Pair { file: opened, size_bytes, original, generation: Cell::new(None) })),
            Err(cause) => {
                self.failed(Operation::Source, file, 0, 0, &cause)?;
                Ok(None)
            }
        }
    }

    /// Reads both sides; true if they could be read and agree.
    fn compare(&mut self, pair: &Pair<'s>, file: usize, offset: u64, len: usize, how: How) -> io::Result<bool> {
        let size_bytes = self.tree.files[file].size_bytes;
        let wanted = size_bytes.saturating_sub(offset).min(len as u64) as usize;
        let how = if wanted == 0 && how == How::Mapped { How::Read } else { how };
        let operation = match how {
            How::Read => Operation::Read,
            How::Direct => Operation::Direct,
            How::Mapped => Operation::Map,
        };
        let before = Instant::now();
        let read = self.timed(operation, file, offset, len as u64, |got, _| match how {
            How::Mapped => map(&pair.file, offset, &mut got[..wanted]),
            How::Read => read(&pair.file, offset, 1, &mut got[..len]),
            How::Direct => read(&pair.file, offset, PAGE_BYTES, &mut got[..len]),
        })?;
        let elapsed_ns = before.elapsed().as_nanos() as u64;
        let got = match read {
            Ok(got) => got,
            Err(cause) => {
                self.failed(operation, file, offset, len as u64, &cause)?;
                return Ok(false);
            }
        };
        let replaced = self.orders.replaced;
        let source = self.timed(Operation::Source, file, offset, wanted as u64, |bytes, expected| {
            let expected = &mut expected[..wanted];
            match &pair.original {
                Original::Generated(object) if replaced => {
                    // An open file is one generation, from its first read to its last.
                    let known = pair.generation.get();
                    pair.generation.set(object.read_like(offset, &bytes[..got.min(wanted)], known, expected));
                    Ok(())
                }
                original => original.read(offset, expected),
            }
        })?;
        if let Err(cause) = source {
            self.failed(Operation::Source, file, offset, wanted as u64, &cause)?;
            return Ok(false);
        }
        let sequential = self.ended == Some((file, offset));
        self.ended = Some((file, offset + got as u64));
        let tally = &mut self.state.tallies[self.state.pattern];
        tally.reads += 1;
        tally.bytes += got.min(wanted) as u64;
        tally.sequential_bytes += if sequential { got.min(wanted) as u64 } else { 0 };
        tally.longest_ns = tally.longest_ns.max(elapsed_ns);
        let (start, start_expected) = (aligned(&self.got), aligned(&self.expected));
        let (bytes, expected) = (&self.got[start..][..got], &self.expected[start_expected..][..wanted]);
        if bytes == expected {
            return Ok(true);
        }
        let both = bytes.iter().zip(expected);
        let first = both.clone().position(|(a, b)| a != b).unwrap_or(got.min(wanted));
        let differing = both.filter(|(a, b)| a != b).count() + got.abs_diff(wanted);
        let message = if got == wanted {
            format!("{differing} of {wanted} bytes are wrong")
        } else {
            format!("{got} bytes instead of {wanted}, {differing} of them missing or wrong")
        };
        let (got_hash, expected_hash) = (hash(bytes), hash(expected));
        let mut finding = self.finding(Kind::Wrong, operation, file, offset, len as u64, message);
        // All that a truncated file lacks is missing from one place on.
        let missing = first == got && offset + got as u64 >= pair.size_bytes;
        finding.differs_at = Some(if missing { pair.size_bytes } else { offset + first as u64 });
        finding.differing_bytes = Some(differing as u64);
        (finding.got_hash, finding.expected_hash) = (Some(got_hash), Some(expected_hash));
        self.tell(&finding)?;
        Ok(true)
    }

    /// Compares the names of a directory, and kinds and lengths of some of its entries.
    fn list(&mut self, index: usize) -> io::Result<bool> {
        let listing = &self.tree.listings[index];
        let path = self.orders.dir.join(&listing.path);
        let from = self.state.task as usize * STATS_MAX % listing.entries.len().max(1);
        let before = Instant::now();
        let listed = self.timed(Operation::List, index, 0, 0, |_, _| {
            let mut names = Vec::new();
            for entry in fs::read_dir(&path)? {
                names.extend(entry?.file_name().into_string());
            }
            names.sort();
            Ok(names)
        })?;
        let elapsed_ns = before.elapsed().as_nanos() as u64;
        let names = match listed {
            Ok(names) => names,
            Err(cause) => {
                self.failed(Operation::List, index, 0, 0, &cause)?;
                return Ok(false);
            }
        };
        let tally = &mut self.state.tallies[self.state.pattern];
        tally.reads += 1;
        tally.longest_ns = tally.longest_ns.max(elapsed_ns);
        let known = |name: &String| listing.entries.binary_search_by(|entry| entry.0.cmp(name)).is_ok();
        let mut wrong: Vec<(String, String)> = Vec::new();
        wrong
            .extend(names.iter().filter(|name| !known(name)).map(|name| (name.clone(), "is not in the source".into())));
        wrong.extend(
            names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| (pair[0].clone(), "is listed twice".into())),
        );
        for (name, kind) in &listing.entries {
            if *kind != tree::Kind::Other && names.binary_search(name).is_err() {
                wrong.push((name.clone(), "is in the source, and not listed".into()));
            }
        }
        for (name, kind) in listing.entries.iter().cycle().skip(from).take(STATS_MAX.min(listing.entries.len())) {
            if names.binary_search(name).is_err() || *kind == tree::Kind::Other {
                continue;
            }
            let attributes = self.timed(Operation::List, index, 0, 0, |_, _| fs::symlink_metadata(path.join(name)))?;
            match attributes {
                Err(cause) => {
                    let mut finding = self.finding(Kind::Error, Operation::List, index, 0, 0, cause.to_string());
                    finding.path = below(&listing.path, name);
                    finding.errno = cause.raw_os_error();
                    self.tell(&finding)?;
                }
                Ok(found) => match *kind {
                    tree::Kind::File { size_bytes } if !found.is_file() || found.len() != size_bytes => {
                        wrong.push((
                            name.clone(),
                            format!("is a file of {size_bytes} bytes in the source, and has {}", found.len()),
                        ));
                    }
                    tree::Kind::Directory if !found.is_dir() => {
                        wrong.push((name.clone(), "is a directory in the source".into()));
                    }
                    _ => {}
                },
            }
        }
        for (name, message) in wrong {
            let mut finding = self.finding(Kind::Wrong, Operation::List, index, 0, 0, message);
            finding.path = below(&listing.path, &name);
            self.tell(&finding)?;
        }
        Ok(true)
    }

    /// Makes one call, between two writes of the board; a long one is a finding. `call` gets the
    /// two buffers.
    fn timed<T>(
        &mut self,
        operation: Operation,
        place: usize,
        offset: u64,
        len: u64,
        call: impl FnOnce(&mut [u8], &mut [u8]) -> io::Result<T>,
    ) -> io::Result<io::Result<T>> {
        let state = &mut self.state;
        (state.operation, state.place, state.offset, state.len) = (operation, place, offset, len);
        state.since_ns = now_ns();
        self.board.write(state)?;
        let (start, start_expected) = (aligned(&self.got), aligned(&self.expected));
        let result = call(
            &mut self.got[start..][..READ_BYTES_MAX as usize],
            &mut self.expected[start_expected..][..READ_BYTES_MAX as usize],
        );
        let waited_ns = now_ns() - self.state.since_ns;
        self.state.operation = Operation::None;
        if waited_ns > self.orders.bound_ns && operation != Operation::Source {
            let message = format!("took {} ms", waited_ns / 1_000_000);
            let mut finding = self.finding(Kind::Slow, operation, place, offset, len, message);
            finding.waited_ms = Some(waited_ns / 1_000_000);
            self.tell(&finding)?;
        }
        self.board.write(&self.state)?;
        Ok(result)
    }

    fn failed(
        &mut self,
        operation: Operation,
        place: usize,
        offset: u64,
        len: u64,
        cause: &io::Error,
    ) -> io::Result<()> {
        let is_ours = operation != Operation::Source;
        if self.orders.replaced && is_ours && cause.raw_os_error() == Some(Errno::STALE.raw_os_error()) {
            self.state.stale += 1;
            return self.board.write(&self.state);
        }
        let mut finding = self.finding(Kind::Error, operation, place, offset, len, cause.to_string());
        finding.errno = cause.raw_os_error();
        self.tell(&finding)
    }

    fn finding(
        &self,
        kind: Kind,
        operation: Operation,
        place: usize,
        offset: u64,
        len: u64,
        message: String,
    ) -> Finding {
        finding(self.orders.process, &self.state, self.tree, kind, operation, (place, offset, len), message)
    }

    /// Counts a finding, and writes it down if there is room.
    fn tell(&mut self, finding: &Finding) -> io::Result<()> {
        let count = match finding.kind {
            Kind::Wrong => &mut self.state.wrong,
            Kind::Slow => &mut self.state.slow,
            Kind::Error | Kind::Stuck => &mut self.state.errors,
        };
        *count += 1;
        if self.state.told < FINDINGS_MAX {
            self.state.told += 1;
            let mut line = serde_json::to_vec(finding)?;
            line.push(b'\n');
            self.findings.write_all(&line)?;
        }
        self.board.write(&self.state)
    }
}

/// A finding of the worker whose state this is. `at`: file or listing, offset, length.
pub(crate) fn finding(
    process: u32,
    state: &State,
    tree: &Tree,
    kind: Kind,
    operation: Operation,
    at: (usize, u64, u64),
    message: String,
) -> Finding {
    let (place, offset, len) = at;
    let path = if operation == Operation::List {
        tree.listings.get(place).map(|listing| &listing.path)
    } else {
        tree.files.get(place).map(|file| &file.path)
    };
    Finding {
        kind,
        process,
        task: state.task,
        pattern: Pattern::ALL[state.pattern],
        operation,
        path: path.cloned().unwrap_or_default(),
        offset,
        len,
        message,
        errno: None,
        differs_at: None,
        differing_bytes: None,
        expected_hash: None,
        got_hash: None,
        waited_ms: None,
        pid: None,
    }
}

/// Where the first page of a buffer begins.
fn aligned(buffer: &[u8]) -> usize {
    buffer.as_ptr().align_offset(PAGE_BYTES)
}

/// Reads until `out` is full or the file ends, which a count that is no multiple of `unit` says
/// too. Returns how many bytes there were.
fn read(file: &File, offset: u64, unit: usize, out: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => {
                done += count;
                if !count.is_multiple_of(unit) {
                    break;
                }
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(done)
}

/// Copies from a mapping what the file has of `out`. Returns how many bytes that is.
fn map(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
    // Past the end a mapping has no pages, and a touch is a signal.
    let there = file.metadata()?.len().saturating_sub(offset).min(out.len() as u64) as usize;
    if there > 0 {
        Mapping::window(file, offset, there)?.copy(&mut out[..there]);
    }
    Ok(there)
}

fn hash(bytes: &[u8]) -> String {
    // Its keys are fixed, so a hash of one run can be compared with that of another.
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    format!("{:016x}", hasher.finish())
}
