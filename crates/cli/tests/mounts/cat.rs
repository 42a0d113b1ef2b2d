//! `foreread cat`: exact bytes, ranges as in HTTP, and a closed pipe.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use foreread_testbed::{Config, ObjectSpec};

use crate::fixture::{Store, directory, expected, foreread, run};

const SIZE: usize = 5_000_003;

#[test]
fn the_whole_object_byte_for_byte() {
    let store = Store::with(&[("a b/key", SIZE as u64), ("empty", 0), ("one", 1)]);
    let cat =
        |key: &str| run(store.foreread().args(["cat", &format!("s3://testbed/{key}"), "--memory", "32M"])).ok().stdout;
    assert!(cat("a b/key") == expected("a b/key", 0, SIZE));
    assert_eq!(cat("empty"), b"");
    assert_eq!(cat("one"), expected("one", 0, 1));
}

#[test]
fn ranges_are_those_of_http() {
    let store = Store::with(&[("key", SIZE as u64)]);
    let whole = expected("key", 0, SIZE);
    let cases: [(&str, &[u8]); 7] = [
        ("0-0", &whole[..1]),
        ("5-9", &whole[5..10]),
        ("100000-3000000", &whole[100_000..=3_000_000]),
        ("4999999-", &whole[4_999_999..]),
        ("4999999-99999999999", &whole[4_999_999..]),
        ("-10", &whole[SIZE - 10..]),
        ("-99999999999", &whole),
    ];
    for (range, wanted) in cases {
        let finished =
            run(store.foreread().args(["cat", "s3://testbed/key", "--range", range, "--memory", "32M"])).ok();
        assert!(finished.stdout == wanted, "{range}: {} bytes", finished.stdout.len());
    }
    run(store.foreread().args(["cat", "s3://testbed/key", "--range", "5000003-"]))
        .failed_saying(&["behind the end", "5000003"]);
}

#[test]
fn a_range_fetches_little_else() {
    let store = Store::with(&[("big", 5 << 40)]);
    let finished =
        run(store.foreread().args(["cat", "s3://testbed/big", "--range", "3000000000000-3000000000099"])).ok();
    assert!(finished.stdout == expected("big", 3_000_000_000_000, 100));
}

#[test]
fn a_local_file_and_a_web_page() {
    let dir = directory();
    let file = dir.path().join("file");
    fs::write(&file, expected("file", 0, SIZE)).expect("a file");
    assert!(run(foreread().arg("cat").arg(&file)).ok().stdout == expected("file", 0, SIZE));

    let objects = vec![ObjectSpec::new("page", SIZE as u64)];
    let store = Store::start(Config { objects, anonymous: true, ..Config::default() });
    let url = format!("{}/testbed/page", store.testbed.endpoint());
    assert!(run(foreread().args(["cat", &url])).ok().stdout == expected("page", 0, SIZE));
    run(foreread().args(["cat", &format!("{url}-missing")])).failed_saying(&["no such object"]);
}

#[test]
fn a_missing_object_is_named() {
    let store = Store::with(&[("a/key", 1)]);
    for key in ["nosuchkey", "a"] {
        run(store.foreread().args(["cat", &format!("s3://testbed/{key}")])).failed_saying(&[key, "no such object"]);
    }
    run(foreread().args(["cat", "/nonexistent/file"])).failed_saying(&["/nonexistent/file"]);
}

#[test]
fn a_closed_pipe_ends_it_without_a_message() {
    let store = Store::with(&[("big", 1 << 40)]);
    let mut child = store
        .foreread()
        .args(["cat", "s3://testbed/big", "--memory", "32M"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("foreread");
    let mut head = vec![0; 100_000];
    child.stdout.take().expect("stdout").read_exact(&mut head).expect("the first bytes");
    assert!(head == expected("big", 0, 100_000));
    // stdout is closed here.
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_full_disk_is_reported() {
    let store = Store::with(&[("key", 100_000)]);
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut command = store.foreread();
    let output =
        command.args(["cat", "s3://testbed/key"]).stdout(full).stderr(Stdio::piped()).output().expect("foreread");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("writing the output failed"));
}
