//! The simplest client: keep-alive connections, one range after another, bytes discarded.
//!
//! Its throughput is the ceiling of every other client of the same server on the same machine, and
//! its time for given ranges is the floor. It is unsigned, so S3 paths need
//! [`crate::Config::anonymous`]; `/http/KEY` always works.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;

/// The object to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The server.
    pub address: SocketAddr,
    /// The path in its URL, percent-encoded: `/testbed/big`.
    pub path: String,
}

/// The times of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// From before the first connection to after the last byte.
    pub elapsed: Duration,
    /// Bytes of bodies.
    pub bytes: u64,
    /// From sending each request to its last byte, shortest first.
    pub latencies: Vec<Duration>,
    /// From sending each request to the first of its bytes, shortest first.
    pub first_bytes: Vec<Duration>,
}

impl Report {
    /// Bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64()
    }

    /// Requests per second.
    pub fn requests_per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }
}

/// Reads the ranges (none empty, all within the object) in their order, as many at a time as there
/// are connections.
///
/// Each connection is a thread, with a buffer that stays in its cache. The first failure ends the
/// run.
pub fn read<I>(target: &Target, connections: usize, ranges: I) -> Result<Report, Error>
where
    I: IntoIterator<Item = Range<u64>>,
    I::IntoIter: Send,
{
    let start = Instant::now();
    let ranges = Mutex::new(ranges.into_iter());
    let readers = std::thread::scope(|scope| {
        let reader = || Connection::new(target).read_all(&ranges);
        let threads: Vec<_> = (0..connections.max(1)).map(|_| scope.spawn(reader)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a reader panicked")).collect::<Result<Vec<_>, _>>()
    })?;
    let mut report = Report { elapsed: start.elapsed(), bytes: 0, latencies: Vec::new(), first_bytes: Vec::new() };
    for reader in readers {
        report.bytes += reader.bytes;
        report.latencies.extend(reader.latencies);
        report.first_bytes.extend(reader.first_bytes);
    }
    report.latencies.sort_unstable();
    report.first_bytes.sort_unstable();
    Ok(report)
}

/// One connection, opened at its first request and again whenever the server has closed it.
struct Connection<'a> {
    target: &'a Target,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
    bytes: u64,
    latencies: Vec<Duration>,
    first_bytes: Vec<Duration>,
}

impl<'a> Connection<'a> {
    fn new(target: &'a Target) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Self { target, stream: None, buffer, bytes: 0, latencies: Vec::new(), first_bytes: Vec::new() }
    }

    fn read_all(mut self, ranges: &Mutex<impl Iterator<Item = Range<u64>>>) -> Result<Self, Error> {
        loop {
            let next = ranges.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(range) = next else { return Ok(self) };
            let path = || self.target.path.clone();
            match self.read_one(&range) {
                Ok(head) if head.status == 206 && head.bytes == range.end - range.start => {}
                Ok(Head { status, bytes, .. }) => return Err(Error::Answer { path: path(), range, status, bytes }),
                Err(source) => return Err(Error::Read { path: path(), range, source }),
            }
        }
    }

    fn read_one(&mut self, range: &Range<u64>) -> io::Result<Head> {
        let mut stream = if let Some(stream) = self.stream.take() {
            stream
        } else {
            let stream = TcpStream::connect(self.target.address)?;
            stream.set_nodelay(true)?;
            stream
        };
        let Target { address, path } = self.target;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nRange: bytes={}-{}\r\n\r\n", range.start, range.end - 1);
        let start = Instant::now();
        stream.write_all(request.as_bytes())?;

        let mut filled = 0;
        let head = loop {
            let read = stream.read(&mut self.buffer[filled..])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += read;
            if let Some(head) = Head::parse(&self.buffer[..filled])? {
                break head;
            }
        };
        let mut left = head.bytes.saturating_sub((filled - head.length) as u64);
        let mut first_byte = (filled > head.length).then(|| start.elapsed());
        while left > 0 {
            let want = left.min(self.buffer.len() as u64) as usize;
            let read = stream.read(&mut self.buffer[..want])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            first_byte.get_or_insert_with(|| start.elapsed());
            left -= read as u64;
        }
        let latency = start.elapsed();
        self.latencies.push(latency);
        self.first_bytes.push(first_byte.unwrap_or(latency));
        self.bytes += head.bytes;
        if !head.closes {
            self.stream = Some(stream);
        }
        Ok(head)
    }
}

/// The needed parts of the head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    status: u16,
    /// The length of the body.
    bytes: u64,
    closes: bool,
    /// The length of the head itself.
    length: usize,
}

impl Head {
    /// `None` while the head is not complete.
    fn parse(received: &[u8]) -> io::Result<Option<Self>> {
        let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if received.len() < HEAD_BYTES_MAX { Ok(None) } else { Err(io::ErrorKind::InvalidData.into()) };
        };
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let text = std::str::from_utf8(&received[..end]).map_err(|_| invalid())?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let mut head = Self { status: status.ok_or_else(invalid)?, bytes: 0, closes: false, length: end + 4 };
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(invalid)?;
            if name.eq_ignore_ascii_case("content-length") {
                head.bytes = value.trim().parse().map_err(|_| invalid())?;
            } else if name.eq_ignore_ascii_case("connection") {
                head.closes = value.trim().eq_ignore_ascii_case("close");
            }
        }
        Ok(Some(head))
    }
}

/// Bytes of a buffer. Lower: more system calls; higher: two of them exceed the second-level cache.
const BUFFER_BYTES: usize = 256 << 10;

/// No server here sends a longer head.
const HEAD_BYTES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_parsed_once_it_is_whole() {
        let text = b"HTTP/1.1 206 Partial Content\r\ncontent-length: 7\r\nConnection: Close\r\n\r\nbody";
        assert_eq!(Head::parse(&text[..40]).unwrap(), None);
        let head = Head::parse(text).unwrap().unwrap();
        assert_eq!(head, Head { status: 206, bytes: 7, closes: true, length: text.len() - 4 });
        assert!(Head::parse(b"nonsense\r\n\r\n").is_err());
        assert!(Head::parse(&[b'x'; HEAD_BYTES_MAX]).is_err());
    }
}
