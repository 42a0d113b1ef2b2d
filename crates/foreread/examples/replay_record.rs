//! Reads an object while every event is recorded, then runs the decisions again from the record.
//!
//! ```console
//! cargo run --example replay_record -- s3://bucket/key record.log
//! cargo run --example replay_record -- record.log
//! ```
//!
//! With one argument a record that was made before is replayed, for example by
//! `foreread mount --record FILE`. With three the last one is an endpoint, and requests are not
//! signed.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read, Write};

use foreread::{Reader, Storage};

#[allow(dead_code, reason = "a test calls `run` by itself")]
fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args().skip(1).collect::<Vec<_>>(), &mut std::io::stdout())
}

pub(crate) fn run(arguments: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let record = match arguments {
        [record] => record,
        [url, record] => {
            make(Storage::builder(url).record(record).connect()?)?;
            record
        }
        [url, record, endpoint] => {
            make(Storage::builder(url).endpoint(endpoint).anonymous(true).record(record).connect()?)?;
            record
        }
        _ => return Err("usage: replay_record [URL] RECORD [ENDPOINT]".into()),
    };
    let replayed = foreread::replay(BufReader::new(File::open(record)?))?;
    writeln!(out, "{} events caused the same {} actions again", replayed.events, replayed.actions)?;
    Ok(())
}

/// Reads all of the object. Dropping the storage writes the record out; what is in flight then may
/// lack at its end.
fn make(storage: Storage) -> Result<(), Box<dyn Error>> {
    let mut reader = Reader::new(storage.block_on(storage.open(""))?);
    let mut buffer = vec![0; 128 << 10];
    while reader.read(&mut buffer)? > 0 {}
    drop((reader, storage));
    Ok(())
}
