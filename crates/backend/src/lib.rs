//! What storage can do: read a range of one version of an object, describe an object, list a prefix.
//!
//! A [`Backend`] makes **one attempt** at each call and classifies what went wrong ([`ErrorKind`]); retrying, deadlines,
//! deduplication and memory belong to the engine. Every backend passes the suite in [`conformance`].
//!
//! ```text
//!  connect.rs ─┬─ cloud.rs  s3, gs, az: opendal signs ─┐
//!              ├─ web.rs    http, https ───────────────┴─ wire.rs: one HTTP client   response.rs: what is believed
//!              └─ file.rs   directories ────────────── foreread-local: reads that nobody waits for
//! ```
//!
//! *Invariant:* bytes that a body yields belong to the [`Version`] that was asked for, start at the first byte of the
//! range, and never exceed it; a backend that cannot promise this returns an error instead.

//!
//! # Features
//!
//! `s3`, `gcs`, `azblob` and `http` each add the storage of their schemes; all are on by default. Directories need none.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "s3", feature = "gcs", feature = "azblob", feature = "http")),
    allow(
        dead_code,
        unreachable_code,
        unused_imports,
        unused_variables,
        reason = "clouds share code of which each uses a part"
    )
)]

#[cfg(feature = "cloud")]
mod cloud;
pub mod conformance;
mod connect;
mod error;
mod file;
mod object;
#[cfg(feature = "wire")]
mod response;
#[cfg(feature = "http")]
mod web;
#[cfg(feature = "wire")]
mod wire;

pub use connect::{ConnectOptions, Connected, connect, shown};
pub use error::{Error, ErrorKind, Operation};
pub use file::Directory;
pub use foreread_local::{Buffers, Frames, Mechanism, Queue, Submitter};
pub use object::{Entry, Key, ListPage, Object, Version};

use std::fmt::Debug;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::Stream;
use futures::future::BoxFuture;

/// The bytes of one range, in order, in pieces of whatever size the transport delivers.
///
/// The stream ends after exactly the bytes asked for, or with an error: a truncated body is [`ErrorKind::Transient`].
/// Dropping it abandons the request.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send>>;

/// What a backend's storage can and cannot do; the engine and the front doors adapt to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Capabilities {
    /// Ranges are read on condition of the version on the storage's side (If-Match), not only compared afterwards.
    pub conditional_read: bool,
    /// [`Backend::list`] works.
    pub list: bool,
    /// [`Backend::list_after`] and [`Backend::list_below`] work, and listings are in the order of their keys.
    pub list_after: bool,
    /// Ranges are honoured; where false the engine must read objects from the start.
    pub range: bool,
    /// It is on a disk, whose arm serves nobody while it moves: fewer and larger requests are worth more than many at a time.
    pub rotational: bool,
}

impl Capabilities {
    /// Whether ranges are read on condition of the version.
    #[must_use]
    pub fn with_conditional_read(mut self, conditional_read: bool) -> Self {
        self.conditional_read = conditional_read;
        self
    }

    /// Whether [`Backend::list`] works.
    #[must_use]
    pub fn with_list(mut self, list: bool) -> Self {
        self.list = list;
        self
    }

    /// Whether [`Backend::list_after`] and [`Backend::list_below`] work.
    #[must_use]
    pub fn with_list_after(mut self, list_after: bool) -> Self {
        self.list_after = list_after;
        self
    }

    /// Whether ranges are honoured.
    #[must_use]
    pub fn with_range(mut self, range: bool) -> Self {
        self.range = range;
        self
    }

    /// Whether it is on a disk that turns.
    #[must_use]
    pub fn with_rotational(mut self, rotational: bool) -> Self {
        self.rotational = rotational;
        self
    }
}

/// Storage behind the engine. Object safe; one value serves every thread.
pub trait Backend: Send + Sync + 'static {
    /// A short name of the storage for messages: scheme and root, never a secret.
    fn describe(&self) -> String;

    /// What this storage can do.
    fn capabilities(&self) -> Capabilities;

    /// Describes one object. [`ErrorKind::NotFound`] if there is none under exactly this key.
    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>>;

    /// Reads `range` (bytes, not empty, within the object) of `version` of `key`.
    ///
    /// The future resolves when the response's head has arrived and was verified: status, length, range, and version.
    /// [`ErrorKind::Changed`] when the object no longer has that version.
    fn read<'a>(&'a self, key: &'a Key, version: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>>;

    /// Lists one page of the direct children of `prefix` (empty, or ending in `/`), in the storage's order.
    ///
    /// `continuation` comes from the page before, `None` for the first. A prefix without children gives an empty page.
    fn list<'a>(&'a self, prefix: &'a str, continuation: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>>;

    /// Lists one page of the direct children of `prefix` whose keys come after `after`, which is any text that begins with `prefix`. One that
    /// is not after it may come with them. Where [`Capabilities::list_after`] says so; [`ErrorKind::Unsupported`] elsewhere.
    fn list_after<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        let _ = after;
        let message = "this storage lists from the start only";
        futures::future::ready(Err(Error::new(ErrorKind::Unsupported, Operation::List, prefix, message))).boxed()
    }

    /// Lists one page of all objects whose keys begin with `prefix` and come after `after`, in the order of their keys, however many
    /// directories lie between. `after` itself may come with them. Where [`Capabilities::list_after`] says so; [`ErrorKind::Unsupported`] elsewhere.
    fn list_below<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        let _ = after;
        let message = "this storage lists directory by directory only";
        futures::future::ready(Err(Error::new(ErrorKind::Unsupported, Operation::List, prefix, message))).boxed()
    }

    /// The same object as something that is read in place, without a request of its own; `None` where reading is a request.
    fn positioned(&self, object: &Object) -> Option<Arc<dyn Positioned>> {
        let _ = object;
        None
    }

    /// What carries such reads.
    fn submission(&self) -> Option<&Submitter> {
        None
    }
}

/// Told what has become of a read in place, once.
pub type InPlace = Box<dyn FnOnce(Told) + Send>;

/// What has become of it.
#[derive(Debug)]
pub struct Told {
    /// The buffers, full, or why they are not.
    pub read: Result<Buffers, Error>,
    /// How many other reads are told of on the same thread at once, after this one.
    pub rest: usize,
}

impl From<Result<Buffers, Error>> for Told {
    /// Of one alone.
    fn from(read: Result<Buffers, Error>) -> Self {
        Self { read, rest: 0 }
    }
}

/// One version of an object that is read at positions, into memory that the caller gives.
pub trait Positioned: Send + Sync + Debug {
    /// Fills `buffers`, one after the other, from `offset` on, and calls `done`: at once on this thread if nothing blocks, else later
    /// from another. Never waits; an error may mean no more than that it would have had to, and that [`Backend::read`] can do it.
    ///
    /// The rules of [`Backend::read`] hold: what is delivered belongs to the version, or is not delivered.
    fn read(&self, offset: u64, buffers: Buffers, done: InPlace);
}
