//! `foreread record` and `foreread replay`: the reads of a mount, repeated in virtual time.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};
use std::thread;

use serde_json::Value;

use crate::fixture::{Mount, Store, foreread, run, until};

/// Records the reads that `read` makes.
fn recorded(mounted: &Mount, path: &std::path::Path, read: impl FnOnce()) {
    let mut recorder: Child =
        foreread().arg("record").args([mounted.path(), path]).stderr(Stdio::null()).spawn().expect("foreread record");
    until("it records", || path.exists());
    read();
    rustix::process::kill_process(rustix::process::Pid::from_child(&recorder), rustix::process::Signal::INT)
        .expect("a signal");
    assert!(recorder.wait().expect("the recorder").success());
}

fn replayed(path: &std::path::Path, options: &[&str]) -> Value {
    let text = run(foreread().arg("replay").arg(path).arg("--json").args(options)).ok().text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn reads_are_recorded_and_replayed() {
    let store = Store::with(&[("a/file", 40 << 20), ("other", 1 << 20)]);
    let mounted = Mount::of(&store);
    fs::read(mounted.file("other")).expect("before the recording");
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("reads.trace");
    recorded(&mounted, &path, || {
        fs::read(mounted.file("a/file")).expect("the file");
    });
    let text = fs::read_to_string(&path).expect("the recording");
    assert!(text.starts_with("foreread-trace 1\nfile "), "{text:.200}");
    assert!(text.contains(&format!(" {} a/file\n", 40 << 20)), "{text:.200}");
    assert!(!text.contains("other"), "what was read before");
    let of = replayed(&path, &["--no-wait", "--policy", "foreread,none"]);
    assert_eq!(of["recording"]["read_bytes"], 40 << 20);
    assert_eq!(of["recording"]["files"], 1);
    let requests = |column: usize| of["policies"][column]["requests"].as_u64().unwrap_or_default();
    // The kernel asks for 128 KiB at a time, or for more where the mount may tell it to.
    let reads = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).count() as u64;
    assert!((40..=320).contains(&reads), "{reads} reads");
    assert_eq!(requests(1), reads, "without reading ahead each read of the kernel is a request");
    assert!(requests(0) < 60, "{} requests", requests(0));
    let again = replayed(&path, &["--no-wait", "--policy", "foreread,none"]);
    assert_eq!(again, of, "virtual time is the same each time");
}

#[test]
fn a_thread_is_one_reader_of_all_its_files() {
    let store = Store::with(&[("a", 1 << 20), ("b", 1 << 20), ("c", 1 << 20)]);
    let mounted = Mount::of(&store);
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("reads.trace");
    recorded(&mounted, &path, || {
        for name in ["a", "b"] {
            fs::read(mounted.file(name)).expect("the file");
        }
        thread::scope(|scope| _ = scope.spawn(|| fs::read(mounted.file("c")).expect("the file")));
    });
    let text = fs::read_to_string(&path).expect("the recording");
    // ns, file, reader, offset, bytes
    let reads: Vec<Vec<u64>> =
        text.lines().filter_map(|line| line.split(' ').map(|n| n.parse().ok()).collect()).collect();
    let readers: BTreeSet<(u64, u64)> = reads.iter().map(|read| (read[1], read[2])).collect();
    let by_file: Vec<u64> = readers.into_iter().map(|(_, reader)| reader).collect();
    assert_eq!(by_file.len(), 3, "{text}");
    assert_eq!(by_file[0], by_file[1], "one thread read both");
    assert_ne!(by_file[1], by_file[2], "another thread");
}

#[test]
fn one_recording_at_a_time() {
    let store = Store::with(&[("file", 1 << 20)]);
    let mounted = Mount::of(&store);
    let folder = tempfile::tempdir().expect("a directory");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    recorded(&mounted, &first, || {
        let refused = run(foreread().arg("record").args([mounted.path(), &second]));
        assert_eq!(refused.status.code(), Some(1));
        assert!(refused.stderr.contains("a recording is being made already"), "{}", refused.stderr);
        let file = fs::File::open(mounted.file("file")).expect("the file");
        file.read_exact_at(&mut [0; 4096], 8192).expect("a read");
    });
    assert!(!second.exists());
    // The first has ended: another can begin.
    run(foreread().arg("record").args([mounted.path(), &second]).args(["--for", "10ms"])).ok();
}

/// Each time another one begins with the next command. It would take five seconds if the mount
/// waited for the one that is gone.
#[test]
fn a_recorder_that_fails_or_is_killed_leaves_no_recording_behind() {
    let store = Store::with(&[("file", 1 << 20)]);
    let mounted = Mount::of(&store);
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("reads.trace");
    let record = |path: &std::path::Path| {
        run(foreread().arg("record").args([mounted.path(), path, "--for".as_ref(), "10ms".as_ref()]))
    };
    record(std::path::Path::new("/nonexistent/x")).failed_saying(&["/nonexistent/x: cannot be written"]);
    record(&path).ok();
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::ABORT] {
        let killed = folder.path().join(format!("{signal:?}"));
        let mut recorder = foreread()
            .arg("record")
            .args([mounted.path(), &killed])
            .stderr(Stdio::null())
            .spawn()
            .expect("foreread record");
        // It makes its file once the mount records for it.
        until("it records", || killed.exists());
        rustix::process::kill_process(rustix::process::Pid::from_child(&recorder), signal).expect("a signal");
        recorder.wait().expect("the recorder");
        record(&path).ok();
    }
    // The disk is full.
    record(std::path::Path::new("/dev/full")).failed_saying(&["/dev/full: cannot be written"]);
    record(&path).ok();
}

#[test]
fn the_log_of_a_mount_is_replayed() {
    let store = Store::with(&[("file", 20 << 20)]);
    for (fair_queue, recorded) in
        [("on", " fair_queue=true tier=false bypass=false\n"), ("off", " fair_queue=false tier=false bypass=false\n")]
    {
        let folder = tempfile::tempdir().expect("a directory");
        let log = folder.path().join("log");
        let options = ["--memory", "64M", "--fair-queue", fair_queue, "--record", log.to_str().expect("a path")];
        let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &options);
        fs::read(mounted.file("file")).expect("the file");
        // A kernel that is told to unmount may not tell that the file was closed.
        run(foreread().arg("umount").arg(mounted.path())).ok();
        assert!(mounted.ended().success(), "the log is complete");
        assert!(fs::read_to_string(&log).is_ok_and(|text| text.contains(recorded)), "{recorded}");
        let text = run(foreread().arg("replay").arg(&log)).ok().text();
        assert!(text.contains("actions that were recorded"), "{text}");
    }
}

#[test]
fn a_file_that_is_no_recording_is_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("x");
    let refused = |text: &str, wanted: &[&str]| {
        fs::write(&path, text).expect("a file");
        let refused = run(foreread().arg("replay").arg(&path));
        assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
        for word in wanted {
            assert!(refused.stderr.contains(word), "{word:?} is not in: {}", refused.stderr);
        }
    };
    refused("hello\n", &["not a recording of any known format", "--format", "oracle-general"]);
    refused("fio version 2 iolog\n/f read 0 4096\n/f read x 4096\n", &["line 3", "FILE ACTION OFFSET LENGTH"]);
    refused("fio version 2 iolog\n/f write 0 4096\n", &["holds no reads"]);
    refused("foreread-log 7 capacity_bytes=1\n", &["a log of version 7", "replays on the version"]);
    refused("foreread-log 19 capacity_bytes=1\n", &["line 1"]);
    let missing = run(foreread().args(["record"]).args([folder.path(), &path]));
    assert_eq!(missing.status.code(), Some(1));
    assert!(missing.stderr.contains("does not answer as a foreread mount"), "{}", missing.stderr);
}
