//! Checks each response: decides from its head whether the bytes that follow are the ones that
//! were asked for.
//!
//! ```text
//!  asked: bytes a..b of the version {size, tag, modified}
//!  206 Content-Range a-(b-1)/size, length b-a, same tag   -> its body, as it comes
//!  200, length = size, same tag                           -> its body from a on, if a is near
//!  another tag, size or time                              -> Mismatch: the caller asks once more
//!  another range or length                                -> Transient: it contradicts itself
//!  a content coding that was not asked for                -> Encoded: the caller asks once more,
//!                                                            by HEAD: not the stored bytes, or
//!                                                            only this time
//!  416, though the version has these bytes                -> the same
//! ```
//!
//! *Invariant:* [`body`] yields exactly the bytes asked for, in order, or ends with an error.

use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes};
use futures::Stream;
use http::StatusCode;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED, LOCATION,
    RETRY_AFTER,
};

use crate::Body;
use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Object, Version};
use crate::wire::Failure;

/// How many bytes of a full response are read and dropped to reach a range, when a server ignores
/// ranges. Lower: fewer files can be read there. Higher: larger files can, at a cost that is
/// quadratic in their size.
pub(crate) const SKIP_BYTES_MAX: u64 = 16 << 20;

/// How many bytes of an error's body are read for its cause. Lower: a cause may be cut off.
/// Higher: more to read of a page that is no cause.
const CAUSE_BYTES_MAX: usize = 16 << 10;

/// The longest wait that a response can ask for: longer than any caller's patience, and short
/// enough that a sum with it does not overflow. Lower: a caller with more patience comes back too
/// early. Higher: sums with it may overflow.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// Error codes that say that an object is in an archive.
const ARCHIVED: [&str; 3] = ["InvalidObjectState", "BlobArchived", "BlobBeingRehydrated"];

/// Error codes that say that credentials are wrong or expired, whatever their owner may do.
const UNAUTHENTICATED: [&str; 7] = [
    "ExpiredToken",
    "InvalidToken",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "RequestTimeTooSkewed",
    "TokenRefreshRequired",
    "AuthenticationFailed",
];

/// A read, to check its response against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) object: &'a str,
    pub(crate) version: &'a Version,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Which header carries the tag.
    pub(crate) tag_header: &'a TagHeader,
    /// Whether the storage honours conditions, so that a success without a tag can be trusted.
    pub(crate) conditions_hold: bool,
    /// The meaning of a content coding: storage keeps it as a label and returns the stored bytes;
    /// a web server may have encoded the bytes on the way.
    pub(crate) coding: Coding,
}

/// Where the strong validator of a response is found.
#[derive(Debug)]
pub(crate) enum TagHeader {
    /// `ETag`, unless it is weak.
    ETag,
    /// Another header, as it is.
    Named(HeaderName),
}

impl TagHeader {
    /// The strong validator of a response, if it has one.
    pub(crate) fn tag<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let name = match self {
            Self::ETag => &ETAG,
            Self::Named(name) => name,
        };
        let tag = headers.get(name)?.to_str().ok()?;
        if matches!(self, Self::ETag) && tag.starts_with("W/") { None } else { Some(tag) }
    }
}

/// The meaning of a `Content-Encoding` on a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// A label on stored bytes.
    Label,
    /// An encoding by the server, unless the object's name announces it.
    Transcoded,
}

/// Why a response was refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It describes another version, though the request was conditional on this one.
    Mismatch(String),
    /// It has bytes of another coding, and says which.
    Encoded(String),
    /// Any other reason.
    Failed(Error),
}

/// Checks the head of a successful response. Returns how many bytes of its body come before the
/// range.
pub(crate) fn verify(asked: Asked<'_>, status: StatusCode, headers: &HeaderMap) -> Result<u64, Refusal> {
    let (version, length) = (asked.version, number(headers, &CONTENT_LENGTH));
    let fail = |kind, message: String| {
        let error = Error::new(kind, Operation::Read, asked.object, message);
        Refusal::Failed(error.with_extent(asked.start..asked.end))
    };
    if let Some(coding) = foreign_coding(asked.coding, asked.object, headers) {
        return Err(Refusal::Encoded(encoded(coding)));
    }
    if let Some(tag) = &version.tag {
        match asked.tag_header.tag(headers) {
            Some(found) if found != &**tag => return Err(Refusal::Mismatch(format!("tag {found}, not {tag}"))),
            None if !asked.conditions_hold => return Err(Refusal::Mismatch(format!("no tag, not {tag}"))),
            _ => {}
        }
    }
    if version.tag.is_none()
        && let Some(modified) = version.modified
        && let Some(found) = last_modified(headers)
        && found != modified
    {
        return Err(Refusal::Mismatch(String::from("another modification time")));
    }
    if status == StatusCode::PARTIAL_CONTENT {
        let (start, end, total) = content_range(headers)
            .ok_or_else(|| fail(ErrorKind::Transient, String::from("206 without a usable Content-Range")))?;
        if let Some(total) = total.filter(|&total| total != version.size) {
            return Err(Refusal::Mismatch(format!("{total} bytes, not {}", version.size)));
        }
        if (start, end) != (asked.start, asked.end) {
            return Err(fail(ErrorKind::Transient, format!("the response is for bytes [{start}, {end})")));
        }
        if let Some(length) = length.filter(|&length| length != asked.end - asked.start) {
            return Err(fail(ErrorKind::Transient, format!("the response has {length} bytes")));
        }
        return Ok(0);
    }
    // The whole object: the server ignored the range.
    match length {
        Some(length) if length != version.size => {
            Err(Refusal::Mismatch(format!("{length} bytes, not {}", version.size)))
        }
        // Storage that honours conditions honours ranges: something on the way encoded it.
        None if asked.conditions_hold && headers.contains_key(CONTENT_ENCODING) => {
            let message = "the whole object, in a content coding and without a length, instead of a range";
            Err(fail(ErrorKind::Transient, String::from(message)))
        }
        None => Err(fail(ErrorKind::Unsupported, String::from("the server ignores ranges and does not tell lengths"))),
        _ if asked.start > SKIP_BYTES_MAX => {
            let message = format!(
                "the server ignores ranges, and this one starts beyond {} MiB; copy the object to read it",
                SKIP_BYTES_MAX >> 20
            );
            Err(fail(ErrorKind::Unsupported, message))
        }
        _ => Ok(asked.start),
    }
}

/// What the head of a successful response to a read of `range` says of an object of which nothing
/// was known: its length, which bytes of `range` it has, and how many of the body come before
/// them. `None` if the response contradicts itself or does not tell.
pub(crate) fn described(range: &Range<u64>, status: StatusCode, headers: &HeaderMap) -> Option<(u64, Range<u64>, u64)> {
    let length = number(headers, &CONTENT_LENGTH);
    let (size, skip) = if status == StatusCode::PARTIAL_CONTENT {
        let (start, end, total) = content_range(headers)?;
        let size = total?;
        let is_asked = start == range.start && end == range.end.min(size);
        let is_long = length.is_none_or(|length| length == end - start);
        (is_asked && is_long).then_some((size, 0))?
    } else {
        // The whole object: the server ignored the range.
        (length?, range.start)
    };
    let found = range.start..range.end.min(size);
    (!found.is_empty() && skip <= SKIP_BYTES_MAX).then_some((size, found, skip))
}

/// Resolves a [`Refusal::Mismatch`]: the storage accepted the condition and yet shows another
/// version, so either it ignores conditions or this one response is wrong. `now`: its answer when
/// asked once more.
pub(crate) fn settle(now: Result<Object, Error>, key: &str, version: &Version, difference: &str) -> Error {
    let (kind, message) = match now {
        Ok(object) if object.version == *version => {
            (ErrorKind::Transient, format!("the response does not fit the object: {difference}"))
        }
        Ok(_) => (ErrorKind::Changed, format!("the object was replaced: {difference}")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            (ErrorKind::Changed, String::from("the object was deleted"))
        }
        Err(error) => {
            let message = format!("the response does not fit the object ({difference}); {}", error.message());
            let retry_after = error.retry_after();
            return Error::new(error.kind(), Operation::Read, key, message)
                .with_retry_after(retry_after)
                .with_source(error);
        }
    };
    Error::new(kind, Operation::Read, key, message)
}

/// A content coding that makes the body differ from the stored bytes.
pub(crate) fn foreign_coding<'h>(coding: Coding, object: &str, headers: &'h HeaderMap) -> Option<&'h str> {
    let name = headers.get(CONTENT_ENCODING)?.to_str().unwrap_or("?").trim();
    let suffixes: &[&str] = match name.to_ascii_lowercase().as_str() {
        "" | "identity" => return None,
        "gzip" | "x-gzip" => &["gz", "tgz", "svgz"],
        "br" => &["br"],
        "zstd" => &["zst", "tzst"],
        "compress" | "x-compress" => &["Z"],
        "bzip2" | "x-bzip2" => &["bz2", "tbz"],
        _ => &[],
    };
    let announced = object.rsplit_once('.').is_some_and(|(_, suffix)| suffixes.contains(&suffix));
    (coding == Coding::Transcoded && !announced).then_some(name)
}

/// What is wrong with an answer in a content coding, and what to do about it.
pub(crate) fn encoded(coding: &str) -> String {
    format!(
        "the server answers in the content coding {coding}, not in the stored bytes; switch that off for this path at \
         the server, or at the proxy before it"
    )
}

/// The verified body of a response: the bytes after `skip`, as many as the range has.
pub(crate) fn body(response: reqwest::Response, object: &str, range: Range<u64>, skip: u64) -> Body {
    Box::pin(RangeBody {
        stream: Box::pin(response.bytes_stream()),
        skip,
        remaining: range.end - range.start,
        object: object.into(),
        range,
    })
}

struct RangeBody<S> {
    stream: Pin<Box<S>>,
    skip: u64,
    remaining: u64,
    object: Box<str>,
    range: Range<u64>,
}

impl<S: Stream<Item = reqwest::Result<Bytes>>> Stream for RangeBody<S> {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.remaining == 0 {
                return Poll::Ready(None);
            }
            let mut bytes = match std::task::ready!(self.stream.as_mut().poll_next(cx)) {
                Some(Ok(bytes)) => bytes,
                broken => {
                    let failure = broken.and_then(Result::err).map(Failure::of);
                    let told = failure.as_ref().map_or("the connection was closed", |failure| &failure.message);
                    let message = format!("the body ended {} bytes early: {told}", self.remaining);
                    let mut error = Error::new(ErrorKind::Transient, Operation::Read, &*self.object, message)
                        .with_extent(self.range.clone());
                    if let Some(cause) = failure.and_then(|failure| failure.cause) {
                        error = error.with_source(cause);
                    }
                    self.remaining = 0;
                    return Poll::Ready(Some(Err(error)));
                }
            };
            let skipped = self.skip.min(bytes.len() as u64);
            bytes.advance(skipped as usize);
            self.skip -= skipped;
            bytes.truncate(self.remaining.min(bytes.len() as u64) as usize);
            if !bytes.is_empty() {
                self.remaining -= bytes.len() as u64;
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }
}

/// The meaning of a failure status, with the storage's code and message.
#[derive(Debug)]
pub(crate) struct Rejection {
    pub(crate) status: StatusCode,
    /// The storage's code for the cause, such as `NoSuchKey`.
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
    retry_after: Option<Duration>,
    /// The host that a redirect leads to.
    elsewhere: Option<String>,
}

impl Rejection {
    /// Reads a response's cause; `parse` finds code and message in its body.
    pub(crate) async fn read(
        response: reqwest::Response,
        parse: impl Fn(&[u8]) -> (Option<String>, Option<String>),
    ) -> Self {
        let (status, retry_after) = (response.status(), retry_after(response.headers()));
        let elsewhere = if status.is_redirection() { host(response.headers()) } else { None };
        // The answer to a HEAD has no body; Azure sends the code in a header as well.
        let header = response.headers().get("x-ms-error-code").and_then(|code| code.to_str().ok()).map(str::to_owned);
        let body = prefix(response).await;
        let (code, message) = parse(&body);
        let code = code.or(header);
        Self { status, code, message, retry_after, elsewhere }
    }

    /// What a caller can do about it.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self.code.as_deref() {
            Some(code) if ARCHIVED.contains(&code) => return ErrorKind::Unsupported,
            Some("SlowDown" | "ServerBusy" | "TooManyRequests" | "Throttling") => return ErrorKind::Throttled,
            Some(code) if UNAUTHENTICATED.contains(&code) => return ErrorKind::Unauthenticated,
            Some("RequestTimeout") => return ErrorKind::Transient,
            _ => {}
        }
        match self.status.as_u16() {
            404 | 410 => ErrorKind::NotFound,
            401 | 407 => ErrorKind::Unauthenticated,
            403 => ErrorKind::PermissionDenied,
            412 | 416 => ErrorKind::Changed,
            429 | 503 => ErrorKind::Throttled,
            501 | 505 => ErrorKind::Unsupported,
            408 | 425 | 500..=599 => ErrorKind::Transient,
            _ => ErrorKind::Invalid,
        }
    }

    /// The same as an error of `operation` on `object`.
    pub(crate) fn on(&self, operation: Operation, object: &str) -> Error {
        let mut message = self.status.to_string();
        for part in [&self.code, &self.message].into_iter().flatten() {
            message.push_str(": ");
            message.push_str(part);
        }
        if matches!(self.code.as_deref(), Some(code) if ARCHIVED.contains(&code)) {
            message.push_str("; the object is archived: restore it before reading");
        }
        if let Some(host) = &self.elsewhere {
            message.push_str("; the storage is at ");
            message.push_str(host);
            message.push_str(": set the endpoint or the region");
        }
        Error::new(self.kind(), operation, object, message).with_retry_after(self.retry_after)
    }
}

/// The host of `Location`; not the rest, which may be signed.
fn host(headers: &HeaderMap) -> Option<String> {
    let url = reqwest::Url::parse(headers.get(LOCATION)?.to_str().ok()?).ok()?;
    Some(url.origin().ascii_serialization())
}

/// The start of an error's body; empty where it does not arrive.
async fn prefix(mut response: reqwest::Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < CAUSE_BYTES_MAX {
        match response.chunk().await {
            Ok(Some(bytes)) => body.extend_from_slice(&bytes),
            Ok(None) | Err(_) => break,
        }
    }
    body
}

/// `Retry-After`: seconds, or a date; at most [`RETRY_AFTER_MAX`]. A date is of the server's
/// clock: its `Date` says what that shows now. The clock here may be wrong, or was set.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wish = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds are a long wait, too.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let at = httpdate::parse_http_date(text).ok()?;
        let date = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
        at.duration_since(date.unwrap_or_else(SystemTime::now)).unwrap_or_default()
    };
    Some(wish.min(RETRY_AFTER_MAX))
}

/// A header that holds a plain number.
pub(crate) fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// `Last-Modified`.
pub(crate) fn last_modified(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(LAST_MODIFIED)?.to_str().ok()?).ok()
}

/// `Content-Range: bytes 0-9/100` as start, end (exclusive), and total if given.
pub(crate) fn content_range(headers: &HeaderMap) -> Option<(u64, u64, Option<u64>)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = text.strip_prefix("bytes ")?.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    (first <= last).then_some((first, last.checked_add(1)?, total))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn head(fields: &[(&str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    /// Checks a response to a read of bytes 10..20 of 100.
    fn checked(status: u16, fields: &[(&str, &str)], modify: impl Fn(&mut Asked<'_>, &mut Version)) -> String {
        let mut version = Version { size: 100, tag: Some("\"t\"".into()), modified: Some(UNIX_EPOCH) };
        let spare = version.clone();
        let tag_header = TagHeader::ETag;
        let mut asked = Asked {
            object: "a.txt",
            version: &spare,
            start: 10,
            end: 20,
            tag_header: &tag_header,
            conditions_hold: true,
            coding: Coding::Transcoded,
        };
        modify(&mut asked, &mut version);
        asked.version = &version;
        match verify(asked, StatusCode::from_u16(status).unwrap(), &head(fields)) {
            Ok(skip) => format!("skip {skip}"),
            Err(Refusal::Mismatch(_)) => String::from("mismatch"),
            Err(Refusal::Encoded(_)) => String::from("encoded"),
            Err(Refusal::Failed(error)) => format!("{:?}", error.kind()),
        }
    }

    #[test]
    fn a_response_is_believed_only_if_all_of_it_fits() {
        let same = |_: &mut Asked<'_>, _: &mut Version| {};
        let (range, length, tag) = (("content-range", "bytes 10-19/100"), ("content-length", "10"), ("etag", "\"t\""));
        assert_eq!(checked(206, &[range, length, tag], same), "skip 0");
        assert_eq!(checked(206, &[("content-range", "bytes 10-19/*"), tag], same), "skip 0");
        assert_eq!(checked(206, &[range, length, ("etag", "\"u\"")], same), "mismatch");
        assert_eq!(checked(206, &[("content-range", "bytes 10-19/101"), length, tag], same), "mismatch");
        for wrong in
            ["bytes 11-20/100", "bytes 10-18/100", "bytes 0-9/100", "10-19/100", "bytes */100", "bytes 19-10/100"]
        {
            assert_eq!(checked(206, &[("content-range", wrong), tag], same), "Transient", "{wrong}");
        }
        assert_eq!(checked(206, &[length, tag], same), "Transient");
        assert_eq!(checked(206, &[range, ("content-length", "9"), tag], same), "Transient");
        assert_eq!(checked(206, &[range, tag, ("content-encoding", "gzip")], same), "encoded");
        assert_eq!(checked(206, &[range, tag, ("content-encoding", "identity")], same), "skip 0");
        assert_eq!(checked(206, &[range, tag, ("content-encoding", "br")], |a, _| a.coding = Coding::Label), "skip 0");
    }

    #[test]
    fn a_whole_object_serves_for_a_range_near_its_start() {
        let same = |_: &mut Asked<'_>, _: &mut Version| {};
        let (length, tag) = (("content-length", "100"), ("etag", "\"t\""));
        assert_eq!(checked(200, &[length, tag], same), "skip 10");
        assert_eq!(checked(200, &[tag], same), "Unsupported");
        let gzip = [tag, ("content-encoding", "gzip")];
        let stored = |asked: &mut Asked<'_>, _: &mut Version| asked.coding = Coding::Label;
        assert_eq!(checked(200, &gzip, stored), "Transient", "encoded on the way");
        assert_eq!(checked(200, &[("content-length", "99"), tag], same), "mismatch");
        let far = |asked: &mut Asked<'_>, _: &mut Version| (asked.start, asked.end) = (1 << 40, (1 << 40) + 1);
        assert_eq!(checked(200, &[length, tag], far), "Unsupported");
    }

    #[test]
    fn without_a_tag_times_are_compared() {
        let untagged = |_: &mut Asked<'_>, version: &mut Version| version.tag = None;
        let range = ("content-range", "bytes 10-19/100");
        assert_eq!(checked(206, &[range, ("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT")], untagged), "skip 0");
        assert_eq!(checked(206, &[range, ("last-modified", "Thu, 01 Jan 1970 00:00:01 GMT")], untagged), "mismatch");
        let heedless = |asked: &mut Asked<'_>, _: &mut Version| asked.conditions_hold = false;
        assert_eq!(checked(206, &[range], heedless), "mismatch");
        assert_eq!(checked(206, &[range, ("etag", "W/\"t\"")], heedless), "mismatch");
    }

    #[test]
    fn a_wish_to_wait_is_seconds_or_a_date() {
        let wish = |value: &str| retry_after(&head(&[("retry-after", value)]));
        assert_eq!(wish("120"), Some(Duration::from_mins(2)));
        assert_eq!(wish("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        assert!(
            wish(&httpdate::fmt_http_date(SystemTime::now() + Duration::from_hours(1))).unwrap()
                > Duration::from_mins(59)
        );
        assert_eq!(wish("soon"), None);
    }

    #[test]
    fn a_date_to_wait_for_is_of_the_servers_clock() {
        let wish = |at: &str, date: &str| retry_after(&head(&[("retry-after", at), ("date", date)]));
        // Years away from the clock of this machine, either way.
        assert_eq!(
            wish("Wed, 21 Oct 2099 07:28:10 GMT", "Wed, 21 Oct 2099 07:28:00 GMT"),
            Some(Duration::from_secs(10))
        );
        assert_eq!(
            wish("Wed, 21 Oct 2015 07:28:10 GMT", "Wed, 21 Oct 2015 07:28:00 GMT"),
            Some(Duration::from_secs(10))
        );
        assert_eq!(wish("Wed, 21 Oct 2015 07:27:00 GMT", "Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        // A date that is none does not count.
        assert_eq!(wish("Wed, 21 Oct 2015 07:28:10 GMT", "lately"), Some(Duration::ZERO));
    }

    #[test]
    fn a_wish_to_wait_is_bounded_however_it_is_written() {
        let wish = |value: &str| retry_after(&head(&[("retry-after", value)]));
        let far = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(253_402_300_799));
        for long in ["18446744073709551615", "99999999999999999999999999", "86401", &far] {
            let wish = wish(long).expect("a long wait");
            assert_eq!(wish, RETRY_AFTER_MAX, "{long}");
            assert!(std::time::Instant::now().checked_add(wish).is_some(), "{long}");
        }
        for no_wish in ["", "-1", "1e9", "+5", "0x10", "1.5", "Thu, 32 Jan 1970 00:00:00 GMT"] {
            assert_eq!(wish(no_wish), None, "{no_wish:?}");
        }
    }

    /// The fields of a head, as far as they are fields.
    fn fields(text: &[u8]) -> HeaderMap {
        let field = |line: &[u8]| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let name = HeaderName::from_bytes(&line[..colon]).ok()?;
            Some((name, http::HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?))
        };
        text.split(|&byte| byte == b'\n').filter_map(field).collect()
    }

    #[test]
    fn fuzz_head_of_a_response() {
        let seeds: [&[u8]; 4] = [
            b"content-range: bytes 10-19/100\ncontent-length: 10\netag: \"t\"\nlast-modified: Thu, 01 Jan 1970 00:00:00 GMT",
            b"content-length: 100\netag: W/\"t\"\ncontent-encoding: gzip",
            b"content-range: bytes 18446744073709551615-18446744073709551615/*\netag: \"t\"",
            b"content-range: bytes */100\nretry-after: 120",
        ];
        let words = [
            "content-range: bytes ",
            "content-length: ",
            "etag: ",
            "last-modified: ",
            "W/",
            "identity",
            "10-19",
            "/*",
            "bytes",
        ];
        foreread_fuzz::fuzz("head of a response", &seeds, &words, |text| {
            let headers = fields(text);
            if let Some((start, end, _)) = content_range(&headers) {
                assert!(start < end, "{start} to {end}");
            }
            for status in [StatusCode::OK, StatusCode::PARTIAL_CONTENT] {
                if let Some((size, found, _)) = described(&(10..20), status, &headers) {
                    assert!(found.start == 10 && found.end <= size.min(20) && !found.is_empty(), "{found:?} of {size}");
                }
            }
            for (tag, conditions_hold) in [(Some("\"t\""), true), (Some("\"t\""), false), (None, false)] {
                let version = Version { size: 100, tag: tag.map(Into::into), modified: Some(UNIX_EPOCH) };
                let asked = Asked {
                    object: "a",
                    version: &version,
                    start: 10,
                    end: 20,
                    tag_header: &TagHeader::ETag,
                    conditions_hold,
                    coding: Coding::Transcoded,
                };
                for status in [StatusCode::OK, StatusCode::PARTIAL_CONTENT] {
                    match verify(asked, status, &headers) {
                        Ok(skip) => {
                            assert_eq!(skip, if status == StatusCode::OK { 10 } else { 0 });
                            let tagged = headers.get("etag").is_some_and(|tag| tag == "\"t\"");
                            assert!(tagged || tag.is_none() || conditions_hold, "another version is taken");
                        }
                        Err(Refusal::Failed(_) | Refusal::Encoded(_) | Refusal::Mismatch(_)) => {}
                    }
                }
            }
        });
    }

    #[test]
    fn a_first_answer_describes_the_object() {
        let at = |range: Range<u64>, status: u16, fields: &[(&str, &str)]| {
            described(&range, StatusCode::from_u16(status).expect("a status"), &head(fields))
        };
        let part = |text| [("content-range", text), ("content-length", "10")];
        assert_eq!(at(0..10, 206, &part("bytes 0-9/100")), Some((100, 0..10, 0)));
        assert_eq!(at(5..99, 206, &part("bytes 5-14/15")), Some((15, 5..15, 0)));
        assert_eq!(at(2..8, 200, &[("content-length", "6")]), Some((6, 2..6, 2)));
        // Another range or length, no total, and nothing of what was asked for.
        assert_eq!(at(0..10, 206, &part("bytes 1-10/100")), None);
        assert_eq!(at(0..20, 206, &part("bytes 0-9/100")), None);
        assert_eq!(at(0..10, 206, &[("content-range", "bytes 0-9/100"), ("content-length", "9")]), None);
        assert_eq!(at(0..10, 206, &part("bytes 0-9/*")), None);
        assert_eq!(at(0..10, 206, &[]), None);
        assert_eq!(at(0..10, 200, &[]), None);
        assert_eq!(at(6..8, 200, &[("content-length", "6")]), None);
        assert_eq!(at(0..8, 200, &[("content-length", "0")]), None);
    }

    #[test]
    fn fuzz_retry_after() {
        let seeds: [&[u8]; 5] = [
            b"120",
            b"Thu, 01 Jan 1970 00:00:00 GMT",
            b"Thursday, 01-Jan-70 00:00:00 GMT",
            b"Fri, 31 Dec 9999 23:59:59 GMT",
            b"18446744073709551615",
        ];
        let words = ["Thu, ", " Jan ", " GMT", ":", "00", "9999"];
        foreread_fuzz::fuzz("Retry-After", &seeds, &words, |text| {
            let headers = fields(&[b"retry-after:", text].concat());
            if let Some(wish) = retry_after(&headers) {
                assert!(wish <= RETRY_AFTER_MAX, "{wish:?}");
            }
        });
    }
}
