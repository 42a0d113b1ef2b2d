//! The server over real connections, in front of an engine that reads an emulated store.

#[path = "rig/engine.rs"]
mod rig;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use foreread_monitor::{Error, Monitor, Options};
use rig::{HOSTILE, IN_VAIN, LOOPBACK, Rig, ask};

/// The value of a metric, with its labels as in the text.
fn value(text: &str, name: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{name} in {text}")).parse().expect("a number")
}

#[test]
fn the_metrics_are_what_the_engine_counts() {
    let rig = Rig::start(|_| {});
    // What is read ahead still comes at first.
    let (text, stats) = std::iter::repeat_with(|| (rig.engine.stats(), rig.get("/metrics"), rig.engine.stats()))
        .find_map(|(before, text, after)| (before == after).then_some((text, after)))
        .expect("it comes to rest");
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("content-type: text/plain; version=0.0.4"), "{text}");
    assert!(text.contains("# TYPE foreread_read_bytes_total counter") && !text.contains("# EOF"), "{text}");
    for (name, wanted) in [
        ("foreread_read_bytes_total", stats.read_bytes),
        ("foreread_reads_total", stats.reads),
        ("foreread_storage_requests_total", stats.requests),
        ("foreread_memory_budget_bytes", stats.memory_budget_bytes),
        ("foreread_read_wait_seconds_count", stats.waited.count),
        ("foreread_read_wait_seconds_bucket{le=\"+Inf\"}", stats.waited.count),
        ("foreread_storage_first_byte_seconds_count", stats.first_byte.count),
        ("foreread_extents_total{for=\"demand\"}", stats.requests_demand),
    ] {
        assert!((value(&text, name) - wanted as f64).abs() < 0.5, "{name} is not {wanted}: {text}");
    }
    assert!(value(&text, "foreread_read_wait_seconds_sum") > 0.0);
    let uses: f64 = ["ahead", "read", "other"]
        .map(|name| value(&text, &format!("foreread_memory_bytes{{use=\"{name}\"}}")))
        .iter()
        .sum();
    assert!(uses >= 8e6, "what was read is resident: {uses}");
    assert!(!text.contains("secret"), "no name of an object is in it");
}

/// Names follow the conventions: a counter ends in `_total`, a unit is the last word before that,
/// and each metric has one type.
#[test]
fn names_and_units_are_as_the_conventions_want() {
    let rig = Rig::start(|_| {});
    let wanted = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nAccept: application/openmetrics-text", rig.address);
    let text = ask(rig.address, &wanted);
    assert!(text.contains("content-type: application/openmetrics-text") && text.ends_with("# EOF\n"), "{text}");
    let body = text.split("\r\n\r\n").nth(1).expect("a body");
    let mut types = std::collections::BTreeMap::new();
    for line in body.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["#", "TYPE", name, kind] => assert_eq!(types.insert(name, kind), None, "{name} has two types"),
            ["#", "UNIT", name, unit] => assert!(name.ends_with(&format!("_{unit}")), "{name} in {unit}"),
            ["#", ..] => {}
            [sample, value] => {
                let name = sample.split('{').next().expect("a name");
                let ends = ["_total", "_bucket", "_sum", "_count", ""];
                let family = ends.iter().find_map(|end| types.get_key_value(name.strip_suffix(end)?));
                let (_, kind) = family.unwrap_or_else(|| panic!("{name} has no type"));
                assert_eq!(*kind == "counter", name.ends_with("_total"), "{line}");
                assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
            }
            _ => panic!("{line}"),
        }
    }
    assert!(types.len() > 25, "{types:?}");
}

#[test]
fn the_page_asks_no_other_server_and_hides_names() {
    let hidden = Rig::start(|_| {});
    let page = hidden.get("/");
    assert!(page.contains("content-security-policy: default-src 'none'") && !page.contains("unsafe"), "{page}");
    assert!(page.contains("s3://&lt;testbed>") && !page.contains("{title}"), "{page}");
    for part in ["/page.js", "/page.css"] {
        let text = hidden.get(part);
        assert!(text.starts_with("HTTP/1.1 200") && !text.contains("://"), "{part} asks no other server");
    }
    hidden.get_into_trouble();
    let text = hidden.body("/snapshot");
    assert!(text.contains("\"key\":\"file 1\"") && !text.contains("secret") && !text.contains("img"), "{text}");
    let snapshot: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let key = snapshot["errors"][0]["key"].as_str().expect("a key");
    assert!(key.starts_with("file "), "{snapshot}");
    assert_eq!(snapshot["errors"][0]["text"], serde_json::Value::Null, "{snapshot}");
    let named = Rig::start(|options| options.names = true);
    assert!(named.get("/snapshot").contains("\"key\":\"secret/name\""));
}

/// Files, waste and failures, as the engine counts them.
#[test]
fn the_snapshot_says_what_the_engine_has_done() {
    let rig = Rig::start(|options| options.names = true);
    rig.get_into_trouble();
    let (snapshot, stats) = std::iter::repeat_with(|| (rig.engine.stats(), rig.body("/snapshot"), rig.engine.stats()))
        .find_map(|(before, text, after)| (before == after).then_some((text, after)))
        .expect("it comes to rest");
    let snapshot: serde_json::Value = serde_json::from_str(&snapshot).expect("JSON");
    let files = snapshot["files"].as_array().expect("files");
    let sum = |name: &str| files.iter().map(|file| file[name].as_u64().expect("a number")).sum::<u64>();
    assert_eq!([sum("read_bytes"), sum("fetched_bytes")], [stats.read_bytes, stats.fetched_bytes]);
    let wasted_of = |key: &str| files.iter().find(|file| file["key"] == key).map(|file| file["wasted_bytes"].as_u64());
    assert!(files.len() == 2 && wasted_of("secret/name").is_some(), "{files:?}");
    let wasted = snapshot["wasted"].as_array().expect("what was wasted");
    let bytes = |piece: &serde_json::Value| piece["end_bytes"].as_u64().zip(piece["start_bytes"].as_u64());
    let pieces = |key: &str| {
        let of_key = wasted.iter().filter(|piece| piece["key"] == key);
        of_key.filter_map(bytes).map(|(end, start)| end - start).sum::<u64>()
    };
    // What was asked for ahead of the file that is gone went with the failure.
    assert_eq!(pieces(IN_VAIN) + pieces(HOSTILE), stats.wasted_bytes, "{wasted:?}");
    assert!(pieces(IN_VAIN) > 0 && wasted_of(IN_VAIN) == Some(Some(pieces(IN_VAIN))), "{wasted:?}");
    let errors = snapshot["errors"].as_array().expect("failures");
    // What was asked for ahead has failed as well.
    let failed = errors.iter().find(|error| error["what"] == "read").expect("a read failed");
    assert_eq!((&failed["key"], &failed["count"]), (&HOSTILE.into(), &1.into()));
    assert!(
        snapshot["service"]["demand_us"].as_u64() > Some(0) && snapshot["service"]["readahead_us"].as_u64() > Some(0)
    );
}

/// Of many files with long names, some are told of, and how many are not.
#[test]
fn a_snapshot_is_bounded() {
    let rig = Rig::start(|options| options.names = true);
    let open = rig.read_many();
    let text = rig.body("/snapshot");
    let snapshot: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let len = |name: &str| snapshot[name].as_array().map(Vec::len);
    assert_eq!((len("streams"), len("files")), (Some(64), Some(32)), "{snapshot}");
    let streams = open.len() as u64 + 1;
    assert_eq!((&snapshot["more_streams"], &snapshot["more_files"]), (&(streams - 64).into(), &(streams - 32).into()));
    assert!(text.len() < 160_000, "{} bytes", text.len());
    let metrics = rig.body("/metrics");
    assert!((value(&metrics, "foreread_streams") - streams as f64).abs() < 0.5, "{metrics}");
    assert!(metrics.len() < 16_000, "{} bytes", metrics.len());
}

#[test]
fn events_come_as_long_as_the_engine_is_there() {
    let rig = Rig::start(|_| {});
    let address = rig.address;
    let mut socket = TcpStream::connect(address).expect("a connection");
    write!(socket, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it is sent");
    let mut lines = BufReader::new(socket).lines().map_while(Result::ok);
    let read = rig.engine.stats().read_bytes;
    let event = lines.find(|line| line.starts_with("data: ")).expect("an event");
    assert!(event.contains(&format!("\"read_bytes\":{read}")), "{event}");
    assert!(lines.any(|line| line.starts_with("data: ")), "a second one");
    drop(rig);
    // The server ends with the engine, which it does not keep.
    assert_eq!(lines.filter(|line| line.starts_with("data: ")).take(5).count().min(2), 0, "events of no engine");
}

#[test]
fn others_are_refused() {
    let open = Rig::start(|_| {});
    let foreign = ask(open.address, "GET /snapshot HTTP/1.1\r\nHost: evil.example");
    assert!(foreign.starts_with("HTTP/1.1 421"), "{foreign}");
    let posted = ask(open.address, &format!("POST /metrics HTTP/1.1\r\nHost: {}", open.address));
    assert!(posted.starts_with("HTTP/1.1 405") && posted.contains("allow: GET, HEAD"), "{posted}");
    assert!(open.get("/etc/passwd").starts_with("HTTP/1.1 404"));

    let closed = Rig::start(|options| options.token = Some("0123456789abcdef".into()));
    assert!(closed.get("/metrics").starts_with("HTTP/1.1 401"));
    assert!(closed.get("/metrics?token=0123456789abcdef").starts_with("HTTP/1.1 200"));
    assert!(closed.get("/healthz").starts_with("HTTP/1.1 200"));
}

#[test]
fn what_others_can_reach_needs_a_token_and_a_port_is_taken_once() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().expect("an address");
    assert!(matches!(Monitor::bind(Options::new(everywhere)), Err(Error::NeedsToken { .. })));
    for token in ["short", "with a blank in it", "with/slash/in/it"] {
        let mut options = Options::new(everywhere);
        options.token = Some(token.into());
        assert!(matches!(Monitor::bind(options), Err(Error::WeakToken)), "{token}");
    }
    let first = Monitor::bind(Options::new(LOOPBACK)).expect("a free port");
    assert!(matches!(Monitor::bind(Options::new(first.address())), Err(Error::Listen { .. })));
}

#[test]
fn ninth_pages_are_refused_until_one_is_closed() {
    let rig = Rig::start(|_| {});
    let open = || {
        let mut socket = TcpStream::connect(rig.address).expect("a connection");
        write!(socket, "GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", rig.address).expect("it is sent");
        let mut first = String::new();
        let mut reader = BufReader::new(socket);
        reader.read_line(&mut first).expect("a status");
        (first.contains(" 200 "), reader)
    };
    let mut pages: Vec<_> = (0..8).map(|_| open()).collect();
    assert!(pages.iter().all(|(is_open, _)| *is_open) && !open().0);
    pages.pop();
    // Its end is noticed with the next event.
    assert!((0..100).any(|_| open().0 || {
        std::thread::sleep(Duration::from_millis(100));
        false
    }));
}

/// `contrib/grafana/foreread.json` asks for metrics and labels that there are.
#[test]
fn the_dashboard_asks_for_what_there_is() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/grafana/foreread.json");
    let text = std::fs::read_to_string(path).expect("the dashboard");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let rig = Rig::with_cache();
    let metrics = rig.body("/metrics");
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let expr = target["expr"].as_str().expect("a query");
            for name in expr.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')) {
                if name.starts_with("foreread_") {
                    let is_there =
                        |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
                    assert!(metrics.lines().any(is_there), "{name} is no metric: {metrics}");
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 20, "{asked} metrics are asked for");
}
