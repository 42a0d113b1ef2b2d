//! The commands that README and the book show are run as they are written.
//!
//! A block marked `sh` is run by bash, the blocks of one file as one script from top to bottom, in
//! a directory of its own, with this build of foreread first on the path. A block marked `console`
//! needs an account, another machine or much time. It is not run, but the command's parser must
//! accept each of its `foreread` lines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").to_owned()
}

fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md")];
    let mut pending = vec![root().join("docs")];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The text of each fenced block of this language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in text.lines() {
        match (line.trim().strip_prefix("```"), open.take()) {
            (Some(info), None) => open = Some((info.trim() == language, String::new())),
            (Some(_), Some((wanted, block))) => found.extend(wanted.then_some(block)),
            (None, Some((wanted, block))) => open = Some((wanted, block + line + "\n")),
            (None, None) => {}
        }
    }
    found
}

#[test]
fn shell_snippets_run() {
    let binary = Path::new(env!("CARGO_BIN_EXE_foreread"));
    let bin = binary.parent().expect("its directory");
    let path = std::env::join_paths(
        [bin.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .expect("a path");
    for document in documents() {
        let script = blocks(&fs::read_to_string(&document).unwrap_or_default(), "sh").join("\n");
        if script.is_empty() {
            continue;
        }
        let dir = tempfile::tempdir().expect("a directory");
        // All processes and mounts of the snippets are ended, even if one of them fails.
        let whole = format!(
            "trap 'status=$?; set +e; kill $(jobs -p) 2>/dev/null; for at in $(grep -o \"$PWD[^ ]* fuse.foreread\" /proc/mounts); do \
             foreread umount --lazy $at 2>/dev/null; done; exit $status' EXIT\n{script}"
        );
        let output = Command::new("timeout")
            .args(["--kill-after=10", "300", "bash", "-euo", "pipefail", "-c", &whole])
            .current_dir(dir.path())
            .env("PATH", &path)
            .env("HOME", dir.path())
            .output()
            .expect("bash");
        assert!(
            output.status.success(),
            "{}: {}\n{script}\n{}{}",
            document.display(),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn command_lines_that_are_not_run_are_parsed() {
    for document in documents() {
        for block in blocks(&fs::read_to_string(&document).unwrap_or_default(), "console") {
            for line in block.lines().map(|line| line.trim().trim_start_matches("$ ")) {
                let line =
                    line.split(" #").next().unwrap_or_default().split(['|', '>', '&']).next().unwrap_or_default();
                let Some(arguments) = line.strip_prefix("foreread ") else { continue };
                // clap answers --help at any place, but only after it has accepted the words
                // before.
                let script = format!("\"$0\" {arguments} --help");
                let output =
                    Command::new("bash").args(["-c", &script, env!("CARGO_BIN_EXE_foreread")]).output().expect("bash");
                assert!(output.status.success(), "{}: {line}", document.display());
            }
        }
    }
}

#[test]
fn blocks_are_found_by_their_language() {
    let text = "a\n```sh\none\n```\n```\nnone\n```\n```sh\ntwo\nthree\n```\n";
    assert_eq!(blocks(text, "sh"), ["one\n", "two\nthree\n"]);
    assert_eq!(blocks(text, "console"), Vec::<String>::new());
}

/// `UPDATE_TABLES=1` updates them.
#[test]
fn simulated_tables_are_what_the_command_prints() {
    let update = std::env::var_os("UPDATE_TABLES").is_some();
    let mut tables = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap_or_default();
        let mut updated = text.clone();
        for shown in text.split("<!-- foreread simulate ").skip(1) {
            let (arguments, rest) = shown.split_once("-->").expect("the end of a comment");
            let table = blocks(rest, "text").into_iter().next().expect("a table after the command");
            let output = Command::new(env!("CARGO_BIN_EXE_foreread"))
                .arg("simulate")
                .args(arguments.split_whitespace())
                .current_dir(root())
                .output()
                .expect("foreread simulate");
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            let now: String = table.lines().map(|line| [row_like(line, &printed), "\n"].concat()).collect();
            if update {
                updated = updated.replace(&table, &now);
            } else {
                assert_eq!(table, now, "{}: UPDATE_TABLES=1 mends it", document.display());
            }
            tables += 1;
        }
        if updated != text {
            fs::write(&document, updated).expect("a document that can be written");
        }
    }
    assert!(tables > 3, "{tables} tables");
}

/// `UPDATE_TABLES=1` draws them again.
#[test]
fn pictures_are_what_the_command_draws() {
    let update = std::env::var_os("UPDATE_TABLES").is_some();
    let scratch = tempfile::tempdir().expect("a folder for pages");
    let mut pictures = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap_or_default();
        for shown in text.split("<!-- picture ").skip(1) {
            let (command, rest) = shown.split_once(" -->").expect("the end of a comment");
            let (command, title) = command.split_once(": ").expect("a command and the title of one of its pictures");
            let (_, file) = rest.split_once("](").expect("a picture after the command");
            let (file, _) = file.split_once(')').expect("the end of a link");
            let file = document.parent().expect("a folder").join(file);
            let page = scratch.path().join("page.html");
            let done = Command::new(env!("CARGO_BIN_EXE_foreread"))
                .args(command.split_whitespace())
                .arg("--report")
                .arg(&page)
                .current_dir(root())
                .output()
                .expect("foreread simulate");
            assert!(done.status.success(), "{command}");
            let drawn = picture(&fs::read_to_string(&page).expect("a page"), title);
            if update {
                fs::create_dir_all(file.parent().expect("a folder")).expect("a folder for pictures");
                fs::write(&file, &drawn).expect("a picture that can be written");
            } else {
                let kept = fs::read_to_string(&file).unwrap_or_default();
                assert!(kept == drawn, "{}: UPDATE_TABLES=1 draws it anew", file.display());
            }
            pictures += 1;
        }
    }
    assert!(pictures > 3, "{pictures} pictures");
}

/// The first picture of `page` that has this title, as a file of its own.
fn picture(page: &str, title: &str) -> String {
    let style = page.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>")).expect("a style").0;
    let titled = |svg: &&str| svg.contains(&format!("<title>{title}</title>"));
    let svg = page.split("<svg").skip(1).find(titled).unwrap_or_else(|| panic!("no picture is called {title}"));
    let (svg, _) = svg.split_once("</svg>").expect("the end of a picture");
    let (attributes, rest) = svg.split_once('>').expect("the end of a tag");
    format!("<svg xmlns=\"http://www.w3.org/2000/svg\"{attributes}><style>{style}</style>{rest}</svg>\n")
}

/// The line of `printed` that begins as `line` does, up to the first figure.
fn row_like<'p>(line: &str, printed: &'p str) -> &'p str {
    let name = |line: &str| line.trim_start().split("  ").next().map(str::to_owned);
    let same = |printed: &&str| name(printed) == name(line);
    printed.lines().find(same).unwrap_or_else(|| panic!("not printed any more: {line}"))
}
