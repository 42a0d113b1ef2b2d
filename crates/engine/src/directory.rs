//! An open directory, and names looked up.
//!
//! ```text
//!   look_up ── the listing tells ──> answered
//!      ├── the listing, or the file, is in flight ──> waits for it, then asks again
//!      └── otherwise ──> the storage: stat, and a listing of what lies below, at once or after
//!                        it; one that is whole is the directory's listing from then on
//!
//!   look_up_to_read ── nothing tells ──> the read itself, whose answer tells what the name is
//!      └── otherwise ──> look_up
//! ```
//!
//! A storage may allow reads of names that it does not list. Whether something lies below such a
//! name cannot be found out, so unless an object has the name, it is taken for a directory: names
//! below it can be looked up, and reading it fails.

use std::collections::BTreeSet;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use foreread_backend::lock::Mutex;
use foreread_backend::{Key, ListPage, Object};
use foreread_policy::PAGE_BYTES;
use futures::StreamExt;
use futures::future::{Either, select};
use tokio::time::Instant;

use crate::context::entered;
use crate::directories::chain::{Chain, EMPTY, EMPTY_MAX, endless};
use crate::directories::driver::Directories;
use crate::directories::listing::{Node, Standing};
use crate::directories::marks::Last;
use crate::directories::name;
use crate::directories::table::{Named, Unknown};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::requests::storage::FirstRead;
use crate::requests::unclaimed::KEPT_FOR;

/// An open directory: its entries as they come, each in its place, from one listing. A reader that
/// goes back, or is slow, may find that entries are gone where memory is short: they are listed
/// again for it, from the last one that it was given on.
pub struct Directory {
    directories: Arc<Directories>,
    reading: Mutex<Reading>,
}

/// How far an open directory has been read.
struct Reading {
    chain: Arc<Chain>,
    /// The place of the first entry below.
    first: u32,
    /// The last names that were given out, one after the other; where each one ends, and whether
    /// it is of a directory.
    names: String,
    ends: Vec<(u32, bool)>,
}

impl Reading {
    /// The entry before `place`, if it was given out lately.
    fn last(&self, place: u32) -> Option<Last> {
        let at = place.checked_sub(self.first)?.checked_sub(1)? as usize;
        let &(end, directory) = self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        Some(Last { name: self.names[start as usize..end as usize].to_owned(), directory })
    }

    /// An entry has been given out.
    fn given(&mut self, place: u32, name: &str, directory: bool) {
        if place != self.first + self.ends.len() as u32 {
            self.first = place;
            self.names.clear();
            self.ends.clear();
        }
        if self.ends.len() == 2 * LAST_MAX {
            let (end, _) = self.ends[LAST_MAX - 1];
            self.names.drain(..end as usize);
            self.ends.drain(..LAST_MAX);
            self.ends.iter_mut().for_each(|(other, _)| *other -= end);
            self.first += LAST_MAX as u32;
        }
        self.names.push_str(name);
        self.ends.push((self.names.len() as u32, directory));
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("prefix", &self.chain().listing.prefix()).finish_non_exhaustive()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.directories.close(&self.chain());
    }
}

impl Directory {
    /// Memory that an open directory takes, in bytes: itself, and the last names that were given
    /// out, if they are not longer than most. What it keeps of listings is charged by itself.
    pub const BYTES: u64 = (size_of::<Self>() + LAST_MAX * (size_of::<(u32, bool)>() + NAME_BYTES)) as u64;

    /// Waits until the entry at `place` (from 0) has come, or it is known that there is none.
    /// Returns whether there is one.
    ///
    /// Errors: as the storage has them, after retries within [`crate::Patience`];
    /// [`ErrorKind::Io`] for a listing that would never end.
    pub async fn wait(&self, place: u32) -> Result<bool, Error> {
        entered(self.directories.driver.runtime.clone(), self.wait_for(place)).await
    }

    async fn wait_for(&self, place: u32) -> Result<bool, Error> {
        loop {
            let chain = self.chain();
            let ask = || self.directories.read(&chain, place);
            ask();
            match chain.listing.wait(place, ask).await? {
                Standing::There => return Ok(true),
                Standing::Beyond => return Ok(false),
                Standing::Gone => self.resume(&chain, place),
            }
        }
    }

    /// Waits until something is known of the entries: that there is one, or none. Tells policy of
    /// no read.
    ///
    /// Errors: as [`Directory::wait`].
    pub async fn begun(&self) -> Result<bool, Error> {
        let chain = self.chain();
        let begun = chain.listing.wait(0, || self.directories.go_on(&chain, 1));
        let standing = entered(self.directories.driver.runtime.clone(), begun).await?;
        Ok(standing != Standing::Beyond)
    }

    /// Whether the first entry has come.
    pub fn has_begun(&self) -> bool {
        self.chain().listing.has(0)
    }

    /// Calls `visit` with the entries from `place` on that have come, until it returns `false`:
    /// place, name, what the name stands for, and how long that may be believed. Returns `false`,
    /// without a call, if the entry at `place` is gone meanwhile: then [`Directory::wait`] for it
    /// again.
    #[must_use]
    pub fn visit(&self, place: u32, mut visit: impl FnMut(u32, &str, Node, Duration) -> bool) -> bool {
        let ttl = self.directories.ttl();
        let reading = &mut *self.reading.lock();
        let chain = Arc::clone(&reading.chain);
        chain.listing.visit(place, |place, name, node, at| {
            reading.given(place, name, matches!(node, Node::Directory(_)));
            visit(place, name, node, ttl.saturating_sub(at.elapsed()))
        })
    }

    fn chain(&self) -> Arc<Chain> {
        Arc::clone(&self.reading.lock().chain)
    }

    /// The entry at `place` is gone from `chain`: goes on with a listing that has it.
    fn resume(&self, chain: &Arc<Chain>, place: u32) {
        let reading = &mut *self.reading.lock();
        if Arc::ptr_eq(&reading.chain, chain) {
            reading.chain = self.directories.resume(chain, place, reading.last(place));
        }
    }
}

impl Engine {
    /// Opens the directory of all keys that begin with `prefix` (empty, or ending in `/`). Does
    /// not wait for storage.
    pub fn open_directory(&self, prefix: &str) -> Directory {
        let directories = self.directories();
        let (chain, first, names, ends) = (directories.open(prefix), 0, String::new(), Vec::new());
        let reading = Mutex::new(Reading { chain, first, names, ends });
        Directory { directories: Arc::clone(directories), reading }
    }

    /// What `name` in `prefix` is: the object of that name, else the prefix. An empty object with
    /// something below it is the mark of a directory. Answered by a listing that was requested at
    /// most [`crate::Options::metadata_ttl`] ago; else by one request for a file, two for a
    /// directory. Of the first name in a directory both are asked at once. A directory whose
    /// listing is one page is then known. A name that is no object, and below which the storage
    /// forbids a listing, is a directory.
    ///
    /// Errors: [`ErrorKind::NotFound`]; others as the storage has them.
    pub async fn look_up(&self, prefix: &str, name: &str) -> Result<Named, Error> {
        self.on_runtime(self.find(prefix, name)).await
    }

    /// The same of a name of which the bytes `range` are about to be read, if it is an object.
    /// Where nothing is known of the name, they are asked for at once, and the answer tells what
    /// it is: one request, not two. The next read of that version takes them. What is no object
    /// is then [`ErrorKind::NotFound`], also where it is a directory.
    ///
    /// ```
    /// # use foreread_backend::{ConnectOptions, connect};
    /// # use foreread_engine::{Engine, Error, Node, Options};
    /// # async fn read(engine: &Engine) -> Result<(), Error> {
    /// if let Node::File(object) = engine.look_up_to_read("a/", "b", 0..u64::MAX).await?.node {
    ///     let bytes = engine.open(&object).read_at(0, object.version.size as usize).await?;
    ///     println!("{} bytes", bytes.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: as [`Engine::look_up`].
    pub async fn look_up_to_read(&self, prefix: &str, name: &str, range: Range<u64>) -> Result<Named, Error> {
        self.on_runtime(self.find_to_read(prefix, name, range)).await
    }

    async fn find_to_read(&self, prefix: &str, name: &str, range: Range<u64>) -> Result<Named, Error> {
        let key = Key::new(format!("{prefix}{name}"));
        let storage = &self.driver().storage;
        // What is resident of it would be fetched again.
        let may_be_first = !range.is_empty()
            && name::is_possible(name)
            && storage.reads_first()
            && !self.driver().enter(|shard| shard.files.knows(&key));
        let bytes = may_be_first.then(|| self.directories().reads_at_once(prefix, name)).flatten();
        let Some(bytes) = bytes else { return self.find(prefix, name).await };
        let start = range.start - range.start % PAGE_BYTES;
        let end = range.end.min(range.start.saturating_add(bytes));
        let end = end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(end);
        let answer = storage.read_first(&key, start..end).await;
        if !matches!(answer, FirstRead::Busy) {
            self.directories().answered_by_name(matches!(answer, FirstRead::Object(..)));
        }
        match answer {
            FirstRead::Object(object, asked) => {
                let (driver, key) = (Arc::downgrade(self.driver()), key);
                self.runtime().spawn(async move {
                    tokio::time::sleep(KEPT_FOR).await;
                    if let Some(driver) = driver.upgrade() {
                        driver.storage.unclaimed.give_up(&key, asked);
                    }
                });
                Ok(Named { node: Node::File(object), believed: Duration::ZERO })
            }
            FirstRead::Absent(error) => Err(error),
            FirstRead::Failed => self.resolve(key.as_str(), false).await,
            FirstRead::Busy => self.find(prefix, name).await,
        }
    }

    async fn find(&self, prefix: &str, name: &str) -> Result<Named, Error> {
        if !name::is_possible(name) {
            return Err(Error::not_found("no object can have this name").with_key(&format!("{prefix}{name}")));
        }
        let directories = self.directories();
        let mut known = directories.look_up(prefix, name, false);
        if let Err(unknown) = &known {
            match unknown {
                Unknown::Nothing => {}
                // An error there is told to the readers of the directory. To ask for the name
                // after that is patience once more: only for a look-up that has not waited long.
                Unknown::Listing(chain) => {
                    let (start, began) = (chain.listing.start(), Instant::now());
                    let longest = self.driver().storage.patience.first_byte;
                    let listed = chain.listing.wait(start, || directories.go_on(chain, 1)).await;
                    if let Err(error) = listed
                        && error.is_retryable()
                        && began.elapsed() > longest
                    {
                        return Err(error);
                    }
                }
                // A file that comes later than this confirms nothing.
                Unknown::Old(dir, place) => {
                    let settled = directories.settled(*dir, *place);
                    let _ = tokio::time::timeout(directories.ttl(), settled).await;
                }
                Unknown::Absent(dir, places) => {
                    let settled = async {
                        for &place in places {
                            directories.settled(*dir, place).await;
                        }
                    };
                    let _ = tokio::time::timeout(directories.ttl(), settled).await;
                }
            }
            if !matches!(unknown, Unknown::Nothing) {
                known = directories.look_up(prefix, name, true);
            }
        }
        match known {
            Ok(Some(named)) => Ok(named),
            Ok(None) => {
                let absent = Error::not_found("the directory has no entry of this name");
                Err(absent.with_key(&format!("{prefix}{name}")))
            }
            Err(_) => {
                let at_once = directories.may_ask_at_once(prefix);
                self.resolve(&format!("{prefix}{name}"), at_once).await
            }
        }
    }

    /// Whether `object` is known to have been the current version at most
    /// [`crate::Options::metadata_ttl`] ago.
    pub fn is_current(&self, object: &Object) -> bool {
        self.directories().is_current(object)
    }

    /// Names were changed by this program, or by one that it knows of: what was learned of names
    /// before this moment is not believed any more, however long
    /// [`crate::Options::metadata_ttl`] is. Contents stay: they belong to versions. Listings that
    /// are being read go on as they are.
    pub fn forget_names(&self) {
        self.directories().forget_names();
    }

    /// Tells that files will be read in this order, maybe repeatedly: the first ones are fetched
    /// now, the others as the reads advance. An order that is told in several calls goes on until
    /// reads have begun. Returns how many of the files exist.
    ///
    /// Errors: those of listing the directories that they are in, as [`Directory::wait`].
    pub async fn expect(&self, keys: Vec<Key>) -> Result<usize, Error> {
        self.on_runtime(self.find_all(keys, None, true)).await
    }

    /// As [`Engine::expect`], but the order is one of its own: it is followed beside others. At
    /// most `ahead_bytes` of its files that were not opened yet are fetched ahead of the reads, if
    /// that is given, and a part of the budget ([`foreread_policy::DirShares`]).
    ///
    /// Errors: as [`Engine::expect`].
    pub async fn expect_ahead(&self, keys: Vec<Key>, ahead_bytes: Option<u64>) -> Result<usize, Error> {
        self.on_runtime(self.find_all(keys, ahead_bytes, false)).await
    }

    async fn find_all(&self, keys: Vec<Key>, ahead_bytes: Option<u64>, continues: bool) -> Result<usize, Error> {
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
        for key in &keys {
            self.directories().heard(key).await;
        }
        // Others read in between: each part takes the lock by itself.
        let places = keys.chunks(LOOKED_UP_AT_ONCE).map(|keys| self.directories().places(keys));
        let places = places.collect::<Vec<_>>().concat();
        self.directories().expect(&places, ahead_bytes, continues);
        Ok(places.len())
    }

    /// Takes back all that [`Engine::expect`] was told: no more files are fetched for it. Those
    /// that were fetched stay until their room is needed.
    pub fn expect_none(&self) {
        self.directories().expect_none();
    }

    /// What lies below `prefix`, and when that was asked for: the first page that has entries, or
    /// the last one.
    async fn first_page(&self, prefix: &str) -> Page {
        let requested = Instant::now();
        let mut page = self.list(prefix, None).await?;
        for _ in 0..EMPTY_MAX {
            match page.continuation {
                Some(token) if page.entries.is_empty() => page = self.list(prefix, Some(&token)).await?,
                _ => return Ok((page, requested)),
            }
        }
        Err(endless(prefix, EMPTY))
    }

    /// Asks the storage for the object `key`, and for what lies `below` it: `at_once`, or if the
    /// object is none that has bytes.
    async fn ask(&self, key: &Key, below: &str, at_once: bool) -> (Result<Object, Error>, Option<Page>) {
        let (describe, list) = (self.stat(key), self.first_page(below));
        let (described, listed, list) = if at_once {
            let mut list = Box::pin(list);
            match select(pin!(describe), list.as_mut()).await {
                Either::Left((described, _)) => (described, None, list),
                Either::Right((listed, describe)) => (describe.await, Some(listed), list),
            }
        } else {
            (describe.await, None, Box::pin(list))
        };
        // S3 forbids to describe a missing object where it forbids to list.
        let may_be_directory = match &described {
            Ok(object) => object.version.size == 0,
            Err(error) => error.kind() == ErrorKind::NotFound || error.is_forbidden(),
        };
        match listed {
            _ if !may_be_directory => (described, None),
            Some(listed) => (described, Some(listed)),
            None => (described, Some(list.await)),
        }
    }

    /// Asks the storage what `key` is.
    async fn resolve(&self, key: &str, at_once: bool) -> Result<Named, Error> {
        let named = |node, believed| Ok(Named { node, believed });
        let (key, below) = (Key::new(key), format!("{key}/"));
        let (object, listed) = match self.ask(&key, &below, at_once).await {
            (object, Some(listed)) => (object, listed),
            (object, None) => return object.and_then(|object| named(Node::File(object), Duration::ZERO)),
        };
        let is_directory = match listed {
            Ok((page, requested)) => {
                let is_directory = !page.entries.is_empty() || self.backend().capabilities().directories;
                if is_directory && page.continuation.is_none() {
                    // What is there is known by the same answer.
                    self.directories().came_whole(&below, page.entries, requested);
                }
                is_directory
            }
            // A storage that cannot list has no directories.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::NotFound) => false,
            Err(error) if error.is_forbidden() => object.is_err(),
            Err(error) => return Err(error),
        };
        let ttl = self.directories().ttl();
        match object {
            _ if is_directory => named(Node::Directory(below), ttl),
            Ok(object) => named(Node::File(object), Duration::ZERO),
            Err(error) if error.is_forbidden() => Err(error),
            // A directory without children is an object whose key ends in a slash.
            Err(_) => self.stat(&Key::new(below.as_str())).await.and_then(|_| named(Node::Directory(below), ttl)),
        }
    }
}

/// A page of a listing, and when it was asked for.
type Page = Result<(ListPage, Instant), Error>;

/// The length of most names, in bytes. Lower: open directories take more than is charged. Higher:
/// fewer names fit beside them.
const NAME_BYTES: usize = 24;

/// The last names that an open directory remembers, at least. The kernel asks for what follows one
/// of them. Lower: a program with a small buffer, whose directory is gone from memory, has entries
/// listed again. Higher: more memory for each open directory.
const LAST_MAX: usize = 128;

/// Directories listed at the same time to find the files of an order. Lower takes longer; higher
/// makes more requests at once.
const LISTED_AT_ONCE: usize = 16;

/// Files of an order that are looked up under one lock. Lower: the lock is taken more often.
/// Higher: readers wait for it.
const LOOKED_UP_AT_ONCE: usize = 1024;
