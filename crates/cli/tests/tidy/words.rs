//! How prose is written: in documents, in comments, and in the descriptions of workloads.
//!
//! Prose is told from code line by line, without a parser. A string that holds `//` or `#` may be
//! taken for a comment, which only makes a rule stricter.

use std::path::{Path, PathBuf};

use crate::sources::{all_rust_files, files, root, shown, text, words};

/// Lines of prose end before this column.
const COLUMNS: usize = 100;

/// Words for a person. A thread, a task and a request are none of these.
const PERSONS: [&str; 9] = ["whoever", "whomever", "himself", "he", "him", "his", "whom", "who", "nobody"];

/// Words that persons are called by: "the user who mounted it" is right.
const PEOPLE: [&str; 4] = ["user", "users", "person", "people"];

#[test]
fn lines_of_prose_end_before_column_100() {
    let mut wrong = Vec::new();
    for path in pages() {
        for line in prose(&path, &text(&path)).filter(|line| line.wraps && line.columns >= COLUMNS) {
            wrong.push(format!("{}:{}: {} columns", shown(&path), line.number, line.columns));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_thread_is_a_person() {
    let mut wrong = Vec::new();
    for path in pages() {
        let named = persons(prose(&path, &text(&path)));
        wrong.extend(named.into_iter().map(|(number, word)| format!("{}:{number}: {word}", shown(&path))));
    }
    assert!(wrong.is_empty(), "name the reader, the thread, the task or the request: {wrong:#?}");
}

/// Every file with text that people read.
fn pages() -> Vec<PathBuf> {
    let mut all = all_rust_files();
    all.extend(["md", "py", "pyi", "toml", "sh", "c", "h"].iter().flat_map(|kind| files(&root(), kind)));
    all.extend(["check", "contrib/check", "docs/build", "python/check"].map(|script| root().join(script)));
    all
}

/// A line of prose, or the comment of a line of code.
#[derive(Debug, PartialEq, Eq)]
struct Line<'t> {
    number: usize,
    prose: &'t str,
    /// It could go on in another line: it is no code, no row of a table, no heading.
    wraps: bool,
    columns: usize,
}

fn prose<'t>(path: &Path, text: &'t str) -> impl Iterator<Item = Line<'t>> {
    let kind = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    // Within a fenced block of Markdown, a string of Python or a comment of C; whether that is
    // prose.
    let mut within: Option<bool> = None;
    text.lines().enumerate().filter_map(move |(at, whole)| {
        let line = whole.trim_start();
        let (prose, wraps) = match kind.as_str() {
            "rs" => after(line, "//")?,
            "md" => {
                let fence = line.starts_with("```");
                if fence {
                    within = if within.is_some() { None } else { Some(false) };
                }
                let text = !fence && within.is_none();
                (line, text && !line.starts_with(['|', '#', '<']) && !line.starts_with("!["))
            }
            "py" | "pyi" => {
                let quotes = line.matches("\"\"\"").count();
                let documents = within.unwrap_or(line.starts_with("\"\"\""));
                let in_string = within.is_some() || quotes > 0;
                if quotes % 2 == 1 {
                    within = if within.is_some() { None } else { Some(documents) };
                }
                match (documents, in_string) {
                    (true, _) => (line, true),
                    (false, true) => return None,
                    (false, false) => after(line, "#")?,
                }
            }
            "c" | "h" => {
                let comment = within.is_some() || line.starts_with("/*");
                if line.contains("/*") || line.contains("*/") {
                    within = if line.contains("*/") { None } else { Some(true) };
                }
                if comment { (line, true) } else { after(line, "/*").or_else(|| after(line, "//"))? }
            }
            "toml" if line.starts_with("description = ") => (line, false),
            _ => after(line, "#")?,
        };
        Some(Line { number: at + 1, prose, wraps, columns: whole.chars().count() })
    })
}

/// The comment of a line, and whether it is the whole line.
fn after<'t>(line: &'t str, mark: &str) -> Option<(&'t str, bool)> {
    line.find(mark).map(|at| (&line[at..], at == 0))
}

/// The words that make persons of threads, with the numbers of their lines.
fn persons<'t>(lines: impl Iterator<Item = Line<'t>>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut before = String::new();
    for line in lines {
        let lower = line.prose.to_lowercase();
        for word in words(&lower).filter(|word| !word.is_empty()) {
            let is_person = word == "who" && PEOPLE.contains(&before.as_str());
            if PERSONS.contains(&word) && !is_person {
                found.push((line.number, word.to_owned()));
            }
            word.clone_into(&mut before);
        }
    }
    found
}

#[test]
fn prose_is_told_from_code() {
    let numbers = |kind: &str, text: &str| -> Vec<(usize, bool)> {
        let path = Path::new("page").with_extension(kind);
        prose(&path, text).map(|line| (line.number, line.wraps)).collect()
    };
    let rust = "//! header\nlet y = 1;\n    // comment\nlet x = 1; // behind\n";
    assert_eq!(numbers("rs", rust), [(1, true), (3, true), (4, false)]);
    assert_eq!(numbers("md", "text\n```sh\ncode\n```\n"), [(1, true), (2, false), (3, false), (4, false)]);
    let python =
        "\"\"\"One line.\"\"\"\nwho = 1\n# comment\n\"\"\"Two\nlines.\n\"\"\"\nmade = \"\"\"\nwho\n\"\"\".strip()\n";
    assert_eq!(numbers("py", python), [(1, true), (3, true), (4, true), (5, true), (6, true)]);
    assert_eq!(numbers("toml", "# comment\nwho = 1\ndescription = \"text\"\n"), [(1, true), (3, false)]);
    assert_eq!(numbers("sh", "#!/bin/sh\nwho=1\n# comment\n"), [(1, true), (3, true)]);
    let c = "/* one\n * two */\nint who; /* behind */\n// three\n";
    assert_eq!(numbers("h", c), [(1, true), (2, true), (3, false), (4, true)]);
}

#[test]
fn people_are_told_from_threads() {
    let found = |text: &str| persons(prose(Path::new("page.md"), text));
    assert_eq!(found("Ask the user\nwho mounted it.\n"), []);
    assert_eq!(found("The reader who waits.\n"), [(1, "who".to_owned())]);
    assert_eq!(found("Users wait.\nNobody reads.\n"), [(2, "nobody".to_owned())]);
}
