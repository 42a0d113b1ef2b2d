//! Faults of storage: each becomes the right bytes, or an error of the right kind; never other
//! bytes.

use std::time::Duration;

use foreread_backend::{Backend, ConnectOptions, Connected, Error, ErrorKind, Key, Object, connect};
use foreread_testbed::{Config, ObjectSpec, Testbed, content};
use futures::TryStreamExt;

use crate::scripted::{Scripted, answer};
use crate::seed;

const SIZE: u64 = 1_000_000;

fn testbed(faults: &[&str]) -> Testbed {
    let objects = vec![ObjectSpec::new("object", SIZE)];
    let faults = faults.iter().map(|spec| spec.parse().unwrap()).collect();
    seed::testbed(Config { objects, faults, anonymous: true, ..Config::default() })
}

/// The same object through S3, and as a file of a web server.
fn both(testbed: &Testbed) -> [(Connected, Key); 2] {
    let options = ConnectOptions::default().with_endpoint(testbed.endpoint()).with_anonymous(true);
    let s3 = connect("s3://testbed", &options).unwrap();
    let web = connect(&testbed.endpoint(), &ConnectOptions::default()).unwrap();
    [(s3, Key::new("object")), (web, Key::new("http/object"))]
}

async fn read(backend: &dyn Backend, object: &Object, start: u64, end: u64) -> Result<Vec<u8>, Error> {
    let body = backend.read(&object.key, &object.version, start..end).await?;
    body.try_fold(Vec::new(), |mut all, piece| async move {
        all.extend_from_slice(&piece);
        Ok(all)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_is_an_error_of_its_kind() {
    let cases = [
        ("status=500", ErrorKind::Transient),
        ("status=502", ErrorKind::Transient),
        ("status=503", ErrorKind::Throttled),
        ("status=429", ErrorKind::Throttled),
        ("status=403", ErrorKind::PermissionDenied),
        ("status=404", ErrorKind::NotFound),
        ("status=412", ErrorKind::Changed),
        ("status=416", ErrorKind::Changed),
        ("reset", ErrorKind::Transient),
        ("reset-body=64KiB", ErrorKind::Transient),
        ("truncate=64KiB", ErrorKind::Transient),
        ("truncate=0B", ErrorKind::Transient),
        ("short=100", ErrorKind::Transient),
        ("wrong-range", ErrorKind::Transient),
        ("wrong-etag", ErrorKind::Transient),
        ("gzip", ErrorKind::Transient),
        ("redirect", ErrorKind::Invalid),
        ("empty", ErrorKind::Transient),
        ("garbage", ErrorKind::Transient),
        ("crowd=0", ErrorKind::Throttled),
        ("archived", ErrorKind::Unsupported),
        ("replace", ErrorKind::Changed),
    ];
    for (fault, kind) in cases {
        let testbed = testbed(&[]);
        for (connected, key) in both(&testbed) {
            let (backend, name) = (&*connected.backend, connected.backend.describe());
            testbed.set_faults(Vec::new());
            let object = backend.stat(&key).await.unwrap();
            testbed.set_faults(vec![format!("{fault},count=1").parse().unwrap()]);
            let error = read(backend, &object, 1000, 501_000).await.expect_err(fault);
            // An archive shows by its error code, which only S3 sends.
            let is_web = key.as_str() != "object";
            let kind = match fault {
                "archived" if is_web => ErrorKind::PermissionDenied,
                // A web server is asked for the length, which shows that the range is there.
                // A web server's redirect is followed.
                "status=416" | "redirect" if is_web => ErrorKind::Transient,
                _ => kind,
            };
            assert_eq!(error.kind(), kind, "{fault} from {name}: {error}");
            assert!(error.to_string().contains("[1000, 501000)"), "{fault} from {name}: {error}");
            testbed.set_object(&ObjectSpec::new("object", SIZE));
            let bytes = read(backend, &object, 1000, 501_000).await.unwrap();
            content::verify("object", 1, 1000, &bytes).unwrap();
            assert_eq!(bytes.len(), 500_000, "after {fault} from {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ignored_range_costs_more_and_reads_the_right_bytes() {
    let testbed = testbed(&["ignore-range"]);
    for (connected, key) in both(&testbed) {
        let object = connected.backend.stat(&key).await.unwrap();
        for (start, end) in [(0, 10), (0, SIZE), (500_000, 500_001), (SIZE - 1, SIZE)] {
            let bytes = read(&*connected.backend, &object, start, end).await.unwrap();
            assert_eq!(bytes.len() as u64, end - start);
            content::verify("object", 1, start, &bytes).unwrap();
        }
    }
    let far = 17 << 20;
    testbed.set_object(&ObjectSpec::new("large", far + 10));
    for (connected, key) in both(&testbed) {
        let object = connected.backend.stat(&Key::new(key.as_str().replace("object", "large"))).await.unwrap();
        let error = read(&*connected.backend, &object, far, far + 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_tag_is_believed_only_where_conditions_hold() {
    let testbed = testbed(&["no-etag"]);
    let [(s3, key), (web, file)] = both(&testbed);
    let object = s3.backend.stat(&key).await.unwrap();
    content::verify("object", 1, 5, &read(&*s3.backend, &object, 5, 10).await.unwrap()).unwrap();
    let object = web.backend.stat(&file).await.unwrap();
    assert_eq!(read(&*web.backend, &object, 5, 10).await.unwrap_err().kind(), ErrorKind::Transient);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requested_delay_is_passed_on() {
    let testbed = testbed(&["status=503,retry-after=7"]);
    for (connected, key) in both(&testbed) {
        let object = connected.backend.stat(&key).await.unwrap();
        let error = read(&*connected.backend, &object, 0, 10).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_in_another_coding_says_what_to_do() {
    let testbed = testbed(&["gzip"]);
    let [_, (web, file)] = both(&testbed);
    let object = web.backend.stat(&file).await.unwrap();
    let error = read(&*web.backend, &object, 1000, 501_000).await.unwrap_err();
    assert!(error.to_string().contains("coding gzip, not in the stored bytes; switch that off"), "{error}");
}

#[tokio::test]
async fn a_redirect_of_a_signed_request_says_where_the_storage_is() {
    let testbed = testbed(&["redirect,kind=any"]);
    let [(s3, key), _] = both(&testbed);
    let error = s3.backend.stat(&key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("http://elsewhere.invalid: set the endpoint or the region"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_answer_to_a_head_is_no_empty_file() {
    let testbed = testbed(&["empty,kind=head"]);
    let [_, (web, file)] = both(&testbed);
    assert_eq!(web.backend.stat(&file).await.unwrap().version.size, SIZE);
}

#[tokio::test]
async fn an_archived_object_says_what_to_do() {
    let testbed = testbed(&["archived"]);
    let [(s3, key), _] = both(&testbed);
    let object = s3.backend.stat(&key).await.unwrap();
    let error = read(&*s3.backend, &object, 0, 10).await.unwrap_err();
    assert!(error.to_string().contains("restore it"), "{error}");
}

#[tokio::test]
async fn a_port_without_a_listener_is_a_transient_fault() {
    let endpoint = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let options = ConnectOptions::default().with_endpoint(endpoint).with_anonymous(true);
    let error = connect("s3://bucket", &options).unwrap().backend.stat(&Key::new("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient);
    assert!(error.to_string().contains("cannot connect"), "{error}");
}

#[tokio::test]
async fn servers_that_refuse_head_are_asked_with_a_get() {
    for status in ["403 Forbidden", "405 Method Not Allowed", "501 Not Implemented"] {
        let server = Scripted::start(move |head, _| {
            if head.starts_with("HEAD") {
                return format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            }
            assert!(head.to_ascii_lowercase().contains("range: bytes=0-0\r\n"), "{head}");
            if head.starts_with("GET /empty") {
                return answer("416 Range Not Satisfiable\nContent-Range: bytes */0", "");
            }
            answer("206 Partial Content\nContent-Range: bytes 0-0/12345", "x")
        })
        .await;
        let backend = connect(&server.endpoint, &ConnectOptions::default()).unwrap().backend;
        assert_eq!(backend.stat(&Key::new("file")).await.unwrap().version.size, 12_345);
        assert_eq!(backend.stat(&Key::new("empty")).await.unwrap().version.size, 0);
    }
}

#[tokio::test]
async fn a_content_coding_is_accepted_where_the_name_announces_it() {
    let server =
        Scripted::start(|_, _| "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n".into()).await;
    let backend = connect(&server.endpoint, &ConnectOptions::default()).unwrap().backend;
    assert_eq!(backend.stat(&Key::new("a.tar.gz")).await.unwrap().version.size, 9);
    assert_eq!(backend.stat(&Key::new("a.tar")).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn secrets_in_urls_stay_out_of_errors() {
    let server = Scripted::start(|_, _| answer("500 Internal Server Error", "")).await;
    let url = server.endpoint.replace("http://", "http://user:hunter2@");
    let connected = connect(&format!("{url}/file?X-Amz-Signature=hunter3"), &ConnectOptions::default()).unwrap();
    let mut texts = vec![connected.backend.describe(), connected.path.clone()];
    let object = connected.backend.stat(&Key::new("file")).await.unwrap_err();
    texts.push(format!("{object} {object:?}"));
    drop(server);
    let error = connected.backend.list("", None).await.unwrap_err();
    texts.push(format!("{error} {error:?}"));
    let error = connect(&format!("{url}:x/?hunter3"), &ConnectOptions::default()).err().unwrap();
    texts.push(format!("{error} {error:?}"));
    for text in texts {
        assert!(!text.contains("hunter"), "{text}");
    }
}

#[tokio::test]
async fn a_bucket_in_another_region_is_found() {
    let server = Scripted::start(|head, number| match number {
        1 => answer("301 Moved Permanently\nx-amz-bucket-region: eu-central-1", ""),
        _ if head.starts_with("HEAD") => "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"t\"\r\n\r\n".into(),
        _ => answer("500 Internal Server Error", ""),
    })
    .await;
    let options = ConnectOptions::default().with_endpoint(server.endpoint.clone()).with_anonymous(true);
    let backend = connect("s3://bucket", &options).unwrap().backend;
    assert_eq!(backend.stat(&Key::new("a")).await.unwrap().version.size, 3);
    assert_eq!(backend.stat(&Key::new("a")).await.unwrap().version.size, 3);
    assert_eq!(server.heads().len(), 3, "the region is asked for once: {:?}", server.heads());
}

/// A listing, a description or an index that does not end takes bounded memory and is no reason to
/// ask again: with a length that is too long, and without any.
#[tokio::test]
async fn a_body_without_end_is_given_up() {
    for with_length in [true, false] {
        let server = Scripted::start(move |_, _| {
            let body = "<h1>Index of /p/</h1>".to_owned() + &"x".repeat(70 << 20);
            if with_length {
                return answer("200 OK\nContent-Type: text/html", &body);
            }
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n{body}")
        })
        .await;
        let options = ConnectOptions::default().with_endpoint(server.endpoint.clone()).with_anonymous(true);
        for url in ["s3://bucket", "gs://bucket", "az://bucket", &server.endpoint] {
            let backend = connect(url, &options).unwrap().backend;
            let error = backend.list("p/", None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{url}: {error}");
            assert!(error.to_string().contains("longer than"), "{url}: {error}");
        }
        let error = connect("gs://bucket", &options).unwrap().backend.stat(&Key::new("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

/// While one reader is between two pages of an index, a file goes, another comes, and a second
/// reader lists the directory anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_goes_on_after_the_same_name_whatever_was_listed_meanwhile() {
    let changed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let now = changed.clone();
    let server = Scripted::start(move |head, _| {
        if head.starts_with("HEAD") {
            return "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"t\"\r\n\r\n".into();
        }
        // Two names fewer before the place where the first reader is, one more behind it.
        let names = if now.load(std::sync::atomic::Ordering::Relaxed) { 2..2501 } else { 0..2500 };
        let links = names.map(|n| format!("<a href=\"f{n:04}\">x</a>\n")).collect::<Vec<_>>().concat();
        answer("200 OK\nContent-Type: text/html", &format!("<title>Index of /d/</title>{links}"))
    })
    .await;
    let backend = connect(&server.endpoint, &ConnectOptions::default()).unwrap().backend;
    let key = |entry: &foreread_backend::Entry| entry.key().to_owned();
    let first = backend.list("d/", None).await.unwrap();
    let mut found: Vec<_> = first.entries.iter().map(key).collect();
    let mut token = first.continuation;
    assert!(token.is_some() && found.len() >= 64, "{} of 2,500", found.len());
    changed.store(true, std::sync::atomic::Ordering::Relaxed);
    let other = backend.list("d/", None).await.unwrap();
    assert_eq!(other.entries[0].key(), "d/f0002");
    while let Some(from) = token {
        let page = backend.list("d/", Some(&from)).await.unwrap();
        found.extend(page.entries.iter().map(key));
        token = page.continuation;
    }
    let expected: Vec<_> = (0..2501).map(|n| format!("d/f{n:04}")).collect();
    assert_eq!(found, expected);
}
