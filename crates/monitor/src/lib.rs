//! What an engine is doing, over HTTP: metrics for monitoring, and a page that is live.
//!
//! ```text
//!   engine ── Observer ──> snapshot ──┬──> /metrics   OpenMetrics text, at each scrape
//!                                     ├──> /events    server-sent events, one a second, while
//!                                     │               somebody looks
//!                                     └──> /snapshot  the same once
//!                          page/ ────────> /          HTML, style and script, embedded
//!                                          /healthz   the process answers
//! ```
//!
//! - `exposition`: names, units and types of the metrics.
//! - `snapshot`: what the page is told, with the names of objects or with numbers in their place.
//! - `access`: which requests are answered: those on the loopback, or those with the token.
//! - `server`: connections and routes.
//!
//! *Invariants:* it never keeps an engine. Nothing is computed while no one asks. Without
//! [`Options::names`] no name of an object leaves the process.
//!
//! There is no rule here about what to read. Source: docs/decisions/0079.

mod access;
mod exposition;
mod server;
mod snapshot;

pub use server::{Error, Monitor, Options};
