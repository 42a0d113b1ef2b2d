//! The benchmark itself, on a small workload: what it counts, what it judges, and that it leaves
//! nothing behind.
//!
//! Needs /dev/fuse.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

/// Three files of 9 MiB, read by one thread each; `pattern` and `expect` are sections' bodies.
fn workload(dir: &Path, pattern: &str, expect: &str) -> PathBuf {
    let path = dir.join("small.toml");
    let text = format!(
        "name = \"small\"\ndescription = \"Small\"\nseed = 1\nthreads = 3\nduration = \"60s\"\n\
         [files]\ncount = 3\nsize = \"9MiB\"\n[pattern]\n{pattern}\n\
         [device]\nfirst_byte = \"1ms\"\nconnection_rate = \"1GB/s\"\n[mount]\nmemory = \"32MiB\"\n[expect]\n{expect}\n"
    );
    fs::write(&path, text).expect("a writable directory");
    path
}

fn bench(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    command.arg("bench").args(arguments).env("TMPDIR", dir).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Mount points below `dir`.
fn mounts_below(dir: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("the table of mounts");
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    points.filter(|point| Path::new(point).starts_with(dir)).map(str::to_owned).collect()
}

#[test]
fn a_row_counts_what_is_read_and_names_the_figure_that_misses() {
    let dir = TempDir::new().expect("a temporary directory");
    let dir = dir.path().canonicalize().expect("it exists");
    let scratch = dir.join("scratch");
    fs::create_dir(&scratch).expect("a writable directory");
    let expect = "late = \"<= 0 reads\"\nrequests_per_gib = \"<= 0/GiB\"";
    let path = workload(&dir, "kind = \"slow\"\nrecord = \"1MiB\"\nperiod = \"50ms\"", expect);
    let json = dir.join("result.json");
    let arguments = [path.to_str().unwrap(), "--repeat", "1", "--check", "--json", json.to_str().unwrap()];
    let output = bench(&scratch, &arguments).output().expect("the command starts");
    let text = told(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("small: requests per gib is "), "{text}");

    let result: Value = serde_json::from_slice(&fs::read(&json).expect("it was written")).expect("it is JSON");
    let columns = result["rows"][0]["measured"]["columns"].as_array().expect("columns");
    assert_eq!(columns.len(), 2, "with and without readahead");
    for column in columns {
        assert_eq!(column["failure"], Value::Null, "{column}");
        let run = &column["runs"][0];
        assert_eq!(run["reading"]["bytes"], 27 << 20, "{column}");
        assert_eq!(run["reading"]["operations"], 27);
        assert!(run["fetched"]["bytes"].as_u64() >= Some(27 << 20), "{column}");
        assert!(run["mount"]["rss_max_bytes"].as_u64() > Some(0));
    }
    assert_eq!(result["rows"][0]["figures"][1]["verdict"], "missed");
    assert_eq!(fs::read_dir(&scratch).expect("it is still there").count(), 0, "nothing is left behind");
}

#[test]
fn several_processes_read_and_the_run_without_the_fair_queue_is_not_judged() {
    let dir = TempDir::new().expect("a temporary directory");
    let path = workload(dir.path(), "kind = \"sequential\"\nrecord = \"1MiB\"", "amp = \"<= 2\"");
    let text = fs::read_to_string(&path).expect("it was written");
    let more = "threads = 3\nprocesses = 2\nbaselines = [\"fair-queue-off\"]\n";
    fs::write(&path, text.replace("threads = 3\n", more)).expect("a writable directory");
    let json = dir.path().join("result.json");
    let arguments = [path.to_str().unwrap(), "--repeat", "1", "--check", "--json", json.to_str().unwrap()];
    let output = bench(dir.path(), &arguments).output().expect("the command starts");
    let text = told(&output);
    assert!(output.status.success(), "{text}");
    let head = text.lines().next().expect("a header");
    let names = ["foreread", "readahead off", "fair queue off", "predicted"];
    assert!(head.ends_with(&names.map(|name| format!("{name:15}")).join(" ").trim_end()), "{head}");
    let fairness = text.lines().find(|line| line.contains(" slowest of fastest ")).expect("a line about fairness");
    assert_eq!(fairness.split_whitespace().count(), 3 + 4, "a value for each column: {fairness}");

    let result: Value = serde_json::from_slice(&fs::read(&json).expect("it was written")).expect("it is JSON");
    let columns = result["rows"][0]["measured"]["columns"].as_array().expect("columns");
    assert_eq!(columns.len(), 3);
    for column in columns {
        assert_eq!(column["failure"], Value::Null, "{column}");
        assert_eq!(column["runs"][0]["reading"]["bytes"], 27 << 20, "all that the processes read: {column}");
        assert_eq!(column["runs"][0]["reading"]["operations"], 27);
    }
}

#[test]
fn another_client_is_measured_and_its_failure_is_reported_not_judged() {
    let dir = TempDir::new().expect("a temporary directory");
    let path = workload(dir.path(), "kind = \"random\"\nrecord = \"4KiB\"\ndescriptor = \"shared\"", "amp = \"<= 2\"");
    let mount = format!("'{}' mount s3://{{bucket}} {{dir}} --endpoint {{endpoint}}", env!("CARGO_BIN_EXE_foreread"));
    let ours = format!("{mount} --foreground --memory {{memory_mib}}M");
    let arguments =
        [path.to_str().unwrap(), "--repeat", "1", "--against", &ours, "--against", "echo no credentials >&2; false"];
    let output = bench(dir.path(), &arguments).output().expect("the command starts");
    let text = told(&output);
    assert!(output.status.success(), "{text}");
    let amp = text.lines().find(|line| line.contains(" amp ")).expect("a line about amp");
    let values: Vec<&str> = amp.split_whitespace().skip_while(|word| *word != "2").skip(1).collect();
    assert!(
        matches!(values[..], [_, "ok", _, other, "-", predicted] if other.parse::<f64>().is_ok() && predicted.parse::<f64>().is_ok()),
        "{amp}"
    );
    assert!(text.contains("no credentials"), "{text}");
}

/// A tree of three directories with four files of 10,000 bytes each.
fn tree(dir: &Path, pattern: &str, expect: &str) -> PathBuf {
    let path = dir.join("tree.toml");
    let text = format!(
        "name = \"tree\"\ndescription = \"A tree\"\nseed = 1\nthreads = 1\nduration = \"60s\"\n\
         [tree]\ndirectories = 3\nfiles = 4\nsize = \"10000B\"\n[pattern]\nkind = \"walk\"\n{pattern}\n\
         [device]\nfirst_byte = \"1ms\"\nconnection_rate = \"1GB/s\"\n[mount]\nmemory = \"32MiB\"\n[expect]\n{expect}\n"
    );
    fs::write(&path, text).expect("a writable directory");
    path
}

#[test]
fn a_tree_is_walked_and_its_requests_are_counted_by_directory_name_and_file() {
    let dir = TempDir::new().expect("a temporary directory");
    let contents = ("visit = \"contents\"\nrecord = \"4KiB\"", "reads_per_file = \"<= 1, >= 1\"\nwaste = \"<= 0\"");
    let names = ("visit = \"names\"", "rounds = \"<= 0 rounds\"");
    for ((pattern, expect), files) in [(contents, 12), (names, 0)] {
        let path = tree(dir.path(), pattern, expect);
        let json = dir.path().join("result.json");
        let arguments = [path.to_str().unwrap(), "--repeat", "1", "--check", "--json", json.to_str().unwrap()];
        let output = bench(dir.path(), &arguments).output().expect("the command starts");
        let text = told(&output);
        assert_eq!(output.status.success(), files > 0, "{text}");
        assert_eq!(text.contains("tree: rounds is "), files == 0, "{text}");

        let result: Value = serde_json::from_slice(&fs::read(&json).expect("it was written")).expect("it is JSON");
        for column in result["rows"][0]["measured"]["columns"].as_array().expect("columns") {
            assert_eq!(column["failure"], Value::Null, "{column}");
            let run = &column["runs"][0];
            let trodden = &run["reading"]["trodden"];
            assert_eq!((&trodden["directories"], &trodden["names"]), (&4.into(), &15.into()), "{column}");
            assert_eq!((&trodden["files"], &trodden["complete"]), (&files.into(), &true.into()), "{column}");
            assert_eq!(run["fetched"]["bytes"], files * 10_000, "{column}");
            assert_eq!(run["values"]["stats_per_entry"], 0.0, "a listing tells all of it: {column}");
            assert!(run["values"]["lists_per_directory"].as_f64().is_some_and(|lists| lists >= 1.0), "{column}");
            assert_eq!(run["values"].get("reads_per_file").is_some(), files > 0, "{column}");
        }
    }
}

#[test]
fn a_tree_is_neither_simulated_nor_read_from_storage_of_the_user() {
    let run =
        |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_foreread")).args(arguments).output().expect("it starts");
    let output = run(&["simulate", "find"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("run `foreread bench find`"), "{}", told(&output));
    let output = run(&["bench", "find", "--url", "s3://bucket"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("only a testbed holds"), "{}", told(&output));
}

#[test]
fn an_interrupted_run_leaves_no_mount_and_no_directory() {
    let dir = TempDir::new().expect("a temporary directory");
    let dir = dir.path().canonicalize().expect("it exists");
    let scratch = dir.join("scratch");
    fs::create_dir(&scratch).expect("a writable directory");
    // A read every 10 s: the run cannot end before the signal.
    let path = workload(&dir, "kind = \"slow\"\nrecord = \"1MiB\"\nperiod = \"10s\"", "");
    let mut child = bench(&scratch, &[path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    while mounts_below(&scratch).is_empty() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it mounted");
        thread::sleep(Duration::from_millis(10));
    }
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("interrupted"), "{}", told(&output));
    assert_eq!(mounts_below(&scratch), Vec::<String>::new());
    assert_eq!(fs::read_dir(&scratch).expect("it is still there").count(), 0, "nothing is left behind");
}

/// The used part of the kernel's swap file below `dir`.
fn swapped_below(dir: &Path) -> Option<u64> {
    let swaps = fs::read_to_string("/proc/swaps").expect("the list of swap files");
    let line =
        swaps.lines().find(|line| Path::new(line.split_whitespace().next().unwrap_or_default()).starts_with(dir))?;
    Some(line.split_whitespace().nth(3).and_then(|used| used.parse().ok()).expect("what is in use of it"))
}

/// The memory cgroups of a run, by its number.
fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    let places = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
    let groups = places.map(|place| Path::new(place).join(format!("foreread-bench-{pid}")));
    groups.into_iter().filter(|group| group.exists()).collect()
}

/// Processes that were started with `dir` for temporary files.
fn processes_with(dir: &Path) -> Vec<PathBuf> {
    let variable = format!("TMPDIR={}", dir.display());
    let processes = fs::read_dir("/proc").expect("the processes").flatten().map(|entry| entry.path());
    let environment = |process: &PathBuf| fs::read(process.join("environ")).unwrap_or_default();
    processes
        .filter(|process| environment(process).split(|&byte| byte == 0).any(|of| of == variable.as_bytes()))
        .collect()
}

#[test]
fn an_interrupted_measurement_of_memory_leaves_no_swap_file_no_cgroup_and_no_process() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: a swap file needs root");
        return;
    }
    for signal in [Signal::INT, Signal::TERM] {
        let dir = TempDir::new().expect("a temporary directory");
        let scratch = dir.path().canonicalize().expect("it exists").join("scratch");
        fs::create_dir(&scratch).expect("a writable directory");
        // Random touches of memory twice its budget: kernel swap, which runs first, takes minutes.
        let mut child = bench(&scratch, &["memory/500/random/1/write", "--quick", "--repeat", "99"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("the command starts");
        let ended = loop {
            if swapped_below(&scratch).is_some_and(|used| used > 0) && !cgroups_of(child.id()).is_empty() {
                break false;
            }
            if child.try_wait().expect("a child").is_some() {
                break true;
            }
            thread::sleep(Duration::from_millis(10));
        };
        if ended {
            let text = told(&child.wait_with_output().expect("it has ended"));
            assert!(["mkswap", "swapon", "cgroup"].iter().any(|what| text.contains(what)), "{text}");
            eprintln!("left out: nothing can be swapped to here: {text}");
            return;
        }
        assert!(processes_with(&scratch).len() > 1, "it touches by itself");
        // As a terminal does, to all processes of the foreground, and repeatedly: a second signal
        // must not stop the clean-up.
        while child.try_wait().expect("a child").is_none() {
            let _ = rustix::process::kill_process_group(Pid::from_child(&child), signal);
            thread::sleep(Duration::from_millis(1));
        }
        let pid = child.id();
        let output = child.wait_with_output().expect("it has ended");
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert!(told(&output).contains("interrupted"), "{}", told(&output));
        assert_eq!(swapped_below(&scratch), None, "a swap file is in use");
        assert_eq!(cgroups_of(pid), Vec::<PathBuf>::new());
        assert_eq!(processes_with(&scratch), Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(&scratch).expect("it is still there").count(), 0, "nothing is left behind");
    }
}

#[test]
fn memory_larger_than_its_budget_is_measured_and_leaves_nothing() {
    let dir = TempDir::new().expect("a temporary directory");
    let scratch = dir.path().canonicalize().expect("it exists").join("scratch");
    fs::create_dir(&scratch).expect("a writable directory");
    let json = dir.path().join("result.json");
    let row = "memory/900/random/4/write";
    let arguments = [row, "--quick", "--repeat", "1", "--json", json.to_str().unwrap()];
    let output = bench(&scratch, &arguments).output().expect("the command starts");
    let text = told(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains(row), "{text}");
    let result: Value = serde_json::from_slice(&fs::read(&json).expect("it was written")).expect("it is JSON");
    let measured = &result["rows"][0];
    // Each page of 250 MiB five times.
    let touches = (250_u64 << 8) * 5;
    assert_eq!(measured["region"]["touches"], touches, "{measured}");
    assert!(measured["region"]["misses"].as_u64() > Some(0), "{measured}");
    let resident = measured["region"]["rss_bytes"].as_u64().expect("a number");
    assert!(resident > 200 << 20 && resident <= (225 << 20) / 20 * 21, "{measured}");
    if rustix::process::geteuid().is_root() {
        assert_eq!(measured["kernel"]["touches"], touches, "{measured}");
        assert!(measured["kernel"]["pages_read"].as_u64() > Some(0), "{measured}");
    }
    let swaps = fs::read_to_string("/proc/swaps").expect("the list of swap files");
    assert!(!swaps.contains(scratch.to_str().unwrap()), "{swaps}");
    assert_eq!(fs::read_dir(&scratch).expect("it is still there").count(), 0, "nothing is left behind");
}

/// A program that lists and reads what a script of its own makes; `more` are further lines.
fn program(dir: &Path, command: &str, more: &str, expect: &str) -> PathBuf {
    let data = dir.join("data");
    fs::create_dir_all(&data).expect("a writable directory");
    let script = "#!/bin/sh\nset -e\nmkdir sub\nfor name in 1 2 3; do echo $name > sub/$name; done\necho top > top\n";
    fs::write(data.join("numbers"), script).expect("a writable directory");
    let path = dir.join("numbers.toml");
    let text = format!(
        "name = \"numbers\"\ndescription = \"Numbers\"\nduration = \"30s\"\n\
         [program]\ncommand = '{command}'\n{more}\ndata = \"numbers\"\n\
         [device]\nfirst_byte = \"1ms\"\nconnection_rate = \"1GB/s\"\n[mount]\nmemory = \"32MiB\"\n[expect]\n{expect}\n"
    );
    fs::write(&path, text).expect("a writable directory");
    path
}

/// Measures `path` once, with its data in `dir`: whether all went well, what was told, the JSON.
fn measured(dir: &Path, path: &Path) -> (bool, String, Value) {
    let (json, data) = (dir.join("result.json"), dir.join("made"));
    let (path, json, data) = (path.to_str().unwrap(), json.to_str().unwrap(), data.to_str().unwrap());
    let arguments = [path, "--repeat", "1", "--check", "--data", data, "--json", json];
    let output = bench(dir, &arguments).output().expect("the command starts");
    let result = fs::read(json).ok().and_then(|text| serde_json::from_slice(&text).ok());
    (output.status.success(), told(&output), result.unwrap_or_default())
}

#[test]
fn a_program_is_run_over_a_mount_and_its_requests_are_counted() {
    let dir = TempDir::new().expect("a temporary directory");
    let own = "own = \"printf '1\\\\n2\\\\n3\\\\n'\"";
    let expect = "gets = \"<= 4 requests, >= 3 requests\"\nfetched = \"<= 0.00001 MB\"\nseconds_of_own = \">= 0\"";
    let path = program(dir.path(), "cat $DATA/sub/*", own, expect);
    let (good, text, result) = measured(dir.path(), &path);
    assert!(good, "{text}");
    let columns = result["rows"][0]["measured"]["columns"].as_array().expect("columns");
    let names: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
    assert_eq!(names, ["foreread", "readahead off", "without a mount", "local folder"]);
    let values = |column: usize| &columns[column]["runs"][0]["values"];
    assert_eq!(values(1)["gets"], 3.0, "a file each, without readahead: {text}");
    assert_eq!(values(2)["gets"], 0.0, "it asks the store for nothing: {text}");
    assert!(values(0)["seconds"].as_f64() > Some(0.0) && values(0)["lists"].as_f64() >= Some(1.0), "{text}");
    assert_eq!(mounts_below(dir.path()), [""; 0]);

    // The data is there by now; a program that has a clock of its own, and fails to tell it.
    let path =
        program(dir.path(), "cat $DATA/sub/2; echo 0.5", "timed = \"itself\"", "seconds = \"<= 0.5 s, >= 0.5 s\"");
    let (good, text, _) = measured(dir.path(), &path);
    assert!(good && !text.contains("making data"), "{text}");
    let path = program(dir.path(), "cat $DATA/sub/2; echo soon", "timed = \"itself\"", "");
    let (good, text, _) = measured(dir.path(), &path);
    assert!(!good && text.contains("the last line of numbers is `soon`, not its seconds"), "{text}");
}

#[test]
fn a_program_that_prints_something_else_over_a_mount_is_reported() {
    let dir = TempDir::new().expect("a temporary directory");
    let path = program(dir.path(), "ls -d $DATA", "", "");
    let (good, text, _) = measured(dir.path(), &path);
    assert!(
        !good && text.contains("numbers prints `") && text.contains("and with its data in a local folder `"),
        "{text}"
    );
    let path = program(dir.path(), "cat $DATA/none", "", "");
    let (good, text, _) = measured(dir.path(), &path);
    assert!(!good && text.contains("none: No such file"), "{text}");
}

#[test]
fn what_a_program_names_must_exist() {
    let dir = TempDir::new().expect("a temporary directory");
    let path = program(dir.path(), "true", "tools = \"nothing\"", "");
    let (good, text, _) = measured(dir.path(), &path);
    let known = "no script of tools is called nothing";
    assert!(!good && text.contains(known) && text.contains("built in: pillow, tables"), "{text}");
    let output = bench(dir.path(), &["import-nothing"]).output().expect("the command starts");
    assert!(told(&output).contains("git-status"), "the known programs are named: {}", told(&output));
    let mut simulate = Command::new(env!("CARGO_BIN_EXE_foreread"));
    let output = simulate.args(["simulate", "git-status"]).output().expect("the command starts");
    assert!(told(&output).contains("foreread bench git-status"), "{}", told(&output));
}
