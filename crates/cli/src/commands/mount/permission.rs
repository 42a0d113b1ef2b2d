//! Whether this process may mount at all: /dev/fuse, fusermount3 for users, `user_allow_other`.
//!
//! This is checked first, since the kernel's own errors name none of these.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::commands::mount::error::Error;
use crate::last_cause::LastCause;

/// Why the kernel or fusermount3 refused to mount on `dir`: it mounts for a user on what that one
/// may write to.
pub(crate) fn refused(dir: PathBuf, cause: LastCause) -> Error {
    let may_write = rustix::fs::access(&dir, Access::WRITE_OK).is_ok();
    if may_write { Error::Mount { dir, cause } } else { Error::NotYours { dir, cause } }
}

/// Fails with the first obstacle.
pub(crate) fn check(allow_other: bool) -> Result<(), Error> {
    device(Path::new("/dev/fuse"))?;
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::var_os("FUSERMOUNT_PATH").is_none() && !is_on_path("fusermount3", &path) {
        return Err(Error::FusermountAbsent);
    }
    let configuration = std::fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if allow_other && !permits_allow_other(&configuration) {
        return Err(Error::AllowOtherForbidden);
    }
    Ok(())
}

fn device(path: &Path) -> Result<(), Error> {
    match File::options().read(true).write(true).open(path) {
        Ok(_) => Ok(()),
        Err(cause) if is_absent(&cause) => Err(Error::FuseAbsent),
        Err(cause) => Err(Error::FuseForbidden { cause }),
    }
}

/// There is no node, or the kernel's module for it is missing.
fn is_absent(cause: &io::Error) -> bool {
    let absent = [libc::ENOENT, libc::ENXIO, libc::ENODEV];
    cause.raw_os_error().is_some_and(|errno| absent.contains(&errno))
}

/// In `PATH`, or in the two directories that the mount itself searches.
fn is_on_path(program: &str, path: &OsStr) -> bool {
    let system = ["/bin", "/sbin"].map(Into::into);
    std::env::split_paths(path).chain(system).any(|dir| dir.join(program).is_file())
}

fn permits_allow_other(configuration: &str) -> bool {
    configuration.lines().any(|line| line.split('#').next().is_some_and(|line| line.trim() == "user_allow_other"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_has_an_error_of_its_own() {
        let dir = tempfile::tempdir().expect("a directory");
        let failure = device(&dir.path().join("fuse")).expect_err("no such file");
        assert!(matches!(failure, Error::FuseAbsent), "{failure}");
        let failure = device(dir.path()).expect_err("a directory cannot be written");
        assert!(matches!(failure, Error::FuseForbidden { .. }), "{failure}");
    }

    #[test]
    fn fuse_conf_permits_by_a_line_of_its_own() {
        assert!(permits_allow_other("# comment\nuser_allow_other\n"));
        assert!(permits_allow_other("  user_allow_other # yes\n"));
        assert!(!permits_allow_other("#user_allow_other\n"));
        assert!(!permits_allow_other("mount_max = 1000\n"));
        assert!(!permits_allow_other(""));
    }

    #[test]
    fn programs_are_found_on_the_path() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("some-program"), "").expect("a file");
        let path = std::env::join_paths(["/nonexistent".as_ref(), dir.path()]).expect("a path");
        assert!(is_on_path("some-program", &path));
        assert!(!is_on_path("other-program", &path));
    }
}
