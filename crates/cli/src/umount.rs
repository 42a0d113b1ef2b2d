//! `foreread umount DIR`.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use crate::failure::Failure;
use crate::mount_table;

/// Unmount a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Works for root and, through fusermount3, for the user who mounted. Example:
  foreread umount /mnt/data")]
pub(crate) struct Args {
    /// Directory on which `foreread mount` mounted
    dir: PathBuf,

    /// Remove it from the tree at once even if it is in use; open files work until they are closed
    #[arg(short, long)]
    lazy: bool,
}

/// Unmounts, and returns when the directory shows what was there before.
pub(crate) fn run(args: &Args) -> miette::Result<ExitCode> {
    let dir = mount_table::resolve(&args.dir).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => Failure::DirectoryMissing { dir: args.dir.clone() },
        _ => Failure::DirectoryUnusable { dir: args.dir.clone(), cause },
    })?;
    let mounts = || mount_table::read().map_err(|cause| Failure::File { path: "/proc/self/mountinfo".into(), cause });
    let count = |mounts: &[mount_table::Mount]| mounts.iter().filter(|mount| mount.point == dir).count();

    let before = mounts()?;
    match before.iter().rev().find(|mount| mount.point == dir) {
        None => return Err(Failure::NotMounted { dir: args.dir.clone() }.into()),
        Some(mount) if !mount.is_ours() => {
            return Err(Failure::NotOurs { dir: args.dir.clone(), kind: mount.kind.clone() }.into());
        }
        Some(_) => {}
    }
    match patiently(|| foreread_fuse::unmount(&dir, args.lazy)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Someone else, the mount's own signal handler for one, was faster.
        Err(_) if count(&mounts()?) < count(&before) => Ok(ExitCode::SUCCESS),
        Err(foreread_fuse::Error::Unmount { cause, .. }) if cause.kind() == ErrorKind::ResourceBusy => {
            Err(Failure::Busy { dir: args.dir.clone() }.into())
        }
        Err(cause) => Err(Failure::Unmount { dir: args.dir.clone(), cause }.into()),
    }
}

/// Repeats an attempt for a moment while the mount is in use: what looks at every new mount (a desktop, an indexer) and what
/// a program that forks has open lets go within milliseconds.
fn patiently(attempt: impl Fn() -> Result<(), foreread_fuse::Error>) -> Result<(), foreread_fuse::Error> {
    for _ in 0..BUSY_ATTEMPTS {
        match attempt() {
            Err(foreread_fuse::Error::Unmount { cause, .. }) if cause.kind() == ErrorKind::ResourceBusy => {
                thread::sleep(BUSY_PAUSE);
            }
            settled => return settled,
        }
    }
    attempt()
}

/// How often a busy mount is tried again: for half a second in all.
const BUSY_ATTEMPTS: u32 = 10;

/// The time between two attempts.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
