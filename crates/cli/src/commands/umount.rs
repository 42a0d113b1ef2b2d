//! `foreread umount DIR`.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use foreread_fuse::mount_table;
use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::failure::Failure;
use crate::last_cause::LastCause;

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

/// Why `foreread umount` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("{}: not mounted", .dir.display())]
    #[diagnostic(code(foreread::umount::not_mounted), help("`grep fuse.foreread /proc/mounts` shows what is mounted"))]
    NotMounted { dir: PathBuf },

    #[error("{}: mounted, but not by foreread (type {kind})", .dir.display())]
    #[diagnostic(code(foreread::umount::not_ours), help("umount(8) unmounts it: `umount '{}'`", .dir.display()))]
    NotOurs { dir: PathBuf, kind: String },

    #[error("{}: in use", .dir.display())]
    #[diagnostic(
        code(foreread::umount::busy),
        help(
            "`fuser -vm '{0}'` shows by whom; `foreread umount --lazy '{0}'` removes it from the tree now and ends it when \
             the last file is closed",
            .dir.display()
        )
    )]
    Busy { dir: PathBuf },

    #[error("{}: could not be unmounted", .dir.display())]
    #[diagnostic(
        code(foreread::umount::failed),
        help(
            "unmount as the user who mounted it, or as root; `fusermount3` (package fuse3) must be installed for users"
        )
    )]
    Unmount {
        dir: PathBuf,
        #[source]
        cause: LastCause,
    },
}

/// Unmounts, and returns when the directory shows its own files again.
pub(crate) fn run(args: &Args) -> miette::Result<ExitCode> {
    let dir = mount_table::resolve(&args.dir).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => Failure::DirectoryMissing { dir: args.dir.clone() },
        _ => Failure::DirectoryUnusable { dir: args.dir.clone(), cause },
    })?;
    let mounts = || mount_table::read().map_err(|cause| Failure::File { path: "/proc/self/mountinfo".into(), cause });
    let count = |mounts: &[mount_table::Mount]| mounts.iter().filter(|mount| mount.point == dir).count();

    let before = mounts()?;
    match before.iter().rev().find(|mount| mount.point == dir) {
        None => return Err(Error::NotMounted { dir: args.dir.clone() }.into()),
        Some(mount) if !mount.is_ours() => {
            return Err(Error::NotOurs { dir: args.dir.clone(), kind: mount.kind.clone() }.into());
        }
        Some(_) => {}
    }
    match patiently(|| foreread_fuse::unmount(&dir, args.lazy)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Another process was faster, such as the mount's own on a signal.
        Err(_) if count(&mounts()?) < count(&before) => Ok(ExitCode::SUCCESS),
        Err(foreread_fuse::Error::Unmount { cause, .. }) if cause.kind() == ErrorKind::ResourceBusy => {
            Err(Error::Busy { dir: args.dir.clone() }.into())
        }
        Err(cause) => Err(Error::Unmount { dir: args.dir.clone(), cause: LastCause::from(&cause) }.into()),
    }
}

/// Repeats an attempt for a moment while the mount is in use: a desktop or an indexer that looks
/// at every new mount, or a program that forks, closes it within milliseconds.
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

/// Attempts at a busy mount, for half a second in all.
const BUSY_ATTEMPTS: u32 = 10;

/// The time between two attempts.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
