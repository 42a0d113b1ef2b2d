//! `foreread explain PATH`: in words, what a mount makes of the reads of a file, or of all files.
//!
//! The facts come from the mount, as JSON ([`foreread_engine::Watched`]); here they get words.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use miette::Diagnostic;
use serde_json::Value;
use thiserror::Error as ThisError;

use crate::last_cause::LastCause;
use crate::terminal::output;
use crate::terminal::size::Size;

/// Say what a mount makes of the reads of a file just now, and why
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  foreread explain /mnt/data/part-7.parquet     one file
  foreread explain /mnt/data                    all that is being read, the latest first
  foreread explain /mnt/data --json | jq .

A stream is a run of reads that foreread reads ahead of. Reads that form none fetch their own pages and no more.")]
pub(crate) struct Args {
    /// A file or a directory of a mount by `foreread mount`
    path: PathBuf,

    /// One JSON object instead of words
    #[arg(long)]
    json: bool,
}

/// Why `foreread explain` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("{}: nothing can be said about it", .path.display())]
    #[diagnostic(
        code(foreread::explain),
        help("name a file or directory of a mount; `grep fuse.foreread /proc/mounts` shows where they are")
    )]
    NotAMount {
        path: PathBuf,
        #[source]
        cause: LastCause,
    },
}

/// Asks the mount, and prints what it says.
pub(crate) fn run(args: &Args) -> miette::Result<ExitCode> {
    let json = foreread_fuse::query_watched(&args.path)
        .map_err(|cause| Error::NotAMount { path: args.path.clone(), cause: LastCause::from(&cause) })?;
    if args.json {
        output::line(format_args!("{}", json.trim_end()))?;
    } else {
        let watched = serde_json::from_str(&json).unwrap_or_default();
        output::print(format_args!("{}", in_words(&args.path, &watched)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What `watched` says of `path`.
fn in_words(path: &Path, watched: &Value) -> String {
    let mut text = format!("{}\n", path.display());
    let streams = watched["streams"].as_array().map(Vec::as_slice).unwrap_or_default();
    if streams.is_empty() {
        text.push_str("  No reads form a stream just now: each fetches its own pages.\n");
    }
    for stream in streams {
        text.push_str(&of_stream(stream));
    }
    match watched["more_streams"].as_u64() {
        None | Some(0) => {}
        Some(more) => _ = writeln!(text, "  {more} more streams were read earlier."),
    }
    if watched["link"].is_object() {
        text.push_str(&of_link(&watched["link"]));
    }
    text
}

fn of_stream(stream: &Value) -> String {
    let size = |name: &str| Size(stream[name].as_u64().unwrap_or(0));
    let way = match (stream["shape"].as_str(), stream["delta_bytes"].as_i64()) {
        (Some("strided"), Some(delta)) if delta.unsigned_abs() == size("record_bytes").0 => "backward".to_owned(),
        (Some("strided"), Some(delta)) => {
            let direction = if delta < 0 { " backward" } else { "" };
            format!("{} of every {}{direction}", size("record_bytes"), Size(delta.unsigned_abs()))
        }
        _ => "forward".to_owned(),
    };
    let mut text = format!("  {}, {way}\n", stream["key"].as_str().unwrap_or("?"));
    let _ = writeln!(
        text,
        "    at {} of {}; requested up to {}; {} read so far",
        size("position_bytes"),
        size("size_bytes"),
        size("planned_bytes"),
        size("read_bytes")
    );
    let why = match stream["bound"].as_str() {
        Some("quiet") => "its reader does not wait, so more would only take memory",
        Some("trust") => "what was read so far is trusted no further",
        Some("length") => "earlier runs of this file ended there",
        Some("pace") => "its reader takes ten seconds to come there",
        Some("memory") => "its share of the memory ends there: more --memory would let it be further ahead",
        _ => "",
    };
    let _ = writeln!(text, "    up to {} ahead: {why}", size("window_bytes"));
    let rate = match stream["bytes_per_s"].as_u64() {
        Some(rate) => format!("takes {}", per_second(rate)),
        None => "has no rate yet".to_owned(),
    };
    let waits = if stream["waits"].as_bool() == Some(true) { "waited" } else { "did not wait" };
    let idle = stream["idle_ms"].as_u64().unwrap_or(0);
    let _ = writeln!(
        text,
        "    its reader {rate}, and {waits} at its last read, {}.{} s ago",
        idle / 1_000,
        idle % 1_000 / 100
    );
    text
}

fn of_link(link: &Value) -> String {
    let number = |name: &str| link[name].as_u64().unwrap_or(0);
    let rate = |name: &str| match number(name) {
        0 => "unknown".to_owned(),
        rate => per_second(rate),
    };
    let state = match (link["is_growing"].as_bool(), link["is_crowded"].as_bool()) {
        (_, Some(true)) => "requests wait for each other",
        (Some(true), _) => "it may carry more",
        _ => "it carries no more than that, as far as is known",
    };
    let micros = number("first_byte_us");
    format!(
        "  The way to the storage: a first byte takes {}.{} ms; {} in all, {} a connection; {state}.\n  It has {} requests, \
         of {} at most at a time.\n",
        micros / 1_000,
        micros % 1_000 / 100,
        rate("bytes_per_s"),
        rate("connection_bytes_per_s"),
        number("requests"),
        number("requests_max"),
    )
}

fn per_second(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} KB/s", bytes / 1_000),
        _ => format!("{} MB/s", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_become_sentences() {
        let stream = json!({
            "key": "a/b", "size_bytes": 100 << 20, "shape": "strided", "delta_bytes": -(64 << 10), "record_bytes": 4096,
            "position_bytes": 50 << 20, "planned_bytes": 40 << 20, "window_bytes": 1 << 20, "bound": "memory",
            "read_bytes": 2 << 20, "bytes_per_s": 12_345_678, "waits": true, "idle_ms": 1_250
        });
        let link = json!({"first_byte_us": 31_250, "bytes_per_s": 640_000_000, "connection_bytes_per_s": 0,
            "is_growing": true, "is_crowded": false, "requests": 3, "requests_max": 64});
        let told = in_words(Path::new("/mnt"), &json!({"streams": [stream], "more_streams": 2, "link": link}));
        for words in [
            "a/b, 4 KiB of every 64 KiB backward",
            "at 50 MiB of 100 MiB; requested up to 40 MiB; 2 MiB read so far",
            "up to 1 MiB ahead: its share of the memory ends there",
            "its reader takes 12 MB/s, and waited at its last read, 1.2 s ago",
            "2 more streams",
            "a first byte takes 31.2 ms; 640 MB/s in all, unknown a connection; it may carry more",
            "It has 3 requests, of 64 at most",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert!(in_words(Path::new("/mnt/f"), &Value::Null).contains("No reads form a stream"));
    }
}
