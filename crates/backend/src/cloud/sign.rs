//! Lets `opendal` address and sign a request, and keeps it from being sent.
//!
//! ```text
//!   opendal service ── request ──> Catch ─┬─ has an operation ──> kept; the service gets an error
//!                                         └─ of the signer ─────> sent: metadata, STS, SSO
//! ```
//!
//! `opendal`'s services hand each finished request to a transport. [`Catch`] is such a transport.
//! Requests without an operation attached come from the signer, which looks for credentials: those
//! are sent, within a bounded time.
//!
//! A service asks for a later page of a listing only after it got the page before. So `Catch`
//! answers its first request with an empty page, made here, that names the token of the page
//! before.

use std::sync::{Arc, Mutex};

use futures::stream;
use opendal::raw::{OpList, OpRead, OpStat, Servicer};
use opendal::{Buffer, BytesRange, HttpBody, HttpTransport, HttpTransporter, OperationContext, options};

use super::credentials::Courier;
use super::deadline;
use super::dialect::Dialect;
use crate::error::Operation;
use crate::wire::{Failure, Wire, chain};

/// Entries on a page: S3's maximum, so that pages have the same size everywhere. Lower: more
/// requests a listing. Higher: S3 does not give more.
const PAGE_ENTRIES_MAX: usize = 1000;

/// A request to the storage.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request<'a> {
    Stat { key: &'a str },
    Read { key: &'a str, range: (u64, u64), tag: Option<&'a str> },
    List { prefix: &'a str, from: From<'a>, deep: bool },
}

/// Where a page of a listing begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From<'a> {
    Start,
    /// Where the previous page ended.
    Token(&'a str),
    /// After this key.
    After(&'a str),
}

impl<'a> Request<'a> {
    pub(super) fn operation(&self) -> Operation {
        match self {
            Self::Stat { .. } => Operation::Stat,
            Self::Read { .. } => Operation::Read,
            Self::List { .. } => Operation::List,
        }
    }

    pub(super) fn object(&self) -> &'a str {
        match self {
            Self::Stat { key } | Self::Read { key, .. } => key,
            Self::List { prefix, .. } => prefix,
        }
    }
}

/// Why there is no signed request.
pub(super) enum Unsigned {
    NoCredentials(String),
    /// Such a request cannot be made.
    Impossible(String),
}

/// Has `service` address and sign a request.
pub(super) async fn sign(
    service: &Servicer,
    dialect: &dyn Dialect,
    wire: &Wire,
    request: Request<'_>,
) -> Result<reqwest::Request, Unsigned> {
    let object = request.object();
    if object.starts_with('/') || (object.is_empty() && request.operation() != Operation::List) {
        return Err(Unsigned::Impossible(String::from("a key that is empty or begins with / cannot be addressed")));
    }
    let answer = match request {
        Request::List { from: From::Token(token), .. } => Some(dialect.page_before(token)),
        _ => None,
    };
    let caught = Arc::new(Caught { request: Mutex::new(None), answer: Mutex::new(answer) });
    let transport = HttpTransporter::new(Catch { caught: caught.clone(), courier: Courier(wire.clone()) });
    let context = OperationContext::default().with_http_transport(transport);
    let gave_up = async {
        match request {
            Request::Stat { key } => service.stat_dyn(&context, key, OpStat::default()).await.err(),
            Request::Read { key, range: (start, end), tag } => {
                let options = tag.map(|tag| dialect.on_condition(tag)).unwrap_or_default();
                let (_, options, _): (_, OpRead, _) = options.into();
                match service.read_dyn(&context, key, options) {
                    Ok(reader) => reader.open_dyn(BytesRange::new(start, Some(end - start))).await.err(),
                    Err(error) => Some(error),
                }
            }
            Request::List { prefix, from, deep: recursive } => {
                let start_after = if let From::After(key) = from { Some(key.to_owned()) } else { None };
                let limit = Some(PAGE_ENTRIES_MAX);
                let options = options::ListOptions { limit, start_after, recursive, ..Default::default() };
                match service.list_dyn(&context, prefix, OpList::from(options)) {
                    Ok(mut lister) => lister.next_dyn().await.err(),
                    Err(error) => Some(error),
                }
            }
        }
    };
    let gave_up = tokio::time::timeout(deadline::CREDENTIALS, gave_up).await;
    let request = caught.request.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    match (request, gave_up) {
        (Some(request), _) => ready(request, object),
        (None, Ok(Some(error))) if error.kind() == opendal::ErrorKind::ConfigInvalid => {
            Err(Unsigned::Impossible(error.message().to_owned()))
        }
        (None, Ok(Some(error))) => Err(Unsigned::NoCredentials(chain_of(&error))),
        (None, Ok(None)) => Err(Unsigned::Impossible(String::from("the service made no request"))),
        (None, Err(_)) => {
            Err(Unsigned::NoCredentials(format!("none were found within {} s", deadline::CREDENTIALS.as_secs())))
        }
    }
}

/// The causes of an `opendal` error, without the context that it prints around them.
fn chain_of(error: &opendal::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.message().to_owned(), chain)
}

/// Converts the signed request for the client, and checks that it still names the same object.
fn ready(request: http::Request<Buffer>, object: &str) -> Result<reqwest::Request, Unsigned> {
    let path = request.uri().path().to_owned();
    let request = request.map(|body| reqwest::Body::from(body.to_bytes()));
    match reqwest::Request::try_from(request) {
        // URLs resolve the segments `.` and `..`: the result would name another object.
        Ok(request) if request.url().path() != path => {
            Err(Unsigned::Impossible(format!("the name {object:?} cannot be addressed over HTTP")))
        }
        Ok(request) => Ok(request),
        Err(error) => Err(Unsigned::Impossible(Failure::of(error).message)),
    }
}

struct Caught {
    request: Mutex<Option<http::Request<Buffer>>>,
    /// The page to answer the first request with, where the second request is the one to catch.
    answer: Mutex<Option<String>>,
}

struct Catch {
    caught: Arc<Caught>,
    courier: Courier,
}

impl HttpTransport for Catch {
    async fn fetch(&self, request: http::Request<Buffer>) -> opendal::Result<http::Response<HttpBody>> {
        if request.extensions().get::<opendal::raw::Operation>().is_none() {
            let response = self.courier.send(request.map(|body| body.to_bytes())).await;
            let response =
                response.map_err(|e| opendal::Error::new(opendal::ErrorKind::Unexpected, e).set_temporary())?;
            return Ok(response.map(|body| HttpBody::new(stream::iter([Ok(Buffer::from(body))]), None)));
        }
        if let Some(page) = self.caught.answer.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            let page = Buffer::from(page.into_bytes());
            return Ok(http::Response::new(HttpBody::new(stream::iter([Ok(page)]), None)));
        }
        *self.caught.request.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(request);
        // An error kind for which opendal takes no backtrace.
        Err(opendal::Error::new(opendal::ErrorKind::Conflict, "caught"))
    }
}
