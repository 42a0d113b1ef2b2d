//! `foreread stats DIR`: what the engine behind a mount is doing.
//!
//! The numbers come from the mount, as JSON. The table shows each of them: the last word of a name
//! is its unit (`window_bytes`, `wait_ns`), so a new counter of the engine appears here without a
//! change.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use miette::Diagnostic;
use serde_json::Value;
use thiserror::Error as ThisError;

use crate::failure::Failure;
use crate::last_cause::LastCause;
use crate::terminal::size::Size;

/// Show what the engine behind a mount is doing
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  foreread stats /mnt/data
  foreread stats /mnt/data --watch
  foreread stats /mnt/data --json | jq .

What to look at: amp (bytes fetched for each byte read: 1 is ideal), requests per GiB (they cost money), wasted (read \
ahead and never used) and thrashed (read ahead and evicted before use: more --memory helps).")]
pub(crate) struct Args {
    /// Directory on which `foreread mount` mounted
    dir: PathBuf,

    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,

    /// Repeat every second until Ctrl-C
    #[arg(short, long)]
    watch: bool,
}

/// Why `foreread stats` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("{}: gives no statistics", .dir.display())]
    #[diagnostic(
        code(foreread::stats),
        help("name a directory on which `foreread mount` mounted; `grep fuse.foreread /proc/mounts` shows them")
    )]
    NoStats {
        dir: PathBuf,
        #[source]
        cause: LastCause,
    },
}

/// Prints the statistics once, or every second.
pub(crate) fn run(args: &Args) -> miette::Result<ExitCode> {
    loop {
        let json = foreread_fuse::query_stats(&args.dir)
            .map_err(|cause| Error::NoStats { dir: args.dir.clone(), cause: LastCause::from(&cause) })?;
        let text = if args.json { format!("{}\n", json.trim_end()) } else { table(&args.dir, &json) };
        // A table is redrawn in place; JSON is a line each time, for a program that reads them.
        let clear = if args.watch && !args.json { CLEAR } else { "" };
        let mut stdout = io::stdout();
        stdout
            .write_all(format!("{clear}{text}").as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|cause| Failure::Output { cause })?;
        if !args.watch {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(INTERVAL);
    }
}

const INTERVAL: Duration = Duration::from_secs(1);

/// ANSI: cursor home, erase to the end of the screen.
const CLEAR: &str = "\x1b[H\x1b[J";

fn table(dir: &Path, json: &str) -> String {
    let Ok(stats) = serde_json::from_str::<Value>(json) else { return format!("{json}\n") };
    let mut rows = derived(&stats);
    flatten("", &stats, &mut rows);
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut text = format!("{}\n", dir.display());
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:width$}  {value:>14}");
    }
    text
}

/// The two figures that users compare: ratios of counters.
fn derived(stats: &Value) -> Vec<(String, String)> {
    let count = |name: &str| stats[name].as_u64();
    let (Some(requests), Some(fetched), Some(read)) = (count("requests"), count("fetched_bytes"), count("read_bytes"))
    else {
        return Vec::new();
    };
    let ratio = |part: f64, decimals: usize| match read {
        0 => "-".to_owned(),
        _ => format!("{:.decimals$}", part / read as f64),
    };
    vec![
        ("amp".to_owned(), ratio(fetched as f64, 2)),
        ("requests per GiB".to_owned(), ratio(requests as f64 * (1_u64 << 30) as f64, 0)),
    ]
}

fn flatten(prefix: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    let join = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| flatten(&join(name), value, rows)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| flatten(&join(&index.to_string()), value, rows));
        }
        _ => {
            let (name, shown) = with_unit(prefix, value);
            rows.push((name.replace('_', " "), shown));
        }
    }
}

/// The name without its unit, and the value with it.
fn with_unit<'a>(name: &'a str, value: &Value) -> (&'a str, String) {
    if let Some(number) = value.as_u64() {
        if let Some(name) = name.strip_suffix("_bytes") {
            return (name, Size(number).to_string());
        }
        for (suffix, nanoseconds) in [("_ns", 1), ("_us", 1_000), ("_ms", 1_000_000)] {
            if let Some(name) = name.strip_suffix(suffix) {
                return (name, milliseconds(number.saturating_mul(nanoseconds)));
            }
        }
        return (name, number.to_string());
    }
    match value {
        Value::Number(number) => (name, number.as_f64().map_or_else(|| number.to_string(), |f| format!("{f:.2}"))),
        Value::String(text) => (name, text.clone()),
        Value::Null => (name, "-".to_owned()),
        other => (name, other.to_string()),
    }
}

fn milliseconds(ns: u64) -> String {
    format!("{}.{:01} ms", ns / 1_000_000, ns / 100_000 % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_what_was_read() {
        let stats = serde_json::json!({"requests": 16, "fetched_bytes": 3_u64 << 29, "read_bytes": 1_u64 << 30});
        let shown: Vec<String> = derived(&stats).into_iter().map(|(_, value)| value).collect();
        assert_eq!(shown, ["1.50", "16"]);
        let stats = serde_json::json!({"requests": 16, "fetched_bytes": 1, "read_bytes": 0});
        assert!(derived(&stats).iter().all(|(_, value)| value == "-"));
        assert!(derived(&serde_json::json!({})).is_empty());
    }

    #[test]
    fn a_names_last_word_is_its_unit() {
        let json =
            r#"{"memory_bytes":1048576,"demand":{"requests":7,"p50_ns":31500000},"amp":1.0432,"oldest_ms":null}"#;
        let text = table(Path::new("/mnt"), json);
        for row in ["memory", "1 MiB", "demand.requests", " 7\n", "demand.p50", "31.5 ms", "amp", "1.04", " -\n"] {
            assert!(text.contains(row), "{row:?} in {text}");
        }
        assert!(!text.contains("bytes"), "{text}");
    }
}
