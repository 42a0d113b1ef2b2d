//! Traces of slow reads, sent to an OpenTelemetry collector.
//!
//! ```text
//!   engine ── SlowRead ──> spans ──> a batch, each five seconds ──> POST /v1/traces
//!
//!   read                 |────────────────────────────|     what it waited for longest
//!     request         |───────────────────────────|         of the storage, or of the cache
//!       turn          |──|                                  others were first, or no memory
//!       first byte       |────────────────|
//!       bytes                             |──────────|
//! ```
//!
//! The environment says where they go, by the names of OpenTelemetry's specification:
//! `OTEL_EXPORTER_OTLP_ENDPOINT`, `_HEADERS`, `_TIMEOUT` and `_PROTOCOL` (and the same with
//! `_TRACES_`), `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SDK_DISABLED`,
//! `OTEL_TRACES_EXPORTER`.
//!
//! *Invariants:* without an endpoint nothing is connected to and no thread starts. A collector
//! that is away costs no read anything: what it does not take is dropped. Names of objects are
//! numbers, as on the page.

mod client;
mod spans;

use std::time::Duration;

use foreread_engine::{Engine, SlowCause};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use thiserror::Error as ThisError;
use tokio::task::JoinHandle;

use crate::snapshot::Numbers;
use client::Client;

/// Why no traces are sent, although the environment asks for them.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum TracesError {
    /// OTLP over gRPC.
    #[error("OTEL_EXPORTER_OTLP_PROTOCOL is {0}: write http/protobuf or http/json, with the collector's port for them")]
    Protocol(String),
    /// A variable that cannot be understood.
    #[error("{0}")]
    Environment(String),
    /// There is no client for HTTP.
    #[error("{0}")]
    Client(#[source] foreread_backend::Error),
}

/// Slow reads of an engine on their way to a collector. What is not sent yet is sent when it is
/// dropped, for two seconds at most.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    told: JoinHandle<()>,
}

impl Traces {
    /// Sends the slow reads of `engine` to where the environment says, if it says anything.
    /// `source` is what the engine reads. Without `names`, no name of an object leaves the
    /// process.
    ///
    /// # Errors
    ///
    /// Variables that are there and cannot be used.
    pub fn start(engine: &Engine, source: &str, names: bool) -> Result<Option<Self>, TracesError> {
        if !is_wanted() {
            return Ok(None);
        }
        let client = Client::new(engine.runtime().clone(), timeout()).map_err(TracesError::Client)?;
        let exporter = SpanExporter::builder().with_http().with_http_client(client).with_protocol(protocol()?);
        let exporter = exporter.build().map_err(|error| TracesError::Environment(error.to_string()))?;
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource(source)).build();
        let (tracer, numbers) = (provider.tracer("foreread"), (!names).then(Numbers::default));
        let mut heard = engine.observer().slow_reads();
        let told = engine.runtime().spawn(async move {
            while let Some(mut read) = match &mut heard {
                Some(heard) => heard.recv().await,
                None => None,
            } {
                if let Some(numbers) = &numbers {
                    numbers.hide(&mut read.key);
                    // The text of an error has the name as well.
                    if let SlowCause::Failed(text) = &mut read.cause {
                        "it failed: the log says why".clone_into(text);
                    }
                }
                spans::of(&tracer, &read);
            }
        });
        Ok(Some(Self { provider, told }))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        self.told.abort();
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_BATCH) {
            tracing::debug!(%error, "the last traces were not sent");
        }
    }
}

fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
}

fn is_wanted() -> bool {
    let is = |name, value: &str| variable(&[name]).is_some_and(|set| set.trim().eq_ignore_ascii_case(value));
    variable(&["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]).is_some()
        && !is("OTEL_SDK_DISABLED", "true")
        && !is("OTEL_TRACES_EXPORTER", "none")
}

fn protocol() -> Result<Protocol, TracesError> {
    match variable(&["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]).as_deref().map(str::trim) {
        None | Some("http/protobuf") => Ok(Protocol::HttpBinary),
        Some("http/json") => Ok(Protocol::HttpJson),
        Some(other) => Err(TracesError::Protocol(other.to_owned())),
    }
}

/// How long a collector is waited for: the library leaves that to the client.
fn timeout() -> Duration {
    let told = variable(&["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]);
    told.and_then(|ms| ms.trim().parse().ok()).map_or(TIMEOUT, Duration::from_millis)
}

fn resource(source: &str) -> Resource {
    let is_named = variable(&["OTEL_SERVICE_NAME"]).is_some()
        || variable(&["OTEL_RESOURCE_ATTRIBUTES"]).is_some_and(|all| all.contains("service.name="));
    let resource = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("foreread.source", source.to_owned()),
    ]);
    if is_named { resource.build() } else { resource.with_service_name("foreread").build() }
}

/// How long the end waits until the last traces are sent. Lower: those of a mount that ends just
/// after an outage are lost. Higher: an unmount waits for a collector that is away. Source: a
/// guess.
const LAST_BATCH: Duration = Duration::from_secs(2);

/// How long a collector is waited for that the environment says nothing of. Lower and higher: as
/// the specification has it.
const TIMEOUT: Duration = Duration::from_secs(10);
