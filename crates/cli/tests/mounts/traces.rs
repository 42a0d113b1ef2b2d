//! Traces of slow reads: what a collector gets of them, and what happens where there is none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use std::{fs, process};

use foreread_testbed::{Config, ObjectSpec};
use serde_json::Value;

use crate::fixture::{Mount, Store, directory, until};

/// The head of each request, in lower case, and its body.
type Requests = Vec<(String, Vec<u8>)>;

/// What takes requests as a collector does, and answers with a status.
struct Collector {
    address: SocketAddr,
    taken: Arc<Mutex<Requests>>,
}

impl Collector {
    fn start(status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, taken) = (listener.local_addr().expect("an address"), Arc::<Mutex<Requests>>::default());
        let to = Arc::clone(&taken);
        // It ends with the test's process.
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let to = Arc::clone(&to);
                thread::spawn(move || serve(&connection, status, &to));
            }
        });
        Self { address, taken }
    }

    fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans of all requests; each must have come to the path of traces.
    fn spans(&self) -> Vec<Value> {
        let taken = self.taken.lock().expect("it is free");
        let bodies = taken.iter().map(|(head, body)| {
            assert!(head.starts_with("post /v1/traces ") && head.contains("application/json"), "{head}");
            serde_json::from_slice::<Value>(body).expect("JSON")
        });
        let all = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
        let scopes = bodies.flat_map(|body| all(&body, "resourceSpans")).flat_map(|of| all(&of, "scopeSpans"));
        scopes.flat_map(|scope| all(&scope, "spans")).collect()
    }
}

fn serve(mut connection: &std::net::TcpStream, status: &str, to: &Mutex<Requests>) {
    let mut reader = BufReader::new(connection);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).is_ok_and(|read| read == 0) {
                return;
            }
        }
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let mut body = vec![0; length.and_then(|length| length.trim().parse().ok()).unwrap_or(0)];
        reader.read_exact(&mut body).expect("a body");
        to.lock().expect("it is free").push((head, body));
        let answer = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}");
        connection.write_all(answer.as_bytes()).expect("it is sent");
    }
}

/// A store that answers after 120 ms.
fn store() -> Store {
    let objects = vec![ObjectSpec::new("dir/secret", 4 << 20)];
    let first_byte = Duration::from_millis(120);
    Store::start(Config { objects, first_byte, jitter: Duration::ZERO, ..Config::default() })
}

/// A mount whose slow reads go to `endpoint`, and its log.
fn traced(store: &Store, endpoint: &str, environment: &[(&str, &str)], options: &[&str]) -> (Mount, tempfile::TempDir) {
    let folder = directory();
    let log = folder.path().join("log").to_str().expect("UTF-8").to_owned();
    let mut command = store.foreread();
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_BSP_SCHEDULE_DELAY", "100");
    command.envs(environment.iter().copied());
    let slow = if options.contains(&"--slow") { &[][..] } else { &["--slow", "100ms"] };
    let options = [&["--memory", "64M", "--log", &log], slow, options].concat();
    (Mount::background(command, "s3://testbed", &options), folder)
}

fn log(folder: &tempfile::TempDir) -> String {
    fs::read_to_string(folder.path().join("log")).expect("the log")
}

fn attribute<'v>(span: &'v Value, name: &str) -> &'v Value {
    let attributes = span["attributes"].as_array().expect("attributes");
    let found = attributes.iter().find(|attribute| attribute["key"] == name);
    let value = &found.unwrap_or_else(|| panic!("{name} in {span}"))["value"];
    value.as_object().and_then(|value| value.values().next()).expect("a value")
}

fn time(span: &Value, name: &str) -> u64 {
    let value = &span[name];
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{name} of {span}"))
}

#[test]
fn a_collector_gets_what_a_slow_read_waited_for() {
    let (store, collector) = (store(), Collector::start("200 OK"));
    let (mounted, _folder) =
        traced(&store, &collector.endpoint(), &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")], &[]);
    fs::read(mounted.file("dir/secret")).expect("the file");
    let named =
        |spans: &[Value], name: &str| spans.iter().filter(|span| span["name"] == name).cloned().collect::<Vec<_>>();
    until("the read is told of", || !named(&collector.spans(), "read").is_empty());
    let spans = collector.spans();
    let read = &named(&spans, "read")[0];
    assert_eq!(attribute(read, "foreread.cause"), "the storage answered late", "{read}");
    assert_eq!(attribute(read, "foreread.file"), "file 1", "no name leaves the process");
    let below = |span: &Value, name: &str| {
        let of = named(&spans, name)
            .into_iter()
            .find(|other| other["parentSpanId"] == span["spanId"] && other["traceId"] == span["traceId"]);
        of.unwrap_or_else(|| panic!("{name} below {span}"))
    };
    let request = below(read, "request");
    assert_eq!(attribute(&request, "foreread.source"), "storage");
    let first = below(&request, "first byte");
    let waited = time(&first, "endTimeUnixNano") - time(&first, "startTimeUnixNano");
    assert!(waited >= 120_000_000, "{waited} ns");
    for span in [read, &request, &first] {
        assert!(time(span, "startTimeUnixNano") <= time(span, "endTimeUnixNano"), "{span}");
        assert!(time(span, "endTimeUnixNano") <= time(read, "endTimeUnixNano"), "{span}");
    }
    let taken = collector.taken.lock().expect("it is free");
    let text = String::from_utf8_lossy(&taken[0].1).into_owned();
    assert!(text.contains("\"foreread\"") && text.contains("s3://testbed") && !text.contains("secret"), "{text}");
}

/// The text of an error has the name of its object.
#[test]
fn a_read_that_failed_is_told_without_a_name() {
    let (store, collector) = (store(), Collector::start("200 OK"));
    let environment = [("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")];
    let (mounted, _folder) = traced(&store, &collector.endpoint(), &environment, &["--slow", "0s"]);
    let mut file = fs::File::open(mounted.file("dir/secret")).expect("the file");
    store.testbed.set_faults(vec!["status=403,kind=get".parse().expect("a fault")]);
    file.read_exact(&mut [0; 4096]).expect_err("it is forbidden");
    until("the failure is told", || collector.spans().iter().any(|span| span["status"]["message"].is_string()));
    let taken = collector.taken.lock().expect("it is free");
    let text: String = taken.iter().map(|(_, body)| String::from_utf8_lossy(body)).collect();
    assert!(text.contains("it failed: the log says why") && !text.contains("secret"), "{text}");
}

/// Also what was not sent when the mount ended.
#[test]
fn the_last_traces_are_sent_at_the_end_and_named_if_that_is_asked_for() {
    let (store, collector) = (store(), Collector::start("200 OK"));
    let environment = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_BSP_SCHEDULE_DELAY", "3600000"),
        ("OTEL_SERVICE_NAME", "reader of data"),
    ];
    let (mounted, folder) = traced(&store, &collector.endpoint(), &environment, &["--metrics-names"]);
    fs::read(mounted.file("dir/secret")).expect("the file");
    assert!(collector.spans().is_empty());
    drop(mounted);
    until("the mount has ended", || log(&folder).contains("unmounted"));
    assert!(collector.spans().iter().any(|span| span["name"] == "read"));
    let taken = collector.taken.lock().expect("it is free");
    let text = String::from_utf8_lossy(&taken[0].1);
    assert!(text.contains("dir/secret") && text.contains("reader of data"), "{text}");
}

#[test]
fn a_collector_that_refuses_or_is_away_costs_one_warning() {
    let store = store();
    let refusing = Collector::start("503 Service Unavailable");
    let away = format!(
        "http://127.0.0.1:{}",
        TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port()
    );
    for endpoint in [&refusing.endpoint(), &away] {
        let (mounted, folder) = traced(&store, endpoint, &[], &[]);
        let file = fs::File::open(mounted.file("dir/secret")).expect("the file");
        for at in [0, 3 << 20, 1 << 20] {
            let mut bytes = vec![0; 4096];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, at).expect("a read");
        }
        until("the failure is told", || log(&folder).contains("traces are not accepted"));
        assert_eq!(log(&folder).matches(" WARN ").count(), log(&folder).matches("a slow read").count() + 1);
        drop((file, mounted));
    }
    // What only a stack for gRPC could send is said at once, and the mount works.
    let (mounted, folder) = traced(&store, &away, &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], &[]);
    assert_eq!(fs::read(mounted.file("dir/secret")).expect("the file").len(), 4 << 20);
    assert!(log(&folder).contains("no traces are sent") && log(&folder).contains("http/protobuf"), "{}", log(&folder));
}

/// OpenTelemetry's own collector takes what is sent by default, as protobuf.
#[test]
fn the_collector_of_opentelemetry_understands_it() {
    let Some(program) =
        std::env::var_os("FOREREAD_EMULATORS").map(|folder| std::path::Path::new(&folder).join("bin/collector"))
    else {
        return eprintln!("skipped: no collector; crates/backend/tests/emulators.sh installs it");
    };
    let (store, folder) = (store(), directory());
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let configuration = format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\n\
         exporters: {{debug: {{verbosity: detailed}}}}\n\
         service: {{telemetry: {{metrics: {{level: none}}}}, pipelines: {{traces: {{receivers: [otlp], exporters: [debug]}}}}}}\n"
    );
    let (path, said) = (folder.path().join("config.yaml"), folder.path().join("said"));
    fs::write(&path, configuration).expect("a file");
    let output = fs::File::create(&said).expect("a file");
    let mut collector = process::Command::new(program);
    collector.arg("--config").arg(&path).stderr(output).stdin(process::Stdio::null());
    let mut collector = collector.spawn().expect("the collector");
    let said = || fs::read_to_string(&said).expect("what it said");
    until("the collector is there", || said().contains("Everything is ready"));
    let (mounted, _log) = traced(&store, &format!("http://127.0.0.1:{port}"), &[], &[]);
    fs::read(mounted.file("dir/secret")).expect("the file");
    until("the collector has a trace", || said().contains("foreread.cause"));
    drop(mounted);
    collector.kill().and_then(|()| collector.wait()).expect("it ends");
    let said = said();
    for word in ["service.name: Str(foreread)", "Name           : first byte", "Str(the storage answered late)"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}
