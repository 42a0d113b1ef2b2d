//! The texts of `--help`, word by word: a change of one is a change of a snapshot.
//!
//! To accept a change: `INSTA_UPDATE=always cargo test -p foreread-cli --test help`.

use std::process::Command;

fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_foreread"))
        .args(arguments)
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .output()
        .expect("foreread");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn subcommands() -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let dir_text = dir.path().to_string_lossy().into_owned();
    help(&["man", &dir_text]);
    let mut names: Vec<String> = std::fs::read_dir(dir.path())
        .expect("pages")
        .filter_map(|entry| entry.expect("a page").file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_prefix("foreread-")?.strip_suffix(".1")?.to_owned()))
        .collect();
    names.sort();
    names
}

#[test]
fn the_command() {
    insta::assert_snapshot!("foreread", help(&["--help"]));
}

#[test]
fn every_subcommand() {
    for name in subcommands() {
        insta::assert_snapshot!(name.clone(), help(&[&name, "--help"]));
    }
}

#[test]
fn every_subcommand_has_a_short_help_and_shows_how() {
    for name in subcommands() {
        assert!(help(&[&name, "-h"]).contains("Usage:"), "{name}");
        let long = help(&[&name, "--help"]);
        // A command without arguments and options of its own can be called in one way only.
        let needs_none = long.contains(&format!("Usage: foreread {name} [OPTIONS]\n")) && name == "demo";
        assert!(needs_none || long.contains("xample"), "{name}: no example");
    }
}

#[test]
fn completions_know_every_subcommand() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = help(&["completions", shell]);
        for name in subcommands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        assert!(script.contains("memory"), "{shell}: an option");
    }
}

#[test]
fn bash_accepts_its_completions() {
    let script = help(&["completions", "bash"]);
    let status = Command::new("bash").args(["-n", "-c", &script]).status().expect("bash");
    assert!(status.success());
}

#[test]
fn a_closed_pipe_is_no_error() {
    for command in ["completions bash", "simulate iozone-read --policy none --json", "bench --list"] {
        let script = format!("\"$0\" {command} | true; echo ${{PIPESTATUS[0]}}");
        let output = Command::new("bash").args(["-c", &script, env!("CARGO_BIN_EXE_foreread")]).output().expect("bash");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command}");
        let status = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        // 0 if the pipe took the whole output before its reader ended.
        assert!(status == "141" || status == "0", "{command}: {status}");
    }
}

#[test]
fn the_manual_has_the_exit_status() {
    let page = help(&["man"]);
    for words in ["Exit status", "foreread\\-mount", "wrong usage"] {
        assert!(page.contains(words), "{words:?}");
    }
}
