//! Web servers: `http://` and `https://`.
//!
//! A key is the percent-decoded path below the host. Servers differ in what they report, so this
//! asks twice where once may not be enough: a HEAD that is refused is repeated as a GET of one
//! byte, and a file that an index page names is described by a HEAD of its own. A version is the
//! strong `ETag`, or size and `Last-Modified` where there is none. Conditions go with every read;
//! since many servers ignore them, every response is compared as well.
//!
//! *Invariant:* a link on an index page becomes a child only if it leads directly below that page.

mod admission;
mod describe;
mod index;
mod indexes;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_MATCH, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED, RANGE,
};
use http::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::Url;

use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Entry, Key, ListPage, Object, Version};
use crate::response::{self, Asked, Coding, Refusal, Rejection, TagHeader};
use crate::web::admission::Admission;
use crate::web::index::{Page, Unread};
use crate::web::indexes::{Indexes, Names};
use crate::wire::{self, Failure, Redirects, Wire};
use crate::{Backend, Body, Capabilities};

/// Characters of a path that are not encoded. All others are, so that the server decodes exactly
/// the key.
const PATH: AsciiSet = NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The longest index page that is read, in bytes. Lower: large directories cannot be listed.
/// Higher: a server that never ends a page is listened to for longer.
const INDEX_BYTES_MAX: usize = 64 << 20;

/// A web server.
pub(crate) struct Web {
    /// Scheme, user, host and port, and the query of every request; the path is `/`.
    root: Url,
    wire: Wire,
    /// Whether the server has answered a range with the whole object.
    ignores_ranges: AtomicBool,
    indexes: Mutex<Indexes>,
    admission: Admission,
}

impl Web {
    /// The server of a URL, and the key that its path names.
    pub(crate) fn new(url: &str) -> Result<(Self, String), String> {
        let (root, key) = Self::place(url)?;
        let wire = Wire::new(Redirects::Follow).map_err(|e| e.message().to_owned())?;
        Ok((
            Self {
                root,
                wire,
                ignores_ranges: AtomicBool::new(false),
                indexes: Mutex::default(),
                admission: Admission::default(),
            },
            key,
        ))
    }

    /// The server's root of a URL, with its query, and the key that its path names.
    pub(crate) fn place(url: &str) -> Result<(Url, String), String> {
        let mut root = Url::parse(url).map_err(|e| e.to_string())?;
        if root.host_str().is_none_or(str::is_empty) {
            return Err(String::from("the URL names no host"));
        }
        root.set_fragment(None);
        let path = root.path().trim_matches('/');
        let key = percent_decode_str(path).decode_utf8().map_err(|_| "the path is not UTF-8")?.into_owned();
        if path.to_ascii_lowercase().contains("%2f") {
            return Err(String::from("an encoded slash (%2F) in the path cannot be told from a separator"));
        }
        root.set_path("/");
        Ok((root, key))
    }

    /// The URL of a key, or of a prefix.
    fn url(&self, operation: Operation, key: &str) -> Result<Url, Error> {
        let mut url = self.root.clone();
        let path = format!("/{}", utf8_percent_encode(key, &PATH));
        url.set_path(&path);
        let empty_segment = key.strip_suffix('/').unwrap_or(key).split('/').any(str::is_empty) && !key.is_empty();
        if url.path() != path || empty_segment {
            // Clients and servers resolve `.`, `..` and `//`: the result may name another object.
            return Err(Error::new(ErrorKind::Invalid, operation, key, "this name cannot be addressed over HTTP"));
        }
        Ok(url)
    }

    /// Sends a request. Returns any response.
    async fn send(
        &self,
        operation: Operation,
        method: Method,
        key: &str,
        headers: HeaderMap,
    ) -> Result<reqwest::Response, Error> {
        let request = self.wire.request(method, self.url(operation, key)?).headers(headers);
        let request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("identity")).build();
        let request = request.map_err(|e| Failure::of(e).on(operation, key))?;
        let turn = self.admission.turn().await;
        let response = self.wire.send(request).await;
        drop(turn);
        if let Ok(response) = &response {
            self.admission.learn(response.version(), response.headers());
        }
        response.map_err(|failure| failure.on(operation, key))
    }

    async fn stat(&self, key: &str) -> Result<Object, Error> {
        let fail = |kind, message: &str| Error::new(kind, Operation::Stat, key, message);
        if key.is_empty() || key.ends_with('/') {
            return Err(fail(ErrorKind::NotFound, "this names a directory"));
        }
        let mut response = self.send(Operation::Stat, Method::HEAD, key, HeaderMap::new()).await?;
        if response.url().path().ends_with('/') {
            // It redirects to its index page.
            return Err(fail(ErrorKind::NotFound, "this names a directory"));
        }
        let status = response.status();
        let size = if status.is_success() {
            // Without a word about a version, an empty answer may be no file's.
            response::number(response.headers(), &CONTENT_LENGTH)
                .filter(|&size| size > 0 || is_told(response.headers()))
        } else if matches!(status.as_u16(), 400 | 401 | 403 | 405 | 501) {
            // Servers without HEAD, and URLs that are signed for GET only.
            None
        } else {
            return Err(Rejection::read(response, |_| (None, None)).await.on(Operation::Stat, key));
        };
        let size = if let Some(size) = size {
            size
        } else {
            let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=0-0"))]);
            response = self.send(Operation::Stat, Method::GET, key, headers).await?;
            let headers = response.headers();
            let size = match response.status() {
                StatusCode::PARTIAL_CONTENT => response::content_range(headers).and_then(|(_, _, total)| total),
                StatusCode::OK => response::number(headers, &CONTENT_LENGTH),
                // An empty file has no first byte.
                StatusCode::RANGE_NOT_SATISFIABLE => Some(0),
                _ => return Err(Rejection::read(response, |_| (None, None)).await.on(Operation::Stat, key)),
            };
            size.ok_or_else(|| fail(ErrorKind::Unsupported, "the server does not tell the size"))?
        };
        let headers = response.headers();
        if let Some(coding) = response::foreign_coding(Coding::Transcoded, key, headers) {
            return Err(fail(ErrorKind::Unsupported, &response::encoded(coding)));
        }
        let tag = TagHeader::ETag.tag(headers).map(Into::into);
        Ok(Object { key: Key::new(key), version: Version { size, tag, modified: response::last_modified(headers) } })
    }

    async fn read(&self, key: &str, version: &Version, range: Range<u64>) -> Result<Body, Error> {
        let response = self.send(Operation::Read, Method::GET, key, conditions(version, &range)).await;
        let response = response.map_err(|e| e.with_extent(range.clone()))?;
        if !response.status().is_success() {
            let rejection = Rejection::read(response, |_| (None, None)).await;
            if rejection.status == StatusCode::RANGE_NOT_SATISFIABLE {
                let now = self.stat(key).await;
                return Err(response::settle(now, key, version, "no such range").with_extent(range));
            }
            return Err(rejection.on(Operation::Read, key).with_extent(range));
        }
        if response.status() == StatusCode::OK {
            self.ignores_ranges.store(true, Ordering::Relaxed);
        }
        let asked = Asked {
            object: key,
            version,
            start: range.start,
            end: range.end,
            tag_header: &TagHeader::ETag,
            conditions_hold: false,
            coding: Coding::Transcoded,
        };
        match response::verify(asked, response.status(), response.headers()) {
            Ok(skip) => Ok(response::body(response, key, range, skip)),
            Err(Refusal::Failed(error)) => Err(error),
            Err(Refusal::Mismatch(difference) | Refusal::Encoded(difference)) => {
                Err(response::settle(self.stat(key).await, key, version, &difference).with_extent(range))
            }
        }
    }

    /// One page of the children of `prefix`: those after the name `continuation`, in order. So the
    /// pages of one listing fit together whatever has been added, removed or read meanwhile.
    async fn list(&self, prefix: &str, continuation: Option<&str>) -> Result<ListPage, Error> {
        let names = match continuation.and_then(|_| self.indexes().get(prefix)) {
            Some(names) => names,
            None => Arc::new(Names::new(self.index(prefix).await?)),
        };
        let from = continuation.map_or(0, |last| names.after(last));
        let page: Vec<String> = names.from(from).take(describe::PAGE_ENTRIES_MAX).map(str::to_owned).collect();
        let described = describe::page(&page, |name| self.describe_child(prefix, name)).await?;
        let next = from + described.len();
        let last = page[..described.len()].last().filter(|_| next < names.len());
        if last.is_some() {
            self.indexes().keep(prefix, &names);
        } else {
            self.indexes().forget(prefix, &names);
        }
        let continuation = last.cloned();
        Ok(ListPage { entries: described.into_iter().flatten().collect(), continuation })
    }

    fn indexes(&self) -> MutexGuard<'_, Indexes> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names on the index page of a directory.
    async fn index(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let fail = |kind, message: &str| Error::new(kind, Operation::List, prefix, message);
        let response = self.send(Operation::List, Method::GET, prefix, HeaderMap::new()).await?;
        if response.status() == StatusCode::NOT_FOUND && !prefix.is_empty() {
            return Ok(Vec::new());
        }
        if !response.status().is_success() {
            return Err(Rejection::read(response, |_| (None, None)).await.on(Operation::List, prefix));
        }
        let html = response.headers().get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"text/html"));
        let (asked, base) = (self.url(Operation::List, prefix)?, response.url().clone());
        let not_an_index = || fail(ErrorKind::Unsupported, "the server shows no index of this directory");
        if !html || base.path() != asked.path() {
            return Err(not_an_index());
        }
        let mut page = Page::new(base);
        let unread = |why| match why {
            Unread::NoIndex => not_an_index(),
            Unread::TooMany => fail(ErrorKind::Unsupported, "the index of this directory has too many names"),
        };
        let mut body = wire::Pieces::new(response, INDEX_BYTES_MAX);
        while let Some(piece) = body.next().await.map_err(|failure| failure.on(Operation::List, prefix))? {
            page.take(&piece).map_err(unread)?;
        }
        page.names().map_err(unread)
    }

    /// The child that an index page names; `None` for a link that leads nowhere or must not be
    /// followed.
    async fn describe_child(&self, prefix: &str, name: &str) -> Result<Option<Entry>, Error> {
        let key = format!("{prefix}{name}");
        if name.ends_with('/') {
            return Ok(Some(Entry::Prefix(key)));
        }
        match self.stat(&key).await {
            Ok(object) => Ok(Some(Entry::Object(object))),
            Err(error) if error.kind().is_retryable() => Err(error),
            Err(error) => {
                tracing::warn!("skipped in the listing of {prefix:?}: {error}");
                Ok(None)
            }
        }
    }
}

impl Backend for Web {
    fn describe(&self) -> String {
        self.root.origin().ascii_serialization()
    }

    fn capabilities(&self) -> Capabilities {
        let range = !self.ignores_ranges.load(Ordering::Relaxed);
        Capabilities { list: true, range, ..Capabilities::default() }
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        self.stat(key.as_str()).boxed()
    }

    fn read<'a>(&'a self, key: &'a Key, version: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        self.read(key.as_str(), version, range).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, continuation: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        self.list(prefix, continuation).boxed()
    }

    fn kept_bytes(&self) -> u64 {
        self.indexes().bytes() as u64
    }

    fn keep_at_most(&self, bytes: u64) {
        self.indexes().keep_at_most(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}

/// Whether a response tells a version, be it a weak one.
fn is_told(headers: &HeaderMap) -> bool {
    headers.contains_key(ETAG) || headers.contains_key(LAST_MODIFIED)
}

/// The headers of a read: its range, conditional on the version.
fn conditions(version: &Version, range: &Range<u64>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let value = |text: &str| HeaderValue::from_str(text).ok();
    headers.extend(value(&format!("bytes={}-{}", range.start, range.end - 1)).map(|v| (RANGE, v)));
    match (&version.tag, version.modified) {
        (Some(tag), _) => headers.extend(value(tag).map(|v| (IF_MATCH, v))),
        (None, Some(time)) => {
            headers.extend(value(&httpdate::fmt_http_date(time)).map(|v| (IF_UNMODIFIED_SINCE, v)));
        }
        (None, None) => {}
    }
    headers
}
