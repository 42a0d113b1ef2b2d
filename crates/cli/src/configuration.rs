//! The configuration files: named stores and defaults, written as options of `foreread mount`.
//!
//! ```text
//!   foreread mount work:/2026 DIR --memory 1G        given
//!            │
//!            ├─ parsed once: the command, and the options that the user gave
//!            ├─ [stores.work]  url, profile, memory ──> --profile=w      (memory was given)
//!            ├─ [defaults]     metadata-ttl ──────────> --metadata-ttl=10m
//!            v
//!   foreread mount --profile=w --metadata-ttl=10m s3://bucket/2026 DIR --memory 1G
//! ```
//!
//! The line is parsed again then. A key is the long name of an option, so files and command line
//! have one definition. What is given on the command line wins, then the store, then the defaults;
//! the user's file wins over the machine's. An option that conflicts with a given one is left out.
//!
//! *Invariant:* without a configuration file the command line stays as it is.

pub(crate) mod error;
pub(crate) mod file;

use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command};

use error::Error;
use file::{Files, Setting};

/// The commands that take stores, by the name of their argument.
const COMMANDS: [&str; 2] = ["mount", "cat"];

/// The command line `given`, with what the configuration files add to it.
///
/// # Errors
///
/// A file that cannot be read or has a wrong entry, and a store that no file names.
pub(crate) fn arguments(given: Vec<OsString>, definition: &Command) -> Result<Vec<OsString>, Error> {
    // What is wrong with it is reported by the parser, as without files.
    let Ok(matches) = definition.clone().try_get_matches_from(&given) else { return Ok(given) };
    let Some((name, of)) = matches.subcommand().filter(|(name, _)| COMMANDS.contains(name)) else { return Ok(given) };
    let files = Files::load(definition)?;
    let Some(url) = of.get_one::<String>("url") else { return Ok(given) };
    let called = store_in(url);
    let store = called.and_then(|(store, _)| files.store(store));
    if let (None, Some((name, _))) = (store, called)
        && !Path::new(url).exists()
    {
        return Err(files.unknown_store(name));
    }
    let Some(command) = definition.find_subcommand(name) else { return Ok(given) };
    let is_given = |option: &&Arg| of.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine);
    let added = added(command, command.get_arguments().filter(is_given).collect(), &files.options(store));

    let mut arguments = given;
    if let (Some(store), Some((_, prefix))) = (store, called) {
        let target = OsString::from(joined(&store.url, prefix));
        if let Some(at) = arguments.iter().position(|argument| argument == url.as_str()) {
            arguments[at] = target;
        }
    }
    let after = arguments.iter().position(|argument| argument == name).map_or(arguments.len(), |at| at + 1);
    arguments.splice(after..after, added);
    Ok(arguments)
}

/// The name of a store and the prefix in it, where `url` is `NAME:` or `NAME:/PREFIX`.
fn store_in(url: &str) -> Option<(&str, &str)> {
    let (name, prefix) = url.split_once(':')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let is_store = is_name && !prefix.starts_with("//") && (prefix.is_empty() || prefix.starts_with('/'));
    is_store.then(|| (name, prefix.trim_start_matches('/')))
}

/// The URL of `prefix` in a store.
fn joined(url: &str, prefix: &str) -> String {
    if prefix.is_empty() { url.to_owned() } else { format!("{}/{prefix}", url.trim_end_matches('/')) }
}

/// Those of `settings` that `command` has as options, unless the option is `taken` already, or
/// conflicts with one that is taken or comes before it.
pub(crate) fn added<'a>(command: &'a Command, mut taken: Vec<&'a Arg>, settings: &[&Setting]) -> Vec<OsString> {
    let mut added = Vec::new();
    for setting in settings {
        let Some(option) = command.get_arguments().find(|known| known.get_long() == Some(&setting.key)) else {
            continue;
        };
        // A conflict is stated by either of the two.
        let states = |one: &Arg, other: &Arg| {
            command.get_arg_conflicts_with(one).iter().any(|excluded| excluded.get_id() == other.get_id())
        };
        let is_off = matches!(option.get_action(), ArgAction::SetTrue) && setting.value != "true";
        let excludes =
            |known: &&Arg| known.get_id() == option.get_id() || states(known, option) || states(option, known);
        if !is_off && !taken.iter().any(excludes) {
            added.push(setting.argument(option));
            taken.push(option);
        }
    }
    added
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_told_from_a_url_and_from_a_path() {
        assert_eq!(store_in("work:/a/b"), Some(("work", "a/b")));
        assert_eq!(store_in("my-store_2:"), Some(("my-store_2", "")));
        for other in ["s3://bucket/a", "/srv/a:/b", "work", "work:a", ":/a", "./work:/a"] {
            assert_eq!(store_in(other), None, "{other}");
        }
        assert_eq!(joined("s3://bucket/", "a/b"), "s3://bucket/a/b");
        assert_eq!(joined("s3://bucket/p", ""), "s3://bucket/p");
    }
}
