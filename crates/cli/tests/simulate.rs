//! `foreread simulate` as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_foreread"))
        .arg("simulate")
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .expect("the program runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_figure_of_the_folder_is_as_wanted() {
    let output = simulate(&["--check", "workloads/"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("thrash-200-streams: ") && table.contains("sequential-1m: "), "{table}");
    assert!(!table.contains("MISS"), "{table}");
}

#[test]
fn a_folder_without_a_workload_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    for arguments in [&[folder][..], &["--check", folder]] {
        let output = simulate(arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(&format!("no workload in {folder}")), "{}", stderr(&output));
    }
}

#[test]
fn a_run_is_compared_with_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base.json");
    let earlier = simulate(&["iozone-stride", "iozone-read", "--json"]);
    std::fs::write(&base, &earlier.stdout).unwrap();
    let base = base.to_str().unwrap();
    let same = simulate(&["iozone-stride", "--compare", base]);
    let text = String::from_utf8_lossy(&same.stdout).into_owned();
    assert!(same.status.success() && text.ends_with("runs compared\n") && text.lines().count() == 1, "{text}");
    let slower = simulate(&["iozone-read", "--device", "sata-ssd-2011", "--compare", base]);
    let text = String::from_utf8_lossy(&slower.stdout).into_owned();
    assert!(slower.status.success() && text.contains("foreread: throughput "), "{text}");
    let none = simulate(&["iozone-read", "--compare", "workloads/README.md"]);
    assert!(!none.status.success() && stderr(&none).contains("--json"), "{}", stderr(&none));
}

#[test]
fn seeds_are_searched_and_counted() {
    let output = simulate(&["--seeds", "1..200", "--faults"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.starts_with("200 seeds, 0 violations ("), "{told}");
    let output = simulate(&["--seeds", "1..200", "sequential-1m"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn the_report_is_one_page_that_needs_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let output = simulate(&["thrash-200-streams", "iozone-stride", "--report", path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let page = std::fs::read_to_string(&path).unwrap();
    for wanted in
        ["<h2>thrash-200-streams</h2>", "throughput, MB/s", "size of requests", "foreread: window", "amp: offset"]
    {
        assert!(page.contains(wanted), "{wanted:?} is not on the page");
    }
    // Pictures of both workloads: three of all policies, two of each of five. The workload with
    // several readers has one more of each policy.
    assert_eq!(page.matches("<svg").count(), 2 * (3 + 2 * 5) + 5);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    for foreign in ["http:", "https:", "<script", "src=", "NaN", "inf"] {
        assert!(!page.contains(foreign), "{foreign:?} is on the page");
    }
}

/// The number of lines in the picture of this title, and the picture.
fn lines<'p>(page: &'p str, title: &str) -> (usize, &'p str) {
    let titled = |svg: &&str| svg.contains(&format!("<title>{title}</title>"));
    let svg = page.split("<svg").find(titled).unwrap_or_else(|| panic!("no picture is called {title}"));
    (svg.matches("fill=\"none\" stroke=").count(), svg)
}

#[test]
fn each_reader_s_service_is_a_line_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let arguments = ["interactive-beside-16", "thrash-200-streams", "--policy", "foreread,none", "--report"];
    let output = simulate(&[&arguments[..], &[path.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let page = std::fs::read_to_string(&path).unwrap();
    for policy in ["foreread", "none"] {
        assert_eq!(lines(&page, &format!("{policy}: service of readers (16), bytes")).0, 16);
        assert_eq!(lines(&page, &format!("{policy}: service of those beside (1), bytes")).0, 1);
        let (drawn, svg) = lines(&page, &format!("{policy}: service of readers (200), bytes"));
        assert_eq!(drawn, 32, "of many readers some are drawn");
        assert!(svg.contains(">168 more: "), "{policy}: the rest is counted");
    }
    assert_eq!(page.matches("service of ").count(), 2 * 2 * 3, "a title is there twice");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        table.matches("slowest of fastest").count(),
        1,
        "of the readers that keep no pace of their own: {table}"
    );
}

#[test]
fn a_figure_that_is_missed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/thrash-200-streams.toml"));
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, text.unwrap().replace("<= 6.5 MB/s", "<= 1.5 MB/s")).unwrap();
    let output = simulate(&["--check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(told.starts_with("thrash-200-streams: linux-2.6.20: throughput max is "), "{told}");
    assert!(told.trim_end().ends_with("wanted <= 1.5 MB/s"), "{told}");
}

#[test]
fn policies_and_device_can_be_chosen() {
    let output = simulate(&["sequential-1m", "--policy", "none,foreread", "--device", "devices/hdd-w1.toml", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let policies: Vec<_> =
        json[0]["policies"].as_array().unwrap().iter().map(|p| p["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["none", "foreread"]);
    let throughput = json[0]["policies"][1]["figures"]["throughput"].as_f64().unwrap();
    assert!((60.0..=62.1).contains(&throughput), "the disk carries 62 MB/s: {throughput}");
}

#[test]
fn what_does_not_exist_is_named_with_what_does() {
    let output = simulate(&["sequential-1m", "--policy", "guess"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no policy is called guess; known: foreread, linux,"), "{}", stderr(&output));
    let output = simulate(&["sequential-1m", "--device", "floppy"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no device is called floppy") && stderr(&output).contains("known: hdd-w1"));
    let output = simulate(&["nonsense"]);
    assert!(stderr(&output).contains("no workload is called nonsense"), "{}", stderr(&output));
}

#[test]
fn a_simulated_device_is_not_benchmarked() {
    let output = Command::new(env!("CARGO_BIN_EXE_foreread")).args(["bench", "thrash-200-streams"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("run `foreread simulate thrash-200-streams`"), "{}", stderr(&output));
}
