//! S3 as unsigned clients see it. Signed ones: `clients.rs`.

use foreread_testbed::{Config, ObjectSpec, Testbed};

use crate::raw_client::{Connection, End, get, head};
use crate::{content, testbed};

#[test]
fn ranges() {
    let testbed = testbed(&[("a/b c", 200_000)], &[]);
    let address = testbed.address();
    let whole = get(address, "/testbed/a/b%20c", &[]);
    assert_eq!((whole.status, whole.end, whole.header("content-length")), (200, End::Complete, Some("200000")));
    assert_eq!(whole.body, content("a/b c", 0, 200_000));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    assert_eq!(whole.header("last-modified"), Some("Mon, 01 Jan 2024 00:00:01 GMT"));

    for (range, first, len) in [
        ("bytes=0-0", 0, 1),
        ("bytes=65535-131072", 65_535, 65_538),
        ("bytes=199999-", 199_999, 1),
        ("bytes=-10", 199_990, 10),
        ("bytes=150000-900000", 150_000, 50_000),
    ] {
        let part = get(address, "/testbed/a/b%20c", &[("Range", range)]);
        assert_eq!(part.status, 206, "{range}");
        let last = first + len - 1;
        assert_eq!(part.header("content-range"), Some(format!("bytes {first}-{last}/200000").as_str()));
        assert_eq!(part.body, content("a/b c", first, len as usize), "{range}");
    }
    let beyond = get(address, "/testbed/a/b%20c", &[("Range", "bytes=200000-200001")]);
    assert_eq!((beyond.status, beyond.header("content-range")), (416, Some("bytes */200000")));
    assert!(beyond.text().contains("<Code>InvalidRange</Code>"), "{}", beyond.text());
}

#[test]
fn objects_of_any_size() {
    let testbed = testbed(&[("empty", 0), ("one", 1), ("huge", 5 << 40)], &[]);
    let empty = get(testbed.address(), "/testbed/empty", &[]);
    assert_eq!((empty.status, empty.header("content-length"), empty.body.len()), (200, Some("0"), 0));
    assert_eq!(get(testbed.address(), "/testbed/empty", &[("Range", "bytes=0-0")]).status, 416);
    assert_eq!(get(testbed.address(), "/testbed/one", &[("Range", "bytes=0-5")]).body, content("one", 0, 1));
    let last = (5u64 << 40) - 4096;
    let end = get(testbed.address(), "/testbed/huge", &[("Range", &format!("bytes={last}-"))]);
    assert_eq!(end.body, content("huge", last, 4096));
}

#[test]
fn heads_and_conditions() {
    let testbed = testbed(&[("k", 1000)], &[]);
    let address = testbed.address();
    let whole = head(address, "/testbed/k", &[]);
    assert_eq!((whole.status, whole.header("content-length"), whole.body.len()), (200, Some("1000"), 0));
    let etag = whole.header("etag").unwrap().to_owned();
    assert_eq!((etag.len(), etag.starts_with('"')), (36, true));
    assert_eq!(get(address, "/testbed/k", &[]).header("etag"), Some(etag.as_str()));

    assert_eq!(get(address, "/testbed/k", &[("If-Match", &etag), ("Range", "bytes=1-2")]).status, 206);
    let none = get(address, "/testbed/k", &[("If-None-Match", &etag)]);
    assert_eq!((none.status, none.header("etag")), (304, Some(etag.as_str())));

    testbed.set_object(&ObjectSpec { key: "k".to_owned(), size: 1000, generation: 2 });
    let changed = get(address, "/testbed/k", &[("If-Match", &etag), ("Range", "bytes=1-2")]);
    assert_eq!(changed.status, 412);
    assert!(changed.text().contains("<Code>PreconditionFailed</Code>"));
    assert_eq!(head(address, "/testbed/k", &[("If-Match", &etag)]).status, 412);
    assert_eq!(head(address, "/testbed/absent", &[]).status, 404);
}

#[test]
fn one_connection_serves_many_requests() {
    let testbed = testbed(&[("k", 100_000)], &[]);
    let mut connection = Connection::open(testbed.address());
    for offset in [5, 99_000, 0] {
        let range = format!("bytes={offset}-{}", offset + 99);
        let part = connection.request("GET", "/testbed/k", &[("Range", &range)], b"");
        assert_eq!(part.body, content("k", offset, 100));
    }
    assert_eq!(connection.request("GET", "/testbed/absent", &[], b"").status, 404);
    assert_eq!(connection.request("HEAD", "/testbed/k", &[], b"").status, 200);
    assert_eq!(testbed.counters().connections, 1);
}

#[test]
fn listings() {
    let testbed = testbed(&[("a/1", 1), ("a/2", 2), ("b", 3), ("c & d/é", 4)], &[]);
    let list = |query: &str| get(testbed.address(), &format!("/testbed?list-type=2{query}"), &[]).text();
    let keys = |xml: &str| -> Vec<String> {
        let values = xml.split("<Key>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned());
        values.collect()
    };
    let prefixes = |xml: &str| -> Vec<String> {
        let values = xml.split("<CommonPrefixes><Prefix>").skip(1);
        values.map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&list("")), ["a/1", "a/2", "b", "c &amp; d/é"]);
    let rolled = list("&delimiter=%2F");
    assert_eq!((keys(&rolled), prefixes(&rolled)), (vec!["b".to_owned()], vec!["a/".into(), "c &amp; d/".into()]));
    assert!(rolled.contains("<KeyCount>3</KeyCount>") && rolled.contains("<IsTruncated>false</IsTruncated>"));
    assert_eq!(keys(&list("&encoding-type=url&prefix=c")), ["c%20%26%20d/%C3%A9"]);
    assert_eq!(keys(&list("&start-after=a/1&max-keys=1")), ["a/2"]);
    assert_eq!(keys(&list("&prefix=zzz")), Vec::<String>::new());

    let mut query = "&max-keys=1&delimiter=/".to_owned();
    let mut found = Vec::new();
    loop {
        let page = list(&query);
        found.extend(keys(&page).into_iter().chain(prefixes(&page)));
        let Some((_, rest)) = page.split_once("<NextContinuationToken>") else { break };
        query = format!("&max-keys=1&delimiter=/&continuation-token={}", rest.split('<').next().unwrap());
    }
    assert_eq!(found, ["a/", "b", "c &amp; d/"]);

    let wrong = get(testbed.address(), "/testbed?list-type=2&continuation-token=nonsense", &[]);
    assert_eq!(wrong.status, 400);
    assert!(get(testbed.address(), "/testbed?list-type=2&max-keys=0", &[]).text().contains("<IsTruncated>false"));
}

#[test]
fn buckets() {
    let testbed = testbed(&[], &[]);
    assert!(get(testbed.address(), "/", &[]).text().contains("<Name>testbed</Name>"));
    assert_eq!(head(testbed.address(), "/testbed", &[]).status, 200);
    assert_eq!(head(testbed.address(), "/elsewhere", &[]).status, 404);
    assert!(get(testbed.address(), "/testbed?location", &[]).text().contains("LocationConstraint"));
    let absent = get(testbed.address(), "/elsewhere?list-type=2", &[]);
    assert!(absent.status == 404 && absent.text().contains("<Code>NoSuchBucket</Code>"));
}

#[test]
fn unsigned_requests_are_refused_unless_allowed_and_never_write() {
    let config = Config { objects: vec![ObjectSpec::new("k", 10)], ..Config::default() };
    let closed = Testbed::start(config).unwrap();
    for path in ["/testbed/k", "/testbed?list-type=2"] {
        let refused = get(closed.address(), path, &[]);
        assert!(refused.status == 403 && refused.text().contains("<Code>AccessDenied</Code>"), "{path}");
    }
    let open = testbed(&[("k", 10)], &[]);
    let mut connection = Connection::open(open.address());
    assert_eq!(connection.request("PUT", "/testbed/k", &[], b"new").status, 403);
    assert_eq!(get(open.address(), "/testbed/k", &[]).body, content("k", 0, 10));
}

#[test]
fn a_request_rate_refuses_with_slow_down() {
    let config = Config {
        objects: vec![ObjectSpec::new("k", 10)],
        request_rate: std::num::NonZeroU32::new(1),
        anonymous: true,
        ..Config::default()
    };
    let testbed = Testbed::start(config).unwrap();
    assert_eq!(get(testbed.address(), "/testbed/k", &[]).status, 200);
    let refused = get(testbed.address(), "/testbed/k", &[]);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refused.text().contains("<Code>SlowDown</Code>"));
}

#[test]
fn a_limited_device_delivers_every_byte() {
    let config = Config {
        objects: vec![ObjectSpec::new("k", 3_000_000)],
        first_byte: std::time::Duration::from_millis(3),
        jitter: std::time::Duration::from_millis(3),
        connection_rate: Some(40_000_000),
        total_rate: Some(50_000_000),
        anonymous: true,
        ..Config::default()
    };
    let testbed = Testbed::start(config).unwrap();
    std::thread::scope(|scope| {
        for reader in 0..4u64 {
            let address = testbed.address();
            scope.spawn(move || {
                let part = get(address, "/testbed/k", &[("Range", &format!("bytes={reader}-"))]);
                assert_eq!(part.body, content("k", reader, 3_000_000 - reader as usize));
            });
        }
    });
    assert_eq!(testbed.counters().bytes_sent, 4 * 3_000_000 - 6);
}

#[test]
fn a_directory_is_served() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    std::fs::write(dir.path().join("sub/file"), content("anything", 0, 150_000)).unwrap();
    let config = Config { dir: Some(dir.path().to_owned()), anonymous: true, ..Config::default() };
    let testbed = Testbed::start(config).unwrap();
    let part = get(testbed.address(), "/testbed/sub/file", &[("Range", "bytes=70000-")]);
    assert_eq!(part.body, content("anything", 70_000, 80_000));
    assert!(get(testbed.address(), "/testbed?list-type=2", &[]).text().contains("<Key>sub/file</Key>"));
    std::fs::write(dir.path().join("sub/file"), b"replaced").unwrap();
    let changed = get(testbed.address(), "/testbed/sub/file", &[("If-Match", part.header("etag").unwrap())]);
    assert_eq!(changed.status, 412);
}

#[test]
fn a_port_is_taken_while_it_serves_and_free_after() {
    let first = testbed(&[], &[]);
    let config = Config { listen: first.address(), ..Config::default() };
    let error = Testbed::start(config.clone()).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {}", config.listen));
    let mut connection = Connection::open(first.address());
    assert_eq!(connection.request("GET", "/-/counters", &[], b"").status, 200);
    first.stop();
    Testbed::start(config).unwrap();
}
