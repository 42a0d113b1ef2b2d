//! The mount point: whether it can be one, whether something is mounted on it, and whether a
//! killed foreread left a mount.

use std::io;
use std::path::{Path, PathBuf};

use foreread_fuse::mount_table;

use crate::commands::mount::error::Error;
use crate::failure::Failure;
use crate::last_cause::LastCause;

/// A directory that can be mounted on.
pub(crate) struct MountPoint {
    /// Absolute, without symbolic links.
    pub(crate) dir: PathBuf,
    /// What the user should know about it, one line each.
    pub(crate) notes: Vec<String>,
}

/// Checks `dir`, and unmounts what a killed foreread left on it.
pub(crate) fn check(dir: &Path) -> Result<MountPoint, Error> {
    let mut notes = Vec::new();
    let resolved = match resolve(dir)? {
        Found::Free(resolved) => resolved,
        Found::LeftBehind(resolved) => {
            foreread_fuse::unmount(&resolved, true)
                .map_err(|cause| Error::LeftBehind { dir: dir.to_owned(), cause: LastCause::from(&cause) })?;
            notes.push(format!("{}: unmounted what a killed foreread left behind", dir.display()));
            match resolve(&resolved)? {
                Found::Free(resolved) => resolved,
                Found::LeftBehind(_) => {
                    let cause = io::ErrorKind::NotConnected.into();
                    return Err(Failure::DirectoryUnusable { dir: dir.to_owned(), cause }.into());
                }
            }
        }
    };
    // As mount(8): a directory with files in it can be mounted on, and hides them.
    if std::fs::read_dir(&resolved).is_ok_and(|mut entries| entries.next().is_some()) {
        notes.push(format!("{}: not empty; what is in it is hidden until it is unmounted", dir.display()));
    }
    Ok(MountPoint { dir: resolved, notes })
}

enum Found {
    Free(PathBuf),
    LeftBehind(PathBuf),
}

fn resolve(dir: &Path) -> Result<Found, Error> {
    let unusable = |cause: io::Error| match cause.kind() {
        io::ErrorKind::NotFound => Failure::DirectoryMissing { dir: dir.to_owned() }.into(),
        io::ErrorKind::NotADirectory => Error::NotADirectory { path: dir.to_owned() },
        _ => Failure::DirectoryUnusable { dir: dir.to_owned(), cause }.into(),
    };
    let resolved = mount_table::resolve(dir).map_err(unusable)?;
    if let Some(mount) = mount_table::at(&resolved).map_err(unusable)?.filter(mount_table::Mount::is_ours) {
        // Attributes may come from the kernel's cache; statfs always reaches the process behind
        // the mount.
        return match rustix::fs::statfs(&resolved).map_err(io::Error::from) {
            Err(cause) if is_dead(&cause) => Ok(Found::LeftBehind(resolved)),
            Err(cause) => Err(unusable(cause)),
            Ok(_) => Err(Error::AlreadyMounted { dir: dir.to_owned(), source_shown: mount.source }),
        };
    }
    match std::fs::metadata(&resolved) {
        Err(cause) => Err(unusable(cause)),
        Ok(found) if found.is_dir() => Ok(Found::Free(resolved)),
        Ok(_) => Err(Error::NotADirectory { path: dir.to_owned() }),
    }
}

/// Whether the server behind a FUSE mount is gone: ENOTCONN from then on, ECONNABORTED for a
/// request that it had begun.
fn is_dead(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::NotConnected | io::ErrorKind::ConnectionAborted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_directory_is_fine() {
        let dir = tempfile::tempdir().expect("a directory");
        let point = check(dir.path()).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(point.dir, dir.path().canonicalize().expect("its path"));
        assert!(point.notes.is_empty());
    }

    #[test]
    fn files_in_it_are_noted() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("file"), "").expect("a file");
        let point = check(dir.path()).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(point.notes[0].contains("not empty"), "{:?}", point.notes);
        let failure = check(&dir.path().join("file")).err().expect("a failure");
        assert!(matches!(failure, Error::NotADirectory { .. }), "{failure}");
        let failure = check(&dir.path().join("file/below")).err().expect("a failure");
        assert!(matches!(failure, Error::NotADirectory { .. }), "{failure}");
    }

    #[test]
    fn a_missing_one_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        for below in ["missing", "missing/deeper"] {
            let failure = check(&dir.path().join(below)).err().expect("a failure");
            assert!(matches!(failure, Error::Shared(Failure::DirectoryMissing { .. })), "{failure}");
            assert!(failure.to_string().contains(below));
        }
    }
}
