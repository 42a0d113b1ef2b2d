//! Measures the ceiling of this machine: a bare client against the testbed, and what the testbed
//! costs.
//!
//!     cargo run --release -p foreread-testbed --example bare_client -- \
//!         [size] [connections] [connection-rate] [first-byte] [range]
//!
//! The testbed runs in a process of its own, so that its processor time is told apart from the
//! client's.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use foreread_testbed::bare::{self, Target};
use foreread_testbed::{Config, ObjectSpec, Testbed, quantity};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "serve") {
        return serve(&arguments[1], &arguments[2]);
    }
    let argument = |index: usize, default: &'static str| arguments.get(index).map_or(default, String::as_str);
    let size = quantity::size(argument(0, "8GiB"))?;
    let connections: usize = argument(1, "16").parse()?;
    let (rate, first_byte, range) = (argument(2, "80MB/s"), argument(3, "30ms"), argument(4, "8MiB"));
    let range_bytes = quantity::size(range)?;

    let mut server = Command::new(std::env::current_exe()?)
        .args(["serve", rate, first_byte])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
    let target = Target { address: line.trim().parse()?, path: "/testbed/big".to_owned() };

    let ranges = |bytes: u64| (0..bytes / range_bytes).map(move |index| index * range_bytes..(index + 1) * range_bytes);
    bare::read(&target, connections, ranges(size / 8))?;
    let (server_before, client_before) = (cpu_seconds(server.id())?, cpu_seconds(std::process::id())?);
    let report = bare::read(&target, connections, ranges(size))?;
    let gigabytes = report.bytes as f64 / 1e9;
    let server_cost = (cpu_seconds(server.id())? - server_before) / gigabytes;
    let client_cost = (cpu_seconds(std::process::id())? - client_before) / gigabytes;
    let first_bytes =
        |part: f64| report.first_bytes[(report.first_bytes.len() as f64 * part) as usize].as_secs_f64() * 1e3;
    println!("{connections} connections, ranges of {range}, first byte {first_byte}, {rate} each:");
    println!("  {:.0} MB/s, {:.0} requests/s", report.bytes_per_second() / 1e6, report.requests_per_second());
    println!("  first byte p50 {:.1} ms, p99 {:.1} ms", first_bytes(0.5), first_bytes(0.99));
    println!("  server {server_cost:.2} CPU-s/GB, client {client_cost:.2} CPU-s/GB");
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
