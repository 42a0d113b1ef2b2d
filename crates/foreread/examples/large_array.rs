//! An array that is larger than the memory it may use: what does not fit is in a file, and comes
//! back when it is touched.
//!
//! ```console
//! cargo run --example large_array -- 1073741824 67108864 /var/tmp
//! ```
//!
//! The arguments are the bytes of the array, the bytes that may be in memory, and the directory of
//! the spill file. It needs Linux 5.11 and a process that may answer its own page faults; the
//! error says how to allow it.

use std::error::Error;
use std::io::Write;

use foreread::memory::{Advice, Region};

#[allow(dead_code, reason = "a test calls `run` by itself")]
fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args().skip(1).collect::<Vec<_>>(), &mut std::io::stdout())
}

pub(crate) fn run(arguments: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let [bytes, budget, dir] = arguments else { return Err("usage: large_array BYTES BUDGET DIR".into()) };
    let mut region = Region::anonymous(bytes.parse()?).budget(budget.parse()?).spill(dir).create()?;

    // Written as any slice. A page holds 4,096 bytes, and each has its number in its first eight.
    for (number, page) in region.chunks_exact_mut(4096).enumerate() {
        page[..8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    // What is known of the order of reads makes them faster; nothing else depends on it.
    region.advise(.., Advice::Sequential)?;
    for (number, page) in region.chunks_exact(4096).enumerate() {
        if page[..8] != (number as u64).to_le_bytes() {
            return Err(format!("page {number} holds something else").into());
        }
    }
    let stats = region.stats();
    let (pages, mapped) = (region.len() / 4096, stats.gauges.mapped_pages);
    writeln!(out, "{pages} pages written and read again, {mapped} of them in memory now")?;
    Ok(())
}
