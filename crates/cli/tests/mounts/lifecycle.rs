//! Mounting, unmounting, signals, and the mount that a killed process leaves.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::process::Command;

use rustix::process::Signal;

use crate::fixture::{Mount, Store, directory, expected, foreread, is_mounted, run, until};

const MIB: u64 = 1 << 20;

#[test]
fn a_bucket_is_a_directory_tree() {
    let store = Store::with(&[("top", 10), ("a/b/deep", 3 * MIB + 7), ("a/other", 0), ("with space/and üñí", 5)]);
    let mounted = Mount::of(&store);
    let mut names: Vec<_> =
        fs::read_dir(mounted.path()).expect("a listing").map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "top", "with space"]);
    assert_eq!(fs::read(mounted.file("a/b/deep")).expect("a file"), expected("a/b/deep", 0, 3 * MIB as usize + 7));
    assert_eq!(fs::read(mounted.file("a/other")).expect("an empty file"), b"");
    assert_eq!(fs::read(mounted.file("with space/and üñí")).expect("a file"), expected("with space/and üñí", 0, 5));
    assert_eq!(fs::metadata(mounted.file("a/b/deep")).expect("its attributes").len(), 3 * MIB + 7);
    assert_eq!(fs::metadata(mounted.file("missing")).expect_err("no such file").kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_prefix_is_the_root_of_its_mount() {
    let store = Store::with(&[("a/b/file", 100), ("c/other", 1)]);
    for url in ["s3://testbed/a", "s3://testbed/a/"] {
        let mounted = Mount::background(store.foreread(), url, &["--memory", "32M"]);
        assert_eq!(fs::read(mounted.file("b/file")).expect("a file"), expected("a/b/file", 0, 100));
        assert!(!mounted.file("c").exists());
    }
}

#[test]
fn a_single_object_is_a_directory_with_one_file() {
    let store = Store::with(&[("a/b/file.bin", 2 * MIB), ("a/b/other", 1)]);
    let mounted = Mount::background(store.foreread(), "s3://testbed/a/b/file.bin", &["--memory", "32M"]);
    let names: Vec<_> =
        fs::read_dir(mounted.path()).expect("a listing").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["file.bin"]);
    assert_eq!(fs::read(mounted.file("file.bin")).expect("the file"), expected("a/b/file.bin", 0, 2 * MIB as usize));
    assert!(!mounted.file("other").exists());
}

#[test]
fn a_web_server_is_mounted_by_file_and_by_index() {
    let store = Store::with(&[("dir/page.bin", 2 * MIB), ("dir/other", 10)]);
    let root = format!("{}/http", store.testbed.endpoint());
    let single = Mount::background(foreread(), &format!("{root}/dir/page.bin"), &["--memory", "32M"]);
    let names: Vec<_> =
        fs::read_dir(single.path()).expect("a listing").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["page.bin"]);
    assert_eq!(fs::read(single.file("page.bin")).expect("the file"), expected("dir/page.bin", 0, 2 * MIB as usize));

    let index = Mount::background(foreread(), &format!("{root}/dir/"), &["--memory", "32M"]);
    assert_eq!(fs::read_dir(index.path()).expect("a listing").count(), 2);
    assert_eq!(fs::read(index.file("other")).expect("the file"), expected("dir/other", 0, 10));
}

#[test]
fn a_local_directory_is_mounted_by_its_path() {
    let source = directory();
    fs::create_dir(source.path().join("sub")).expect("a directory");
    fs::write(source.path().join("sub/file"), "text").expect("a file");
    for url in [source.path().display().to_string(), format!("file://{}", source.path().display())] {
        let mounted = Mount::background(foreread(), &url, &[]);
        assert_eq!(fs::read_to_string(mounted.file("sub/file")).expect("the file"), "text");
    }
    // A relative path works although the background process changes its directory.
    let mut command = foreread();
    command.current_dir(source.path());
    let mounted = Mount::background(command, "sub", &[]);
    assert_eq!(fs::read_to_string(mounted.file("file")).expect("the file"), "text");
}

#[test]
fn the_table_of_mounts_names_type_and_source() {
    let store = Store::with(&[("a/file", 1)]);
    let mounted = Mount::background(store.foreread(), "s3://testbed/a", &[]);
    let table = fs::read_to_string("/proc/self/mounts").expect("the table");
    let line = table.lines().find(|line| line.contains(&*mounted.path().to_string_lossy())).expect("its line");
    let fields: Vec<_> = line.split(' ').collect();
    assert_eq!(fields[0], "s3://testbed/a");
    assert_eq!(fields[2], "fuse.foreread");
    assert!(fields[3].split(',').any(|option| option == "ro"), "{line}");
}

#[test]
fn owner_and_modes_are_as_asked() {
    let store = Store::with(&[("a/file", 1)]);
    let options = ["--uid", "1234", "--gid", "4321", "--file-mode", "440", "--dir-mode", "550", "--allow-other"];
    let mounted = Mount::background(store.foreread(), "s3://testbed", &options);
    let file = fs::metadata(mounted.file("a/file")).expect("attributes");
    assert_eq!((file.uid(), file.gid(), file.permissions().mode() & 0o7777), (1234, 4321, 0o440));
    let dir = fs::metadata(mounted.file("a")).expect("attributes");
    assert_eq!((dir.uid(), dir.gid(), dir.permissions().mode() & 0o7777), (1234, 4321, 0o550));
}

#[test]
fn umount_removes_it_and_the_process_ends() {
    let store = Store::with(&[("file", 1)]);
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &[]);
    run(foreread().arg("umount").arg(mounted.path())).ok();
    assert!(!is_mounted(mounted.path()));
    assert!(mounted.ended().success());
    run(foreread().arg("umount").arg(mounted.path())).failed_saying(&["not mounted"]);
}

#[test]
fn umount_of_a_busy_mount_says_so_and_lazy_waits_for_the_last_file() {
    let store = Store::with(&[("file", 4 * MIB)]);
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &[]);
    let file = File::open(mounted.file("file")).expect("the file");
    run(foreread().arg("umount").arg(mounted.path())).failed_saying(&["in use", "--lazy"]);
    assert!(is_mounted(mounted.path()));
    run(foreread().args(["umount", "--lazy"]).arg(mounted.path())).ok();
    assert!(!is_mounted(mounted.path()));
    let mut bytes = vec![0; 1000];
    file.read_exact_at(&mut bytes, 3 * MIB).expect("an open file works on");
    assert_eq!(bytes, expected("file", 3 * MIB, 1000));
    drop(file);
    assert!(mounted.ended().success());
}

#[test]
fn sigint_and_sigterm_unmount() {
    let store = Store::with(&[("file", 1)]);
    for signal in [Signal::INT, Signal::TERM] {
        let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &[]);
        mounted.signal(signal);
        assert!(mounted.ended().success(), "{signal:?}");
        assert!(!is_mounted(mounted.path()), "{signal:?}");
    }
}

#[test]
fn sigterm_in_use_detaches_and_serves_the_open_file() {
    let store = Store::with(&[("file", 4 * MIB)]);
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &[]);
    let mut file = File::open(mounted.file("file")).expect("the file");
    mounted.signal(Signal::TERM);
    until("it is detached", || !is_mounted(mounted.path()));
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("an open file works on");
    assert_eq!(bytes, expected("file", 0, 4 * MIB as usize));
    drop(file);
    let ended = mounted.ended();
    assert!(ended.success(), "{ended:?}");
}

#[test]
fn a_killed_reader_ends_though_the_storage_is_silent() {
    for direct in [true, false] {
        let store = Store::with(&[("file", 4 * MIB)]);
        let mounted = Mount::of(&store);
        store.testbed.set_faults(vec!["stall".parse().expect("a fault")]);
        let mut reader = Command::new("dd");
        reader.arg(format!("if={}", mounted.file("file").display())).args(["of=/dev/null", "bs=128K", "status=none"]);
        let mut reader = reader.args(direct.then_some("iflag=direct")).spawn().expect("dd");
        let stats = || {
            let text = run(foreread().args(["stats", "--json"]).arg(mounted.path())).ok().text();
            serde_json::from_str::<serde_json::Value>(&text).expect("statistics")
        };
        until("it waits for the storage", || stats()["in_flight"] != 0);
        reader.kill().expect("the signal");
        reader.wait().expect("it ends");
        assert_eq!(stats()["read_errors"], 0, "it ended before the read was given up, direct: {direct}");
    }
}

#[test]
fn after_sigkill_the_next_mount_recovers() {
    let store = Store::with(&[("file", 100)]);
    let mut killed = Mount::foreground(store.foreread(), "s3://testbed", &[]);
    killed.signal(Signal::KILL);
    assert!(!killed.ended().success());
    assert!(is_mounted(killed.path()), "the kernel keeps a dead mount");
    assert!(fs::read(killed.file("file")).is_err());

    let again = run(store.foreread().args(["mount", "s3://testbed"]).arg(killed.path())).ok();
    assert!(again.stderr.contains("killed foreread left behind"), "{}", again.stderr);
    assert_eq!(fs::read(killed.file("file")).expect("the file"), expected("file", 0, 100));
}

#[test]
fn sigkill_while_it_is_mounted_ends_it() {
    let store = Store::with(&[("file", 100)]);
    for _ in 0..20 {
        let mut killed = Mount::foreground(store.foreread(), "s3://testbed", &[]);
        killed.signal(Signal::KILL);
        assert!(!killed.ended().success());
    }
}

#[test]
fn after_sigkill_umount_cleans_up() {
    let store = Store::with(&[("file", 100)]);
    let mut killed = Mount::foreground(store.foreread(), "s3://testbed", &[]);
    killed.signal(Signal::KILL);
    killed.ended();
    run(foreread().arg("umount").arg(killed.path())).ok();
    assert!(!is_mounted(killed.path()));
}

#[test]
fn files_in_the_directory_are_hidden_with_a_note() {
    let source = directory();
    fs::write(source.path().join("new"), "").expect("a file");
    let dir = directory();
    fs::write(dir.path().join("old"), "").expect("a file");
    let finished = run(foreread().arg("mount").arg(source.path()).arg(dir.path())).ok();
    assert!(finished.stderr.contains("not empty"), "{}", finished.stderr);
    assert!(dir.path().join("new").exists());
    assert!(!dir.path().join("old").exists());
    run(foreread().arg("umount").arg(dir.path())).ok();
    assert!(dir.path().join("old").exists());
}

#[test]
fn two_mounts_are_independent() {
    let store = Store::with(&[("a/file", MIB), ("b/file", MIB)]);
    let first = Mount::background(store.foreread(), "s3://testbed/a", &["--memory", "32M"]);
    let second = Mount::background(store.foreread(), "s3://testbed/b", &["--memory", "32M", "--readahead", "off"]);
    assert_eq!(fs::read(first.file("file")).expect("a file"), expected("a/file", 0, MIB as usize));
    assert_eq!(fs::read(second.file("file")).expect("a file"), expected("b/file", 0, MIB as usize));
    drop(first);
    assert_eq!(fs::metadata(second.file("file")).expect("the other lives").len(), MIB);
}

#[test]
fn a_recording_is_written() {
    let store = Store::with(&[("file", 4 * MIB)]);
    let dir = directory();
    let record = dir.path().join("record");
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &["--record", &record.to_string_lossy()]);
    fs::read(mounted.file("file")).expect("the file");
    mounted.signal(Signal::TERM);
    assert!(mounted.ended().success());
    assert!(fs::metadata(record).expect("the recording").len() > 0);
}
