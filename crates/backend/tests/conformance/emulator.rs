//! Starts emulators of cloud storage.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// A program that `emulators.sh` installs; `None`, with a message, where it is missing.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("FOREREAD_EMULATORS").map(PathBuf::from);
    available(program, folder.map(|folder| folder.join(program)), "crates/backend/tests/emulators.sh installs it")
}

/// A program of the system, in `PATH` or where Debian keeps servers.
pub(crate) fn of_system(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    available(program, found, "it is in Debian's package of that name")
}

fn available(program: &str, path: Option<PathBuf>, advice: &str) -> Option<PathBuf> {
    let path = path.filter(|path| path.is_file());
    if path.is_none() {
        println!("skipped: {program} is not there; {advice}");
        let required = std::env::var_os("FOREREAD_REQUIRE_CLIENTS").is_some_and(|required| required == "1");
        assert!(!required || std::env::var_os("FOREREAD_EMULATORS").is_none(), "{program} is required; {advice}");
    }
    path
}

/// A server on a port of its own. Dropping it ends the server.
pub(crate) struct Emulator {
    child: Child,
    pub(crate) port: u16,
}

impl Emulator {
    /// Starts the command for a free port, and waits until the port accepts connections.
    pub(crate) fn start(command: impl FnOnce(u16) -> Command) -> Self {
        let port = free_port();
        let mut command = command(port);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn();
        let mut emulator = Self { child: child.unwrap_or_else(|e| panic!("cannot start {command:?}: {e}")), port };
        let deadline = Instant::now() + Duration::from_mins(1);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(emulator.child.try_wait().unwrap().is_none(), "{command:?} has ended");
            assert!(Instant::now() < deadline, "{command:?} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        emulator
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port without a listener, below those that the kernel assigns to others.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 1000) as u16 * 8;
    let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    ports.find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()).unwrap()
}

/// Runs the test `name` again in a process that has these variables and no other variable of a
/// cloud. Returns true in that process.
///
/// Credentials, proxies and certificate authorities come from the environment, which belongs to a
/// whole process.
pub(crate) fn with_environment(name: &str, variables: &[(&str, &str)]) -> bool {
    const INSIDE: &str = "FOREREAD_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["AWS_", "AZURE_", "GOOGLE_", "STORAGE_", "SSL_CERT_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&*name);
        }
    }
    // Without settings of the user that runs the tests, and without instance metadata of the
    // machine.
    command.env("HOME", "/nonexistent").env("AWS_EC2_METADATA_DISABLED", "true").env(INSIDE, "1");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{name} in its own process:\n{}", texts.concat());
    false
}
