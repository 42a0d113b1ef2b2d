//! What a storage gives: whether it answers, what a first byte takes, and what one stream has.
//!
//! The object that is read is the one that the URL names, or the longest on the first page of its
//! prefix.

use std::time::{Duration, Instant};

use foreread::backend::{Entry, shown};
use foreread::{Engine, Object, Options, Target};

use super::finding::Finding;
use crate::args::memory;
use crate::args::storage::StorageArgs;
use crate::last_cause::LastCause;
use crate::storage;
use crate::terminal::size::Size;

/// All findings about the storage of `url`, up to the first failure.
pub(super) fn findings(url: &str, args: &StorageArgs) -> Vec<Finding> {
    let connected = match storage::connect(url, args) {
        Ok(connected) => connected,
        Err(error) => return vec![Finding::of_error("storage", &error)],
    };
    let options = Options::default().with_memory_bytes(memory::default_budget().0);
    let engine = match Engine::new(connected.backend.clone(), &options) {
        Ok(engine) => engine,
        Err(error) => {
            return vec![Finding::wrong(
                "storage",
                LastCause::from(&error).to_string(),
                "check the limits of the process",
            )];
        }
    };
    let began = Instant::now();
    let target = match engine.block_on(storage::locate(url, &connected, false)) {
        Ok(target) => target,
        Err(error) => return vec![Finding::of_error("storage", &error)],
    };
    let contact = began.elapsed();
    let mut findings = vec![Finding::good("storage", format!("{} answers after {}", shown(url), millis(contact)))];
    findings.extend(match object(&engine, target) {
        Ok(Some(object)) => read(&engine, &object),
        Ok(None) => vec![Finding::good("reading", "there is no object on the first page to try")],
        Err(cause) => {
            vec![Finding::wrong("reading", cause, "check that the credentials may read objects, not only list")]
        }
    });
    findings
}

/// The object to read.
fn object(engine: &Engine, target: Target) -> Result<Option<Object>, String> {
    let told = |cause: foreread::Error| LastCause::from(&cause).to_string();
    match target {
        Target::Object(object) => Ok(Some(object)),
        Target::Prefix(prefix) => {
            let page = engine.block_on(engine.list(&prefix, None)).map_err(told)?;
            let objects = page.entries.into_iter().filter_map(|entry| match entry {
                Entry::Object(object) => Some(object),
                Entry::Prefix(_) => None,
            });
            Ok(objects.max_by_key(|object| object.version.size))
        }
    }
}

/// First bytes at places far apart, then one stream.
fn read(engine: &Engine, object: &Object) -> Vec<Finding> {
    let (file, size) = (engine.open(object), object.version.size);
    let mut firsts = Vec::new();
    for nth in 0..FIRST_BYTES {
        let began = Instant::now();
        // Backward, so that no read is taken for a stream.
        let offset = size / (FIRST_BYTES + 1) * (FIRST_BYTES - nth);
        if let Err(cause) = engine.block_on(file.read_at(offset, PAGE_BYTES)) {
            let next = "`-v` shows each failed request; `foreread cat` reads the object alone";
            return vec![Finding::wrong("reading", LastCause::from(&cause).to_string(), next)];
        }
        firsts.push(began.elapsed());
    }
    firsts.sort_unstable();
    let first = firsts[firsts.len() / 2];
    let found = format!("{} in the middle of {FIRST_BYTES}", millis(first));
    let mut findings = vec![if first > FIRST_BYTE_LONG {
        Finding::advice(
            "first byte",
            found,
            "programs that wait for each read are slow here: is a nearer region to be had?",
        )
    } else {
        Finding::good("first byte", found)
    }];

    let (began, mut offset) = (Instant::now(), 0);
    while offset < size.min(STREAM_BYTES) && began.elapsed() < STREAM_TIME {
        match engine.block_on(file.read_at(offset, PIECE_BYTES)) {
            Ok(piece) if !piece.is_empty() => offset += piece.len() as u64,
            Ok(_) => break,
            Err(cause) => {
                findings.push(Finding::wrong(
                    "one stream",
                    LastCause::from(&cause).to_string(),
                    "`-v` shows each request",
                ));
                return findings;
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = offset as f64 / 1e6 / seconds.max(1e-6);
    let found = format!("{rate:.0} MB/s over {} of {}", Size(offset), object.key);
    findings.push(if offset < STREAM_BYTES_MIN {
        Finding::good("one stream", format!("{found}: too little to tell what the link carries"))
    } else if rate < STREAM_SLOW {
        let next = "a virtual machine's limit, a proxy, or the distance: more readers at once may have more in all";
        Finding::advice("one stream", found, next)
    } else {
        Finding::good("one stream", found)
    });
    findings
}

fn millis(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}

/// Places at which a first byte is waited for.
const FIRST_BYTES: u64 = 5;

/// Bytes of such a read.
const PAGE_BYTES: usize = 4096;

/// A first byte that takes longer is worth a word: stores in the same region take a fifth of it.
const FIRST_BYTE_LONG: Duration = Duration::from_millis(150);

/// Bytes and time of the stream, at most.
const STREAM_BYTES: u64 = 256 << 20;
const STREAM_TIME: Duration = Duration::from_secs(3);

/// Bytes of one read of it.
const PIECE_BYTES: usize = 1 << 20;

/// A stream that ended earlier shows first bytes, not bandwidth.
const STREAM_BYTES_MIN: u64 = 16 << 20;

/// A stream below it, in MB/s, is slower than one connection to a store usually is.
const STREAM_SLOW: f64 = 50.0;
