//! What storage can do: describe an object, read a range of one version of it, list a prefix.
//!
//! A [`Backend`] makes **one attempt** at each call and classifies failures ([`ErrorKind`]).
//! Retries, deadlines, deduplication and memory belong to the engine. Every backend passes the
//! suite in [`conformance`].
//!
//! ```text
//!  connect.rs ─┬─ cloud.rs  s3, gs, az: opendal signs ─┐
//!              ├─ web.rs    http, https ───────────────┴─ wire.rs: one HTTP client
//!              │                                          response.rs: checks each response
//!              └─ file.rs   directories ────────────── foreread-local: reads of local files
//! ```
//!
//! *Invariant:* the bytes that a body yields belong to the [`Version`] that was asked for, start
//! at the first byte of the range, and never exceed it. A backend that cannot promise this returns
//! an error instead.
//!
//! # Features
//!
//! `s3`, `gcs`, `azblob` and `http` each add the storage of their schemes; all are on by default.
//! Directories need none.

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

pub use connect::{ConnectOptions, Connected, Keys, Place, connect, place, shown};
pub use error::{Error, ErrorKind, Operation};
pub use file::Directory;
pub use foreread_local::lock;
pub use foreread_local::{Buffers, Frames, Mechanism, Queue, Submitter, return_free_memory};
pub use object::{Entry, Key, ListPage, Object, Version};

#[cfg(feature = "wire")]
pub use wire::http_client;

use std::fmt::Debug;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::Stream;
use futures::future::BoxFuture;

/// The bytes of one range, in order, in pieces as the transport delivers them.
///
/// The stream ends after exactly the bytes asked for, or with an error: a truncated body is
/// [`ErrorKind::Transient`]. Dropping it abandons the request.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send>>;

/// What a backend's storage can and cannot do; the engine and the front doors adapt to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Capabilities {
    /// The storage itself checks the version of each read (If-Match); otherwise the backend
    /// compares it afterwards.
    pub conditional_read: bool,
    /// [`Backend::list`] works.
    pub list: bool,
    /// [`Backend::list_after`] and [`Backend::list_below`] work, and listings are in key order.
    pub list_after: bool,
    /// A directory exists without anything in it: to list one that does not exist is an error.
    pub directories: bool,
    /// Ranges are honoured. If not, the engine has to read objects from the start.
    pub range: bool,
    /// The storage is a disk, which serves no request while its arm moves: few large requests are
    /// better than many at a time.
    pub rotational: bool,
    /// [`Backend::read_current`] works.
    pub read_current: bool,
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

    /// Whether a directory exists without anything in it.
    #[must_use]
    pub fn with_directories(mut self, directories: bool) -> Self {
        self.directories = directories;
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

    /// Whether [`Backend::read_current`] works.
    #[must_use]
    pub fn with_read_current(mut self, read_current: bool) -> Self {
        self.read_current = read_current;
        self
    }
}

/// An object that was read before anything was known of it.
pub struct Current {
    /// The object, at the version that its bytes are of: as [`Backend::stat`] has it.
    pub object: Object,
    /// Where the bytes lie: what was asked for, as far as the object reaches.
    pub range: Range<u64>,
    /// The bytes of `range`.
    pub body: Body,
}

impl Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current").field("object", &self.object).field("range", &self.range).finish_non_exhaustive()
    }
}

/// Storage behind the engine. Object safe; all threads share one value.
pub trait Backend: Send + Sync + 'static {
    /// A short name of the storage for messages: scheme and root, never a secret.
    fn describe(&self) -> String;

    /// What tells this storage from every other one, for copies that are kept: with equal
    /// identities, a version of a key is the same object. Never a secret.
    fn identity(&self) -> String {
        self.describe()
    }

    /// What this storage can do.
    fn capabilities(&self) -> Capabilities;

    /// Describes one object. [`ErrorKind::NotFound`] if there is none under exactly this key.
    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>>;

    /// Reads `range` (bytes, not empty, within the object) of `version` of `key`.
    ///
    /// The future resolves when the response's head has arrived and was verified: status, length,
    /// range, and version. [`ErrorKind::Changed`] when the object no longer has that version.
    fn read<'a>(&'a self, key: &'a Key, version: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>>;

    /// Reads `range` (bytes, not empty) of whatever version of `key` is the current one, and tells
    /// which that is: one request does what [`Backend::stat`] and [`Backend::read`] do.
    /// [`ErrorKind::NotFound`] if there is no object under exactly this key. An object that ends
    /// before `range` begins, an empty one too, is an error of another kind: it is described by
    /// [`Backend::stat`].
    ///
    /// Needs [`Capabilities::read_current`]; [`ErrorKind::Unsupported`] without it, and where an
    /// answer does not tell the version.
    fn read_current<'a>(&'a self, key: &'a Key, range: Range<u64>) -> BoxFuture<'a, Result<Current, Error>> {
        let message = "this storage describes objects before it reads them";
        let error = Error::new(ErrorKind::Unsupported, Operation::Read, key.as_str(), message);
        futures::future::ready(Err(error.with_extent(range))).boxed()
    }

    /// Lists one page of the direct children of `prefix` (empty, or ending in `/`), in the
    /// storage's order.
    ///
    /// `continuation` comes from the page before, `None` for the first. A prefix without children
    /// gives an empty page; [`ErrorKind::NotFound`] where directories exist by themselves
    /// ([`Capabilities::directories`]) and this one does not.
    fn list<'a>(&'a self, prefix: &'a str, continuation: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>>;

    /// Lists one page of the direct children of `prefix` whose keys come after `after`, which is
    /// any text that begins with `prefix`. One child that does not come after it may be among
    /// them.
    ///
    /// Needs [`Capabilities::list_after`]; [`ErrorKind::Unsupported`] without it.
    fn list_after<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        let _ = after;
        let message = "this storage lists from the start only";
        futures::future::ready(Err(Error::new(ErrorKind::Unsupported, Operation::List, prefix, message))).boxed()
    }

    /// Lists one page of all objects, at any depth, whose keys begin with `prefix` and come after
    /// `after`, in key order. `after` itself may be among them.
    ///
    /// Needs [`Capabilities::list_after`]; [`ErrorKind::Unsupported`] without it.
    fn list_below<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        let _ = after;
        let message = "this storage lists directory by directory only";
        futures::future::ready(Err(Error::new(ErrorKind::Unsupported, Operation::List, prefix, message))).boxed()
    }

    /// Memory that it keeps from one request to the next, in bytes, beside connections.
    fn kept_bytes(&self) -> u64 {
        0
    }

    /// It keeps no more than so many bytes from now on, or what one listing needs.
    fn keep_at_most(&self, bytes: u64) {
        let _ = bytes;
    }

    /// The object for reads in place, without a request to a server; `None` where each read is a
    /// request.
    fn positioned(&self, object: &Object) -> Option<Arc<dyn Positioned>> {
        let _ = object;
        None
    }

    /// The submitter of such reads.
    fn submission(&self) -> Option<&Submitter> {
        None
    }
}

/// Called once, with the result of a read in place.
pub type InPlace = Box<dyn FnOnce(Told) + Send>;

/// The result of a read in place.
#[derive(Debug)]
pub struct Told {
    /// The buffers, full, or the error.
    pub read: Result<Buffers, Error>,
    /// How many other results follow on the same thread, at once.
    pub rest: usize,
}

impl From<Result<Buffers, Error>> for Told {
    /// The result of a read alone.
    fn from(read: Result<Buffers, Error>) -> Self {
        Self { read, rest: 0 }
    }
}

/// One version of an object, read at positions into memory of the caller.
pub trait Positioned: Send + Sync + Debug {
    /// Fills `buffers`, one after the other, from `offset` on, and calls `done`: on this thread if
    /// nothing blocks, otherwise later on another. Never waits: an error may only mean that it
    /// would have had to, and that [`Backend::read`] can do it.
    ///
    /// As with [`Backend::read`], all bytes delivered belong to the version.
    fn read(&self, offset: u64, buffers: Buffers, done: InPlace);
}
