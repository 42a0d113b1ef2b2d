//! The client that carries spans to a collector: the storage's, on the engine's runtime.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

/// Sends requests on a runtime: the thread that batches spans has none.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    runtime: Handle,
    timeout: Duration,
    /// The last request failed: that was told.
    is_away: Arc<AtomicBool>,
}

impl Client {
    /// With the proxies and authorities that the storage has.
    pub(super) fn new(runtime: Handle, timeout: Duration) -> Result<Self, foreread_backend::Error> {
        Ok(Self { http: foreread_backend::http_client()?, runtime, timeout, is_away: Arc::default() })
    }

    /// Tells of the first failure, and of the end of failures.
    fn told(is_away: &AtomicBool, failure: Option<String>) {
        let was_away = is_away.swap(failure.is_some(), Relaxed);
        match failure {
            Some(error) if !was_away => {
                tracing::warn!(error, "traces are not accepted; check OTEL_EXPORTER_OTLP_ENDPOINT and its headers");
            }
            Some(error) => tracing::debug!(error, "traces are not accepted"),
            None if was_away => tracing::info!("traces are accepted again"),
            None => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (http, timeout, is_away) = (self.http.clone(), self.timeout, Arc::clone(&self.is_away));
        let sent = self.runtime.spawn(async move {
            let answered = exchange(&http, request, timeout).await;
            let failure = match &answered {
                Err(error) => Some(error.to_string()),
                Ok(response) if !response.status().is_success() => Some(format!("HTTP status {}", response.status())),
                Ok(_) => None,
            };
            Self::told(&is_away, failure);
            answered
        });
        sent.await?
    }
}

async fn exchange(
    http: &reqwest::Client,
    request: Request<Bytes>,
    timeout: Duration,
) -> Result<Response<Bytes>, HttpError> {
    let mut request = reqwest::Request::try_from(request)?;
    *request.timeout_mut() = Some(timeout);
    let mut response = http.execute(request).await.map_err(reqwest::Error::without_url)?;
    let mut answer = Response::builder().status(response.status());
    if let Some(headers) = answer.headers_mut() {
        headers.extend(std::mem::take(response.headers_mut()));
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err("the answer of the collector is too long".into());
        }
        body.extend_from_slice(&piece);
    }
    Ok(answer.body(Bytes::from(body))?)
}

/// Bytes of an answer that are read. Lower: the reason of a refusal is cut. Higher: what is no
/// collector fills memory. Source: a guess; an answer has some hundred bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
