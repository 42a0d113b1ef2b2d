//! `foreread explain PATH`: in words, what a mount makes of the reads of a file, or of all files.
//!
//! The facts come from the mount, as JSON ([`foreread_engine::Watched`]); here they get words.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use foreread_engine::Wanted;
use miette::Diagnostic;
use serde_json::Value;
use thiserror::Error as ThisError;

use crate::last_cause::LastCause;
use crate::terminal::name::plain;
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

    #[error("{}: no program has asked the mount for it lately", .path.display())]
    #[diagnostic(
        code(foreread::explain::unknown),
        help("check the name, and ask while a program reads it; the storage is not asked what it is")
    )]
    Unknown { path: PathBuf },
}

/// Asks the mount, and prints what it says.
pub(crate) fn run(args: &Args) -> miette::Result<ExitCode> {
    let json = foreread_fuse::query_watched(&args.path, &Wanted::default()).map_err(|cause| match cause {
        foreread_fuse::Error::Unknown { path } => Error::Unknown { path },
        cause => Error::NotAMount { path: args.path.clone(), cause: LastCause::from(&cause) },
    })?;
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
    for stream in streams.iter().take(STREAMS_MAX) {
        text.push_str(&of_stream(stream));
    }
    let left_out = streams.len().saturating_sub(STREAMS_MAX) as u64;
    match watched["more_streams"].as_u64().unwrap_or(0) + left_out {
        0 => {}
        more => _ = writeln!(text, "  {more} more streams were read earlier: `foreread top` shows them."),
    }
    if watched["file"].is_object() {
        text.push_str(&of_file(&watched["file"], &watched["wasted"]));
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
        (Some("sparse"), _) => "forward with gaps".to_owned(),
        _ => "forward".to_owned(),
    };
    let mut text = format!("  {}, {way}\n", plain(stream["key"].as_str().unwrap_or("?")));
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
    let reader = match (stream["process"].as_str(), stream["pid"].as_u64()) {
        (Some(process), Some(pid)) => format!("its reader ({}, {pid})", plain(process)),
        _ => "its reader".to_owned(),
    };
    let _ = writeln!(
        text,
        "    {reader} {rate}, and {waits} at its last read, {}.{} s ago",
        idle / 1_000,
        idle % 1_000 / 100
    );
    text
}

/// What has been done with the file, and what of it was `wasted` lately.
fn of_file(file: &Value, wasted: &Value) -> String {
    let size = |of: &Value, name: &str| Size(of[name].as_u64().unwrap_or(0));
    let mut text = format!(
        "  In all {} of it went to programs, and {} came from the storage. {} were asked for ahead and dropped\n  \
         unread. {} reads had to wait.\n",
        size(file, "read_bytes"),
        size(file, "fetched_bytes"),
        size(file, "wasted_bytes"),
        file["late_reads"]
    );
    for piece in wasted.as_array().into_iter().flatten() {
        let why = if piece["thrashed"] == true { "for want of memory" } else { "since no reader was expected there" };
        let ago = piece["ago_ms"].as_u64().unwrap_or(0);
        let (start, end) = (size(piece, "start_bytes"), size(piece, "end_bytes"));
        let _ =
            writeln!(text, "    unread: {start} to {end}, dropped {}.{} s ago {why}", ago / 1_000, ago % 1_000 / 100);
    }
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

/// Streams that are put into words. Lower: of several readers, some are not told of. Higher: more
/// than is read. Source: a guess.
const STREAMS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_become_sentences() {
        let stream = json!({
            "key": "a/b", "size_bytes": 100 << 20, "shape": "strided", "delta_bytes": -(64 << 10), "record_bytes": 4096,
            "position_bytes": 50 << 20, "planned_bytes": 40 << 20, "window_bytes": 1 << 20, "bound": "memory",
            "read_bytes": 2 << 20, "bytes_per_s": 12_345_678, "waits": true, "idle_ms": 1_250,
            "pid": 77, "process": "d\u{1b}d"
        });
        let file = json!({"read_bytes": 3 << 20, "fetched_bytes": 9 << 20, "wasted_bytes": 6 << 20, "late_reads": 4});
        let wasted = json!([
            {"start_bytes": 1 << 20, "end_bytes": 3 << 20, "ago_ms": 2_345, "thrashed": true},
            {"start_bytes": 4 << 20, "end_bytes": 8 << 20, "ago_ms": 60_000, "thrashed": false},
        ]);
        let link = json!({"first_byte_us": 31_250, "bytes_per_s": 640_000_000, "connection_bytes_per_s": 0,
            "is_growing": true, "is_crowded": false, "requests": 3, "requests_max": 64});
        let told = in_words(
            Path::new("/mnt"),
            &json!({"streams": vec![stream; 22], "more_streams": 2, "link": link,
            "file": file, "wasted": wasted}),
        );
        for words in [
            "a/b, 4 KiB of every 64 KiB backward",
            "at 50 MiB of 100 MiB; requested up to 40 MiB; 2 MiB read so far",
            "up to 1 MiB ahead: its share of the memory ends there",
            "its reader (d\\u{1b}d, 77) takes 12 MB/s, and waited at its last read, 1.2 s ago",
            "4 more streams",
            "In all 3 MiB of it went to programs, and 9 MiB came from the storage. 6 MiB were asked for ahead",
            "4 reads had to wait",
            "unread: 1 MiB to 3 MiB, dropped 2.3 s ago for want of memory",
            "unread: 4 MiB to 8 MiB, dropped 60.0 s ago since no reader was expected there",
            "a first byte takes 31.2 ms; 640 MB/s in all, unknown a connection; it may carry more",
            "It has 3 requests, of 64 at most",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert!(in_words(Path::new("/mnt/f"), &Value::Null).contains("No reads form a stream"));
    }
}
