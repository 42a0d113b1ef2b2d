//! Another server behind the testbed: each request goes on to it, and its answer comes back at the
//! device's pace, with the faults in force.
//!
//! A request keeps its `Host`, which is signed. The other server checks signatures and conditions;
//! nothing of an answer is kept here.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_RANGE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::Error;
use crate::answer::payload::Payload;
use crate::answer::{self, Answer};

/// A server that answers in place of the testbed's own objects.
#[derive(Debug)]
pub(crate) struct Upstream {
    authority: Authority,
    client: Client<HttpConnector, Incoming>,
}

impl Upstream {
    /// The server at `url`, which is `http://HOST:PORT`. Not asked for anything yet.
    pub(crate) fn at(url: &str) -> Result<Self, Error> {
        let wrong = || Error::Upstream { url: url.to_owned() };
        let parts = url.parse::<Uri>().map_err(|_| wrong())?.into_parts();
        let below = parts.path_and_query.is_some_and(|path| path != "/");
        if parts.scheme != Some(Scheme::HTTP) || below {
            return Err(wrong());
        }
        let authority = parts.authority.ok_or_else(wrong)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Ok(Self { authority, client: Client::builder(TokioExecutor::new()).build(connector) })
    }

    /// What it answers. Where an object's bytes are asked for, they are not read yet, and `size`
    /// becomes the size of the object.
    pub(crate) async fn answer(
        &self,
        mut parts: Parts,
        body: Incoming,
        object: bool,
        size: &mut Option<u64>,
    ) -> Answer {
        let response = match self.forward(&mut parts, body).await {
            Ok(response) => response,
            Err(error) => return bad_gateway("The server upstream did not answer.", &error),
        };
        let (mut head, body) = response.into_parts();
        take_own(&mut head.headers);
        if parts.method == Method::HEAD {
            return Response::from_parts(head, Payload::Bytes(Bytes::new()));
        }
        let length = body.size_hint().exact().filter(|_| object && head.status.is_success());
        if let Some(length) = length {
            let (start, of) = sent_of(&head.headers).unwrap_or((0, length));
            *size = Some(of);
            let range = start..start.saturating_add(length);
            return Response::from_parts(head, Payload::Upstream { body, range, piece: Bytes::new() });
        }
        match Limited::new(body, DOCUMENT_BYTES_MAX).collect().await {
            Ok(whole) => Response::from_parts(head, Payload::Bytes(whole.to_bytes())),
            Err(error) => {
                bad_gateway("An answer of the server upstream broke off, or is too long.", &error.to_string())
            }
        }
    }

    async fn forward(&self, parts: &mut Parts, body: Incoming) -> Result<Response<Incoming>, String> {
        let uri = Uri::builder().scheme(Scheme::HTTP).authority(self.authority.clone());
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri = uri.path_and_query(path).build().map_err(|error| error.to_string())?;
        let mut request = Request::builder().method(parts.method.clone()).uri(uri);
        take_own(&mut parts.headers);
        if let Some(headers) = request.headers_mut() {
            *headers = std::mem::take(&mut parts.headers);
        }
        let request = request.body(body).map_err(|error| error.to_string())?;
        self.client.request(request).await.map_err(|error| format!("{error:?}"))
    }
}

/// Where the part of an object that is sent begins, and the size of the object.
fn sent_of(headers: &HeaderMap) -> Option<(u64, u64)> {
    let (range, size) = headers.get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, size.parse().ok()?))
}

/// Takes out what is about one connection and not about the message.
fn take_own(headers: &mut HeaderMap) {
    for name in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, HeaderName::from_static("keep-alive")] {
        headers.remove(name);
    }
}

fn bad_gateway(message: &str, error: &str) -> Answer {
    tracing::warn!(%error, "{message}");
    answer::error(true, StatusCode::BAD_GATEWAY, "BadGateway", message, None)
}

/// The longest answer that is no object, such as a page of a listing, or an object whose length
/// the server does not say, in bytes.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;
