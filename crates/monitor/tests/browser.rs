//! The live page in a browser, and a real Prometheus that scrapes the metrics.

#[path = "rig/engine.rs"]
mod rig;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use rig::Rig;

/// Whether `program` is installed. If not, a test fails with `FOREREAD_REQUIRE_CLIENTS=1`; without
/// that it has nothing to check.
fn have(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        let required = std::env::var("FOREREAD_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        assert!(!required, "{program} is not installed, and FOREREAD_REQUIRE_CLIENTS=1");
        eprintln!("skipped: no {program}");
    }
    found
}

fn run(command: &mut Command) -> String {
    let ended = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{command:?}: {text}");
    text
}

/// Reads on while `f` looks.
fn while_read<R>(rig: &Rig, f: impl FnOnce() -> R) -> R {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut at = 8 << 20;
            while !ends.load(Relaxed) {
                rig.read(at % (60 << 20), 1 << 20);
                at += 1 << 20;
                thread::sleep(Duration::from_millis(50));
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        ends.store(true, Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn the_page_is_right_in_a_browser_at_two_sizes_by_keyboard_and_as_a_file() {
    if !(have("chromium") && have("npm") && have("node")) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page");
    for name in ["package.json", "package-lock.json", "check.mjs"] {
        fs::copy(source.join(name), folder.path().join(name)).expect("it is copied");
    }
    run(Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(folder.path()));
    let rig = Rig::start(|options| options.names = true);
    rig.get_into_trouble();
    let said = while_read(&rig, || {
        run(Command::new("node")
            .args(["check.mjs", &format!("http://{}/", rig.address), "/usr/bin/chromium"])
            .arg(folder.path())
            .current_dir(folder.path()))
    });
    assert!(said.contains("as it should be"), "{said}");
}

/// A process that is killed with it.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn prometheus_scrapes_it_and_finds_nothing_to_say_about_the_names() {
    if !(have("prometheus") && have("promtool")) {
        return;
    }
    let (rig, folder) = (Rig::start(|_| {}), tempfile::tempdir().expect("a folder"));
    let text = rig.body("/metrics");
    fs::write(folder.path().join("metrics"), &text).expect("it is written");
    let check = format!("promtool check metrics < {}/metrics", folder.path().display());
    let said = run(Command::new("sh").args(["-c", &check]));
    assert_eq!(said.trim(), "", "{text}");

    let settings = format!(
        "scrape_configs:\n- job_name: foreread\n  scrape_interval: 1s\n  static_configs: [{{targets: ['{}']}}]\n",
        rig.address
    );
    let settings_path = folder.path().join("prometheus.yml");
    fs::write(&settings_path, settings).expect("it is written");
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
    let _server = Killed(
        Command::new("prometheus")
            .arg(format!("--config.file={}", settings_path.display()))
            .arg(format!("--storage.tsdb.path={}/data", folder.path().display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus"),
    );
    let wanted = rig.engine.stats().read_bytes.to_string();
    let ask = format!("promtool query instant http://127.0.0.1:{port} foreread_read_bytes_total");
    // Two minutes at most.
    for _ in 0..400 {
        let answer = Command::new("sh").args(["-c", &ask]).output().expect("promtool");
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        if text.contains(&format!("=> {wanted} @")) {
            return;
        }
        eprintln!("{text} {}", String::from_utf8_lossy(&answer.stderr));
        thread::sleep(Duration::from_millis(300));
    }
    panic!("prometheus has no such value");
}
