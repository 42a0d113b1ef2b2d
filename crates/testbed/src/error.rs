//! Errors of starting a testbed, and of reading with the bare client.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

/// An error of starting a testbed, or of reading with the bare client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address to listen on is not available.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The threads that serve could not be started.
    #[error("cannot start the testbed's threads")]
    Threads {
        /// What the system said.
        source: std::io::Error,
    },
    /// The directory to serve cannot be read.
    #[error("cannot serve the directory {}", path.display())]
    Directory {
        /// The directory asked for.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The address of another server is none.
    #[error("{url} is no server to pass requests on to: expected http://HOST:PORT")]
    Upstream {
        /// The address asked for.
        url: String,
    },
    /// Another server is to answer, and objects are there as well.
    #[error("requests are passed on to another server, so objects of its own would never be read")]
    Both,
    /// A fault that needs the testbed's own objects, where another server answers.
    #[error("the fault {fault} is made of the testbed's own objects, and requests are passed on to another server")]
    NotUpstream {
        /// The fault.
        fault: String,
    },
    /// A certificate or key file cannot be read.
    #[error("cannot read {}", path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// What was wrong with it.
        source: rustls::pki_types::pem::Error,
    },
    /// A certificate and a key that do not make a server.
    #[error("the certificate and its key are not usable")]
    Tls {
        /// What was wrong with them.
        source: rustls::Error,
    },
    /// A certificate could not be issued.
    #[error("cannot issue a certificate")]
    Issue {
        /// What was wrong.
        source: rcgen::Error,
    },
    /// The bare client could not read a range.
    #[error("cannot read bytes {}-{} of {path}", range.start, range.end)]
    Read {
        /// What was read, as in the request.
        path: String,
        /// Which bytes.
        range: Range<u64>,
        /// What the connection said.
        source: std::io::Error,
    },
    /// The bare client got another answer than it asked for.
    #[error("bytes {}-{} of {path} gave status {status} and {bytes} bytes", range.start, range.end)]
    Answer {
        /// What was read, as in the request.
        path: String,
        /// Which bytes.
        range: Range<u64>,
        /// The status of the response.
        status: u16,
        /// The length of its body.
        bytes: u64,
    },
}
