//! Walks all objects below a prefix and adds up their sizes.
//!
//! ```console
//! cargo run --example walk_prefix -- s3://bucket/prefix
//! cargo run --example walk_prefix -- s3://bucket/prefix http://127.0.0.1:9000
//! ```
//!
//! With an endpoint requests are not signed.

use std::error::Error;
use std::io::Write;

use foreread::{Storage, Target};

#[allow(dead_code, reason = "a test calls `run` by itself")]
fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args().skip(1).collect::<Vec<_>>(), &mut std::io::stdout())
}

pub(crate) fn run(arguments: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let (url, endpoint) = match arguments {
        [url] => (url, None),
        [url, endpoint] => (url, Some(endpoint)),
        _ => return Err("usage: walk_prefix URL [ENDPOINT]".into()),
    };
    let mut builder = Storage::builder(url);
    if let Some(endpoint) = endpoint {
        builder = builder.endpoint(endpoint).anonymous(true);
    }
    let storage = builder.connect()?;
    storage.block_on(async {
        // A wrong bucket, wrong credentials and a silent endpoint are told here, within seconds.
        if let Target::Object(object) = storage.locate().await? {
            return Err(format!("{} is an object, not a prefix", object.key).into());
        }
        let (mut walk, mut objects, mut bytes) = (storage.walk(""), 0, 0);
        while let Some(object) = walk.next().await {
            let object = object?;
            writeln!(out, "{:>12}  {}", object.version.size, object.key)?;
            (objects, bytes) = (objects + 1, bytes + object.version.size);
        }
        writeln!(out, "{objects} objects, {bytes} bytes, {} listings", storage.engine().stats().lists)?;
        Ok(())
    })
}
