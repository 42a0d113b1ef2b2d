//! The same objects over plain HTTP.

use crate::raw_client::{Connection, End, get, head};
use crate::{content, testbed};

#[test]
fn objects() {
    let testbed = testbed(&[("d/a b", 200_000)], &[]);
    let address = testbed.address();
    let whole = get(address, "/http/d/a%20b", &[]);
    assert_eq!((whole.status, whole.body), (200, content("d/a b", 0, 200_000)));
    let described = head(address, "/http/d/a%20b", &[]);
    assert_eq!((described.status, described.header("content-length")), (200, Some("200000")));
    let etag = described.header("etag").unwrap();
    let part = get(address, "/http/d/a%20b", &[("Range", "bytes=5-104"), ("If-Match", etag)]);
    assert_eq!((part.status, part.header("content-range")), (206, Some("bytes 5-104/200000")));
    assert_eq!(part.body, content("d/a b", 5, 100));
    assert_eq!(get(address, "/http/d/a%20b", &[("If-Match", "\"x\"")]).status, 412);
    assert_eq!(get(address, "/http/d/a%20b", &[("If-None-Match", etag)]).status, 304);
    let beyond = get(address, "/http/d/a%20b", &[("Range", "bytes=200000-")]);
    assert_eq!((beyond.status, beyond.header("content-range")), (416, Some("bytes */200000")));
    assert_eq!(get(address, "/http/d/absent", &[]).status, 404);
    assert_eq!(head(address, "/http/absent/", &[]).status, 404);
    let put = Connection::open(address).request("PUT", "/http/d/new", &[], b"bytes");
    assert_eq!((put.status, put.header("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn directories() {
    let testbed = testbed(&[("d/a b", 5), ("d/sub/x", 1), ("top", 7)], &[]);
    let root = get(testbed.address(), "/http/", &[]);
    assert_eq!((root.status, root.header("content-type")), (200, Some("text/html")));
    assert!(root.text().contains("<a href=\"d/\">d/</a>") && root.text().contains("<a href=\"top\">top</a>"));
    let directory = get(testbed.address(), "/http/d/", &[]).text();
    assert!(directory.contains("<h1>Index of /http/d/</h1>") && directory.contains("<a href=\"a%20b\">a b</a>"));
    let redirected = get(testbed.address(), "/http/d", &[]);
    assert_eq!((redirected.status, redirected.header("location")), (301, Some("/http/d/")));
    assert_eq!(testbed.counters().list, 2);
}

#[test]
fn faults_are_the_same() {
    let faults =
        ["status=503,count=1", "truncate=1000,count=1", "no-etag,count=1", "wrong-range,count=1", "ignore-range"];
    let testbed = testbed(&[("k", 5000)], &faults);
    let part = || get(testbed.address(), "/http/k", &[("Range", "bytes=1-4000")]);
    let refused = part();
    assert_eq!((refused.status, refused.text().starts_with("Please reduce")), (503, true));
    let cut = part();
    assert_eq!((cut.end, cut.body), (End::Closed, content("k", 1, 1000)));
    let bare = part();
    assert_eq!((bare.status, bare.header("etag")), (206, None));
    assert_eq!(part().header("content-range"), Some("bytes 2-4001/5000"));
    let whole = part();
    assert_eq!((whole.status, whole.body), (200, content("k", 0, 5000)));
}
