//! What an engine is doing, over HTTP: metrics for monitoring, a page that is live, and traces of
//! slow reads.
//!
//! ```text
//!   engine ── Observer ──> snapshot ──┬──> /metrics   OpenMetrics text, at each scrape
//!                                     ├──> /events    server-sent events, one a second, while
//!                                     │               somebody looks
//!                                     └──> /snapshot  the same once
//!                          page/ ────────> /          HTML, style and script, embedded
//!                                          /healthz   the process answers
//!         └── slow reads ──> traces ──> POST      to a collector that the environment names
//! ```
//!
//! - `exposition`: names, units and types of the metrics.
//! - `snapshot`: what the page is told, with the names of objects or with numbers in their place.
//! - `access`: which requests are answered: those on the loopback, or those with the token.
//! - `server`: connections and routes.
//! - `traces`: slow reads, sent to an OpenTelemetry collector.
//!
//! *Invariants:* it never keeps an engine. Nothing is computed while no one asks. Without
//! [`Options::names`] no name of an object leaves the process.
//!
//! There is no rule here about what to read. Source: docs/decisions/0079.

mod access;
mod exposition;
mod server;
mod snapshot;
mod traces;

pub use server::{Error, Monitor, Options};
pub use traces::{Traces, TracesError};
