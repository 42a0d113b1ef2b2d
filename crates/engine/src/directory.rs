//! An open directory, and names looked up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use foreread_backend::{Key, Object};
use futures::StreamExt;

use crate::directories::{Chain, EMPTY_MAX, Named, Unknown};
use crate::engine::{Engine, Inner};
use crate::error::{Error, ErrorKind};
use crate::listing::Node;
use crate::name;

/// An open directory: its entries as they come, each in its place, from one listing.
pub struct Directory {
    engine: Arc<Inner>,
    chain: Arc<Chain>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("prefix", &self.chain.listing.prefix()).finish_non_exhaustive()
    }
}

impl Directory {
    /// Waits until the entry at `place` (from 0) has come, or it is known that there is none. Whether there is one.
    ///
    /// Errors: as the storage has them, after retries within [`crate::Patience`]; [`ErrorKind::Io`] for a listing that would never end.
    pub async fn wait(&self, place: u32) -> Result<bool, Error> {
        let ask = || self.engine.directories.read(&self.engine, &self.chain, place);
        ask();
        self.chain.listing.wait(place, ask).await
    }

    /// Calls `visit` with the entries from `place` on that have come: place, name, what it is, and how long that may be believed. Until it
    /// returns `false`.
    pub fn visit(&self, place: u32, mut visit: impl FnMut(u32, &str, Node, Duration) -> bool) {
        let ttl = self.engine.metadata_ttl;
        self.chain
            .listing
            .visit(place, |place, name, node, at| visit(place, name, node, ttl.saturating_sub(at.elapsed())));
    }
}

impl Engine {
    /// Opens the directory of all that begins with `prefix` (empty, or ending in `/`). No I/O is waited for.
    pub fn open_directory(&self, prefix: &str) -> Directory {
        let engine = self.inner();
        Directory { engine: Arc::clone(engine), chain: engine.directories.open(engine, prefix) }
    }

    /// What `name` in `prefix` is: the object of that name, else the prefix. An empty object is taken for the mark of a directory
    /// where something lies below it. Answered by a listing that was asked for at most [`crate::Options::metadata_ttl`] ago; else one request
    /// for a file, two for a directory.
    ///
    /// Errors: [`ErrorKind::NotFound`]; others as the storage has them.
    pub async fn look_up(&self, prefix: &str, name: &str) -> Result<Named, Error> {
        self.on_runtime(self.find(prefix, name)).await
    }

    async fn find(&self, prefix: &str, name: &str) -> Result<Named, Error> {
        if !name::is_possible(name) {
            return Err(Error::not_found("no object can have this name").with_key(&format!("{prefix}{name}")));
        }
        let engine = self.inner();
        let mut known = engine.directories.look_up(engine, prefix, name, false);
        if let Err(unknown) = &known {
            match unknown {
                Unknown::Nothing => {}
                // What goes wrong there is told to whoever reads the directory.
                Unknown::Listing(chain) => _ = chain.listing.wait(0, || chain.go_on(engine, 1)).await,
                // What comes later than this would confirm nothing.
                Unknown::Old(dir, place) => {
                    let settled = engine.directories.settled(*dir, *place);
                    let _ = tokio::time::timeout(engine.metadata_ttl, settled).await;
                }
            }
            if !matches!(unknown, Unknown::Nothing) {
                known = engine.directories.look_up(engine, prefix, name, true);
            }
        }
        match known {
            Ok(Some(named)) => Ok(named),
            Ok(None) => {
                let absent = Error::not_found("the directory has no entry of this name");
                Err(absent.with_key(&format!("{prefix}{name}")))
            }
            Err(_) => self.resolve(&format!("{prefix}{name}")).await,
        }
    }

    /// Whether `object` is known to have been the current version at most [`crate::Options::metadata_ttl`] ago.
    pub fn is_current(&self, object: &Object) -> bool {
        self.inner().directories.is_current(object)
    }

    /// Tells that files will be read in this order, maybe again and again: the first ones are fetched now, the others as readers come by.
    /// How many of them there are.
    ///
    /// Errors: those of listing the directories that they are in, as [`Directory::wait`].
    pub async fn expect(&self, keys: Vec<Key>) -> Result<usize, Error> {
        let prefixes: BTreeSet<String> = keys.iter().map(|key| name::split(key.as_str()).0.to_owned()).collect();
        let list = |prefix: String| {
            let engine = self.clone();
            async move { engine.open_directory(&prefix).wait(u32::MAX).await }
        };
        let listed = prefixes.into_iter().map(list).collect::<Vec<_>>();
        let listed: Vec<_> = futures::stream::iter(listed).buffer_unordered(LISTED_AT_ONCE).collect().await;
        for listed in listed {
            listed?;
        }
        let engine = self.inner();
        Ok(keys.iter().filter(|key| engine.directories.expect(engine, key)).count())
    }

    /// Whether anything lies below `prefix`: the first pages of a listing may be empty.
    async fn has_children(&self, prefix: &str) -> Result<bool, Error> {
        let mut page = self.list(prefix, None).await?;
        for _ in 0..EMPTY_MAX {
            match page.continuation {
                Some(token) if page.entries.is_empty() => page = self.list(prefix, Some(&token)).await?,
                _ => return Ok(!page.entries.is_empty()),
            }
        }
        let text = format!("list {prefix}: the storage answers with empty pages without end");
        Err(Error::new(ErrorKind::Io, text).with_key(prefix))
    }

    /// Asks the storage what `key` is.
    async fn resolve(&self, key: &str) -> Result<Named, Error> {
        let named = |node, believed| Ok(Named { node, believed });
        let object = match self.stat(&Key::new(key)).await {
            Ok(object) if object.version.size > 0 => return named(Node::File(object), Duration::ZERO),
            Ok(object) => Some(object),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let below = format!("{key}/");
        let has_children = match self.has_children(&below).await {
            Ok(has_children) => has_children,
            // Where nothing can be listed there are no directories to find.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::NotFound) => false,
            Err(error) => return Err(error),
        };
        let ttl = self.inner().metadata_ttl;
        match object {
            _ if has_children => named(Node::Directory(below), ttl),
            Some(object) => named(Node::File(object), Duration::ZERO),
            // A directory without children is an object whose key ends in a slash.
            None => self.stat(&Key::new(below.as_str())).await.and_then(|_| named(Node::Directory(below), ttl)),
        }
    }
}

/// Directories that are listed side by side to find the files of an order.
const LISTED_AT_ONCE: usize = 16;
