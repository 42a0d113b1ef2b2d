//! Folders that are no cache, or cease to be one.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use foreread_tier::{Error, Tier};

use crate::content::{is_kept, object, offer, open, segments, small, total, until};

fn refused(folder: &Path) -> Error {
    Tier::open(folder, small()).expect_err("it is refused")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_folder_is_created_for_its_user_alone_and_opened_once() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("a/b");
    let tier = Tier::open(&folder, small()).expect("it opens");
    assert_eq!(fs::metadata(&folder).expect("it is there").permissions().mode() & 0o777, 0o700);
    let again = Tier::open(&parent.path().join("a/../a/b"), small()).expect("it opens");
    assert!(Arc::ptr_eq(&tier, &again));
    assert_eq!(fs::read_to_string(folder.join("FORMAT")).expect("it is there"), "foreread cache 2\n");
}

#[test]
fn what_is_no_cache_is_left_alone() {
    let parent = tempfile::tempdir().expect("a folder");
    let file = parent.path().join("file");
    fs::write(&file, "text").expect("room");
    assert!(matches!(refused(&file), Error::NotAFolder { .. }));
    assert!(matches!(refused(&file.join("below")), Error::Create { .. } | Error::NotAFolder { .. }));
    let error = refused(parent.path());
    assert!(matches!(error, Error::NotEmpty { .. }) && error.to_string().contains("file"), "{error}");
    assert!(matches!(foreread_tier::clear(parent.path()), Err(Error::NotACache { .. })));
    assert!(matches!(foreread_tier::summary(&parent.path().join("none")), Err(Error::NotACache { .. })));

    let newer = parent.path().join("newer");
    fs::create_dir(&newer).expect("room");
    fs::write(newer.join("FORMAT"), "foreread cache 3\n").expect("room");
    fs::write(newer.join("segment-0000000000000001"), "newer").expect("room");
    let error = refused(&newer);
    assert!(matches!(&error, Error::Format { found, .. } if found == "foreread cache 3"), "{error}");
    assert!(foreread_tier::clear(&newer).is_err() && foreread_tier::verify(&newer, None, |_| {}).is_err());
    assert_eq!(fs::read_dir(&newer).expect("it is there").count(), 2);
    assert_eq!(fs::read(newer.join("segment-0000000000000001")).expect("it is there"), b"newer");
}

#[test]
fn the_folder_of_another_user_is_refused() {
    if !is_root() {
        return eprintln!("skipped: only root can give a folder away");
    }
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(folder.path(), small()));
    std::os::unix::fs::chown(folder.path(), Some(12_345), None).expect("root may");
    let error = refused(folder.path());
    assert!(matches!(error, Error::Owner { owner: 12_345, user: 0, .. }), "{error}");
}

/// A file system in memory, until it is dropped.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = std::process::Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path()).output();
        let is_mounted = is_root() && mounted.is_ok_and(|output| output.status.success());
        is_mounted.then(|| Self(folder))
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let status = std::process::Command::new(program).args(arguments).arg(self.0.path()).status();
        assert!(status.is_ok_and(|status| status.success()));
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        self.run("umount", &["-l"]);
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let Some(mounted) = Tmpfs::mount("size=8m") else { return eprintln!("skipped: no tmpfs can be mounted here") };
    mounted.run("mount", &["-o", "remount,ro"]);
    let error = refused(mounted.0.path());
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
}

#[test]
fn a_file_system_without_room_pauses_writing_and_reads_go_on() {
    let Some(mounted) = Tmpfs::mount("size=4m") else { return eprintln!("skipped: no tmpfs can be mounted here") };
    let folder = mounted.0.path().join("cache");
    let tier = open(&folder, small());
    for at in 0..100 {
        offer(&tier, object(1), at * 32, 131_072);
        tier.flush();
        // Less than what one segment takes is left, whatever the limits say.
        if at == 10 {
            let free = rustix::fs::statvfs(&folder).expect("it is mounted");
            let free = free.f_bavail * free.f_frsize;
            fs::write(mounted.0.path().join("other"), vec![1; free as usize - 300_000]).expect("it fits");
        }
    }
    let stats = tier.stats();
    assert_eq!(stats.write_errors, 1, "{stats:?}");
    assert_eq!((stats.wrong, stats.read_errors), (0, 0));
    let kept = (0..100).filter(|&at| is_kept(&tier, object(1), at * 32, 131_072)).count();
    assert!(kept >= 5, "{kept}");
    drop(tier);
}

#[test]
fn a_folder_that_is_removed_harms_no_reader() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("cache");
    let tier = open(&folder, small());
    offer(&tier, object(1), 0, 131_072);
    tier.flush();
    fs::remove_dir_all(&folder).expect("it is removed");
    until(|| tier.kept(object(1)).is_empty());
    for at in 0..20 {
        offer(&tier, object(2), at * 32, 131_072);
        tier.flush();
    }
    assert!(!is_kept(&tier, object(1), 0, 131_072));
    let stats = tier.stats();
    assert!(stats.write_errors == 1 && stats.entries == 0, "{stats:?}");
}

#[test]
fn clearing_is_safe_while_it_is_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let tier = open(folder.path(), small());
    (0..20).for_each(|at| _ = offer(&tier, object(1), at * 32, 131_072));
    tier.flush();
    let (before, number) = (total(folder.path()), segments(folder.path()).last().cloned());
    assert_eq!(foreread_tier::clear(folder.path()).expect("it is a cache"), before);
    assert!(segments(folder.path()).is_empty());
    (0..20).for_each(|at| _ = is_kept(&tier, object(1), at * 32, 131_072));
    until(|| tier.kept(object(1)).is_empty());
    assert!(offer(&tier, object(2), 0, 131_072));
    tier.flush();
    assert!(is_kept(&tier, object(2), 0, 131_072));
    assert_eq!(tier.stats().wrong, 0);
    assert!(segments(folder.path()).last().cloned() > number, "no number is used twice");
}
