//! Each example does what it says, against the testbed.

#[path = "../examples/large_array.rs"]
mod large_array;
#[path = "../examples/read_object.rs"]
mod read_object;
#[path = "../examples/replay_record.rs"]
mod replay_record;
#[path = "../examples/submit_reads.rs"]
mod submit_reads;
#[path = "../examples/walk_prefix.rs"]
mod walk_prefix;

use std::error::Error;

use foreread::memory;
use foreread_testbed::{Config, ObjectSpec, Testbed};

fn testbed(objects: &[(&str, u64)]) -> Testbed {
    let objects = objects.iter().map(|&(key, size)| ObjectSpec::new(key, size)).collect();
    Testbed::start(Config { objects, anonymous: true, ..Config::default() }).expect("a testbed on loopback")
}

/// What an example prints, given these arguments.
fn printed(
    example: impl Fn(&[String], &mut Vec<u8>) -> Result<(), Box<dyn Error>>,
    arguments: &[&str],
) -> Result<String, Box<dyn Error>> {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let mut out = Vec::new();
    example(&arguments, &mut out)?;
    Ok(String::from_utf8(out)?)
}

#[test]
fn an_object_is_read() {
    let testbed = testbed(&[("data/a.bin", 5 << 20)]);
    let text = printed(read_object::run, &["s3://testbed/data/a.bin", &testbed.endpoint()]).expect("it reads");
    assert!(text.starts_with("data/a.bin: 5242880 bytes, 4096 of them"), "{text}");
    assert!(text.contains("5242880 bytes by `Reader`"), "{text}");
    let missing =
        printed(read_object::run, &["s3://testbed/data/b.bin", &testbed.endpoint()]).expect_err("it is not there");
    let missing = missing.downcast::<foreread::Error>().expect("an error of the library");
    assert_eq!((missing.kind(), missing.key()), (foreread::ErrorKind::NotFound, Some("data/b.bin")));
}

#[test]
fn a_prefix_is_walked() {
    let testbed = testbed(&[("a/1", 10), ("a/b/2", 20), ("a/b/c/3", 30), ("d/4", 40)]);
    let text = printed(walk_prefix::run, &["s3://testbed/a", &testbed.endpoint()]).expect("it walks");
    let keys: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(1)).take(3).collect();
    assert_eq!(keys, ["a/1", "a/b/2", "a/b/c/3"], "{text}");
    assert!(text.contains("3 objects, 60 bytes"), "{text}");
    let wrong =
        printed(walk_prefix::run, &["s3://testbed/nothing", &testbed.endpoint()]).expect_err("nothing is there");
    assert!(wrong.to_string().contains("neither an object nor a prefix"), "{wrong}");
}

#[test]
fn reads_are_submitted() {
    let testbed = testbed(&[("a", 64 << 20)]);
    let text = printed(submit_reads::run, &["s3://testbed/a", &testbed.endpoint()]).expect("it reads");
    assert!(text.starts_with("64 reads, 262144 bytes"), "{text}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(1 << 20).expect("room");
    let text = printed(submit_reads::run, &[file.path().to_str().expect("UTF-8")]).expect("it reads");
    assert!(text.starts_with("64 reads, 262144 bytes"), "{text}");
}

#[test]
fn an_array_is_larger_than_its_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().to_str().expect("UTF-8");
    match printed(large_array::run, &["16777216", "1048576", dir]) {
        Ok(text) => assert!(text.starts_with("4096 pages written and read again"), "{text}"),
        Err(error) => match error.downcast_ref::<memory::Error>() {
            Some(memory::Error::Forbidden { .. } | memory::Error::Unsupported) => {
                eprintln!("skipped, page faults cannot be answered here: {error}");
            }
            _ => panic!("{error}"),
        },
    }
}

#[test]
fn a_record_is_replayed() {
    let testbed = testbed(&[("a", 8 << 20)]);
    let dir = tempfile::tempdir().expect("a directory");
    let record = dir.path().join("record.log");
    let record = record.to_str().expect("UTF-8");
    let made = printed(replay_record::run, &["s3://testbed/a", record, &testbed.endpoint()]).expect("it records");
    assert!(made.contains("events caused the same"), "{made}");
    let again = printed(replay_record::run, &[record]).expect("it replays");
    assert!(again.contains("events caused the same"), "{again}");
}

#[test]
fn arguments_are_explained() {
    for usage in [
        printed(read_object::run, &[]),
        printed(walk_prefix::run, &[]),
        printed(submit_reads::run, &[]),
        printed(replay_record::run, &[]),
    ] {
        assert!(usage.expect_err("nothing to do").to_string().starts_with("usage: "));
    }
}
