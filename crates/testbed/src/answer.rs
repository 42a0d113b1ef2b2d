//! The head of a response about an object, the same for S3 and for plain HTTP, and how faults
//! falsify it.

pub(crate) mod conditions;
mod listing;
pub(crate) mod payload;
pub(crate) mod plain;
pub(crate) mod s3;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
    LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER,
};
use http::{Response, StatusCode, Uri};

use crate::Effect;
use crate::objects::Object;
use conditions::Selection;
use payload::Payload;

/// A response before the device and the wire: its head, and the source of its body.
pub(crate) type Answer = Response<Payload>;

/// Which bytes of which version are sent. Travels with a response through the S3 library.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    /// 200 or 206: the library can only send the status that its own fields imply.
    pub(crate) status: StatusCode,
    pub(crate) object: Arc<Object>,
    pub(crate) range: Range<u64>,
    pub(crate) gzip: bool,
}

impl Chosen {
    pub(crate) fn payload(self) -> io::Result<Payload> {
        let reader = self.object.open()?;
        Ok(if self.gzip { Payload::gzip(reader, self.range) } else { Payload::Object { reader, range: self.range } })
    }
}

/// The selection of the request's headers, under a fault that makes the server ignore some of
/// them.
pub(crate) fn select(headers: &HeaderMap, object: &Object, effect: Option<Effect>) -> Selection {
    if matches!(effect, Some(Effect::IgnoreRange | Effect::Gzip)) && headers.contains_key(RANGE) {
        let mut headers = headers.clone();
        headers.remove(RANGE);
        return Selection::of(&headers, &object.etag, object.size);
    }
    Selection::of(headers, &object.etag, object.size)
}

/// The head of a response that has a `part` of an object, or all of it.
pub(crate) fn object_head(object: &Object, part: Option<&Range<u64>>, gzip: bool) -> (StatusCode, HeaderMap) {
    let mut headers = version_headers(object);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(ETAG, header(&format!("W/\"{}\"", object.etag)));
        return (StatusCode::OK, headers);
    }
    let bytes = part.map_or(object.size, |part| part.end - part.start);
    headers.insert(CONTENT_LENGTH, bytes.into());
    match part {
        Some(part) => {
            headers.insert(CONTENT_RANGE, content_range(part, object.size));
            (StatusCode::PARTIAL_CONTENT, headers)
        }
        None => (StatusCode::OK, headers),
    }
}

/// The version of an object, as a response without a body says it too.
pub(crate) fn version_headers(object: &Object) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ETAG, header(&format!("\"{}\"", object.etag)));
    headers.insert(LAST_MODIFIED, header(&httpdate::fmt_http_date(object.modified)));
    headers
}

/// `Content-Range` of a 416.
pub(crate) fn unsatisfied_range(size: u64) -> HeaderValue {
    header(&format!("bytes */{size}"))
}

/// Falsifies an answer. Effects on the connection are not applied here.
pub(crate) fn falsify(answer: &mut Answer, effect: Effect, size: Option<u64>) {
    if !answer.status().is_success() {
        return;
    }
    let headers = answer.headers_mut();
    match effect {
        Effect::WrongEtag if headers.contains_key(ETAG) => {
            headers.insert(ETAG, HeaderValue::from_static("\"0000000000000000000000000000bad-1\""));
        }
        Effect::NoEtag => {
            headers.remove(ETAG);
        }
        Effect::WrongRange => {
            if let (Some(range), Some(size)) = (answer.body().part(), size)
                && answer.headers().contains_key(CONTENT_RANGE)
            {
                let further = content_range(&(range.start + 1..range.end + 1), size.max(range.end + 1));
                answer.headers_mut().insert(CONTENT_RANGE, further);
            }
        }
        Effect::Short { bytes } => {
            if let Payload::Object { range, .. } | Payload::Upstream { range, .. } = answer.body_mut() {
                range.end = range.end.min(range.start + bytes);
                let bytes = range.end - range.start;
                answer.headers_mut().insert(CONTENT_LENGTH, bytes.into());
            }
        }
        _ => {}
    }
}

/// An error, in S3's form or as plain text.
pub(crate) fn error(s3: bool, status: StatusCode, code: &str, message: &str, retry_after: Option<u64>) -> Answer {
    let (kind, body) = if s3 {
        let declaration = r#"<?xml version="1.0" encoding="UTF-8"?>"#;
        let body = format!("{declaration}\n<Error><Code>{code}</Code><Message>{message}</Message></Error>");
        ("application/xml", body)
    } else {
        ("text/plain", format!("{message}\n"))
    };
    let mut answer = Response::new(Payload::Bytes(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

/// A redirect to another host, which does not exist.
pub(crate) fn redirect(uri: &Uri) -> Answer {
    let mut answer = Response::new(Payload::Bytes(bytes::Bytes::new()));
    *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    answer.headers_mut().insert(LOCATION, header(&format!("http://elsewhere.invalid{uri}")));
    answer
}

/// A success that has nothing.
pub(crate) fn empty() -> Answer {
    let mut answer = Response::new(Payload::Bytes(bytes::Bytes::new()));
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    answer
}

/// The answer of a captive portal, for example.
pub(crate) fn garbage() -> Answer {
    let mut answer = Response::new(Payload::Bytes("<!doctype html><title>Welcome</title><p>Please log in".into()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
    answer
}

/// The error that S3 sends with this status.
pub(crate) fn status_error(s3: bool, status: u16, retry_after: Option<u64>) -> Answer {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (code, message) = match status.as_u16() {
        400 => ("BadRequest", "The request could not be understood."),
        403 => ("AccessDenied", "Access Denied"),
        404 => ("NoSuchKey", "The specified key does not exist."),
        429 => ("TooManyRequests", "Please reduce your request rate."),
        500 => ("InternalError", "We encountered an internal error. Please try again."),
        503 => ("SlowDown", "Please reduce your request rate."),
        _ => ("ServiceFailure", "The request failed."),
    };
    error(s3, status, code, message, retry_after)
}

fn content_range(part: &Range<u64>, size: u64) -> HeaderValue {
    header(&format!("bytes {}-{}/{size}", part.start, part.end - 1))
}

/// A header of text that is known to be plain ASCII.
fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("digits and dates")
}
