//! Has 64 reads of one object in flight from one thread, and takes each as it completes.
//!
//! ```console
//! cargo run --example submit_reads -- s3://bucket/key
//! cargo run --example submit_reads -- /srv/data/file
//! ```
//!
//! With an endpoint as a second argument requests are not signed.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use foreread::{Operation, Outcome, Storage};

/// Reads in flight.
const READS: u64 = 64;

/// Bytes of each.
const READ_BYTES: usize = 4096;

#[allow(dead_code, reason = "a test calls `run` by itself")]
fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args().skip(1).collect::<Vec<_>>(), &mut std::io::stdout())
}

pub(crate) fn run(arguments: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let (url, endpoint) = match arguments {
        [url] => (url, None),
        [url, endpoint] => (url, Some(endpoint)),
        _ => return Err("usage: submit_reads URL [ENDPOINT]".into()),
    };
    let mut builder = Storage::builder(url);
    if let Some(endpoint) = endpoint {
        builder = builder.endpoint(endpoint).anonymous(true);
    }
    let storage = builder.connect()?;
    let file = storage.block_on(storage.open(""))?;

    let submissions = storage.engine().submissions(READS as usize);
    let step = (file.size() / READS).max(1);
    for read in 0..READS {
        // Spread over the object, from its end to its start.
        let offset = (READS - 1 - read) * step;
        let operation = Operation::Read { file: file.clone(), offset, len: READ_BYTES };
        submissions.submit(operation, None).map_err(|_| "more reads than the queue takes")?;
    }
    let (mut reads, mut bytes) = (0, 0);
    while reads < READS {
        let completion = submissions.wait(Duration::from_mins(1)).ok_or("a read took longer than a minute")?;
        if let Outcome::Read(pages) = completion.outcome? {
            (reads, bytes) = (reads + 1, bytes + pages.len());
        }
    }
    writeln!(out, "{reads} reads, {bytes} bytes, {} requests", storage.engine().stats().requests)?;
    Ok(())
}
