//! An emulated object store to try things against: the real protocol, synthetic objects, a device
//! in front, and faults.
//!
//! ```text
//!              ┌ /-/...      control: counters, log, objects, faults
//!  connection ─┼ /http/KEY   plain HTTP with a listing as nginx makes it
//!              └ /BUCKET/KEY S3: signatures, ranges, conditions, listings
//!                   │
//!                   ├─ fault?   which fault in force happens to this request
//!                   ├─ answer   objects, conditions, listing; or what another server answers
//!                   ├─ pacer    the device model in real time: when the head, when each 64 KiB
//!                   └─ body     to the connection, cut or stalled by a fault
//! ```
//!
//! ```no_run
//! use foreread_testbed::{Config, ObjectSpec, Testbed, content};
//!
//! let config = Config { objects: vec![ObjectSpec::new("big", 5 << 40)], ..Config::default() };
//! let testbed = Testbed::start(config)?;
//! println!("aws --endpoint-url {} s3 ls s3://testbed", testbed.endpoint());
//! let mut expected = vec![0; 4096];
//! content::fill("big", 1, 1 << 40, &mut expected);
//! # Ok::<(), foreread_testbed::Error>(())
//! ```
//!
//! # Control
//!
//! | request | what it does |
//! |---|---|
//! | `GET /-/counters` | [`Counters`] |
//! | `POST /-/counters/reset` | starts them, and the log, from zero |
//! | `GET /-/requests` | the last requests, oldest first: a list of [`LoggedRequest`] |
//! | `POST /-/objects` | adds or replaces: an [`ObjectSpec`], or a list of them |
//! | `DELETE /-/objects` | removes: `{"key": ...}` |
//! | `GET /-/faults` | the faults in force, and how often each happened |
//! | `POST /-/faults` | replaces them: a list of specs, see [`fault`] |
//!
//! Bodies are JSON. A body that does not parse gets 400, with the reason as text.
//!
//! `server` runs connections, `answer` makes responses, `objects` holds the bytes, `fault` chooses
//! what goes wrong.
//!
//! *Invariant:* what is served depends on the requests and the config only, never on the time.

#![forbid(unsafe_code)]

mod answer;
pub mod bare;
pub mod config;
mod counters;
mod error;
pub mod fault;
mod objects;
pub mod quantity;
mod server;

pub use config::{Config, ObjectSpec, TlsFiles};
pub use counters::{Counters, Kind, LoggedRequest};
pub use error::Error;
pub use fault::{Effect, Fault, FaultError};
pub use objects::content;
pub use server::Testbed;
pub use server::tls::OwnAuthority;
