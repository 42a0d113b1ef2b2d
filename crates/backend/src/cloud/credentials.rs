//! How credentials are looked for: requests with a deadline, and a note of why each source had none.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqsign_core::{Context, HttpSend, ProvideCredential};

#[cfg(feature = "s3")]
use super::process::Processes;
use crate::wire::{Failure, Wire};

/// How long finding credentials may take in all; the mount command has to fail within 10 s.
pub(super) const TIMEOUT: Duration = Duration::from_secs(8);

/// How long one answer of a metadata service on the local link may take. It takes milliseconds, or there is no service.
const METADATA_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends the requests of signers: to instance metadata, STS, SSO, OAuth.
#[derive(Clone)]
pub(super) struct Courier(pub(super) Wire);

impl Courier {
    /// Sends one request and reads the response, whatever its status.
    pub(super) async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, String> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let on_link = host.starts_with("169.254.") || host.contains("fd00:ec2") || host == "metadata.google.internal";
        let timeout = if on_link { METADATA_TIMEOUT } else { TIMEOUT };
        let exchange = async {
            let request = request.try_into().map_err(Failure::of)?;
            let response = if on_link { self.0.send_directly(request).await? } else { self.0.send(request).await? };
            let (status, headers) = (response.status(), response.headers().clone());
            Ok::<_, Failure>((status, headers, response.bytes().await.map_err(Failure::of)?))
        };
        let (status, headers, body) = match tokio::time::timeout(timeout, exchange).await {
            Ok(exchange) => exchange.map_err(|failure| format!("{host}: {}", failure.message))?,
            Err(_) => return Err(format!("{host} does not answer")),
        };
        let mut response = http::Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

impl fmt::Debug for Courier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Courier")
    }
}

impl HttpSend for Courier {
    async fn http_send(&self, request: http::Request<Bytes>) -> reqsign_core::Result<http::Response<Bytes>> {
        self.send(request).await.map_err(|e| reqsign_core::Error::unexpected(e).set_retryable(true))
    }
}

/// Why sources that are configured gave no credentials, in the order in which they were tried.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// A source whose failures are noted; a chain of sources drops them.
    pub(super) fn watch<P>(&self, source: &'static str, provider: P) -> Watched<P> {
        Watched { source, provider, notes: self.clone() }
    }

    /// Takes the notes out, as one text.
    pub(super) fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).join("; ")
    }
}

/// A source of credentials that is watched.
pub(super) struct Watched<P> {
    source: &'static str,
    provider: P,
    notes: Notes,
}

impl<P> fmt::Debug for Watched<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source)
    }
}

#[cfg(feature = "s3")]
impl<P: ProvideCredential> ProvideCredential for Watched<P> {
    type Credential = P::Credential;

    async fn provide_credential(&self, context: &Context) -> reqsign_core::Result<Option<P::Credential>> {
        // A request's own context cannot run programs.
        let context = context.clone().with_command_execute(Processes);
        let result = self.provider.provide_credential(&context).await;
        if let Err(error) = &result {
            // Only the outermost text: what lies below may quote a request.
            let note = format!("{}: {error}", self.source);
            let mut notes = self.notes.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        result
    }
}
