//! Measures the ceiling of this machine: a bare client against the testbed, and what the testbed costs.
//!
//!     cargo run --release -p foreread-testbed --example bare_client -- [GiB] [connections] [connection-rate] [first-byte]
//!
//! The testbed runs in a process of its own, so that its processor time is told apart from the client's.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use foreread_testbed::bare::{self, Target};
use foreread_testbed::{Config, ObjectSpec, Testbed, quantity};

const RANGE_BYTES: u64 = 8 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("serve") {
        return serve(&arguments.next().unwrap_or_default(), &arguments.next().unwrap_or_default());
    }
    let size: u64 = first.map_or(Ok(8), |text| text.parse())? << 30;
    let connections: usize = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let rate = arguments.next().unwrap_or_else(|| "80MB/s".to_owned());
    let first_byte = arguments.next().unwrap_or_else(|| "30ms".to_owned());

    let mut server = Command::new(std::env::current_exe()?)
        .args(["serve", &rate, &first_byte])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
    let target = Target { address: line.trim().parse()?, path: "/testbed/big".to_owned() };

    let ranges = |bytes: u64| (0..bytes / RANGE_BYTES).map(|index| index * RANGE_BYTES..(index + 1) * RANGE_BYTES);
    bare::read(&target, connections, ranges(1 << 30))?;
    let (server_before, client_before) = (cpu_seconds(server.id())?, cpu_seconds(std::process::id())?);
    let report = bare::read(&target, connections, ranges(size))?;
    let gigabytes = report.bytes as f64 / 1e9;
    let server_cost = (cpu_seconds(server.id())? - server_before) / gigabytes;
    let client_cost = (cpu_seconds(std::process::id())? - client_before) / gigabytes;
    println!(
        "{connections} connections, ranges of 8 MiB, first byte {first_byte}, {rate} each: {:.0} MB/s; first byte p50 {:.1} ms; \
         server {server_cost:.2} CPU-s/GB, client {client_cost:.2} CPU-s/GB",
        report.bytes_per_second() / 1e6,
        report.first_bytes[report.first_bytes.len() / 2].as_secs_f64() * 1e3,
    );
    stop(&mut server)
}

/// Serves until standard input ends.
fn serve(rate: &str, first_byte: &str) -> Result<(), Box<dyn std::error::Error>> {
    let config = Config {
        objects: vec![ObjectSpec::new("big", 1 << 40)],
        anonymous: true,
        connection_rate: Some(quantity::rate(rate)?),
        first_byte: quantity::duration(first_byte)?,
        ..Config::default()
    };
    let testbed = Testbed::start(config)?;
    println!("{}", testbed.address());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

fn stop(server: &mut Child) -> Result<(), Box<dyn std::error::Error>> {
    drop(server.stdin.take());
    server.wait()?;
    Ok(())
}

/// User and system time of a process, in the kernel's ticks of 10 ms.
fn cpu_seconds(process: u32) -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no stat")?.1.split_whitespace().collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}
