//! Requests: what the storage is asked for, each operation executed to its end.
//!
//! ```text
//!   shard ── Submit, Grant ──> Joint: one request, or several adjacent ones that waited together
//!                                │
//!             InPlace <──────────┴──────────> fetch: a task
//!    a small read of a local file,              attempts, back-off, hedge
//!    or of the tier; no task                    Filling: bytes into folios
//!                │                                │
//!                └────> Owner: wants, late, over <┘     ── the driver tells policy
//!
//!   Storage: the backend, the patience, the counters; stat and list, retried
//!   Unclaimed: bodies of first reads, until a request of the task takes them
//! ```
//!
//! *Invariant:* what executes requests knows neither policy's state nor the shard. It tells its
//! [`owner::Owner`] what happened. One attempt is the backend's; whether there is another one is
//! decided here.

pub(crate) mod attempt;
pub(crate) mod carrier;
pub(crate) mod fetch;
pub(crate) mod filling;
pub(crate) mod from_tier;
pub(crate) mod in_place;
pub(crate) mod joint;
pub(crate) mod line;
pub(crate) mod owner;
pub(crate) mod storage;
pub(crate) mod unclaimed;
