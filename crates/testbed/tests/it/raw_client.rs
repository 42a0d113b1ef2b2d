//! A client that reports what is on the wire, good or bad.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With the last byte that its head announced.
    Complete,
    /// The peer closed the connection before.
    Closed,
    /// The peer reset the connection before.
    Reset,
    /// Nothing more came.
    Silent,
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    /// 0 where there was no head.
    pub(crate) status: u16,
    pub(crate) version: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) end: End,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }
}

/// A keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the testbed listens");
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        Self { stream, received: Vec::new() }
    }

    pub(crate) fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.stream.peer_addr().unwrap());
        for (name, value) in headers {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        if !body.is_empty() {
            let _ = write!(request, "Content-Length: {}\r\n", body.len());
        }
        self.stream.write_all((request + "\r\n").as_bytes()).unwrap();
        self.stream.write_all(body).unwrap();
        self.reply(method)
    }

    fn reply(&mut self, method: &str) -> Reply {
        let mut reply =
            Reply { status: 0, version: String::new(), headers: Vec::new(), body: Vec::new(), end: End::Complete };
        let head = loop {
            if let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break self.received.drain(..end + 4).collect::<Vec<u8>>();
            }
            if let Err(end) = self.receive() {
                return Reply { end, ..reply };
            }
        };
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let mut words = lines.next().unwrap().split(' ');
        words.next().unwrap().clone_into(&mut reply.version);
        reply.status = words.next().unwrap().parse().unwrap();
        let pair = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        reply.headers = lines.map(|line| pair(line).unwrap()).collect();
        if method == "HEAD" || reply.status == 204 || reply.status == 304 {
            return reply;
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            self.chunks(&mut reply);
            return reply;
        }
        let length: usize = reply.header("content-length").expect("a length").parse().unwrap();
        match self.take(length) {
            Ok(body) => reply.body = body,
            Err(end) => {
                reply.end = end;
                reply.body = std::mem::take(&mut self.received);
            }
        }
        reply
    }

    fn chunks(&mut self, reply: &mut Reply) {
        loop {
            let line = loop {
                if let Some(end) = self.received.windows(2).position(|two| two == b"\r\n") {
                    break self.received.drain(..end + 2).collect::<Vec<u8>>();
                }
                self.receive().expect("chunks go on");
            };
            let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
            let chunk = self.take(size + 2).expect("a whole chunk");
            reply.body.extend(&chunk[..size]);
            if size == 0 {
                return;
            }
        }
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>, End> {
        while self.received.len() < length {
            self.receive()?;
        }
        Ok(self.received.drain(..length).collect())
    }

    fn receive(&mut self) -> Result<(), End> {
        let mut buffer = [0; 16_384];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(End::Closed),
            Ok(read) => {
                self.received.extend(&buffer[..read]);
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::ConnectionReset => Err(End::Reset),
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(End::Silent),
                other => panic!("{other:?}"),
            },
        }
    }
}

/// One GET on a connection of its own.
pub(crate) fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Reply {
    Connection::open(address).request("GET", path, headers, b"")
}

/// One HEAD on a connection of its own.
pub(crate) fn head(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Reply {
    Connection::open(address).request("HEAD", path, headers, b"")
}

/// A peer that says nothing for so long says nothing more. Long enough for a machine that is busy
/// with other tests.
const SILENCE: Duration = Duration::from_secs(3);
