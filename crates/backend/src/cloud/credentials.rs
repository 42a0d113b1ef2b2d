//! Finds credentials: sends the signers' requests with a deadline, and notes why each source
//! failed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use reqsign_core::{Context, HttpSend, ProvideCredential};

use super::deadline;
#[cfg(feature = "s3")]
use super::process::Processes;
use crate::wire::{Failure, Wire, whole};

/// The longest answer that holds credentials, in bytes: tokens are a few KiB. Lower: long tokens
/// are refused. Higher: more memory for a server that sends without end.
const BYTES_MAX: usize = 1 << 20;

/// Sends the requests of signers: to instance metadata, STS, SSO, OAuth.
#[derive(Clone)]
pub(super) struct Courier(pub(super) Wire);

impl Courier {
    /// Sends one request and reads the response, whatever its status.
    pub(super) async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, String> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let on_link = host.starts_with("169.254.") || host.contains("fd00:ec2") || host == "metadata.google.internal";
        let timeout = if on_link { deadline::METADATA } else { deadline::CREDENTIALS };
        let exchange = async {
            let request = request.try_into().map_err(Failure::of)?;
            let response = if on_link { self.0.send_directly(request).await? } else { self.0.send(request).await? };
            let (status, headers) = (response.status(), response.headers().clone());
            Ok::<_, Failure>((status, headers, whole(response, BYTES_MAX).await?))
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

/// Why configured sources failed, in the order in which they were tried.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// Notes the failures of a source; a chain of sources would drop them.
    pub(super) fn watch<P>(&self, source: &'static str, provider: P) -> Watched<P> {
        Watched { source, provider, notes: self.clone() }
    }

    /// Takes the notes out, as one text.
    pub(super) fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).join("; ")
    }
}

/// A source whose failures are noted.
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
        // The context of a request cannot run programs.
        let context = context.clone().with_command_execute(Processes);
        let result = self.provider.provide_credential(&context).await;
        if let Err(error) = &result {
            // Only the outermost text: its causes may quote a request.
            let note = format!("{}: {error}", self.source);
            let mut notes = self.notes.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        result
    }
}
