//! `foreread doctor`: findings about this machine and a storage, and the next step for each.

use std::time::Duration;

use foreread_testbed::{Config, ObjectSpec};
use serde_json::Value;

use crate::fixture::{Store, foreread, run};

/// The findings of `doctor --json`, whatever its status.
fn findings(mut command: std::process::Command, url: &str) -> (bool, Vec<Value>) {
    let finished = run(command.args(["doctor", "--json", url]));
    (finished.status.success(), serde_json::from_slice(&finished.stdout).expect("JSON"))
}

fn of<'a>(findings: &'a [Value], what: &str) -> &'a Value {
    findings.iter().find(|finding| finding["what"] == what).unwrap_or_else(|| panic!("{what}: {findings:?}"))
}

#[test]
fn a_machine_that_mounts_is_found_to_be_fit() {
    let told = run(foreread().arg("doctor")).ok().text();
    for what in ["kernel", "mounting", "io_uring", "userfaultfd", "open files", "memory", "clock"] {
        assert!(told.contains(what), "{what}: {told}");
    }
    assert!(!told.contains("WRONG"), "{told}");
}

#[test]
fn a_storage_is_tried_with_its_largest_object() {
    let objects = vec![ObjectSpec::new("data/small", 10), ObjectSpec::new("data/large", 40 << 20)];
    let first_byte = Duration::from_millis(200);
    let store = Store::start(Config { objects, first_byte, ..Config::default() });
    let (is_well, findings) = findings(store.foreread(), "s3://testbed/data");
    assert!(is_well, "{findings:?}");
    assert_eq!(of(&findings, "storage")["verdict"], "good");
    let first = of(&findings, "first byte");
    assert!(first["verdict"] == "advice" && first["next"].as_str().expect("a step").contains("region"), "{first}");
    let stream = of(&findings, "one stream")["found"].as_str().expect("a text").to_owned();
    assert!(stream.contains("of data/large"), "{stream}");
}

#[test]
fn what_fails_is_named_with_the_next_step() {
    let store = Store::with(&[("key", 10)]);
    for (url, option, words) in [
        ("s3://testbed/none", None, "spelling"),
        ("s3://testbed", Some(("AWS_SECRET_ACCESS_KEY", "wrong")), "AWS_SECRET_ACCESS_KEY"),
        ("s3://testbed", Some(("AWS_ENDPOINT_URL", "http://127.0.0.1:1")), "--endpoint"),
    ] {
        let mut command = store.foreread();
        command.envs(option);
        let (is_well, findings) = findings(command, url);
        let storage = of(&findings, "storage");
        let next = storage["next"].as_str().unwrap_or_default();
        assert!(!is_well && storage["verdict"] == "wrong" && next.contains(words), "{url}: {storage}");
    }
}
