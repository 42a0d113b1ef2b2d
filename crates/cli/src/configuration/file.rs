//! What the configuration files say.
//!
//! ```toml
//! [defaults]                     # options of every mount and cat
//! memory = "2GiB"
//!
//! [stores.work]                  # foreread mount work:/2026 DIR
//! url = "s3://bucket/data"
//! profile = "work"
//! metadata-ttl = "10m"
//! allow-other = true
//! ```
//!
//! The machine's file is `/etc/foreread.toml`, the user's `~/.config/foreread/config.toml`. The
//! environment variable `FOREREAD_CONFIG` names one that is read in place of both.
//!
//! *Invariant:* what is loaded is checked: each key is an option of `mount`, and each value is one
//! that the option takes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};

use super::error::Error;

/// An option and its value, as the command line has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl Setting {
    /// It, as an argument for `option`.
    pub(crate) fn argument(&self, option: &Arg) -> OsString {
        match option.get_action() {
            ArgAction::SetTrue => format!("--{}", self.key).into(),
            _ => format!("--{}={}", self.key, self.value).into(),
        }
    }
}

/// A named store.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) options: Vec<Setting>,
}

/// One file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) defaults: Vec<Setting>,
    pub(crate) stores: BTreeMap<String, Store>,
}

/// All files, the one that wins first.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) files: Vec<File>,
    /// Where files are looked for.
    pub(crate) paths: Vec<PathBuf>,
}

impl Files {
    /// Reads and checks the files that exist, by the `definition` of the command line.
    pub(crate) fn load(definition: &Command) -> Result<Self, Error> {
        let (paths, must_exist) = paths();
        let mut files = Vec::new();
        for path in &paths {
            match std::fs::read_to_string(path) {
                Ok(text) => files.push(File::parse(path, &text, definition)?),
                Err(_) if !must_exist && !is_there(path) => {}
                Err(cause) => return Err(Error::File { path: path.clone(), cause }),
            }
        }
        Ok(Self { files, paths })
    }

    /// The store of this name.
    pub(crate) fn store(&self, name: &str) -> Option<&Store> {
        self.files.iter().find_map(|file| file.stores.get(name))
    }

    /// The options of `store` and the defaults, each option once.
    pub(crate) fn options<'a>(&'a self, store: Option<&'a Store>) -> Vec<&'a Setting> {
        let own = store.into_iter().flat_map(|store| &store.options);
        let mut options: Vec<&Setting> = Vec::new();
        for option in own.chain(self.files.iter().flat_map(|file| &file.defaults)) {
            if options.iter().all(|known| known.key != option.key) {
                options.push(option);
            }
        }
        options
    }

    /// Why `name` cannot be used.
    pub(crate) fn unknown_store(&self, name: &str) -> Error {
        let names = self.files.iter().flat_map(|file| file.stores.keys()).map(String::as_str);
        let help = nearest(name, names).map_or_else(
            || match self.paths.first() {
                Some(path) => format!("write [stores.{name}] with its url to {}", path.display()),
                None => "FOREREAD_CONFIG is empty, so no file is read".to_owned(),
            },
            |near| format!("there is one that is called `{near}`"),
        );
        Error::Store { name: name.to_owned(), help }
    }
}

/// Whether this user can see that there is a file. The home of another user, whose environment
/// was kept, has none for this one.
fn is_there(path: &Path) -> bool {
    let unseen = [ErrorKind::NotFound, ErrorKind::PermissionDenied, ErrorKind::NotADirectory];
    !path.metadata().is_err_and(|cause| unseen.contains(&cause.kind()))
}

/// Where files are looked for, the one that wins first, and whether they must exist.
fn paths() -> (Vec<PathBuf>, bool) {
    if let Some(named) = std::env::var_os("FOREREAD_CONFIG") {
        return (Some(PathBuf::from(named)).filter(|path| !path.as_os_str().is_empty()).into_iter().collect(), true);
    }
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = of("XDG_CONFIG_HOME").or_else(|| of("HOME").map(|home| home.join(".config")));
    let user = user.map(|config| config.join("foreread/config.toml"));
    (user.into_iter().chain([PathBuf::from("/etc/foreread.toml")]).collect(), false)
}

impl File {
    /// The file at `path`, which is `text`, checked by the `definition` of the command line.
    pub(crate) fn parse(path: &Path, text: &str, definition: &Command) -> Result<Self, Error> {
        let syntax = |error: toml::de::Error| Error::Syntax { path: path.to_owned(), text: error.to_string() };
        let table: Table = text.parse().map_err(syntax)?;
        let section = |name: &str, key: &str, value: Value| match value {
            Value::Table(table) => Ok(table),
            other => Err(Error::Value {
                path: path.to_owned(),
                section: name.to_owned(),
                key: key.to_owned(),
                value: other.to_string(),
                help: format!("it is a section: write [{key}] on a line of its own"),
            }),
        };
        let mut file = Self { path: path.to_owned(), ..Self::default() };
        for (key, value) in table {
            match key.as_str() {
                "defaults" => {
                    file.defaults = options(path, "[defaults]", section("the file", &key, value)?, definition)?;
                }
                "stores" => {
                    for (name, value) in section("the file", &key, value)? {
                        let title = format!("[stores.{name}]");
                        let mut table = section("[stores]", &format!("stores.{name}"), value)?;
                        let Some(Value::String(url)) = table.remove("url") else {
                            return Err(Error::NoUrl { path: path.to_owned(), section: title });
                        };
                        let options = options(path, &title, table, definition)?;
                        file.stores.insert(name, Store { url, options });
                    }
                }
                _ => {
                    return Err(Error::Key {
                        path: path.to_owned(),
                        section: "the file".to_owned(),
                        help: "it has [defaults] and [stores.NAME]; options stand in these".to_owned(),
                        key,
                    });
                }
            }
        }
        Ok(file)
    }
}

/// The options of a section.
fn options(path: &Path, section: &str, table: Table, definition: &Command) -> Result<Vec<Setting>, Error> {
    let known: Vec<&Arg> = definition.find_subcommand("mount").into_iter().flat_map(Command::get_arguments).collect();
    let known: Vec<&Arg> =
        known.into_iter().filter(|option| !option.is_hide_set() && !option.is_global_set()).collect();
    let (mut options, mut line) = (Vec::new(), Vec::new());
    for (key, value) in table {
        let Some(option) = known.iter().find(|option| option.get_long() == Some(&key)) else {
            let help = match nearest(&key, known.iter().filter_map(|option| option.get_long())) {
                Some(near) => format!("`{near}` is"),
                None => "keys are the long names of options: see `foreread mount --help`".to_owned(),
            };
            return Err(Error::Key { path: path.to_owned(), section: section.to_owned(), key, help });
        };
        let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
        let text = match (&value, is_flag) {
            (Value::Boolean(value), true) => value.to_string(),
            (Value::String(text), false) => text.clone(),
            (Value::Integer(number), false) => number.to_string(),
            _ => {
                let help =
                    if is_flag { "it is true or false" } else { "it is a string, such as \"1GiB\", or a number" };
                return Err(wrong(path, section, key, &value, help));
            }
        };
        let setting = Setting { key, value: text };
        if setting.value != "false" {
            // Alone its value is wrong, or else it conflicts with one before it.
            line.push(setting.argument(option));
            for line in [&line[line.len() - 1..], &line[..]] {
                takes(definition, line).map_err(|help| wrong(path, section, setting.key.clone(), &value, &help))?;
            }
        }
        options.push(setting);
    }
    Ok(options)
}

fn wrong(path: &Path, section: &str, key: String, value: &Value, help: &str) -> Error {
    let (section, value) = (section.to_owned(), value.to_string());
    Error::Value { path: path.to_owned(), section, key, value, help: help.to_owned() }
}

/// Whether `mount` takes these `options`; if not, why.
fn takes(definition: &Command, options: &[OsString]) -> Result<(), String> {
    let line = ["foreread", "mount", "url", "dir"].map(OsString::from).into_iter().chain(options.iter().cloned());
    let Err(error) = definition.clone().try_get_matches_from(line) else { return Ok(()) };
    let text = error.to_string();
    Err(text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
}

/// The one of `known` that was probably meant by `name`.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let alike = known.map(|known| (strsim::jaro_winkler(name, known), known));
    alike.filter(|&(alike, _)| alike > ALIKE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

/// How alike two names are, from 0 to 1, of which one may be a slip for the other.
const ALIKE: f64 = 0.8;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command::Cli;

    fn parse(text: &str) -> Result<File, Error> {
        File::parse(Path::new("config.toml"), text, &Cli::command())
    }

    /// The message of an error and its advice.
    fn told(text: &str) -> String {
        let error = parse(text).expect_err("a wrong file");
        let help = miette::Diagnostic::help(&error).map(|help| help.to_string()).unwrap_or_default();
        format!("{error}; {help}")
    }

    #[test]
    fn stores_and_defaults_are_options() {
        let file = parse(
            "[defaults]\nmemory = \"2GiB\"\n[stores.work]\nurl = \"s3://b/p\"\nprofile = \"w\"\nallow-other = true\nuid = 7\n",
        );
        let file = file.expect("a file");
        let option = |key: &str, value: &str| Setting { key: key.to_owned(), value: value.to_owned() };
        assert_eq!(file.defaults, [option("memory", "2GiB")]);
        let store = &file.stores["work"];
        assert_eq!(store.url, "s3://b/p");
        assert_eq!(store.options, [option("allow-other", "true"), option("profile", "w"), option("uid", "7")]);
    }

    #[test]
    fn what_is_wrong_is_named_with_the_next_step() {
        for (text, wanted) in [
            ("[stores.w]\nurl = \"s3://b\"\nmemroy = \"1G\"\n", "[stores.w]: `memroy` is not known; `memory` is"),
            ("[defaults]\nmemory = \"1X\"\n", "[defaults]: `memory` cannot be \"1X\"; invalid value '1X'"),
            ("[defaults]\nallow-other = \"yes\"\n", "`allow-other` cannot be \"yes\"; it is true or false"),
            (
                "[stores.w]\nurl = \"s3://b\"\nanonymous = true\nprofile = \"w\"\n",
                "[stores.w]: `profile` cannot be \"w\"; the argument '--anonymous' cannot be used with '--profile <NAME>'",
            ),
            ("[stores.w]\nmemory = \"1G\"\n", "[stores.w] has no `url`"),
            ("memory = \"1G\"\n", "the file: `memory` is not known; it has [defaults] and [stores.NAME]"),
            ("[stores]\nwork = \"s3://b\"\n", "it is a section: write [stores.work]"),
            ("[defaults\n", "config.toml: not TOML: "),
            ("[defaults]\nurl = \"s3://b\"\n", "[defaults]: `url` is not known"),
        ] {
            assert!(told(text).contains(wanted), "{}", told(text));
        }
    }

    #[test]
    fn every_option_of_mount_can_be_written() {
        let command = Cli::command();
        let mount = command.find_subcommand("mount").expect("a command");
        let skipped = |option: &&Arg| option.is_hide_set() || option.is_global_set() || option.get_long().is_none();
        let own = mount.get_arguments().filter(|option| !skipped(option)).collect::<Vec<_>>();
        assert!(own.len() > 10);
        for option in own {
            let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
            let (key, default) = (option.get_long().expect("a name"), option.get_default_values().first());
            let value = match default.and_then(|value| value.to_str()) {
                _ if is_flag => "true".to_owned(),
                Some(value) => format!("{value:?}"),
                None if key.ends_with("id") || key.ends_with("fd") => "7".to_owned(),
                None if key == "metrics" => "\"127.0.0.1:9464\"".to_owned(),
                None => "\"1G\"".to_owned(),
            };
            parse(&format!("[defaults]\n{key} = {value}\n")).unwrap_or_else(|error| panic!("{key}: {error}"));
        }
    }
}
