//! The storage: a backend, how long it is waited for, and what it has been asked.
//!
//! Operations that bring no pages (stat, list) are made and retried here; reads are tasks of their
//! own (`fetch.rs`, `in_place.rs`).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use foreread_backend::{Backend, Error as BackendError, Key, ListPage, Object};
use tokio::time::Instant;

use crate::error::Error;
use crate::numbers::{STEP, mixed};
use crate::options::Patience;
use crate::planted::Planted;
use crate::requests::attempt::{Backoff, attempt};
use crate::stats::Counters;

/// A backend, and how it is asked.
pub(crate) struct Storage {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) patience: Patience,
    pub(crate) stats: Arc<Counters>,
    pub(crate) planted: Arc<Planted>,
    /// From it follow the waits between attempts.
    seed: AtomicU64,
}

/// Where a page of a listing begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cursor {
    Start,
    /// Where the page before ended, in the storage's words.
    Token(String),
    /// After this key.
    After(String),
}

impl Storage {
    pub(crate) fn new(backend: Arc<dyn Backend>, patience: Patience, planted: Arc<Planted>, seed: u64) -> Self {
        Self { backend, patience, stats: Arc::default(), planted, seed: AtomicU64::new(seed) }
    }

    /// The waits of an operation that began at `began`, unlike those of the others.
    pub(crate) fn backoff(&self, began: Instant) -> Backoff {
        Backoff::new(began, self.patience.total, mixed(self.seed.fetch_add(STEP, Relaxed)))
    }

    /// Describes an object.
    pub(crate) async fn stat(&self, key: &Key) -> Result<Object, Error> {
        self.stats.stats.fetch_add(1, Relaxed);
        self.retry("stat", key.as_str(), || self.backend.stat(key)).await
    }

    /// One page of the direct children of `prefix`.
    pub(crate) async fn list(&self, prefix: &str, cursor: &Cursor) -> Result<ListPage, Error> {
        self.stats.lists.fetch_add(1, Relaxed);
        tracing::debug!(prefix, ?cursor, "listing");
        let list = || match cursor {
            Cursor::Start => self.backend.list(prefix, None),
            Cursor::Token(token) => self.backend.list(prefix, Some(token)),
            Cursor::After(after) => self.backend.list_after(prefix, after),
        };
        self.retry("list", prefix, list).await
    }

    /// One page of the subtree of `prefix`, after the key `after`. No reader waits for it, so
    /// there is one attempt.
    pub(crate) async fn list_below(&self, prefix: &str, after: &str) -> Result<ListPage, Error> {
        self.stats.lists.fetch_add(1, Relaxed);
        tracing::debug!(prefix, after, "listing a subtree");
        let list = self.backend.list_below(prefix, after);
        attempt(self.patience.first_byte, "list", prefix, list).await.map_err(|failure| failure.error)
    }

    /// Attempts an operation until it succeeds, it cannot, or patience ends.
    async fn retry<T, A: Future<Output = Result<T, BackendError>>>(
        &self,
        operation: &str,
        object: &str,
        call: impl Fn() -> A,
    ) -> Result<T, Error> {
        let mut backoff = self.backoff(Instant::now());
        loop {
            match attempt(self.patience.first_byte, operation, object, call()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => backoff.wait(failure).await?,
            }
            self.stats.retries.fetch_add(1, Relaxed);
        }
    }
}
