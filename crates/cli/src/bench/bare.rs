//! The client that everything is compared with: it does nothing but ask for ranges over keep-alive connections.
//!
//! One thread a connection, blocking, the body read into one buffer and forgotten. What it reaches in a run is what
//! machine, testbed and device give in that run, so it is the unit in which a mount's result is told.
//!
//! The signature covers neither the range nor the body, so one serves every request for an object (AWS Signature
//! Version 4 with an unsigned payload), and signing costs nothing here.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use foreread_workload::Workload;
use ring::{digest, hmac};

use super::error::Error;
use super::interrupt::Interrupt;
use super::server::BUCKET;

/// Connections of the ceiling, as promised in the figures.
const CEILING_CONNECTIONS: u64 = 16;
/// Its ranges.
const CEILING_RANGE_BYTES: u64 = 8 << 20;
/// Most of what is read to find it. 2 GiB take above two seconds; half as much varies visibly between runs.
const CEILING_BYTES_MAX: u64 = 2 << 30;
/// One receive call. Smaller ones cost system calls, larger ones leave the processor's cache.
const BUFFER_BYTES: usize = 256 << 10;
/// A silent testbed ends the measurement.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// MB/s that 16 connections reach with ranges of 8 MiB of the workload's files.
pub(crate) fn ceiling(endpoint: &str, workload: &Workload, interrupt: &Interrupt) -> Result<f64, Error> {
    let objects = objects(endpoint, workload);
    let size = workload.files.size_bytes;
    let ranges_per_file = size.div_ceil(CEILING_RANGE_BYTES);
    let ranges = (ranges_per_file * objects.len() as u64).min(CEILING_BYTES_MAX.div_ceil(CEILING_RANGE_BYTES));
    let next = AtomicU64::new(0);
    let fetched = AtomicU64::new(0);
    let started = Instant::now();
    on_threads(CEILING_CONNECTIONS, |_| {
        let mut connection = Connection::open(endpoint)?;
        loop {
            let range = next.fetch_add(1, Ordering::Relaxed);
            if range >= ranges || interrupt.came() {
                return Ok(());
            }
            let offset = range % ranges_per_file * CEILING_RANGE_BYTES;
            let len = CEILING_RANGE_BYTES.min(size - offset);
            connection.fetch(&objects[(range / ranges_per_file) as usize], offset, len)?;
            fetched.fetch_add(len, Ordering::Relaxed);
        }
    })
    .map_err(|cause| Error::Bare { cause })?;
    interrupt.check()?;
    Ok(fetched.into_inner() as f64 / 1e6 / started.elapsed().as_secs_f64())
}

/// Operations a second of a client that asks for exactly the workload's ranges, one connection for each of its threads.
pub(crate) fn operations(endpoint: &str, workload: &Workload, interrupt: &Interrupt) -> Result<f64, Error> {
    let objects = objects(endpoint, workload);
    let done = AtomicU64::new(0);
    let duration = Duration::from_nanos(workload.duration_ns);
    let started = Instant::now();
    on_threads(u64::from(workload.threads), |thread| {
        let mut connection = Connection::open(endpoint)?;
        for op in workload.operations(thread as u32) {
            if started.elapsed() >= duration || interrupt.came() {
                break;
            }
            connection.fetch(&objects[op.file as usize], op.offset, op.len.into())?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    })
    .map_err(|cause| Error::Bare { cause })?;
    interrupt.check()?;
    Ok(done.into_inner() as f64 / started.elapsed().as_secs_f64())
}

fn on_threads(count: u64, work: impl Fn(u64) -> io::Result<()> + Sync) -> io::Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|thread| {
                let work = &work;
                scope.spawn(move || work(thread))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a fetching thread panicked"))
    })
}

/// The start of a request for each object, signed.
fn objects(endpoint: &str, workload: &Workload) -> Vec<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let host = endpoint.trim_start_matches("http://");
    (0..workload.files.count).map(|index| request(host, &workload.file_name(index), now)).collect()
}

/// One connection, used again for every range.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(endpoint: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(endpoint.trim_start_matches("http://"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self { stream, buffer: vec![0; BUFFER_BYTES] })
    }

    fn fetch(&mut self, request: &str, offset: u64, len: u64) -> io::Result<()> {
        let text = format!("{request}Range: bytes={offset}-{}\r\n\r\n", offset + len - 1);
        self.stream.write_all(text.as_bytes())?;
        let mut filled = 0;
        let body = loop {
            let got = self.stream.read(&mut self.buffer[filled..])?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += got;
            if let Some(at) = self.buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..body]);
        let status = head.split(' ').nth(1).unwrap_or_default();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<u64>().ok())?
        });
        if status != "206" || length != Some(len) {
            let first = head.lines().next().unwrap_or_default();
            return Err(io::Error::other(format!("`{first}` with length {length:?} for a range of {len}")));
        }
        let mut left = len.saturating_sub((filled - body) as u64);
        while left > 0 {
            let room = left.min(BUFFER_BYTES as u64) as usize;
            let got = self.stream.read(&mut self.buffer[..room])?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= got as u64;
        }
        Ok(())
    }
}

/// A signed GET for `key`, up to where the `Range` belongs.
fn request(host: &str, key: &str, unix_s: u64) -> String {
    const REGION: &str = "us-east-1";
    const PAYLOAD: &str = "UNSIGNED-PAYLOAD";
    const SIGNED: &str = "host;x-amz-content-sha256;x-amz-date";
    let (date, time) = calendar(unix_s);
    let stamp = format!("{date}T{time}Z");
    let path = format!("/{BUCKET}/{key}");
    let canonical = format!(
        "GET\n{path}\n\nhost:{host}\nx-amz-content-sha256:{PAYLOAD}\nx-amz-date:{stamp}\n\n{SIGNED}\n{PAYLOAD}"
    );
    let scope = format!("{date}/{REGION}/s3/aws4_request");
    let text = format!(
        "AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}",
        hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref())
    );
    let secret = b"AWS4testbedsecret".to_vec();
    let signing = [date.as_str(), REGION, "s3", "aws4_request"].iter().fold(secret, |secret, part| mac(&secret, part));
    let signature = hex(&mac(&signing, &text));
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nx-amz-date: {stamp}\r\nx-amz-content-sha256: {PAYLOAD}\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential=testbed/{scope}, SignedHeaders={SIGNED}, Signature={signature}\r\n"
    )
}

fn mac(secret: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `YYYYMMDD` and `HHMMSS` in UTC (Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
fn calendar(unix_s: u64) -> (String, String) {
    let (days, second) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (format!("{year:04}{month:02}{day:02}"), format!("{:02}{:02}{:02}", second / 3600, second / 60 % 60, second % 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(calendar(0), ("19700101".to_owned(), "000000".to_owned()));
        assert_eq!(calendar(951_782_399), ("20000228".to_owned(), "235959".to_owned()));
        assert_eq!(calendar(951_782_400).0, "20000229");
        assert_eq!(calendar(1_735_689_599).0, "20241231");
    }

    #[test]
    fn a_request_is_signed_for_its_object_and_leaves_the_range_open() {
        let text = request("127.0.0.1:9000", "a.bin", 1_369_353_600);
        assert!(
            text.starts_with("GET /testbed/a.bin HTTP/1.1\r\nHost: 127.0.0.1:9000\r\nx-amz-date: 20130524T000000Z\r\n")
        );
        assert!(text.contains("Credential=testbed/20130524/us-east-1/s3/aws4_request, "));
        assert!(text.ends_with("\r\n") && !text.contains("Range"));
        assert_ne!(text, request("127.0.0.1:9000", "b.bin", 1_369_353_600).replace("b.bin", "a.bin"));
    }
}
