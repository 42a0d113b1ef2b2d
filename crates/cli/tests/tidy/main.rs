//! Rules of the source that the compiler does not check; each is a test here.
//!
//! Import edges, the purity of `policy`, lengths and names of files, words that mark unfinished
//! work, ignored tests.

mod constants;
mod documents;
mod imports;
mod sources;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use imports::Imports;
use sources::{all_rust_files, home, root, rust_files, shown, without_tests, words};

/// A file of more lines is two files.
const LINES_MAX: usize = 800;

/// By crate, those that ARCHITECTURE.md allows it to use, and those that its tests may use
/// besides.
fn edges() -> BTreeMap<String, [Vec<String>; 2]> {
    let text = sources::text(&root().join("ARCHITECTURE.md"));
    let rows = text.lines().skip_while(|line| !line.starts_with("| crate | may use |")).skip(2);
    let named =
        |cell: &str| cell.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    rows.map_while(|row| {
        let mut cells = row.strip_prefix('|')?.split('|').map(str::trim);
        Some((cells.next()?.to_owned(), [named(cells.next()?), named(cells.next()?)]))
    })
    .collect()
}

#[test]
fn crates_import_along_the_edges_of_the_design() {
    let (edges, mut wrong) = (edges(), Vec::new());
    assert_eq!(
        edges.keys().collect::<Vec<_>>(),
        manifests().keys().collect::<Vec<_>>(),
        "ARCHITECTURE.md lists the crates"
    );
    for (name, manifest) in manifests() {
        let [normal, dev] = &edges[&name];
        for (section, imported) in our_dependencies(&manifest) {
            let allowed = match section.as_str() {
                "dependencies" => normal.contains(&imported),
                "dev-dependencies" => normal.contains(&imported) || dev.contains(&imported),
                _ => false,
            };
            if !allowed {
                wrong.push(format!("{name}: [{section}] must not name {imported}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Which of policy's folders may use which others. Each may use `units`; `lib.rs` names all.
const FOLDERS: &[(&str, &[&str])] = &[
    ("collections", &[]),
    ("credit", &[]),
    ("ends", &[]),
    ("files", &["collections", "credit"]),
    ("residency", &["collections"]),
    ("queue", &["collections"]),
    ("read", &["ends", "files", "residency", "queue"]),
    ("directories", &["credit", "ends"]),
    ("division", &[]),
    ("names", &[]),
    ("regions", &[]),
    ("tier", &[]),
    ("views", &["regions"]),
];

#[test]
fn folders_of_policy_import_along_the_edges_of_the_design() {
    let src = root().join("crates/policy/src");
    let folder = |path: &PathBuf| -> String {
        let inside = path.strip_prefix(&src).expect("a file of policy").with_extension("");
        inside.iter().next().unwrap_or_default().to_string_lossy().into_owned()
    };
    let mut wrong = Vec::new();
    for (from, used) in &Imports::of(&src).edges {
        let name = folder(from);
        if name == "lib" || name == "units" {
            continue;
        }
        let Some((_, allowed)) = FOLDERS.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("{name}: a new folder needs its line in FOLDERS"));
            continue;
        };
        for to in used.iter().map(folder).filter(|to| *to != name && to != "units" && to != "lib") {
            if !allowed.contains(&to.as_str()) {
                wrong.push(format!("{}: uses {to}", shown(from)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let mut circles = Vec::new();
    for name in manifests().keys() {
        let src = home(name).join("src");
        for circle in Imports::of(&src).circles() {
            circles.push(circle.iter().map(|path| shown(path)).collect::<Vec<_>>());
        }
    }
    assert!(circles.is_empty(), "what several files share lies below all of them: {circles:#?}");
}

#[test]
fn policy_is_pure() {
    let manifest = fs::read_to_string(root().join("crates/policy/Cargo.toml")).expect("the manifest");
    let dependencies = dependency_lines(&manifest).into_iter().filter(|(section, _)| section != "dev-dependencies");
    assert_eq!(dependencies.count(), 0, "policy has no dependencies");

    let lib = fs::read_to_string(root().join("crates/policy/src/lib.rs")).expect("lib.rs");
    // The crate's own tests may use `std`.
    assert!(lib.contains("#![no_std]") || lib.contains("#![cfg_attr(not(test), no_std)]"), "policy is no_std");
    assert!(lib.contains("#![forbid(unsafe_code)]"), "policy forbids unsafe code");

    let banned = ["f32", "f64", "std", "Instant", "SystemTime", "Mutex", "RwLock", "RefCell", "UnsafeCell", "unsafe"];
    let mut wrong = Vec::new();
    for path in rust_files(&root().join("crates/policy/src")) {
        if path.file_name().is_some_and(|name| name == "tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        for (number, line) in without_tests(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if code.trim_start().starts_with("#!") {
                continue;
            }
            wrong.extend(
                words(code)
                    .filter(|word| banned.contains(word) || word.starts_with("Atomic"))
                    .map(|word| format!("{}:{}: {word}", shown(&path), number + 1)),
            );
        }
    }
    assert!(wrong.is_empty(), "no float, clock, lock or unsafe in policy: {wrong:#?}");
}

#[test]
fn unsafe_code_is_forbidden_where_no_system_call_needs_it() {
    for name in ["policy", "backend", "device", "foreread", "workload", "sim", "testbed", "tier"] {
        let lib = fs::read_to_string(root().join(format!("crates/{name}/src/lib.rs"))).expect("lib.rs");
        assert!(lib.contains("#![forbid(unsafe_code)]"), "crates/{name}/src/lib.rs lacks #![forbid(unsafe_code)]");
    }
}

#[test]
fn unsafe_code_of_local_reads_is_where_the_kernel_is_called() {
    let src = denying_unsafe_code("local");
    let known = ["cached.rs", "frames/arena.rs", "frames.rs", "heap.rs", "ring.rs"];
    assert_eq!(files_with(&src, "allow(unsafe_code"), known.map(|name| src.join(name)));
}

#[test]
fn unsafe_code_of_memory_regions_is_where_the_kernel_is_called_or_bytes_are_shown() {
    let src = denying_unsafe_code("memory");
    let known = [
        "allocator.rs",
        "bare.rs",
        "c_interface.rs",
        "kernel/frames.rs",
        "kernel/mapping.rs",
        "kernel/uffd.rs",
        "region/carrier/ring.rs",
        "region/carrier/threads.rs",
        "region/held.rs",
        "region/spill.rs",
        "region.rs",
        "view.rs",
    ];
    assert_eq!(files_with(&src, "#![allow(unsafe_code"), known.map(|name| src.join(name)));
    // In the other files, each function with unsafe code says so.
    let known = ["region/carrier.rs", "region/pager.rs", "region/resident.rs"];
    assert_eq!(files_with(&src, "#[expect(unsafe_code"), known.map(|name| src.join(name)));
}

#[test]
fn unsafe_code_of_the_broker_is_where_forks_and_shared_memory_are() {
    let src = denying_unsafe_code("broker");
    assert_eq!(files_with(&src, "allow(unsafe_code"), ["area.rs", "kept.rs"].map(|name| src.join(name)));
}

#[test]
fn unsafe_code_of_the_python_module_is_where_forks_buffers_and_memory_are() {
    let src = denying_unsafe_code("python");
    let known = ["allocator.rs", "buffer.rs", "heap.rs", "memory.rs", "process.rs"];
    assert_eq!(files_with(&src, "#![allow(unsafe_code"), known.map(|name| src.join(name)));
}

#[test]
fn unsafe_code_of_the_benchmark_is_in_its_mapping() {
    let src = denying_unsafe_code("bench");
    assert_eq!(files_with(&src, "allow(unsafe_code"), [src.join("readers/mapping.rs")]);
}

/// The source of a crate that allows unsafe code file by file.
fn denying_unsafe_code(name: &str) -> PathBuf {
    let src = home(name).join("src");
    let lib = fs::read_to_string(src.join("lib.rs")).expect("lib.rs");
    assert!(lib.contains("#![deny(unsafe_code)]"), "crates/{name}/src/lib.rs lacks #![deny(unsafe_code)]");
    src
}

/// The files below `src` whose text has `pattern`, by path.
fn files_with(src: &Path, pattern: &str) -> Vec<PathBuf> {
    let contains = |path: &PathBuf| fs::read_to_string(path).expect("a source file").contains(pattern);
    let mut found: Vec<_> = rust_files(src).into_iter().filter(contains).collect();
    found.sort();
    found
}

#[test]
fn unsafe_blocks_say_why() {
    let mut wrong = Vec::new();
    for path in all_rust_files() {
        let text = fs::read_to_string(&path).expect("a source file");
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let quoted = code.contains('"') || code.contains("unsafe_");
            if quoted || !words(code).any(|word| word == "unsafe") {
                continue;
            }
            let above = &lines[index.saturating_sub(8)..=index];
            if !above.iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety")) {
                wrong.push(format!("{}:{}", shown(&path), index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "unsafe without a SAFETY comment: {wrong:#?}");
}

#[test]
fn files_are_short_and_well_named() {
    let names = ["mod.rs", "utils.rs", "util.rs", "common.rs", "helpers.rs", "helper.rs", "prelude.rs", "misc.rs"];
    let mut wrong = Vec::new();
    for path in all_rust_files() {
        let lines = fs::read_to_string(&path).expect("a source file").lines().count();
        if lines > LINES_MAX {
            wrong.push(format!("{}: {lines} lines, at most {LINES_MAX}", shown(&path)));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if names.contains(&&*name) {
            wrong.push(format!("{}: a name that says nothing", shown(&path)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn files_begin_with_what_they_are() {
    let mut wrong = Vec::new();
    for path in all_rust_files() {
        let text = fs::read_to_string(&path).expect("a source file");
        let first = text.lines().find(|line| !line.starts_with("#!")).unwrap_or_default();
        if !first.starts_with("//!") || first.to_lowercase().contains("placeholder") {
            wrong.push(shown(&path));
        }
    }
    assert!(wrong.is_empty(), "files without a header: {wrong:#?}");
}

#[test]
fn nothing_is_left_unfinished() {
    // Assembled here, so that this file does not contain them.
    let banned = [("to", "do!("), ("unimple", "mented!("), ("db", "g!("), ("FIX", "ME"), ("XX", "X:"), ("TO", "DO")]
        .map(|(head, tail)| format!("{head}{tail}"));
    let mut wrong = Vec::new();
    for path in all_rust_files() {
        let text = fs::read_to_string(&path).expect("a source file");
        for (number, line) in text.lines().enumerate() {
            wrong.extend(
                banned
                    .iter()
                    .filter(|word| line.contains(word.as_str()))
                    .map(|word| format!("{}:{}: {word}", shown(&path), number + 1)),
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_ignored_test_says_why() {
    let bare = format!("#[{}]", "ignore");
    let mut wrong = Vec::new();
    for path in all_rust_files() {
        let text = fs::read_to_string(&path).expect("a source file");
        let lines = text.lines().enumerate().filter(|(_, line)| line.trim() == bare);
        wrong.extend(lines.map(|(number, _)| format!("{}:{}", shown(&path), number + 1)));
    }
    assert!(wrong.is_empty(), "write #[ignore = \"why\"]: {wrong:#?}");
}

#[test]
fn no_test_asserts_the_wall_clock() {
    let mut wrong = Vec::new();
    for path in all_rust_files() {
        let text = fs::read_to_string(&path).expect("a source file");
        for (number, line) in text.lines().enumerate() {
            let clock = format!("{}()", "elapsed");
            if line.trim_start().starts_with("assert") && line.contains(&clock) {
                wrong.push(format!("{}:{}", shown(&path), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "times belong to `foreread bench`: {wrong:#?}");
}

#[test]
fn manifests_inherit_from_the_workspace() {
    let mut wrong = Vec::new();
    for (name, manifest) in manifests() {
        if !manifest.contains("[lints]\nworkspace = true") {
            wrong.push(format!("{name}: no [lints] workspace = true"));
        }
        let pinned = dependency_lines(&manifest)
            .into_iter()
            .filter(|(_, line)| !line.contains(".workspace = true") && !line.contains("workspace = true,"));
        wrong.extend(pinned.map(|(_, line)| format!("{name}: {line} has a version of its own")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A crate is public where its manifest does not say otherwise.
#[test]
fn public_crates_can_be_packaged() {
    let (mut wrong, mut public) = (Vec::new(), Vec::new());
    let is_public = |manifest: &str| !manifest.contains("\npublish");
    let manifests = manifests();
    for (name, manifest) in manifests.iter().filter(|(_, manifest)| is_public(manifest)) {
        for field in ["description = ", "license.", "repository.", "keywords = ", "categories = ", "include = "] {
            if !manifest.contains(&format!("\n{field}")) {
                wrong.push(format!("{name}: no `{field}`"));
            }
        }
        if !root().join("crates").join(name).join("README.md").exists() {
            wrong.push(format!("{name}: no README.md"));
        }
        for (_, imported) in our_dependencies(manifest) {
            if !is_public(&manifests[&imported]) {
                wrong.push(format!("{name}: {imported} is not public"));
            }
        }
        public.push(name.strip_prefix("foreread").unwrap_or(name).to_owned());
    }
    let check = fs::read_to_string(root().join("check")).expect("the check");
    let packaged = check.lines().find_map(|line| line.strip_prefix("public=(foreread foreread-{")).expect("the list");
    let mut packaged: Vec<&str> = packaged.trim_end_matches("})").split(',').chain([""]).collect();
    packaged.sort_unstable();
    public.sort_unstable();
    assert_eq!(public, packaged, "`check` packages the public crates");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn manifests() -> BTreeMap<String, String> {
    let entries = fs::read_dir(root().join("crates")).expect("the crates").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).chain(["python".to_owned()]);
    names
        .filter_map(|name| {
            let manifest = fs::read_to_string(home(&name).join("Cargo.toml")).ok()?;
            Some((name, manifest))
        })
        .collect()
}

fn dependency_lines(manifest: &str) -> Vec<(String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            name.trim_end_matches(']').clone_into(&mut section);
        } else if section.ends_with("dependencies") && !line.is_empty() && !line.starts_with('#') {
            found.push((section.clone(), line.to_owned()));
        }
    }
    found
}

/// The section and the short name of each dependency on a crate of this workspace.
fn our_dependencies(manifest: &str) -> Vec<(String, String)> {
    let ours = |(section, line): (String, String)| {
        let name = line.split(['.', ' ', '=']).next()?;
        let name = if name == "foreread" { name } else { name.strip_prefix("foreread-")? };
        Some((section, name.to_owned()))
    };
    dependency_lines(manifest).into_iter().filter_map(ours).collect()
}
