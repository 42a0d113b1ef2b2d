//! Object stores: `opendal` addresses and signs each request; sending, checking and paging are
//! done here.
//!
//! ```text
//!  stat, read, list ──> opendal service ──> Catch ──> signed request ──> Wire ──> response
//!                       (URL, signature)      └─> requests for credentials are sent
//! ```
//!
//! `opendal`'s operator changes keys (it trims and collapses them), hides pages behind a lister
//! and, with its layers, retries. So this uses opendal's services directly, which take a key as it
//! is, and never lets them send (docs/decisions/0002). A key that HTTP cannot carry unchanged (a
//! segment `.` or `..`, a leading `/`) is refused, so that it never names another object.
//!
//! A request that is answered by "wrong region", "expired token" or "signed too long ago" is sent
//! once more, with a new service. Nothing else is tried twice.

#[cfg(feature = "s3")]
mod aws;
#[cfg(feature = "azblob")]
mod azblob;
mod credentials;
mod deadline;
mod dialect;
mod environment;
#[cfg(feature = "gcs")]
mod gcs;
mod page;
#[cfg(feature = "s3")]
mod process;
#[cfg(feature = "s3")]
mod profile;
#[cfg(feature = "s3")]
mod s3;
mod sign;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::StatusCode;
use opendal::raw::Servicer;

use crate::connect::shown;
use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Key, ListPage, Object, Version};
use crate::response::{self, Asked, Coding, Refusal, Rejection};
use crate::wire::{self, Redirects, Wire};
use crate::{Backend, Body, Capabilities, Current};

#[cfg(feature = "azblob")]
pub(crate) use azblob::connect as connect_azblob;
use dialect::Dialect;
#[cfg(feature = "gcs")]
pub(crate) use gcs::connect as connect_gcs;
#[cfg(feature = "s3")]
pub(crate) use s3::connect as connect_s3;
use sign::{From, Request, Unsigned};

/// The longest description of one object, in bytes: GCS sends JSON with all metadata of the user,
/// at most 8 KiB. Lower: such objects cannot be opened. Higher: more memory for a server that
/// sends without end.
const DESCRIPTION_BYTES_MAX: usize = 1 << 20;

/// The longest page of a listing, in bytes: a thousand entries with names of 1 KiB, escaped, and
/// with all metadata are 15 MB. Lower: such a page fails. Higher: more memory for a server that
/// sends without end.
const PAGE_BYTES_MAX: usize = 32 << 20;

/// One bucket or container.
pub(crate) struct Cloud {
    /// As users write it: `s3://bucket`.
    name: String,
    dialect: Box<dyn Dialect>,
    service: RwLock<Service>,
    wire: Wire,
    /// Whether credentials were found before. If so, not finding them is a fault that may pass.
    signed: AtomicBool,
}

#[derive(Clone)]
struct Service {
    servicer: Servicer,
    region: Option<String>,
}

impl Cloud {
    /// A bucket with this name. Sends nothing yet.
    pub(crate) fn new(name: String, dialect: Box<dyn Dialect>, region: Option<String>) -> Result<Self, Error> {
        let wire = Wire::new(Redirects::Refuse)?;
        let servicer = dialect.service(region.as_deref(), &wire)?;
        let service = RwLock::new(Service { servicer, region });
        Ok(Self { name, dialect, service, wire, signed: AtomicBool::new(false) })
    }

    /// Signs and sends one request. Every response that is no success is an error.
    async fn ask(&self, request: Request<'_>) -> Result<reqwest::Response, Error> {
        let (operation, object) = (request.operation(), request.object());
        let mut renewed = false;
        loop {
            let service = self.service.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
            let signed = sign::sign(&service.servicer, &*self.dialect, &self.wire, request).await;
            let mut signed = signed.map_err(|unsigned| match unsigned {
                Unsigned::NoCredentials(cause) => self.no_credentials(operation, object, &cause),
                Unsigned::Impossible(cause) => Error::new(ErrorKind::Invalid, operation, object, cause),
            })?;
            if operation == Operation::Read {
                self.dialect.prepare_read(signed.headers_mut());
            }
            self.signed.store(true, Ordering::Relaxed);
            let response = self.wire.send(signed).await.map_err(|failure| failure.on(operation, object))?;
            if response.status().is_success() {
                return Ok(response);
            }
            let region = region_hint(&response);
            let rejection = Rejection::read(response, |body| self.dialect.cause(body)).await;
            // A process that was stopped sends what it had signed before.
            let expired = matches!(
                rejection.code.as_deref(),
                Some("ExpiredToken" | "TokenRefreshRequired" | "RequestTimeTooSkewed")
            );
            let elsewhere = region.filter(|hint| service.region.as_ref().is_some_and(|region| region != hint));
            if renewed || !(expired || elsewhere.is_some()) {
                return Err(rejection.on(operation, object));
            }
            // Another request may have renewed the service meanwhile; renewing twice does no harm.
            renewed = true;
            let region = elsewhere.or(service.region);
            tracing::debug!(bucket = self.name, region, "renewing the service after {}", rejection.status);
            let servicer = self.dialect.service(region.as_deref(), &self.wire)?;
            *self.service.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Service { servicer, region };
        }
    }

    fn no_credentials(&self, operation: Operation, object: &str, cause: &str) -> Error {
        if self.signed.load(Ordering::Relaxed) {
            let message = format!("cannot refresh the credentials: {cause}");
            return Error::new(ErrorKind::Transient, operation, object, message);
        }
        let message = format!("{cause}; {}", self.dialect.credential_sources());
        Error::new(ErrorKind::Unauthenticated, operation, object, message)
    }

    async fn stat(&self, key: &Key) -> Result<Object, Error> {
        let fail = |message: String| Error::new(ErrorKind::Transient, Operation::Stat, key.as_str(), message);
        let response = self.ask(Request::Stat { key: key.as_str() }).await?;
        let headers = response.headers().clone();
        let body = wire::whole(response, DESCRIPTION_BYTES_MAX).await;
        let body = body.map_err(|failure| failure.on(Operation::Stat, key.as_str()))?;
        let version = self.dialect.version(&headers, &body);
        let version = version.ok_or_else(|| fail(String::from("the response does not tell the object's size")))?;
        Ok(Object { key: key.clone(), version })
    }

    async fn read(&self, key: &Key, version: &Version, range: Range<u64>) -> Result<Body, Error> {
        let request = Request::Read { key: key.as_str(), range: (range.start, range.end), tag: version.tag.as_deref() };
        let response = self.ask(request).await.map_err(|e| e.with_extent(range.clone()))?;
        let asked = Asked {
            object: key.as_str(),
            version,
            start: range.start,
            end: range.end,
            tag_header: self.dialect.tag_header(),
            conditions_hold: true,
            coding: Coding::Label,
        };
        match response::verify(asked, response.status(), response.headers()) {
            Ok(skip) => Ok(response::body(response, key.as_str(), range, skip)),
            Err(Refusal::Failed(error)) => Err(error),
            Err(Refusal::Mismatch(difference) | Refusal::Encoded(difference)) => {
                let now = self.stat(key).await;
                Err(response::settle(now, key.as_str(), version, &difference).with_extent(range))
            }
        }
    }

    async fn read_current(&self, key: &Key, range: Range<u64>) -> Result<Current, Error> {
        let unsupported = |range| {
            let message = "the response to a read does not tell which version it is of";
            Error::new(ErrorKind::Unsupported, Operation::Read, key.as_str(), message).with_extent(range)
        };
        if !self.dialect.reads_tell_versions() {
            return Err(unsupported(range));
        }
        let request = Request::Read { key: key.as_str(), range: (range.start, range.end), tag: None };
        let response = self.ask(request).await.map_err(|e| e.with_extent(range.clone()))?;
        let said = response::described(&range, response.status(), response.headers());
        let said = said
            .and_then(|(size, found, skip)| Some((self.dialect.version_read(response.headers(), size)?, found, skip)));
        let Some((version, range, skip)) = said else { return Err(unsupported(range)) };
        let body = response::body(response, key.as_str(), range.clone(), skip);
        Ok(Current { object: Object { key: key.clone(), version }, range, body })
    }

    /// Lists one page of the children of `prefix`; `deep`: of all objects below it.
    async fn list(&self, prefix: &str, from: From<'_>, deep: bool) -> Result<ListPage, Error> {
        let fail = |message| Error::new(ErrorKind::Transient, Operation::List, prefix, message);
        let response = self.ask(Request::List { prefix, from, deep }).await?;
        let body = wire::whole(response, PAGE_BYTES_MAX).await;
        let body = body.map_err(|failure| failure.on(Operation::List, prefix))?;
        let page = self.dialect.page(&body).map_err(|e| fail(format!("the listing cannot be understood: {e}")))?;
        Ok(page.into_list_page(prefix))
    }
}

impl Backend for Cloud {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn identity(&self) -> String {
        format!("{} {}", self.name, self.dialect.server())
    }

    fn capabilities(&self) -> Capabilities {
        let list_after = self.dialect.lists_after();
        Capabilities {
            conditional_read: true,
            list: true,
            list_after,
            directories: false,
            range: true,
            rotational: false,
            read_current: self.dialect.reads_tell_versions(),
        }
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        self.stat(key).boxed()
    }

    fn read<'a>(&'a self, key: &'a Key, version: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        self.read(key, version, range).boxed()
    }

    fn read_current<'a>(&'a self, key: &'a Key, range: Range<u64>) -> BoxFuture<'a, Result<Current, Error>> {
        self.read_current(key, range).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, continuation: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        self.list(prefix, continuation.map_or(From::Start, From::Token), false).boxed()
    }

    fn list_after<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        self.list(prefix, From::After(after), false).boxed()
    }

    fn list_below<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        self.list(prefix, From::After(after), true).boxed()
    }
}

/// The region of the bucket according to the storage, in a refusal that a wrong region may
/// explain.
/// Refuses an endpoint that is no URL. Without a scheme, TLS would be spoken to it.
fn check_endpoint(bucket: &str, endpoint: Option<&str>) -> Result<(), Error> {
    let Some(endpoint) = endpoint.filter(|text| !text.starts_with("http://") && !text.starts_with("https://")) else {
        return Ok(());
    };
    let endpoint = shown(endpoint);
    let message = format!("the endpoint {endpoint} has no scheme; write http://{endpoint} or https://{endpoint}");
    Err(Error::new(ErrorKind::Invalid, Operation::Configure, bucket, message))
}

fn region_hint(response: &reqwest::Response) -> Option<String> {
    let about_region = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::BAD_REQUEST
            | StatusCode::FORBIDDEN
    );
    let region = response.headers().get("x-amz-bucket-region").filter(|_| about_region)?;
    region.to_str().ok().map(str::to_owned)
}
