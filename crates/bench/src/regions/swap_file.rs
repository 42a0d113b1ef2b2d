//! A swap file for the kernel, for the time of a measurement.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use crate::error::Error;
use crate::process::TICK;

/// A swap file in use. Dropping it switches it off and removes it.
#[derive(Debug)]
pub(crate) struct SwapFile {
    path: PathBuf,
}

impl SwapFile {
    /// Makes a swap file of `bytes` in `dir`. Needs root.
    pub(crate) fn new(dir: &Path, bytes: u64) -> Result<Self, Error> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let path = dir.join(format!("swap-{}", MADE.fetch_add(1, Relaxed)));
        let making = || Error::io("making a swap file");
        let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(making())?;
        // From here on, dropping removes the file.
        let file = Self { path };
        allocate(&open, bytes)?;
        open.sync_all().map_err(making())?;
        file.command("mkswap")?;
        file.command("swapon")?;
        Ok(file)
    }

    fn command(&self, program: &str) -> Result<(), Error> {
        let mut command = Command::new(program);
        // A group of its own: Ctrl-C would end it halfway, and a swapoff that is ended leaves the
        // file in use.
        let command = command.arg(&self.path).stdin(Stdio::null()).process_group(0);
        let output = command.output().map_err(|cause| Error::Spawn { command: program.to_owned(), cause })?;
        if output.status.success() {
            return Ok(());
        }
        let said = format!(":\n{}", String::from_utf8_lossy(&output.stderr).trim());
        Err(Error::Ended { command: program.to_owned(), status: output.status.to_string(), said })
    }
}

fn allocate(file: &File, bytes: u64) -> Result<(), Error> {
    let allocated = rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes);
    allocated.map_err(|errno| Error::io("making a swap file")(errno.into()))
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        // Refused if it was never switched on, and while there is no memory for its pages.
        for _ in 0..OFF_TRIES {
            if self.command("swapoff").is_ok() || !self.is_on() {
                break;
            }
            thread::sleep(TICK);
        }
        if self.is_on() {
            eprintln!("{} is still in use: run swapoff, then remove it", self.path.display());
            return;
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

impl SwapFile {
    /// Whether the kernel swaps to it; false if that is not known.
    fn is_on(&self) -> bool {
        let Ok(path) = self.path.canonicalize() else { return false };
        let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
        swaps.lines().any(|line| line.split_whitespace().next().is_some_and(|of| Path::new(of) == path))
    }
}

/// Attempts to switch it off: for a second in all.
const OFF_TRIES: u32 = 100;
