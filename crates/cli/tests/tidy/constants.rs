//! Every file of `policy` says where its rule comes from. So does every constant, and what a lower
//! and a higher value do.

use std::path::{Path, PathBuf};

use crate::sources::{root, rust_files, shown, text, without_tests, words};

#[test]
fn constants_of_policy_give_their_reasons() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in rust_files(&root().join("crates/policy/src")) {
        if path.file_name().is_some_and(|name| name == "tests.rs") {
            continue;
        }
        for (name, said) in constants(&path) {
            seen += 1;
            let lacks: Vec<&str> =
                ["Lower:", "Higher:", "Source:"].into_iter().filter(|word| !said.contains(word)).collect();
            if !lacks.is_empty() {
                wrong.push(format!("{}: {name} lacks {lacks:?}", shown(&path)));
            }
        }
    }
    assert!(seen > 50, "the constants are read: {seen}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `lib.rs` has no rule of its own.
#[test]
fn files_of_policy_name_the_source_of_their_rule() {
    let src = root().join("crates/policy/src");
    let rules = rust_files(&src).into_iter().filter(|path| !path.ends_with("tests.rs") && *path != src.join("lib.rs"));
    let unsourced = |path: &PathBuf| {
        let text = text(path);
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        !header.iter().any(|line| words(line).any(|word| word == "Source"))
    };
    let wrong: Vec<_> = rules.filter(unsourced).map(|path| shown(&path)).collect();
    assert!(wrong.is_empty(), "no `Source:` in the header: {wrong:#?}");
}

/// Each constant that is a number, with its documentation in one line.
fn constants(path: &Path) -> Vec<(String, String)> {
    let text = text(path);
    let lines: Vec<&str> = without_tests(&text).lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let code = code.strip_prefix("pub").map_or(code, |rest| rest.trim_start_matches(|c| c != ' ').trim_start());
        let Some((name, kind)) = code.strip_prefix("const ").and_then(|rest| rest.split_once(": ")) else { continue };
        let number = ["u8", "u16", "u32", "u64", "u128", "usize", "i32", "i64", "Nanos"];
        if !number.iter().any(|known| kind.split(' ').next() == Some(known)) {
            continue;
        }
        let above = lines[..at].iter().rev().take_while(|line| line.trim_start().starts_with("///"));
        let mut said: Vec<&str> = above.map(|line| line.trim_start().trim_start_matches("///").trim()).collect();
        said.reverse();
        found.push((name.to_owned(), said.join(" ")));
    }
    found
}
