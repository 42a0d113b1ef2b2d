//! How prose is written: in comments and in documents.

use std::path::{Path, PathBuf};

use crate::sources::{all_rust_files, files, root, shown, text, words};

/// Lines of prose end before this column.
const COLUMNS: usize = 100;

/// Words for a person. A thread, a task and a request are none of these.
const PERSONS: [&str; 7] = ["whoever", "whomever", "himself", "he", "him", "his", "whom"];

#[test]
fn lines_of_prose_end_before_column_100() {
    let comments = all_rust_files().into_iter().flat_map(|path| too_long(&path, |line| line.starts_with("//")));
    let prose = documents().into_iter().flat_map(|path| {
        let mut fenced = false;
        too_long(&path, move |line| {
            let fence = line.starts_with("```");
            fenced ^= fence;
            // A table's row, a heading's words and a block of code stand in one line.
            !fence && !fenced && !line.starts_with(['|', '#', '<']) && !line.starts_with("![")
        })
    });
    let wrong: Vec<String> = comments.chain(prose).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_thread_is_a_person() {
    let mut wrong = Vec::new();
    for path in all_rust_files() {
        let comments = |line: &str| line.split_once("//").map(|(_, comment)| comment.to_owned());
        wrong.extend(persons(&path, comments));
    }
    for path in documents() {
        wrong.extend(persons(&path, |line| Some(line.to_owned())));
    }
    assert!(wrong.is_empty(), "name the reader, the thread, the task or the request: {wrong:#?}");
}

/// Every page that people read.
fn documents() -> Vec<PathBuf> {
    files(&root(), "md")
}

fn too_long(path: &Path, mut is_prose: impl FnMut(&str) -> bool) -> Vec<String> {
    let text = text(path);
    let lines = text.lines().enumerate().filter(|(_, line)| is_prose(line.trim_start()));
    let long = lines.filter(|(_, line)| line.chars().count() >= COLUMNS);
    long.map(|(number, line)| format!("{}:{}: {} columns", shown(path), number + 1, line.chars().count())).collect()
}

fn persons(path: &Path, prose: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text(path).lines().enumerate() {
        let Some(prose) = prose(line) else { continue };
        let lower = prose.to_lowercase();
        let named = words(&lower).filter(|word| PERSONS.contains(word));
        found.extend(named.map(|word| format!("{}:{}: {word}", shown(path), number + 1)));
    }
    found
}
