//! Folders that scripts fill: what a program reads, and the tools that it needs.
//!
//! A folder is made once and kept, with the script beside it. Another script, or one that did not
//! come to its end, makes it anew.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::Error;
use crate::process::{Process, TICK};
use crate::setup::Setup;

/// The longest time that a script may take: it may install packages over a slow link.
const MAKES_MAX: Duration = Duration::from_mins(30);

/// A script that fills a folder.
#[derive(Clone, Debug)]
pub struct Script {
    /// The folder's name.
    pub name: String,
    /// The text. Its first line names the interpreter, as in an executable file.
    pub text: String,
}

/// Where folders are made. While it exists, no other benchmark makes any there.
#[derive(Debug)]
pub struct Made {
    top: PathBuf,
    /// Locked.
    _lock: File,
}

impl Made {
    /// In `top`, which is made if it does not exist. It must be a folder of this user, and no link
    /// that another one may have made, for what lies there is executed.
    pub fn at(top: &Path) -> Result<Self, Error> {
        fs::create_dir_all(top).map_err(Error::io("making the folder of programs' data"))?;
        let about = fs::symlink_metadata(top).map_err(Error::io("looking at the folder of programs' data"))?;
        let top = top.canonicalize().map_err(Error::io("finding the folder of programs' data"))?;
        if !about.is_dir()
            || about.uid() != rustix::process::geteuid().as_raw()
            || about.permissions().mode() & 0o022 != 0
        {
            return Err(Error::NotOurs { path: top.display().to_string() });
        }
        let lock = File::create(top.join("lock")).map_err(Error::io("locking the folder of programs' data"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { top, _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(Error::InUse { path: top.display().to_string() }),
            Err(cause) => Err(Error::io("locking the folder of programs' data")(cause.into())),
        }
    }

    /// The folder of `script`, which runs in it if it has not before. `kind` is `data` or `tools`.
    pub(crate) fn folder(
        &self,
        setup: &Setup<'_>,
        kind: &str,
        script: &Script,
        tools: Option<&Path>,
    ) -> Result<PathBuf, Error> {
        let Script { name, text } = script;
        let beside = |extension: &str| self.top.join(format!("{kind}-{name}{extension}"));
        let (folder, made, runs) = (beside(""), beside(".made"), beside(".script"));
        if folder.is_dir() && fs::read_to_string(&made).is_ok_and(|before| before == *text) {
            return Ok(folder);
        }
        if folder.exists() && !runs.exists() {
            return Err(Error::NotMade { path: folder.display().to_string() });
        }
        setup.status(&format!("making {kind} {name}, once"));
        let executable = || {
            fs::write(&runs, text)?;
            fs::set_permissions(&runs, fs::Permissions::from_mode(0o755))
        };
        executable().map_err(Error::io("writing a script"))?;
        for old in [fs::remove_file(&made), fs::remove_dir_all(&folder)] {
            old.or_else(|error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
                .map_err(Error::io("removing what another script has made"))?;
        }
        fs::create_dir(&folder).map_err(Error::io("making a folder for a program's data"))?;
        let mut command = Command::new(&runs);
        command.current_dir(&folder);
        with_tools(&mut command, tools);
        let process = start(&mut command, &format!("the script of {kind} {name}"))?;
        process.answer(MAKES_MAX, &setup.interrupt)?;
        fs::write(&made, text).map_err(Error::io("noting that a script has run"))?;
        Ok(folder)
    }
}

/// Starts a script that was just written. Another thread of this process may be starting a
/// program, which holds what is open here until it is executed; the kernel executes no file
/// meanwhile that is open to be written.
fn start(command: &mut Command, shown: &str) -> Result<Process, Error> {
    loop {
        match Process::start(command, shown.to_owned()) {
            Err(Error::Spawn { cause, .. }) if cause.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                thread::sleep(TICK);
            }
            started => return started,
        }
    }
}

/// Puts what a script has installed before everything else on the `PATH`.
pub(crate) fn with_tools(command: &mut Command, tools: Option<&Path>) {
    if let Some(tools) = tools {
        let before = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{before}", tools.join("bin").display())).env("TOOLS", tools);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::interrupt::Interrupt;

    fn script(text: &str) -> Script {
        Script { name: "x".to_owned(), text: format!("#!/bin/sh\nset -e\n{text}\n") }
    }

    #[test]
    fn a_folder_is_made_once_and_again_for_another_script() {
        let top = tempfile::tempdir().expect("a temporary directory");
        let setup = Setup::new(Interrupt::default(), 1, &|_| {}).expect("a temporary directory");
        let made = Made::at(&top.path().join("made")).expect("it can be made");
        let folder = |text: &str| made.folder(&setup, "data", &script(text), None);

        let first = folder("echo one > a").expect("it runs");
        fs::write(first.join("b"), "kept").expect("a writable folder");
        assert_eq!(folder("echo one > a").expect("it is there"), first);
        assert!(first.join("b").exists(), "the script ran again");

        folder("echo half > c; exit 1").expect_err("it fails");
        folder("echo half > c; exit 1").expect_err("what a failed script leaves is not used");
        folder("echo two > a").expect("it runs");
        let names: Vec<_> = fs::read_dir(&first).expect("a folder").map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a"], "nothing of the earlier scripts is left");
    }

    #[test]
    fn what_no_script_has_made_is_not_removed() {
        let top = tempfile::tempdir().expect("a temporary directory");
        let setup = Setup::new(Interrupt::default(), 1, &|_| {}).expect("a temporary directory");
        let made = Made::at(top.path()).expect("our own");
        fs::create_dir(top.path().join("data-x")).expect("a writable directory");
        fs::write(top.path().join("data-x/mine"), "kept").expect("a writable directory");
        let error = made.folder(&setup, "data", &script("echo one > a"), None).expect_err("it is not ours");
        assert!(matches!(error, Error::NotMade { .. }) && top.path().join("data-x/mine").exists(), "{error}");
    }

    #[test]
    fn a_folder_is_for_one_benchmark_at_a_time_and_no_link() {
        let top = tempfile::tempdir().expect("a temporary directory");
        let made = Made::at(top.path()).expect("our own");
        assert!(matches!(Made::at(top.path()), Err(Error::InUse { .. })));
        drop(made);
        Made::at(top.path()).expect("it is free again");
        let link = top.path().join("link");
        std::os::unix::fs::symlink(top.path(), &link).expect("a writable directory");
        assert!(matches!(Made::at(&link), Err(Error::NotOurs { .. })));
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let top = tempfile::tempdir().expect("a temporary directory");
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o777)).expect("our own");
        let error = Made::at(top.path()).expect_err("anyone could put a program there");
        assert!(matches!(error, Error::NotOurs { .. }), "{error}");
    }
}
