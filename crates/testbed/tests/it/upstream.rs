//! A testbed that passes requests on: another testbed, with its own device and faults, answers.

use foreread_testbed::{Config, Error, ObjectSpec, Testbed};

use crate::raw_client::{Connection, End, get, head};
use crate::{content, testbed};

/// Passes requests on to `behind`.
fn before(behind: &Testbed, faults: &[&str]) -> Testbed {
    let faults = faults.iter().map(|spec| spec.parse().expect("a fault")).collect();
    Testbed::start(Config { upstream: Some(behind.endpoint()), faults, ..Config::default() }).expect("it starts")
}

#[test]
fn answers_come_back_as_they_are() {
    let behind = testbed(&[("a/b c", 200_000), ("a/empty", 0)], &[]);
    let relay = before(&behind, &[]);
    for (path, headers) in [
        ("/testbed/a/b%20c", vec![]),
        ("/testbed/a/b%20c", vec![("Range", "bytes=65535-131072")]),
        ("/testbed/a/b%20c", vec![("Range", "bytes=-10")]),
        ("/testbed/a/b%20c", vec![("Range", "bytes=200000-")]),
        ("/testbed/a/b%20c", vec![("If-None-Match", "*")]),
        ("/testbed/a/empty", vec![]),
        ("/testbed/absent", vec![]),
        ("/other/absent", vec![]),
        ("/testbed?list-type=2&prefix=a/", vec![]),
        ("/testbed?location", vec![]),
    ] {
        for ask in [get, head] {
            let (there, here) = (ask(behind.address(), path, &headers), ask(relay.address(), path, &headers));
            assert_eq!((here.status, here.end), (there.status, End::Complete), "{path} {headers:?}");
            assert_eq!(here.body, there.body, "{path} {headers:?}");
            for name in ["content-length", "content-range", "content-type", "etag", "last-modified", "accept-ranges"] {
                assert_eq!(here.header(name), there.header(name), "{name} of {path} {headers:?}");
            }
        }
    }
}

#[test]
fn counters_and_log_are_kept_where_requests_pass() {
    let behind = testbed(&[("k", 100_000)], &[]);
    let relay = before(&behind, &[]);
    let mut connection = Connection::open(relay.address());
    connection.request("GET", "/testbed/k", &[("Range", "bytes=10-99")], b"");
    connection.request("HEAD", "/testbed/k", &[], b"");
    connection.request("GET", "/testbed?list-type=2&prefix=k", &[], b"");
    let counters = relay.counters();
    assert_eq!((counters.get, counters.head, counters.list, counters.object_bytes_sent), (1, 1, 1, 90));
    assert_eq!(counters.connections, 1);
    let log = relay.requests();
    assert_eq!((log[0].key.as_str(), log[0].status), ("k", 206));
    assert_eq!(behind.counters().get, 1, "each is passed on once");
}

#[test]
fn faults_happen_to_another_servers_answers() {
    let behind = testbed(&[("k", 200_000)], &[]);
    let range = [("Range", "bytes=1000-100999")];
    let ask = |fault| get(before(&behind, &[fault]).address(), "/testbed/k", &range);
    assert_eq!(ask("status=503").status, 503);
    let cut = ask("reset-body=65536");
    assert_eq!((cut.status, cut.end), (206, End::Reset));
    let short = ask("short=50");
    assert_eq!((short.header("content-length"), &short.body), (Some("50"), &content("k", 1000, 50)));
    assert_eq!(ask("wrong-range").header("content-range"), Some("bytes 1001-101000/200000"));
    assert_eq!(ask("no-etag").header("etag"), None);
}

#[test]
fn what_cannot_be_passed_on_is_told() {
    let start = |config| Testbed::start(config).err().map(|error| error.to_string()).unwrap_or_default();
    for url in ["127.0.0.1:1", "https://a:1", "http://a:1/bucket", "s3://bucket", ""] {
        let error = start(Config { upstream: Some(url.to_owned()), ..Config::default() });
        assert!(error.starts_with(&format!("{url} is no server")), "{error}");
    }
    let upstream = Some("http://127.0.0.1:1".to_owned());
    let both = Config { upstream: upstream.clone(), objects: vec![ObjectSpec::new("a", 1)], ..Config::default() };
    assert!(matches!(Testbed::start(both), Err(Error::Both)));
    let faults = vec!["replace".parse().expect("a fault")];
    let error = start(Config { upstream: upstream.clone(), faults, ..Config::default() });
    assert!(error.starts_with("the fault replace"), "{error}");

    // Nothing listens there.
    let relay = Testbed::start(Config { upstream, ..Config::default() }).expect("it starts");
    let gone = get(relay.address(), "/testbed/k", &[]);
    assert_eq!((gone.status, gone.text().contains("BadGateway")), (502, true));
    let fault = Connection::open(relay.address()).request("POST", "/-/faults", &[], br#"["gzip"]"#);
    assert_eq!((fault.status, fault.text().contains("the fault gzip")), (400, true));
}
