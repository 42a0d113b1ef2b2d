//! Files that say themselves where their parts lie.
//!
//! ```text
//!   a read that has the last bytes of a file ──> look: are they a directory?
//!      ├── no ──────────────────────────────> never again
//!      ├── it is not all in memory ─────────> again with the read that brings its first byte
//!      └── it is ──> decoded, on a thread that may block ──> policy: Event::Chunk for each
//! ```
//!
//! *Invariants:* no request is made for a directory: its program asks for it. No reader waits for
//! it to be decoded. A file without one costs a comparison for each read.
//!
//! The file knows no format (`foreread_layout`). Source: docs/decisions/0094.

use std::sync::Arc;

use foreread_layout::{Layout, look};
use foreread_policy::{Event, Extent};

use crate::driver::Driver;
use crate::pages::opened::Opened;
use crate::pages::table::Lookup;

impl Driver {
    /// A read has brought the byte of `opened` that tells where its parts lie.
    pub(crate) fn look_at_layout(self: &Arc<Self>, opened: &Arc<Opened>) {
        let Some(at) = opened.take_tells_at() else { return };
        let (driver, opened) = (Arc::clone(self), Arc::clone(opened));
        self.runtime.spawn_blocking(move || {
            driver.storage.stats.survive("the layout of a file", || driver.tell_layout(&opened, at));
        });
    }

    /// Tells policy where the parts of a file lie, if its bytes from `at` on say so.
    fn tell_layout(self: &Arc<Self>, opened: &Opened, mut at: u64) {
        let size = opened.size();
        loop {
            let needed = (size - at) as usize;
            let found = opened.table.look_up(at, needed);
            let Lookup::Present(pages) = found else { return opened.tells_at(at) };
            if !pages.is_resident() || pages.len() < needed {
                return opened.tells_at(at);
            }
            let mut end = vec![0; needed];
            pages.copy_to(&mut end);
            match look(&end, size) {
                Layout::Needs(bytes) if bytes > needed as u64 => at = size - bytes,
                Layout::Unknown | Layout::Needs(_) => return,
                Layout::Chunks(chunks) => {
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
                    return;
                }
            }
        }
    }
}

/// Chunks that policy is told of in one go. Lower: the shard is locked more often. Higher: reads
/// wait for it longer. Source: as for pieces of the tier (`driver`).
const CHUNKS_AT_ONCE: usize = 512;
