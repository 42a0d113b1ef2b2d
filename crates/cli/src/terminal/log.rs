//! Where the program's events go: stderr with `-v`, a file with `--log`, nowhere otherwise. One
//! line an event, as text or as JSON.
//!
//! Only events of this project's crates are written. Libraries for HTTP and signing would write
//! headers, and with them credentials.
//!
//! A file that was moved away or removed, as programs do that rotate logs, is opened anew within a
//! second.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use crate::args::path::absolute;
use crate::failure::Failure;

/// How an event is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One object a line, for programs.
    Json,
}

/// Which events are written: those of a level and all that matter more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// None.
    Off,
    Error,
    /// Also what goes wrong and is mended, and slow reads.
    Warn,
    /// Also the beginning and end of a mount.
    Info,
    Debug,
    /// Every decision.
    Trace,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// The file of `--log`.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    looked: Instant,
}

impl LogFile {
    /// Opens it for appending; only its owner may read it, since it names objects.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        // The process changes its directory.
        let path = absolute(path)?;
        let file = append(&path).map_err(|cause| Failure::File { path: path.clone(), cause })?;
        Ok(Self { path, file, looked: Instant::now() })
    }

    /// Opens it anew if the path names another file by now, or none.
    fn look(&mut self) {
        if self.looked.elapsed() < LOOKED {
            return;
        }
        self.looked = Instant::now();
        let number = |metadata: io::Result<std::fs::Metadata>| metadata.map(|m| (m.dev(), m.ino())).ok();
        if number(std::fs::metadata(&self.path)) != number(self.file.metadata())
            && let Ok(file) = append(&self.path)
        {
            self.file = file;
        }
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.look();
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(path)
}

/// What a process writes, and where.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The number of `-v`.
    pub(crate) verbose: u8,
    pub(crate) file: Option<LogFile>,
    pub(crate) format: Format,
    /// Which events, if `verbose` does not say more.
    pub(crate) level: Option<Level>,
}

/// Begins to write events, once a process.
pub(crate) fn start(log: Log) {
    let said = match (log.verbose, &log.file) {
        (0, None) => return,
        (0 | 1, _) => LevelFilter::INFO,
        (2, _) => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let level = match log.level {
        Some(level) if log.verbose == 0 => level.into(),
        level => level.map_or(said, |level| said.max(level.into())),
    };
    match log.file {
        Some(file) => begin(level, Mutex::new(file), false, log.format),
        None => begin(level, std::io::stderr, true, log.format),
    }
}

fn begin(level: LevelFilter, writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static, ansi: bool, format: Format) {
    let (heard, handle) = reload::Layer::new(heard(level));
    let layer = tracing_subscriber::fmt::layer();
    let layer = match format {
        Format::Text => layer.with_ansi(ansi).with_writer(writer).boxed(),
        Format::Json => layer.json().flatten_event(true).with_writer(writer).boxed(),
    };
    // A second start in one process changes nothing.
    if tracing_subscriber::registry().with(layer.with_filter(heard)).try_init().is_ok() {
        _ = HEARD.set(handle);
    }
}

/// Writes the events of this level from now on. `false` if none are written at all.
pub(crate) fn set_level(level: LevelFilter) -> bool {
    HEARD.get().is_some_and(|handle| handle.reload(heard(level)).is_ok())
}

/// What is written of this process.
static HEARD: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

fn heard(level: LevelFilter) -> Targets {
    CRATES.into_iter().map(|name| (name, level)).collect()
}

/// The crates whose events are written: all that have some.
const CRATES: [&str; 10] = [
    "foreread",
    "foreread_backend",
    "foreread_broker",
    "foreread_engine",
    "foreread_fuse",
    "foreread_local",
    "foreread_memory",
    "foreread_monitor",
    "foreread_testbed",
    "foreread_tier",
];

/// How long after a look at the path there is none. Lower: more calls of the kernel. Higher: more
/// lines go to a file that was moved away. Source: a guess.
const LOOKED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_that_has_events_is_heard() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
        let has_events = |entry: &std::fs::DirEntry| {
            let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml")).unwrap_or_default();
            manifest.contains("\ntracing.workspace")
        };
        for entry in crates.read_dir().expect("a folder").map(|entry| entry.expect("an entry")).filter(has_events) {
            let name = entry.file_name().into_string().expect("UTF-8");
            let name =
                if name == "foreread" || name == "cli" { "foreread".to_owned() } else { format!("foreread_{name}") };
            assert!(CRATES.contains(&name.as_str()), "{name} has events that nothing writes");
        }
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_anew() {
        let dir = tempfile::tempdir().expect("a folder");
        let (path, moved) = (dir.path().join("log"), dir.path().join("log.1"));
        let mut log = LogFile::open(&path).expect("a file");
        let write = |log: &mut LogFile, text: &str| {
            log.looked = Instant::now().checked_sub(LOOKED).expect("the machine has run for a second");
            log.write_all(text.as_bytes()).expect("it is written");
        };
        write(&mut log, "one ");
        std::fs::rename(&path, &moved).expect("it is moved");
        write(&mut log, "two ");
        std::fs::remove_file(&path).expect("it is there again");
        write(&mut log, "three");
        let text = |path| std::fs::read_to_string(path).expect("the file");
        assert_eq!((text(moved).as_str(), text(path).as_str()), ("one ", "three"));
    }
}
