//! Bad input: the command fails, names the cause and the next step, and leaves nothing mounted.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use crate::fixture::{Finished, Mount, SECRET, Store, directory, foreread, is_mounted, run};

/// Runs a mount that must fail, on a directory of its own; nothing may stay mounted.
fn mount(mut command: Command, url: &str, options: &[&str]) -> Finished {
    let dir = directory();
    let finished = run(command.args(["mount", url]).arg(dir.path()).args(options));
    assert!(!is_mounted(dir.path()), "left mounted: {}", finished.stderr);
    finished
}

#[test]
fn a_missing_bucket() {
    let store = Store::with(&[("object", 1)]);
    mount(store.foreread(), "s3://nosuchbucket", &[]).failed_saying(&["nosuchbucket", "no such bucket", "spelling"]);
}

#[test]
fn a_missing_prefix() {
    let store = Store::with(&[("object", 1)]);
    mount(store.foreread(), "s3://testbed/nosuchprefix", &[]).failed_saying(&["nosuchprefix", "neither"]);
    mount(store.foreread(), "s3://testbed/nosuchprefix/", &[]).failed_saying(&["nosuchprefix", "neither"]);
}

#[test]
fn wrong_credentials() {
    let store = Store::with(&[("object", 1)]);
    let mut wrong = store.foreread();
    wrong.env("AWS_SECRET_ACCESS_KEY", "wrong-but-not-less-secret");
    let finished =
        mount(wrong, "s3://testbed", &[]).failed_saying(&["access denied", "AWS_SECRET_ACCESS_KEY", "--profile"]);
    assert!(!finished.stderr.contains("wrong-but-not-less-secret"), "{}", finished.stderr);
}

#[test]
fn no_credentials() {
    let store = Store::with(&[("object", 1)]);
    let endpoint = store.testbed.endpoint();
    let options = ["--endpoint", &endpoint, "--region", "us-east-1"];
    mount(foreread(), "s3://testbed", &options).failed_saying(&["s3://testbed", "AWS_ACCESS_KEY_ID"]);
    mount(foreread(), "s3://testbed", &[&options[..], &["--anonymous"]].concat()).failed_saying(&["access denied"]);
}

#[test]
fn an_endpoint_that_refuses() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("its address"));
    drop(listener);
    let store = Store::with(&[]);
    mount(store.foreread(), "s3://testbed", &["--endpoint", &endpoint])
        .failed_saying(&["cannot be reached", "--endpoint"]);
}

#[test]
fn an_endpoint_that_does_not_answer() {
    // The kernel accepts connections, and no process answers.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("its address"));
    let store = Store::with(&[]);
    mount(store.foreread(), "s3://testbed", &["--endpoint", &endpoint]).failed_saying(&["no answer", "--endpoint"]);
}

#[test]
fn an_endpoint_that_is_no_name() {
    let store = Store::with(&[]);
    mount(store.foreread(), "s3://testbed", &["--endpoint", "http://no-such-host.invalid:9"])
        .failed_saying(&["s3://testbed"]);
}

#[test]
fn an_endpoint_without_a_scheme() {
    let store = Store::with(&[]);
    let address = store.testbed.address().to_string();
    let said = format!("http://{address}");
    for (url, said) in [("s3://testbed", said.as_str()), ("gs://testbed", &said), ("az://testbed", &said)] {
        mount(store.foreread(), url, &["--endpoint", &address]).failed_saying(&["has no scheme", said]);
    }
    let mut by_environment = store.foreread();
    by_environment.env("AWS_ENDPOINT_URL", &address);
    mount(by_environment, "s3://testbed", &[]).failed_saying(&["has no scheme", &said]);
}

#[test]
fn a_url_of_no_known_kind() {
    mount(foreread(), "ftp://host/file", &[]).failed_saying(&["ftp://host/file", "s3://BUCKET"]);
    mount(foreread(), "s3://", &[]).failed_saying(&["bucket"]);
}

#[test]
fn a_missing_local_directory() {
    mount(foreread(), "/nonexistent/directory", &[]).failed_saying(&["/nonexistent/directory"]);
}

#[test]
fn a_mount_point_that_is_not_a_directory() {
    let source = directory();
    let dir = directory();
    let file = dir.path().join("file");
    fs::write(&file, "text").expect("a file");
    let mount = |dir| run(foreread().arg("mount").arg(source.path()).arg(dir));
    mount(file.clone()).failed_saying(&["not a directory"]);
    mount(dir.path().join("missing")).failed_saying(&["no such directory", "mkdir"]);
    assert_eq!(fs::read_to_string(file).expect("the file"), "text");
}

#[test]
fn a_mount_point_in_use() {
    let source = directory();
    fs::write(source.path().join("file"), "text").expect("a file");
    let mounted = Mount::background(foreread(), &source.path().to_string_lossy(), &[]);
    run(foreread().arg("mount").arg(source.path()).arg(mounted.path()))
        .failed_saying(&["mounted here already", "foreread umount"]);
    assert_eq!(fs::read_to_string(mounted.file("file")).expect("the first mount works on"), "text");
}

#[test]
fn too_little_memory() {
    let source = directory();
    mount(foreread(), &source.path().to_string_lossy(), &["--memory", "1M"]).failed_saying(&["too little", "16 MiB"]);
}

#[test]
fn wrong_usage_is_status_2() {
    let wrong: &[&[&str]] = &[
        &["mount"],
        &["mount", "s3://bucket"],
        &["mount", "s3://bucket", "/mnt", "--memory", "much"],
        &["mount", "s3://bucket", "/mnt", "--file-mode", "999"],
        &["mount", "s3://bucket", "/mnt", "--readahead", "perhaps"],
        &["mount", "s3://bucket", "/mnt", "--profile", "a", "--anonymous"],
        &["cat", "s3://bucket/key", "--range", "9-1"],
        &["umount"],
        &["nosuchcommand"],
        &[],
    ];
    for arguments in wrong {
        let finished = run(foreread().args(*arguments));
        assert_eq!(finished.status.code(), Some(2), "{arguments:?}: {}", finished.stderr);
        assert!(finished.stderr.contains("--help") || finished.stderr.contains("Usage"), "{}", finished.stderr);
    }
}

#[test]
fn unmounting_a_foreign_mount() {
    let dir = directory();
    run(foreread().arg("umount").arg(dir.path())).failed_saying(&["not mounted"]);
    run(foreread().arg("umount").arg(dir.path().join("missing"))).failed_saying(&["no such directory"]);
    run(foreread().args(["umount", "/proc"])).failed_saying(&["not by foreread", "proc"]);
    run(foreread().arg("stats").arg(dir.path())).failed_saying(&["no statistics"]);
}

#[test]
fn no_output_has_a_secret() {
    let store = Store::with(&[("object", 100_000)]);
    let logs = directory();
    let log = logs.path().join("log");
    let options = ["--log", &log.to_string_lossy(), "-vvv", "--memory", "32M"];
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &options);
    assert_eq!(fs::read(mounted.file("object")).expect("the object").len(), 100_000);
    assert!(fs::read(mounted.file("missing")).is_err());

    let pid = mounted.process().id();
    let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("the arguments");
    let mounts = fs::read_to_string("/proc/self/mounts").expect("the mounts");
    let stats = run(foreread().args(["stats", "--json"]).arg(mounted.path())).ok().text();
    mounted.signal(rustix::process::Signal::TERM);
    assert!(mounted.ended().success());
    let log = fs::read_to_string(log).expect("the log");
    assert!(log.contains("mounted"), "the log says what happened: {log}");
    for text in [&arguments, &mounts, &stats, &log] {
        assert!(!text.contains(SECRET), "{text}");
        assert!(!text.contains("Signature="), "{text}");
    }
}
