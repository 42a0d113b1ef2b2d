//! What machine, testbed and device give in a run: the unit of a mount's result.
//!
//! The client is the testbed's own bare one, which only asks for ranges over keep-alive
//! connections. Before each range, the connection checks the time and the user's interrupt.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use foreread_testbed::bare::{self, Report, Target};
use foreread_workload::{Pattern, Workload};

use crate::error::Error;
use crate::process::interrupt::Interrupt;
use crate::subject::server::{BUCKET, Server};

/// Connections that measure the ceiling, as the promised figures say.
const CEILING_CONNECTIONS: usize = 16;
/// The size of their ranges.
const CEILING_RANGE_BYTES: u64 = 8 << 20;
/// Bytes read to find the ceiling. 2 GiB take more than two seconds; with half as much, the result
/// varies visibly between runs.
const CEILING_BYTES: u64 = 2 << 30;

/// What the machine gave when a run was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Yardstick {
    /// MB/s that 16 connections reach with ranges of 8 MiB.
    pub(crate) ceiling_mb_per_s: Option<f64>,
    /// Operations a second of a client that asks for exactly the workload's ranges, with as many
    /// in flight.
    pub(crate) bare_operations_per_s: Option<f64>,
}

/// Measures the ceiling.
pub(crate) fn ceiling(server: &Server, workload: &Workload, interrupt: &Interrupt) -> Result<f64, Error> {
    let size = workload.files.size_bytes;
    let parts = size.div_ceil(CEILING_RANGE_BYTES);
    // A smaller object is read again and again: nothing between client and device caches it.
    let ranges = (0..CEILING_BYTES.div_ceil(CEILING_RANGE_BYTES.min(size))).map(|index| {
        let start = index % parts * CEILING_RANGE_BYTES;
        start..size.min(start + CEILING_RANGE_BYTES)
    });
    let report = read(server, workload, CEILING_CONNECTIONS, Box::new(ranges), interrupt)?;
    Ok(report.bytes_per_second() / 1e6)
}

/// Measures the bare client's operations; only random patterns in one file have such a client.
pub(crate) fn operations(server: &Server, workload: &Workload, interrupt: &Interrupt) -> Result<Option<f64>, Error> {
    let random = matches!(workload.pattern, Pattern::Random { .. } | Pattern::MmapRandom { .. });
    if !random || workload.files.count != 1 {
        return Ok(None);
    }
    let mut threads: Vec<_> = (0..workload.threads).map(|thread| workload.operations(thread)).collect();
    let in_turn = std::iter::from_fn(move || {
        let round: Vec<_> = threads.iter_mut().filter_map(Iterator::next).collect();
        (!round.is_empty()).then_some(round)
    });
    let ranges = in_turn.flatten().map(|op| op.offset..op.offset + u64::from(op.len));
    let report = read(server, workload, workload.threads as usize, Box::new(ranges), interrupt)?;
    Ok(Some(report.requests_per_second()))
}

fn read<'a>(
    server: &Server,
    workload: &Workload,
    connections: usize,
    ranges: Box<dyn Iterator<Item = Range<u64>> + Send + 'a>,
    interrupt: &Interrupt,
) -> Result<Report, Error> {
    let address = server.endpoint().trim_start_matches("http://");
    let address: SocketAddr =
        address.parse().map_err(|_| Error::Protocol { what: format!("the testbed listens on {address}") })?;
    let target = Target { address, path: format!("/{BUCKET}/{}", workload.file_name(0)) };
    let end = Instant::now() + Duration::from_nanos(workload.duration_ns);
    let goes_on = || Instant::now() < end && !interrupt.is_raised();
    let report = bare::read(&target, connections, ranges.take_while(|_| goes_on())).map_err(Error::Bare)?;
    Error::if_interrupted(interrupt)?;
    Ok(report)
}
