//! The example of a pod: that the command takes what it is given there. Whether Kubernetes would
//! take the pod is checked by contrib/check.

use std::path::Path;
use std::process::Command;

#[test]
fn the_command_takes_what_the_pod_gives_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/kubernetes/sidecar.yaml");
    let text = std::fs::read_to_string(path).expect("the example");
    let sidecar = text.split("- name: foreread\n").nth(1).and_then(|rest| rest.split("  containers:\n").next());
    let lines = || sidecar.expect("the sidecar").lines().map(str::trim);
    let mount = lines().skip_while(|line| *line != "args:").skip(1).take_while(|line| line.starts_with(['-', '#']));
    let mut calls: Vec<Vec<&str>> = vec![mount.filter_map(|line| line.strip_prefix("- ")).collect()];
    let commands = lines().filter_map(|line| line.strip_prefix("command: [/usr/bin/foreread, ")?.strip_suffix(']'));
    calls.extend(commands.map(|words| words.split(", ").collect()));
    let named: Vec<&str> = calls.iter().map(|words| words[0]).collect();
    assert_eq!(named, ["mount", "stats"], "{calls:?}");
    for words in calls {
        // clap answers --help at any place, but only after it has accepted the words before.
        let output = Command::new(env!("CARGO_BIN_EXE_foreread")).args(&words).arg("--help").output().expect("it");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
