//! Tells the command which commit and target it is built of: `FOREREAD_BUILD_COMMIT` and
//! `FOREREAD_BUILD_TARGET` at compile time, for `foreread --version`.
//!
//! ```text
//!  FOREREAD_COMMIT is set       what it says: packagers, and archives of the source
//!  a build with optimisation    the commit that git has checked out; "unknown" without git
//!  any other build              "not recorded"
//! ```
//!
//! Git is not asked in a debug build: each commit would compile the command and all its tests
//! anew, and a build without that would name a commit that it is not of. What is changed and not
//! committed is not noticed.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FOREREAD_COMMIT");
    let told = std::env::var("FOREREAD_COMMIT").ok().filter(|commit| !commit.is_empty());
    let is_debug = std::env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let commit = match told {
        Some(commit) => commit,
        None if is_debug => "not recorded".to_owned(),
        None => checked_out().unwrap_or_else(|| "unknown".to_owned()),
    };
    println!("cargo::rustc-env=FOREREAD_BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=FOREREAD_BUILD_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}

/// The commit that git has checked out here. Cargo is told to ask again when that changes.
fn checked_out() -> Option<String> {
    // A source below the working tree of something else is not that one's commit.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    if !root.join(".git").exists() {
        return None;
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    // The log changes with each commit and checkout, but git may be told to keep none.
    let files = ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
    for file in files.filter_map(|name| git(&["rev-parse", "--git-path", name])) {
        // Cargo runs this again each time if a file that is named does not exist.
        if Path::new(&file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    Some(commit)
}

/// What git prints; nothing if it fails, or is not installed.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
