//! Calls, executed by an engine: this process's own, and those of clients.

use std::collections::HashMap;
use std::sync::Arc;

use foreread_backend::lock::Mutex;
use foreread_engine::{Directory, Engine, Error, Node};

use crate::wire::{Call, Reply};

/// Entries of a directory in one answer. Lower: more turns for a large directory. Higher: an
/// answer takes more memory, and delays those behind it.
const ENTRIES_MAX: usize = 2048;

/// Listings that one client may have under way. The oldest one is given up for another: its reader
/// begins anew. Lower: walkers with many threads begin anew. Higher: more memory in the server.
const LISTINGS_MAX: usize = 1024;

/// The directories that one client lists, by its own numbers.
#[derive(Debug, Default)]
pub(crate) struct Listings(Mutex<HashMap<u32, Arc<Directory>>>);

impl Listings {
    /// Opens a directory for `listing`, which begins, or finds the one that goes on.
    fn directory(&self, engine: &Engine, listing: u32, prefix: &str, place: u32) -> Option<Arc<Directory>> {
        let mut open = self.0.lock();
        if let Some(directory) = open.get(&listing) {
            return Some(Arc::clone(directory));
        }
        if place > 0 {
            return None;
        }
        if open.len() >= LISTINGS_MAX
            && let Some(oldest) = open.keys().min().copied()
        {
            open.remove(&oldest);
        }
        let directory = Arc::new(engine.open_directory(prefix));
        open.insert(listing, Arc::clone(&directory));
        Some(directory)
    }

    fn end(&self, listing: u32) {
        let ended = self.0.lock().remove(&listing);
        drop(ended);
    }
}

/// Executes `call`. Those that change what a server knows of a client are not for it.
pub(crate) async fn answer(engine: &Engine, listings: &Listings, call: Call) -> Result<Reply, Error> {
    match call {
        Call::Stat(key) => engine.stat(&key).await.map(Reply::Object),
        Call::LookUp { prefix, name, read: None } => Ok(Reply::Node(engine.look_up(&prefix, &name).await?.node)),
        Call::LookUp { prefix, name, read: Some((start, end)) } => {
            Ok(Reply::Node(engine.look_up_to_read(&prefix, &name, start..end).await?.node))
        }
        Call::Entries { listing, prefix, place } => {
            let Some(directory) = listings.directory(engine, listing, &prefix, place) else { return Ok(Reply::Gone) };
            let entries = entries(&directory, place).await;
            if !matches!(entries, Ok(Reply::Entries { next: Some(_), .. })) {
                listings.end(listing);
            }
            entries
        }
        Call::EndEntries { listing } => {
            listings.end(listing);
            Ok(Reply::Nothing)
        }
        Call::Expect { keys, ahead_bytes } => Ok(Reply::Count(engine.expect_ahead(keys, ahead_bytes).await? as u64)),
        Call::ExpectNone => {
            engine.expect_none();
            Ok(Reply::Nothing)
        }
        Call::Forget => {
            engine.forget_names();
            Ok(Reply::Nothing)
        }
        Call::Stats | Call::Memory(_) => Ok(Reply::Nothing),
    }
}

/// Entries from `place` on: those that have come, up to a bound.
async fn entries(directory: &Directory, mut place: u32) -> Result<Reply, Error> {
    let mut nodes: Vec<Node> = Vec::new();
    while nodes.len() < ENTRIES_MAX {
        if !directory.wait(place).await? {
            return Ok(Reply::Entries { nodes, next: None });
        }
        let mut next = place;
        let visited = directory.visit(place, |at, _, node, _| {
            next = at + 1;
            nodes.push(node);
            nodes.len() < ENTRIES_MAX
        });
        // An entry that is gone again is listed anew; a gap is passed over.
        if visited {
            place = next.max(place + 1);
        }
    }
    Ok(Reply::Entries { nodes, next: Some(place) })
}
