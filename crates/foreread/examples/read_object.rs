//! Reads an object of a bucket, with `async` and without, and says how much of it was read ahead.
//!
//! ```console
//! cargo run --example read_object -- s3://bucket/key
//! cargo run --example read_object -- s3://bucket/key http://127.0.0.1:9000
//! ```
//!
//! With an endpoint requests are not signed: it is taken for an emulator, such as
//! `foreread testbed --allow-anonymous`.

use std::error::Error;
use std::io::{Read, Write};

use foreread::{Reader, Storage};

#[allow(dead_code, reason = "a test calls `run` by itself")]
fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args().skip(1).collect::<Vec<_>>(), &mut std::io::stdout())
}

pub(crate) fn run(arguments: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let (url, endpoint) = match arguments {
        [url] => (url, None),
        [url, endpoint] => (url, Some(endpoint)),
        _ => return Err("usage: read_object URL [ENDPOINT]".into()),
    };
    let mut builder = Storage::builder(url);
    if let Some(endpoint) = endpoint {
        builder = builder.endpoint(endpoint).anonymous(true);
    }
    let storage = builder.connect()?;

    // With `async`: any executor will do. The empty path is the object that the URL names.
    let (file, head) = storage.block_on(async {
        let file = storage.open("").await?;
        let head = file.read_at(0, 4096).await?;
        Ok::<_, foreread::Error>((file, head))
    })?;
    writeln!(out, "{}: {} bytes, {} of them by `read_at`", file.object().key, file.size(), head.len())?;

    // Without: a file as `std::io` knows it.
    let (mut reader, mut buffer, mut total) = (Reader::new(file), vec![0; 64 << 10], 0);
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        total += count;
    }
    let stats = storage.engine().stats();
    writeln!(out, "{total} bytes by `Reader`, {} of {} reads from memory", stats.hits, stats.reads)?;
    Ok(())
}
