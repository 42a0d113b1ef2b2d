//! What documents say of the code and of each other is true.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::sources::{files, root, text};

#[test]
fn decisions_are_numbered_without_gaps_and_indexed() {
    let records = decisions();
    let numbers: Vec<u32> = records.keys().map(|number| number.parse().expect("a number")).collect();
    assert_eq!(numbers, (1..=records.len() as u32).collect::<Vec<_>>());

    let index = text(&root().join("docs/decisions/README.md"));
    for (number, (file, body)) in &records {
        let title = body.lines().next().and_then(|line| line.strip_prefix(&format!("# {number}: "))).expect("a title");
        let row = format!("| [{number}]({file}) | {title} | ");
        let changed = index.lines().find_map(|line| line.strip_prefix(&row)).unwrap_or_else(|| panic!("no row: {row}"));
        let later: BTreeSet<&str> = status_links(body).into_iter().filter(|other| *other > number.as_str()).collect();
        let told: BTreeSet<&str> = links(changed).into_iter().collect();
        assert_eq!(told, later, "{number} in the index, and what its status line names");
    }
}

#[test]
fn decisions_have_the_same_sections() {
    let wanted = ["Context", "Choice", "Evidence", "Rejected", "Reversal"];
    let mut wrong = Vec::new();
    for (file, body) in decisions().values() {
        let sections: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        if sections != wanted {
            wrong.push(format!("{file}: {sections:?}"));
        }
    }
    assert!(wrong.is_empty(), "each has {wanted:?}: {wrong:#?}");
}

#[test]
fn decisions_that_change_each_other_say_so_both() {
    let records = decisions();
    let mut wrong = Vec::new();
    for (number, (_, body)) in &records {
        for other in status_links(body) {
            let back = records.get(other).is_some_and(|(_, body)| status_links(body).contains(&number.as_str()));
            if !back {
                wrong.push(format!("{number} names {other} in its status line, which does not name it"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn promises_name_tests_that_exist() {
    let text = text(&root().join("docs/semantics.md"));
    let named: Vec<&str> = text.split('`').skip(1).step_by(2).filter(|word| word.contains('/')).collect();
    let paths =
        named.iter().filter(|word| Path::new(word).extension().is_some_and(|e| e == "rs") || word.ends_with('/'));
    let tests: Vec<_> = paths.filter(|path| path.contains("src") || path.contains("tests")).collect();
    assert!(tests.len() > 10, "the table of promises is read");
    let missing: Vec<_> = tests.into_iter().filter(|path| !root().join("crates").join(path).exists()).collect();
    assert!(missing.is_empty(), "promises without their test: {missing:#?}");
}

/// A line of docs/internals.md names a function as `` `crates/x/src/y.rs` `name` ``.
#[test]
fn functions_that_internals_names_exist() {
    let text = text(&root().join("docs/internals.md"));
    let code: Vec<&str> = text.split('`').collect();
    let mut seen = 0;
    for at in (1..code.len().saturating_sub(2)).step_by(2) {
        let (file, between, name) = (code[at], code[at + 1], code[at + 2]);
        if !file.starts_with("crates/")
            || Path::new(file).extension().is_none()
            || between.is_empty()
            || !between.trim().is_empty()
        {
            continue;
        }
        seen += 1;
        let body = crate::sources::text(&root().join(file));
        let name = name.rsplit("::").next().unwrap_or(name);
        let defines = ["fn", "struct", "enum", "trait"].map(|kind| format!("{kind} {name}"));
        let is_there = defines.iter().any(|definition| {
            body.match_indices(definition.as_str())
                .any(|(at, found)| !body[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        });
        assert!(is_there, "docs/internals.md: {file} defines no `{name}`");
    }
    assert!(seen >= 15, "the walk through the code is read: {seen}");
}

#[test]
fn source_paths_in_documents_exist() {
    let mut wrong = Vec::new();
    for page in files(&root(), "md") {
        let text = text(&page);
        for word in text.split(['`', '(', ')', '[', ']', ' ', '\n', ',', ';', '"', '|']) {
            let word = word.trim_end_matches(['.', ':', '/']);
            let is_source = word.starts_with("crates/") && !word.contains(['*', '<', '{']);
            if is_source && !root().join(word).exists() {
                wrong.push(format!("{}: {word}", crate::sources::shown(&page)));
            }
        }
    }
    assert!(wrong.is_empty(), "documents name files that do not exist: {wrong:#?}");
}

/// By number: the file's name and its text.
fn decisions() -> BTreeMap<String, (String, String)> {
    let pages = files(&root().join("docs/decisions"), "md").into_iter();
    pages
        .filter_map(|page| {
            let name = page.file_name()?.to_string_lossy().into_owned();
            let number = name.split_once('-').filter(|(number, _)| number.len() == 4)?.0.to_owned();
            Some((number, (name, text(&page))))
        })
        .collect()
}

/// The records that a status line links to.
fn status_links(body: &str) -> Vec<&str> {
    let status = body.split("*Status: ").nth(1).and_then(|rest| rest.split("*\n").next()).unwrap_or_default();
    links(status)
}

fn links(text: &str) -> Vec<&str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.get(..4))
        .filter(|number| number.bytes().all(|b| b.is_ascii_digit()))
        .collect()
}
