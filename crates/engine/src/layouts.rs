//! Files that say themselves where their parts lie.
//!
//! ```text
//!   a read that has the last bytes of a file ──> look: are they a directory?
//!      ├── no ──────────────────────────────> never again
//!      ├── it is not all in memory ─────────> again with the read that brings its first byte
//!      └── it is ──> decoded ──> policy: an event for each part ──> the read is answered
//!                       ├── a long one: on a thread that may block, beside the answer
//!                       └── it names others, one a stripe: all are read, beside the answer
//! ```
//!
//! What a reader asks for after a directory, it asks for with what the directory says. So policy
//! knows that before the read is answered, unless it takes long to decode.
//!
//! *Invariants:* no request is made for the directory of a file: its program asks for it. Once it
//! has, those of stripes are asked for, which its program reads one after the other. A file
//! without one costs a comparison for each read.
//!
//! The file knows no format (`foreread_layout`). Source: docs/decisions/0094, 0114.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use foreread_layout::{Chunk, Layout, Stripes, look};
use foreread_policy::{Chunks, Event, Extent, FileId};
use futures::future::try_join_all;

use crate::driver::Driver;
use crate::file::File;
use crate::pages::opened::Opened;
use crate::pages::table::Lookup;

impl Driver {
    /// A read has brought the byte of `file` that tells where its parts lie.
    pub(crate) fn look_at_layout(self: &Arc<Self>, file: &File) {
        let Some(at) = file.opened().take_tells_at() else { return };
        let stats = &self.storage.stats;
        let rest = stats.survive("the layout of a file", || self.tell_layout(file, at, AT_ONCE_BYTES_MAX)).flatten();
        let Some(at) = rest else { return };
        let (driver, file) = (Arc::clone(self), file.clone());
        self.runtime.spawn_blocking(move || {
            let stats = &driver.storage.stats;
            stats.survive("the layout of a file", || driver.tell_layout(&file, at, usize::MAX));
        });
    }

    /// Tells policy where the parts of a file lie, if its bytes from `at` on say so. Returns from
    /// where on they do, if those are more than `most`.
    fn tell_layout(self: &Arc<Self>, file: &File, mut at: u64, most: usize) -> Option<u64> {
        let (opened, size) = (file.opened(), file.size());
        loop {
            let needed = (size - at) as usize;
            if needed > most {
                return Some(at);
            }
            let pages = match opened.table.look_up(at, needed) {
                Lookup::Present(pages) if pages.is_resident() => pages,
                Lookup::Present(_) | Lookup::Absent => {
                    opened.tells_at(at);
                    return None;
                }
            };
            let mut end = vec![0; needed];
            pages.copy_to(&mut end);
            match look(&end, size) {
                Layout::Needs(bytes) if bytes > needed as u64 => at = size - bytes,
                Layout::Unknown | Layout::Needs(_) => {
                    opened.is_unknown();
                    return None;
                }
                Layout::Stripes(stripes) => {
                    self.look_at_stripes(file.clone(), stripes, at);
                    return None;
                }
                Layout::Chunks(chunks) => {
                    let known = Chunks::of(chunks.iter().map(|chunk| chunk.bytes.end - chunk.bytes.start));
                    self.tell_parts(opened, known, chunks.iter().map(|chunk| of_chunk(opened.id, chunk)));
                    return None;
                }
                Layout::Members(members) => {
                    let member = |bytes| Event::Member { file: opened.id, extent: pages_of(bytes) };
                    self.tell_parts(opened, Chunks::Pieces, members.iter().map(member));
                    return None;
                }
            }
        }
    }

    /// Reads the footers of all stripes of `file`, which stays open for as long, and tells policy
    /// what they say. Where one cannot be read, the next read of the byte at `at` tries again.
    fn look_at_stripes(self: &Arc<Self>, file: File, stripes: Stripes, at: u64) {
        let driver = Arc::clone(self);
        self.runtime.spawn(async move {
            let footers = stripes.footers().map(|footer| file.read_unseen(footer.start, footer.end));
            let Ok(footers) = try_join_all(footers).await else { return file.opened().tells_at(at) };
            let decode = move || {
                let stats = &driver.storage.stats;
                stats.survive("the layout of a file", || {
                    let opened = file.opened();
                    match stripes.chunks(footers.iter().map(|footer| &footer[..])) {
                        Some(chunks) => {
                            let chunks = chunks.iter().map(|chunk| of_chunk(opened.id, chunk));
                            driver.tell_parts(opened, Chunks::Pieces, chunks);
                        }
                        None => opened.is_unknown(),
                    }
                });
            };
            // It ends with the runtime.
            let _ = tokio::task::spawn_blocking(decode).await;
        });
    }

    /// Tells policy the `parts` of a file, of which this is `known`.
    fn tell_parts(self: &Arc<Self>, opened: &Opened, known: Chunks, mut parts: impl Iterator<Item = Event>) {
        if known == Chunks::Pieces {
            self.enter(|shard| self.tell(shard, Event::Parts { file: opened.id }));
        }
        while let Some(first) = parts.next() {
            self.enter(|shard| {
                for part in iter::once(first).chain(parts.by_ref().take(PARTS_AT_ONCE - 1)) {
                    self.tell(shard, part);
                }
            });
        }
        opened.has(known);
        if known.fit_a_window() {
            *self.latest_chunks.lock() = Some(known);
        }
    }
}

/// What policy is told of a chunk.
fn of_chunk(file: FileId, chunk: &Chunk) -> Event {
    Event::Chunk { file, extent: pages_of(&chunk.bytes), group: chunk.group, column: chunk.column }
}

fn pages_of(bytes: &Range<u64>) -> Extent {
    Extent::of_bytes(bytes.start, bytes.end - bytes.start)
}

/// The longest directory that is decoded before the read is answered that brings it, in bytes: 64
/// KiB. Lower: the first reads of more files are guessed. Higher: such a read waits for longer.
/// Source: chosen here; about .3 ms.
const AT_ONCE_BYTES_MAX: usize = 64 << 10;

/// Parts that policy is told of in one go. Lower: the shard is locked more often. Higher: reads
/// wait for it longer. Source: as for pieces of the tier (`driver`).
const PARTS_AT_ONCE: usize = 512;
