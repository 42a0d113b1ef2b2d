//! Which file of a crate names what another one defines, and where files do so in a circle.
//!
//! ```text
//!   use crate::a::b::Name;      this file ──> a/b.rs, or to where `pub use` of a leads
//!   super::c::f()               this file ──> c.rs beside it
//!   mod d;  pub use d::Name;    nothing: a module and a re-export only place what lies below
//! ```
//!
//! Paths are read as text, without macros: a name that only a macro makes is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::sources::{rust_files, text, without_tests};

/// A module's path inside its crate.
type Module = Vec<String>;

/// The files of one crate outside its tests, and the files whose names each of them uses.
pub(crate) struct Imports {
    files: BTreeMap<Module, PathBuf>,
    /// What `pub use` names in a module stands for.
    reexports: BTreeMap<Module, (Module, Vec<String>)>,
    pub(crate) edges: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
}

impl Imports {
    /// Reads the files below `src`.
    pub(crate) fn of(src: &Path) -> Self {
        let mut texts = BTreeMap::new();
        let mut files = BTreeMap::new();
        for path in rust_files(src).into_iter().filter(|path| path.file_name().is_some_and(|name| name != "tests.rs")) {
            let module = module_of(src, &path);
            texts.insert(module.clone(), without_comments(without_tests(&text(&path))));
            files.insert(module, path);
        }
        let mut imports = Self { files, reexports: BTreeMap::new(), edges: BTreeMap::new() };
        for (module, text) in &texts {
            for path in uses(text, true) {
                let Some(name) = path.last().cloned() else { continue };
                imports.reexports.insert([module.as_slice(), &[name]].concat(), (module.clone(), path));
            }
        }
        for (module, text) in &texts {
            let (mut paths, rest) = (uses(text, false), without_uses(text));
            paths.extend(inline(&rest));
            let from = &imports.files[module];
            let to: BTreeSet<_> = paths.iter().filter_map(|path| imports.file_of(module, path, 0)).collect();
            imports.edges.insert(from.clone(), to.into_iter().filter(|to| to != from).collect());
        }
        imports
    }

    /// The file that defines what `path` names in `module`.
    fn file_of(&self, module: &[String], path: &[String], depth: usize) -> Option<PathBuf> {
        let (mut at, mut rest) = match path.first()?.as_str() {
            "crate" => (Module::new(), &path[1..]),
            "self" => (module.to_vec(), &path[1..]),
            "super" => (module.to_vec(), path),
            first if self.files.contains_key(&[module, &[first.to_owned()]].concat()) => (module.to_vec(), path),
            _ => return None,
        };
        while rest.first().is_some_and(|part| part == "super") {
            at.pop();
            rest = &rest[1..];
        }
        let whole = rest.is_empty();
        while let Some(next) = rest.first() {
            let below = [at.as_slice(), std::slice::from_ref(next)].concat();
            if self.files.contains_key(&below) {
                at = below;
            } else if let Some((origin, path)) = self.reexports.get(&below).filter(|_| depth < 8) {
                return self.file_of(origin, &[path.as_slice(), &rest[1..]].concat(), depth + 1);
            } else {
                break;
            }
            rest = &rest[1..];
        }
        if whole && at.is_empty() { None } else { self.files.get(&at).cloned() }
    }

    /// Sets of files that use each other in a circle, directly or through others of the set.
    pub(crate) fn circles(&self) -> Vec<BTreeSet<PathBuf>> {
        let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
            self.edges.keys().map(|from| (from, self.reached(from))).collect();
        let mut circles = BTreeSet::new();
        for (&from, there) in &reached {
            let back = |to: &&&PathBuf| reached.get(**to).is_some_and(|there| there.contains(from));
            let circle: BTreeSet<PathBuf> = there.iter().filter(back).map(|&to| to.clone()).collect();
            if !circle.is_empty() {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }

    /// The files that `from` uses, and all that these use.
    fn reached<'a>(&'a self, from: &'a PathBuf) -> BTreeSet<&'a PathBuf> {
        let mut found = BTreeSet::new();
        let mut pending = vec![from];
        while let Some(from) = pending.pop() {
            for to in self.edges.get(from).into_iter().flatten() {
                if found.insert(to) {
                    pending.push(to);
                }
            }
        }
        found
    }
}

fn module_of(src: &Path, path: &Path) -> Module {
    let inside = path.strip_prefix(src).expect("a file of the crate").with_extension("");
    let parts: Module = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts == ["lib"] || parts == ["main"] { Module::new() } else { parts }
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Each `use` of a text, as where its words begin and end, and whether it re-exports.
fn statements(text: &str) -> Vec<(usize, usize, bool)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("use ").map(|at| at + from) {
        let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let before = text[line..at].trim();
        let visibility = before.starts_with("pub") && (before == "pub" || before.ends_with(')'));
        let end = text[at..].find(';').map_or(text.len(), |end| at + end);
        if before.is_empty() || visibility {
            found.push((at + "use ".len(), end, visibility));
            from = end;
        } else {
            from = at + "use ".len();
        }
    }
    found
}

/// The paths of the `use` statements that re-export, or of those that do not.
fn uses(text: &str, reexports: bool) -> Vec<Vec<String>> {
    let chosen = statements(text).into_iter().filter(|&(.., public)| public == reexports);
    chosen.flat_map(|(start, end, _)| expanded("", &text[start..end])).collect()
}

fn without_uses(text: &str) -> String {
    let mut kept = text.to_owned();
    for (start, end, _) in statements(text).into_iter().rev() {
        kept.replace_range(start..end, "");
    }
    kept
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`.
fn expanded(prefix: &str, tree: &str) -> Vec<Vec<String>> {
    let Some(open) = tree.find('{') else {
        let name = tree.split(" as ").next().unwrap_or_default();
        let path = format!("{prefix}{}", name.trim());
        return vec![path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()];
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    parts.into_iter().filter(|part| !part.trim().is_empty()).flat_map(|part| expanded(&prefix, part)).collect()
}

/// The paths that code names outside `use`: every `a::b::c`.
fn inline(code: &str) -> Vec<Vec<String>> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let tokens = code.split(|c: char| !is_path(c)).filter(|token| token.contains("::"));
    tokens.map(|token| token.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_of_use_are_expanded() {
        let text = "use a::{b, c::{d, e as f}};\npub(crate) use g::h;\nlet because = 1;\n";
        assert_eq!(uses(text, false), [vec!["a", "b"], vec!["a", "c", "d"], vec!["a", "c", "e"]]);
        assert_eq!(uses(text, true), [["g", "h"]]);
    }

    #[test]
    fn circles_are_found_through_modules_paths_and_reexports() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a file");
        std::fs::create_dir(dir.path().join("a")).expect("a directory");
        write("lib.rs", "mod a; mod b; mod c;\npub use a::Name;\n");
        write("a.rs", "mod d;\nuse crate::b::f;\npub struct Name;\n");
        write("a/d.rs", "// crate::c::h\nfn e() { super::super::c::h() }\n");
        write("b.rs", "pub fn f(_: crate::Name) {}\n");
        write("c.rs", "pub fn h() {}\n#[cfg(test)]\nmod tests { use crate::a::d; }\n");
        let circles = Imports::of(dir.path()).circles();
        assert_eq!(circles, [BTreeSet::from([dir.path().join("a.rs"), dir.path().join("b.rs")])]);
    }
}
