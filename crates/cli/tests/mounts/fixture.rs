//! What the tests share: a store, a mount that is always removed, and a way to run a program
//! within a time limit.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use foreread_testbed::{Config, ObjectSpec, Testbed, content};
use serde_json::Value;
use tempfile::TempDir;

/// The secret of the testbed's key; no output may have it.
pub(crate) const SECRET: &str = "testbedsecret";

/// The time limit: longer than any step takes on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// The command under test.
pub(crate) fn foreread() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    // The machine's own accounts must not change a test.
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name_text.starts_with(prefix))
            || name_text.ends_with("_proxy")
        {
            command.env_remove(&name);
        }
    }
    command.env("FOREREAD_CONFIG", "");
    command.env("HOME", "/nonexistent").env("AWS_EC2_METADATA_DISABLED", "true").env("NO_COLOR", "1");
    command
}

/// An emulated store.
pub(crate) struct Store {
    pub(crate) testbed: Testbed,
}

impl Store {
    /// A store with these synthetic objects.
    pub(crate) fn with(objects: &[(&str, u64)]) -> Self {
        let objects = objects.iter().map(|(key, size)| ObjectSpec::new(*key, *size)).collect();
        Self::start(Config { objects, ..Config::default() })
    }

    /// A store with the files of a directory.
    pub(crate) fn of_directory(dir: &Path) -> Self {
        Self::start(Config { dir: Some(dir.to_owned()), ..Config::default() })
    }

    pub(crate) fn start(config: Config) -> Self {
        Self { testbed: Testbed::start(config).expect("a testbed") }
    }

    /// The command under test with this store's credentials.
    pub(crate) fn foreread(&self) -> Command {
        let mut command = foreread();
        command.env("AWS_ACCESS_KEY_ID", "testbed").env("AWS_SECRET_ACCESS_KEY", SECRET).env("AWS_REGION", "us-east-1");
        command.env("AWS_ENDPOINT_URL", self.testbed.endpoint());
        command
    }
}

/// The bytes of a synthetic object in its first generation.
pub(crate) fn expected(key: &str, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    content::fill(key, 1, offset, &mut bytes);
    bytes
}

/// A mount on a directory of its own, unmounted when it is dropped.
pub(crate) struct Mount {
    dir: TempDir,
    /// The process, if it was started in the foreground.
    process: Option<Child>,
}

impl Mount {
    /// Mounts `url` in the background; the command must succeed.
    pub(crate) fn background(mut command: Command, url: &str, options: &[&str]) -> Self {
        let mount = Self { dir: directory(), process: None };
        let finished = run(command.args(["mount", url]).arg(mount.path()).args(options));
        assert!(finished.status.success(), "{}", finished.stderr);
        assert!(is_mounted(mount.path()), "the command has ended, but nothing is mounted: {}", finished.stderr);
        mount
    }

    /// Mounts the whole testbed.
    pub(crate) fn of(store: &Store) -> Self {
        Self::background(store.foreread(), "s3://testbed", &["--memory", "64M"])
    }

    /// Mounts `url` with the process as a child of this one.
    pub(crate) fn foreground(mut command: Command, url: &str, options: &[&str]) -> Self {
        let dir = directory();
        let process = command
            .args(["mount", "--foreground", url])
            .arg(dir.path())
            .args(options)
            .stdin(Stdio::null())
            .spawn()
            .expect("foreread");
        let mut mount = Self { dir, process: Some(process) };
        until("it is mounted", || {
            let ended = mount.process().try_wait().expect("the process");
            assert!(ended.is_none(), "ended instead of mounting: {ended:?}");
            is_mounted(mount.dir.path())
        });
        mount
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The counters.
    pub(crate) fn stats(&self) -> Value {
        let text = run(foreread().args(["stats", "--json"]).arg(self.path())).ok().text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn process(&mut self) -> &mut Child {
        self.process.as_mut().expect("a mount in the foreground")
    }

    /// Memory of the process that is resident, in bytes.
    pub(crate) fn resident_bytes(&mut self) -> u64 {
        let path = format!("/proc/{}/statm", self.process().id());
        let statm = fs::read_to_string(&path).expect("a process");
        // proc(5): the second field, in pages.
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or_else(|| panic!("{path}: {statm}")) * rustix::param::page_size() as u64
    }

    /// The most memory of the process that has been resident at a time, in bytes.
    pub(crate) fn most_resident_bytes(&mut self) -> u64 {
        let path = format!("/proc/{}/status", self.process().id());
        let status = fs::read_to_string(&path).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.unwrap_or_else(|| panic!("{path}: {status}")) << 10
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&mut self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(self.process());
        rustix::process::kill_process(pid, signal).expect("the signal");
    }

    /// How the process ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let process = self.process.as_mut().expect("a mount in the foreground");
        wait(process).expect("the process ends")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        while is_mounted(self.dir.path()) {
            let finished = run(foreread().args(["umount", "--lazy"]).arg(self.dir.path()));
            if !finished.status.success() {
                eprintln!("left mounted: {}: {}", self.dir.path().display(), finished.stderr);
                break;
            }
        }
        if let Some(process) = &mut self.process
            && wait(process).is_none()
        {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Whether anything is mounted on `dir`.
pub(crate) fn is_mounted(dir: &Path) -> bool {
    let dir = dir.to_string_lossy();
    let table = fs::read_to_string("/proc/self/mounts").expect("the table of mounts");
    table.lines().any(|line| line.split(' ').nth(1) == Some(&dir))
}

/// A directory that every user may enter.
pub(crate) fn directory() -> TempDir {
    let dir = tempfile::Builder::new().prefix("foreread-").tempdir().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    dir
}

/// What a program did.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// It succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(self.status.success(), "{}\nstdout: {}\nstderr: {}", self.status, self.text(), self.stderr);
        self
    }

    /// It failed with status 1, and its output has each of `words`, the next step and no cause
    /// twice.
    #[track_caller]
    pub(crate) fn failed_saying(self, words: &[&str]) -> Self {
        assert_eq!(self.status.code(), Some(1), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in: {}", self.stderr);
        }
        assert!(self.stderr.contains("help:"), "no next step in: {}", self.stderr);
        assert!(!self.stderr.contains(SECRET), "a secret in: {}", self.stderr);
        let causes: Vec<&str> = self.stderr.lines().filter_map(|line| Some(line.split_once("─▶ ")?.1.trim())).collect();
        for pair in causes.windows(2) {
            assert!(!pair[0].ends_with(pair[1]), "{:?} is said twice in: {}", pair[1], self.stderr);
        }
        self
    }
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command) -> Finished {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = drained(child.stdout.take());
    let stderr = drained(child.stderr.take());
    let Some(status) = wait(&mut child) else {
        let _ = child.kill();
        panic!("{command:?} does not end");
    };
    let stdout = stdout.join().expect("stdout");
    let stderr = String::from_utf8_lossy(&stderr.join().expect("stderr")).into_owned();
    Finished { status, stdout, stderr }
}

fn drained(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        if let Some(status) = child.try_wait().expect("a child of this process") {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Waits for a condition that other processes make true.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether `program` is installed. If not, a test fails with `FOREREAD_REQUIRE_CLIENTS=1`; without
/// it, a message says so.
pub(crate) fn have(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        let required = std::env::var("FOREREAD_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        assert!(!required, "{program} is not installed, and FOREREAD_REQUIRE_CLIENTS=1");
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// A shell command; `$1`, `$2` ... are `arguments`.
pub(crate) fn shell(script: &str, arguments: &[&Path]) -> Finished {
    run(Command::new("bash").args(["-euo", "pipefail", "-c", script, "test"]).args(arguments))
}
