//! Files that say themselves where their parts lie.
//!
//! ```text
//!   a read that has the last bytes of a file ──> look: are they a directory?
//!      ├── no ──────────────────────────────> never again
//!      ├── it is not all in memory ─────────> again with the read that brings its first byte
//!      └── it is ──> decoded ──> policy: Event::Chunk for each ──> the read is answered
//!                       └── a long one: on a thread that may block, beside the answer
//! ```
//!
//! What a reader asks for after a directory, it asks for with what the directory says. So policy
//! knows that before the read is answered, unless it takes long to decode.
//!
//! *Invariants:* no request is made for a directory: its program asks for it. A file without one
//! costs a comparison for each read.
//!
//! The file knows no format (`foreread_layout`). Source: docs/decisions/0094.

use std::sync::Arc;

use foreread_layout::{Access, Layout, look};
use foreread_policy::{Chunks, Event, Extent};

use crate::driver::Driver;
use crate::pages::opened::Opened;
use crate::pages::table::Lookup;

impl Driver {
    /// A read has brought the byte of `opened` that tells where its parts lie.
    pub(crate) fn look_at_layout(self: &Arc<Self>, opened: &Arc<Opened>) {
        let Some(at) = opened.take_tells_at() else { return };
        let stats = &self.storage.stats;
        let rest = stats.survive("the layout of a file", || self.tell_layout(opened, at, AT_ONCE_BYTES_MAX)).flatten();
        let Some(at) = rest else { return };
        let (driver, opened) = (Arc::clone(self), Arc::clone(opened));
        self.runtime.spawn_blocking(move || {
            let stats = &driver.storage.stats;
            stats.survive("the layout of a file", || driver.tell_layout(&opened, at, usize::MAX));
        });
    }

    /// Tells policy where the parts of a file lie, if its bytes from `at` on say so. Returns from
    /// where on they do, if those are more than `most`.
    fn tell_layout(self: &Arc<Self>, opened: &Opened, mut at: u64, most: usize) -> Option<u64> {
        let size = opened.size();
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
                Layout::Unknown | Layout::Needs(_) => return None,
                Layout::Chunks(chunks, access) => {
                    let lengths = chunks.iter().map(|chunk| chunk.bytes.end - chunk.bytes.start);
                    let known = match access {
                        Access::Whole => Chunks::of(lengths),
                        Access::Pieces => Chunks::Pieces,
                    };
                    opened.has(known);
                    if known.are_held() {
                        *self.latest_chunks.lock() = Some(known);
                    }
                    for chunks in chunks.chunks(CHUNKS_AT_ONCE) {
                        self.enter(|shard| {
                            for chunk in chunks {
                                let len = chunk.bytes.end - chunk.bytes.start;
                                let extent = Extent::of_bytes(chunk.bytes.start, len);
                                let (file, group, column) = (opened.id, chunk.group, chunk.column);
                                self.tell(shard, Event::Chunk { file, extent, group, column });
                            }
                        });
                    }
                    return None;
                }
            }
        }
    }
}

/// The longest directory that is decoded before the read is answered that brings it, in bytes: 64
/// KiB. Lower: the first reads of more files are guessed. Higher: such a read waits for longer.
/// Source: chosen here; about .3 ms.
const AT_ONCE_BYTES_MAX: usize = 64 << 10;

/// Chunks that policy is told of in one go. Lower: the shard is locked more often. Higher: reads
/// wait for it longer. Source: as for pieces of the tier (`driver`).
const CHUNKS_AT_ONCE: usize = 512;
