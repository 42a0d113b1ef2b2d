//! Every fault, as a client sees it on the wire.

use std::io::Read;

use crate::raw_client::{Connection, End, Reply, get, head};
use crate::{content, testbed};

const SIZE: u64 = 300_000;

/// The reply to a GET of bytes 100 to 250,099 under one fault.
fn under(fault: &str) -> Reply {
    let testbed = testbed(&[("k", SIZE)], &[fault]);
    let reply = get(testbed.address(), "/testbed/k", &[("Range", "bytes=100-250099")]);
    assert_eq!(testbed.counters().faults, 1, "{fault}");
    reply
}

fn assert_prefix(reply: &Reply, len: usize) {
    assert_eq!(reply.body.len(), len);
    assert_eq!(reply.body, content("k", 100, len));
}

#[test]
fn status() {
    let reply = under("status=503,retry-after=7");
    assert_eq!((reply.status, reply.header("retry-after"), reply.end), (503, Some("7"), End::Complete));
    assert!(reply.text().contains("<Code>SlowDown</Code>"));
    let reply = under("status=500");
    assert_eq!((reply.status, reply.header("retry-after")), (500, None));
    assert!(reply.text().contains("<Code>InternalError</Code>"));
}

#[test]
fn a_head_with_an_error_has_no_body() {
    let testbed = testbed(&[("k", SIZE)], &["status=500,kind=head"]);
    let mut connection = Connection::open(testbed.address());
    assert_eq!(connection.request("HEAD", "/testbed/k", &[], b"").status, 500);
    assert_eq!(connection.request("GET", "/testbed/k", &[("Range", "bytes=0-9")], b"").body, content("k", 0, 10));
}

#[test]
fn reset() {
    let reply = under("reset");
    assert_eq!((reply.status, reply.end), (0, End::Reset));
}

#[test]
fn reset_body() {
    let reply = under("reset-body=64KiB");
    assert_eq!(reply.end, End::Reset);
    // A reset overtakes bytes that the client has not read yet.
    assert!(reply.body.len() <= 65_536);
    assert_eq!(reply.body, content("k", 100, reply.body.len()));
}

#[test]
fn truncate() {
    for len in [0, 1, 65_536, 200_000] {
        let reply = under(&format!("truncate={len}"));
        assert_eq!((reply.status, reply.end, reply.header("content-length")), (206, End::Closed, Some("250000")));
        assert_prefix(&reply, len);
    }
}

#[test]
fn short() {
    let reply = under("short=1000");
    assert_eq!((reply.status, reply.end, reply.header("content-length")), (206, End::Complete, Some("1000")));
    assert_eq!(reply.header("content-range"), Some("bytes 100-250099/300000"));
    assert_prefix(&reply, 1000);
}

#[test]
fn stall() {
    let reply = under("stall");
    assert_eq!((reply.status, reply.end), (0, End::Silent));
    let reply = under("stall=20ms");
    assert_eq!((reply.status, reply.end), (206, End::Complete));
    assert_prefix(&reply, 250_000);
}

#[test]
fn stall_body() {
    let reply = under("stall-body=100000");
    assert_eq!((reply.status, reply.end), (206, End::Silent));
    assert_prefix(&reply, 100_000);
    let reply = under("stall-body=100000,for=20ms");
    assert_eq!(reply.end, End::Complete);
    assert_prefix(&reply, 250_000);
}

#[test]
fn a_client_that_gives_up_a_stalled_request_frees_it() {
    let testbed = testbed(&[("k", SIZE)], &["stall,count=1", "stall-body=10,count=1"]);
    for _ in 0..2 {
        let reply = get(testbed.address(), "/testbed/k", &[]);
        assert_eq!(reply.end, End::Silent);
    }
    while testbed.counters().in_flight > 0 {
        std::thread::yield_now();
    }
    assert_eq!(get(testbed.address(), "/testbed/k", &[]).end, End::Complete);
}

#[test]
fn wrong_range() {
    let reply = under("wrong-range");
    assert_eq!((reply.status, reply.header("content-range")), (206, Some("bytes 101-250100/300000")));
    assert_prefix(&reply, 250_000);
}

#[test]
fn wrong_etag_and_no_etag() {
    let testbed = testbed(&[("k", SIZE)], &["wrong-etag,count=1", "no-etag,kind=get+head"]);
    let wrong = get(testbed.address(), "/testbed/k", &[("Range", "bytes=0-9")]);
    assert_eq!((wrong.status, wrong.header("etag")), (206, Some("\"0000000000000000000000000000bad-1\"")));
    assert_eq!(get(testbed.address(), "/testbed/k", &[]).header("etag"), None);
    assert_eq!(head(testbed.address(), "/testbed/k", &[]).header("etag"), None);
}

#[test]
fn ignore_range() {
    let reply = under("ignore-range");
    assert_eq!((reply.status, reply.header("content-range")), (200, None));
    assert_eq!(reply.body, content("k", 0, SIZE as usize));
}

#[test]
fn gzip() {
    let reply = under("gzip");
    assert_eq!((reply.status, reply.end), (200, End::Complete));
    assert_eq!((reply.header("content-encoding"), reply.header("content-length")), (Some("gzip"), None));
    assert!(reply.header("etag").unwrap().starts_with("W/\""));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(reply.body.as_slice()).read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, content("k", 0, SIZE as usize));
}

#[test]
fn archived() {
    let testbed = testbed(&[("k", SIZE)], &["archived"]);
    let reply = get(testbed.address(), "/testbed/k", &[]);
    assert!(reply.status == 403 && reply.text().contains("<Code>InvalidObjectState</Code>"));
    assert_eq!(head(testbed.address(), "/testbed/k", &[]).status, 200, "an archived object can be described");
}

#[test]
fn forbid_missing() {
    let testbed = testbed(&[("k", SIZE)], &["forbid-missing,kind=get+head"]);
    for path in ["/testbed/none", "/http/none"] {
        let reply = get(testbed.address(), path, &[]);
        assert_eq!(reply.status, 403, "{path}");
        assert_eq!(head(testbed.address(), path, &[]).status, 403, "{path}");
    }
    assert!(get(testbed.address(), "/testbed/none", &[]).text().contains("<Code>AccessDenied</Code>"));
    assert_eq!(
        (get(testbed.address(), "/testbed/k", &[]).status, head(testbed.address(), "/testbed/k", &[]).status),
        (200, 200)
    );
}

#[test]
fn slow() {
    // Without a latency to multiply nothing but the count shows; how the model multiplies it is
    // tested there.
    let reply = under("slow=20");
    assert_prefix(&reply, 250_000);
}

#[test]
fn replace() {
    let testbed = testbed(&[("k", SIZE)], &["replace,after=1,count=1"]);
    let first = get(testbed.address(), "/testbed/k", &[]);
    let etag = first.header("etag").unwrap().to_owned();
    assert_eq!(first.body, content("k", 0, SIZE as usize));
    assert_eq!(get(testbed.address(), "/testbed/k", &[("If-Match", &etag)]).status, 412);
    let second = get(testbed.address(), "/testbed/k", &[]);
    assert_ne!(second.header("etag"), Some(etag.as_str()));
    assert_eq!(foreread_testbed::content::verify("k", 2, 0, &second.body), Ok(()));
}

#[test]
fn listings_that_lead_nowhere() {
    let listing = |fault: &str| {
        let testbed = testbed(&[("a/1", 1), ("a/2", 1)], &[&format!("{fault},kind=list,key=a/*")]);
        let page = |more: &str| get(testbed.address(), &format!("/testbed?list-type=2{more}"), &[]).text();
        assert!(page("").contains("<IsTruncated>false"), "{fault}: of another prefix");
        let token = |page: &str| {
            let (_, rest) = page.split_once("<NextContinuationToken>")?;
            Some(rest.split_once('<').expect("the end of a token").0.to_owned())
        };
        let first = page("&prefix=a/");
        let next = token(&first).map(|token| page(&format!("&prefix=a/&continuation-token={token}")));
        let tokens = (token(&first), next.as_deref().and_then(token));
        (first.contains("<Key>a/1</Key>"), first.contains("<IsTruncated>true"), tokens)
    };
    let (keys, truncated, (first, second)) = listing("repeat-token");
    assert!(keys && truncated && first.is_some() && first == second, "{first:?} {second:?}");
    let (keys, truncated, (first, second)) = listing("endless");
    assert!(!keys && truncated && first.is_some() && second.is_some() && first != second, "{first:?} {second:?}");
    assert_eq!(listing("garbage"), (false, false, (None, None)));
}

#[test]
fn a_body_begun_keeps_its_version() {
    let testbed = testbed(&[("k", SIZE)], &["stall-body=100000,for=200ms"]);
    let address = testbed.address();
    let reader = std::thread::spawn(move || get(address, "/testbed/k", &[]));
    while testbed.counters().bytes_sent < 100_000 {
        std::thread::yield_now();
    }
    testbed.set_object(&foreread_testbed::ObjectSpec { key: "k".to_owned(), size: SIZE, generation: 2 });
    assert_eq!(reader.join().unwrap().body, content("k", 0, SIZE as usize));
}

#[test]
fn faults_choose_their_requests() {
    let testbed = testbed(&[("a/k", 10), ("b", 10)], &["status=500,key=a/*,every=2", "status=503,kind=list"]);
    let status = |path: &str| get(testbed.address(), path, &[]).status;
    let statuses: Vec<u16> = (0..4).map(|_| status("/testbed/a/k")).collect();
    assert_eq!(statuses, [200, 500, 200, 500]);
    assert_eq!((status("/testbed/b"), status("/testbed?list-type=2")), (200, 503));
}

#[test]
fn a_connection_survives_what_does_not_break_it() {
    let testbed = testbed(&[("k", SIZE)], &["status=500,count=1", "wrong-range,count=1", "short=5,count=1"]);
    let mut connection = Connection::open(testbed.address());
    for status in [500, 206, 206, 206] {
        assert_eq!(connection.request("GET", "/testbed/k", &[("Range", "bytes=0-99")], b"").status, status);
    }
    assert_eq!(connection.request("GET", "/testbed/k", &[], b"").version, "HTTP/1.1");
    assert_eq!(testbed.counters().connections, 1);
}
