//! The control API: what tests of other crates rely on.

use foreread_testbed::{Counters, Kind, LoggedRequest};

use crate::raw_client::{Connection, get, head};
use crate::{content, testbed};

#[test]
fn requests_are_counted_and_logged_in_order() {
    let testbed = testbed(&[("k", 100_000)], &[]);
    let address = testbed.address();
    head(address, "/testbed/k", &[]);
    get(address, "/testbed/k", &[("Range", "bytes=100-299")]);
    get(address, "/testbed/k", &[("Range", "bytes=-50")]);
    get(address, "/testbed/k", &[]);
    get(address, "/testbed/absent", &[]);
    get(address, "/testbed?list-type=2&prefix=a%2F", &[]);
    get(address, "/testbed?location", &[]);

    let counters: Counters = serde_json::from_str(&get(address, "/-/counters", &[]).text()).unwrap();
    assert_eq!(counters, testbed.counters());
    let by_kind = (counters.head, counters.get, counters.list, counters.put, counters.other);
    assert_eq!(by_kind, (1, 4, 1, 0, 1));
    assert_eq!((counters.errors, counters.faults, counters.in_flight_max), (1, 0, 1));
    assert!(counters.bytes_sent > 100_250);
    assert_eq!(counters.object_bytes_sent, 100_250, "the rest is listings");

    let log: Vec<LoggedRequest> = serde_json::from_str(&get(address, "/-/requests", &[]).text()).unwrap();
    let seen: Vec<_> = log.iter().map(|entry| (entry.kind, entry.key.as_str(), entry.range, entry.status)).collect();
    assert_eq!(
        seen,
        [
            (Kind::Head, "k", None, 200),
            (Kind::Get, "k", Some((100, 300)), 206),
            (Kind::Get, "k", Some((99_950, 100_000)), 206),
            (Kind::Get, "k", None, 200),
            (Kind::Get, "absent", None, 404),
            (Kind::List, "a/", None, 200),
            (Kind::Other, "", None, 200),
        ]
    );

    let reset = Connection::open(address).request("POST", "/-/counters/reset", &[], b"");
    assert_eq!(reset.status, 204);
    assert_eq!(testbed.counters(), Counters::default());
    assert!(testbed.requests().is_empty());
}

#[test]
fn objects_come_change_and_go() {
    let testbed = testbed(&[], &[]);
    let mut control = Connection::open(testbed.address());
    let one = br#"{"key": "k", "size": "64KiB"}"#;
    assert_eq!(control.request("POST", "/-/objects", &[], one).status, 204);
    let first = get(testbed.address(), "/testbed/k", &[]);
    assert_eq!(first.body, content("k", 0, 65_536));
    let several = br#"[{"key": "k", "size": 5, "generation": 7}, {"key": "l", "size": 1}]"#;
    assert_eq!(control.request("POST", "/-/objects", &[], several).status, 204);
    let second = get(testbed.address(), "/testbed/k", &[]);
    assert_eq!(foreread_testbed::content::verify("k", 7, 0, &second.body), Ok(()));
    assert_ne!(first.header("etag"), second.header("etag"));
    assert_eq!(control.request("DELETE", "/-/objects", &[], br#"{"key": "k"}"#).status, 204);
    assert_eq!(control.request("DELETE", "/-/objects", &[], br#"{"key": "k"}"#).status, 404);
    assert_eq!(get(testbed.address(), "/testbed/k", &[]).status, 404);
    let wrong = control.request("POST", "/-/objects", &[], b"{}");
    assert!(wrong.status == 400 && wrong.text().starts_with("expected {\"key\""), "{}", wrong.text());
}

#[test]
fn faults_are_set_and_reported() {
    let testbed = testbed(&[("k", 10)], &["status=500"]);
    let mut control = Connection::open(testbed.address());
    assert_eq!(get(testbed.address(), "/testbed/k", &[]).status, 500);
    assert_eq!(control.request("POST", "/-/faults", &[], br#"["status=503,count=1", "no-etag"]"#).status, 204);
    assert_eq!(get(testbed.address(), "/testbed/k", &[]).status, 503);
    assert_eq!(get(testbed.address(), "/testbed/k", &[]).header("etag"), None);
    let report: serde_json::Value = serde_json::from_str(&get(testbed.address(), "/-/faults", &[]).text()).unwrap();
    assert_eq!(
        report,
        serde_json::json!([
            {"fault": "status=503,count=1", "matched": 2, "happened": 1},
            {"fault": "no-etag", "matched": 2, "happened": 1},
        ])
    );
    let wrong = control.request("POST", "/-/faults", &[], br#"["explode"]"#);
    assert!(wrong.status == 400 && wrong.text().contains("unknown fault \"explode\""), "{}", wrong.text());
    assert_eq!(control.request("POST", "/-/faults", &[], b"[]").status, 204);
    assert_eq!(get(testbed.address(), "/testbed/k", &[]).status, 200);
    assert_eq!(testbed.counters().faults, 3);
}

#[test]
fn what_is_not_there_says_so() {
    let testbed = testbed(&[], &[]);
    assert_eq!(get(testbed.address(), "/-/nothing", &[]).status, 404);
    assert_eq!(get(testbed.address(), "/-/counters/reset", &[]).status, 405);
    assert_eq!(testbed.counters().other, 0, "control does not count");
}
