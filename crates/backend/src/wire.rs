//! The HTTP client: connections, TLS, proxies, and the meaning of a failure to get a response.
//!
//! HTTP/1.1 only: requests of one HTTP/2 connection share its window and one core (about 250
//! MB/s), while parallel HTTP/1.1 connections add up. Nothing is decoded, so a byte range means
//! the stored bytes. There is no deadline for a response and no retry: both belong to the engine,
//! which knows how urgent a request is.
//!
//! Proxies come from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`; certificate
//! authorities from the system's store or `SSL_CERT_FILE` and `SSL_CERT_DIR`, and in addition from
//! `AWS_CA_BUNDLE`, `REQUESTS_CA_BUNDLE` and `CURL_CA_BUNDLE`.

use std::error::Error as StdError;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::error::{Error, ErrorKind, Operation};

/// How long a TCP and TLS handshake may take. Lower: slow links fail. Higher: a dead endpoint is
/// reported later than a mount may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept. S3 closes after about 20 s. Lower: more requests pay a
/// handshake. Higher: more requests are sent on a connection that the server has closed, and cost
/// a retry.
const IDLE_TIMEOUT: Duration = Duration::from_secs(18);

/// Idle connections kept for each host: more than a mount ever has requests in flight. Lower: a
/// burst pays handshakes. Higher: more open sockets.
const IDLE_CONNECTIONS_MAX: usize = 512;

/// Variables that name further certificate authorities, as a file or a folder, as in other
/// programs.
const CA_VARIABLES: [&str; 3] = ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];

/// Whether redirects are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// Up to ten times: for web servers.
    Follow,
    /// Never: a signed request is not valid on another host.
    Refuse,
}

/// A client with its own pool of connections. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    client: reqwest::Client,
    /// The same without a proxy, for metadata services on the local link.
    direct: reqwest::Client,
}

impl Wire {
    /// A client configured from the environment.
    pub(crate) fn new(redirects: Redirects) -> Result<Self, Error> {
        let tls = tls()?;
        let build = |builder: reqwest::ClientBuilder| {
            let client = builder.tls_backend_preconfigured(tls.clone()).build();
            client.map_err(|e| configure(format!("cannot set up HTTP: {}", chain(&e.without_url()))))
        };
        Ok(Self { client: build(builder(redirects))?, direct: build(builder(redirects).no_proxy())? })
    }

    /// Begins a request; a user and password in the URL become a header.
    pub(crate) fn request(&self, method: http::Method, url: reqwest::Url) -> reqwest::RequestBuilder {
        self.client.request(method, url)
    }

    /// Sends one request; returns when the head of the response has arrived.
    pub(crate) async fn send(&self, request: reqwest::Request) -> Result<reqwest::Response, Failure> {
        self.client.execute(request).await.map_err(Failure::of)
    }

    /// The same, without a proxy.
    pub(crate) async fn send_directly(&self, request: reqwest::Request) -> Result<reqwest::Response, Failure> {
        self.direct.execute(request).await.map_err(Failure::of)
    }
}

/// A client for HTTP with the proxies and authorities that requests to storage have: for what
/// tells others of it. It follows no redirect.
///
/// Errors: [`ErrorKind::Invalid`] where the environment names authorities that cannot be read.
pub fn http_client() -> Result<reqwest::Client, Error> {
    Ok(Wire::new(Redirects::Refuse)?.client)
}

/// Settings that do not depend on the environment.
fn builder(redirects: Redirects) -> reqwest::ClientBuilder {
    let policy = match redirects {
        Redirects::Follow => reqwest::redirect::Policy::default(),
        Redirects::Refuse => reqwest::redirect::Policy::none(),
    };
    reqwest::Client::builder()
        .user_agent(concat!("foreread/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .referer(false)
        .redirect(policy)
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
}

/// Why there was no response, or why its body ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    /// What the client says; it does not hold the URL. `None` where the client has no complaint.
    pub(crate) cause: Option<reqwest::Error>,
}

impl Failure {
    /// Classifies a client's error. The text never holds the URL, which may be signed.
    pub(crate) fn of(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let kind = if error.is_builder() || error.is_redirect() || certificate_refused(&error) {
            ErrorKind::Invalid
        } else {
            ErrorKind::Transient
        };
        let mut message = if error.is_connect() { String::from("cannot connect: ") } else { String::new() };
        message.push_str(&chain(&error));
        if kind == ErrorKind::Invalid && certificate_refused(&error) {
            message.push_str("; name the certificate authority with SSL_CERT_FILE or AWS_CA_BUNDLE");
        }
        Self { kind, message, cause: Some(error) }
    }

    /// The same as an error of `operation` on `object`.
    pub(crate) fn on(self, operation: Operation, object: &str) -> Error {
        let error = Error::new(self.kind, operation, object, self.message);
        match self.cause {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }
}

/// The body of a response, piece by piece. One of more than `bytes_max` bytes is given up, and
/// another attempt would not make it shorter.
pub(crate) struct Pieces {
    response: reqwest::Response,
    bytes_max: usize,
    bytes: usize,
}

impl Pieces {
    pub(crate) fn new(response: reqwest::Response, bytes_max: usize) -> Self {
        Self { response, bytes_max, bytes: 0 }
    }

    /// The next piece, until `None`.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let announced = self.response.content_length().is_some_and(|length| length > self.bytes_max as u64);
        let piece = if announced { None } else { self.response.chunk().await.map_err(Failure::of)? };
        self.bytes += piece.as_ref().map_or(0, Bytes::len);
        if announced || self.bytes > self.bytes_max {
            let message = format!("the response is longer than {} KiB", self.bytes_max >> 10);
            return Err(Failure { kind: ErrorKind::Unsupported, message, cause: None });
        }
        Ok(piece)
    }
}

/// The whole body of a response, of at most `bytes_max` bytes ([`Pieces`]).
pub(crate) async fn whole(response: reqwest::Response, bytes_max: usize) -> Result<Bytes, Failure> {
    let (mut body, mut pieces) = (BytesMut::new(), Pieces::new(response, bytes_max));
    while let Some(bytes) = pieces.next().await? {
        body.extend_from_slice(&bytes);
    }
    Ok(body.freeze())
}

/// An error's causes from the outermost in, each once.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

/// Whether the handshake failed because of the peer's certificate, which a retry cannot change.
fn certificate_refused(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(rustls::Error::InvalidCertificate(_)) = error.downcast_ref::<rustls::Error>() {
            return true;
        }
        // A handshake's error travels as the inner error of an io::Error, which is not its
        // `source`.
        if let Some(inner) = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref)
            && certificate_refused(inner)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

/// TLS with the system's certificate authorities and those that the environment adds.
fn tls() -> Result<rustls::ClientConfig, Error> {
    let mut roots = rustls::RootCertStore::empty();
    // A system without any store can still use plain HTTP: an empty set fails at the first TLS
    // handshake, with a clear error.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for variable in CA_VARIABLES {
        let Some(path) = std::env::var_os(variable).filter(|v| !v.is_empty()) else { continue };
        let certificates = bundle(Path::new(&path)).map_err(|e| configure(format!("cannot read {variable}: {e}")))?;
        roots.add_parsable_certificates(certificates);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| configure(format!("cannot set up TLS: {e}")))?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// The certificates of a PEM file, or of every file in a folder.
fn bundle(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let files = if path.is_dir() {
        let entries = path.read_dir().map_err(|e| e.to_string())?;
        entries.filter_map(|entry| entry.ok().map(|e| e.path())).filter(|p| p.is_file()).collect()
    } else {
        vec![path.to_owned()]
    };
    let mut certificates = Vec::new();
    for file in files {
        for certificate in CertificateDer::pem_file_iter(&file).map_err(|e| format!("{}: {e}", file.display()))? {
            certificates.push(certificate.map_err(|e| format!("{}: {e}", file.display()))?);
        }
    }
    Ok(certificates)
}

fn configure(message: String) -> Error {
    Error::new(ErrorKind::Invalid, Operation::Configure, "HTTP", message)
}
