//! A Dockerfile as a script for bash: the same steps, each in the root of its stage.
//!
//! ```text
//!  FROM IMAGE AS build   an overlay of this machine's root
//!  FROM scratch          an empty folder
//!  COPY                  of what Dockerfile.dockerignore lets through; --from: of another stage
//!  RUN                   in a chroot, with a cache mounted where it asks for one
//!  ARG, ENV, WORKDIR     what the next steps have
//!  ENTRYPOINT, CMD, ENV  of the last stage: what a container runs
//! ```
//!
//! *Invariant:* an instruction or a form of it that is not known here is a failure, never passed
//! over.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The script, and what a container of the image runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// Runs with `BASE` (an overlay of the machine's root is made there), `CONTEXT`, `CACHE`, and
    /// `IMAGE`, the empty folder that becomes the root of the last stage.
    pub(crate) script: String,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) cmd: Vec<String>,
}

/// The recipe that `text` is, with `arguments` in place of what its `ARG`s say. `ignore` is the
/// text of its .dockerignore.
pub(crate) fn recipe(text: &str, ignore: &str, arguments: &[(&str, &str)]) -> Recipe {
    let context = let_through(ignore);
    let mut recipe = Recipe::default();
    let (mut names, mut workdir, mut last) = (Vec::new(), "/".to_owned(), false);
    let mut visible = BTreeMap::new();
    for line in instructions(text) {
        let (instruction, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        let rest = rest.trim();
        match instruction {
            "FROM" => {
                assert!(!last, "one stage from scratch, at the end");
                last = rest == "scratch";
                let root = if last { "$IMAGE" } else { "$BASE" };
                names.push((rest.split_once(" AS ").map_or("", |(_, name)| name).to_owned(), root));
                assert!(names.len() <= 2, "one stage of an image, and one from scratch");
                "/".clone_into(&mut workdir);
                (recipe.env, recipe.entrypoint, recipe.cmd) = Default::default();
                visible.clear();
            }
            "ARG" => {
                let (name, default) = rest.split_once('=').unwrap_or((rest, ""));
                let given = arguments.iter().find(|(given, _)| *given == name);
                visible.insert(name.to_owned(), given.map_or(default, |(_, value)| value).to_owned());
            }
            "ENV" => {
                let (name, value) = rest.split_once('=').expect("NAME=VALUE");
                assert!(!value.contains([' ', '"']), "{rest}: one variable a line, without quotes");
                let value = value.strip_prefix('$').map_or(value.to_owned(), |name| visible[name].clone());
                visible.insert(name.to_owned(), value.clone());
                recipe.env.insert(name.to_owned(), value);
            }
            "WORKDIR" => {
                rest.clone_into(&mut workdir);
                let root = names.last().expect("a stage").1;
                line_of(&mut recipe.script, &format!("mkdir -p \"{root}{workdir}\""));
            }
            "COPY" => {
                let root = names.last().expect("a stage").1;
                let words: Vec<&str> = rest.split_whitespace().collect();
                let copied = match words[..] {
                    [".", to] => context
                        .iter()
                        .map(|name| format!("mkdir -p \"{root}{to}\"; cp -a \"$CONTEXT/{name}\" \"{root}{to}/\""))
                        .collect::<Vec<_>>()
                        .join("\n"),
                    [from, what, to] => {
                        let from = from.strip_prefix("--from=").unwrap_or_else(|| panic!("{rest}"));
                        let (_, from) = names.iter().find(|(name, _)| name == from).expect("a stage of that name");
                        format!("mkdir -p \"$(dirname \"{root}{to}\")\"; cp -L \"{from}{what}\" \"{root}{to}\"")
                    }
                    _ => panic!("{rest}"),
                };
                line_of(&mut recipe.script, &copied);
            }
            "RUN" => {
                assert!(!last, "nothing is in an image from scratch that could run");
                let (cache, command) = match rest.strip_prefix("--mount=type=cache,target=") {
                    Some(rest) => rest.split_once(' ').map(|(target, command)| (Some(target), command)).expect("words"),
                    None => (None, rest),
                };
                if let Some(target) = cache {
                    let at = format!("\"$BASE{target}\"");
                    line_of(&mut recipe.script, &format!("mkdir -p {at}; mount --bind \"$CACHE\" {at}"));
                }
                let set: Vec<String> =
                    visible.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
                let command = quoted(&format!("cd {workdir} && {command}"));
                line_of(&mut recipe.script, &format!("env {} chroot \"$BASE\" /bin/sh -c {command}", set.join(" ")));
            }
            "ENTRYPOINT" => recipe.entrypoint = serde_json::from_str(rest).expect("the form of a list"),
            "CMD" => recipe.cmd = serde_json::from_str(rest).expect("the form of a list"),
            _ => panic!("{line}"),
        }
    }
    assert!(last, "the last stage is from scratch");
    recipe
}

fn line_of(script: &mut String, line: &str) {
    writeln!(script, "{line}").expect("memory");
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The lines without comments, each instruction in one.
fn instructions(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
    let joined = code.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    joined.lines().map(str::to_owned).collect()
}

/// The names at the top of the context that a list of exceptions lets through: `**`, then `!NAME`
/// for each.
fn let_through(ignore: &str) -> Vec<&str> {
    let mut lines = ignore.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(lines.next(), Some("**"), "first, nothing is let through");
    lines.map(|line| line.strip_prefix('!').unwrap_or_else(|| panic!("{line}: not an exception"))).collect()
}

#[test]
fn steps_become_a_script() {
    let text = "# a comment\nFROM some:1 AS build\nARG A=1\nARG B=2\nENV C=$A\nWORKDIR /src\nCOPY . /src\n\
                RUN --mount=type=cache,target=/src/target make \\\n  \"$B\"\nFROM scratch\n\
                COPY --from=build /out/a /usr/bin/a\nENV PATH=/usr/bin\nENTRYPOINT [\"/usr/bin/a\"]\nCMD [\"-h\"]\n";
    let made = recipe(text, "**\n!crates\n", &[("A", "it's")]);
    let script = r#"mkdir -p "$BASE/src"
mkdir -p "$BASE/src"; cp -a "$CONTEXT/crates" "$BASE/src/"
mkdir -p "$BASE/src/target"; mount --bind "$CACHE" "$BASE/src/target"
env A='it'\''s' B='2' C='it'\''s' chroot "$BASE" /bin/sh -c 'cd /src && make    "$B"'
mkdir -p "$(dirname "$IMAGE/usr/bin/a")"; cp -L "$BASE/out/a" "$IMAGE/usr/bin/a"
"#;
    assert_eq!(made.script, script);
    assert_eq!(made.env, BTreeMap::from([("PATH".to_owned(), "/usr/bin".to_owned())]), "of the last stage alone");
    assert_eq!((made.entrypoint, made.cmd), (vec!["/usr/bin/a".to_owned()], vec!["-h".to_owned()]));
}

#[test]
#[should_panic(expected = "USER 1000")]
fn what_is_not_known_is_not_passed_over() {
    recipe("FROM scratch\nUSER 1000\n", "**\n", &[]);
}
