//! Files that say themselves where their parts lie.
//!
//! ```text
//!   a read that has the last bytes of a file ──> look: are they a directory?
//!      ├── no ──────────────────────────────> never again
//!      ├── it is not all there ─────────────> again with the read that brings the first byte
//!      │                                      that is not
//!      └── it is ──> decoded ──> policy: an event for each part ──> the read is answered
//!                       ├── a long one: on a thread that may block, beside the answer
//!                       └── it names others, one a stripe: all are read, beside the answer
//!
//!   the directory of an archive:  |== read ==|== read ==|         |     at: the next byte
//!      a read that has that byte ──> what is there from it on is read, and need not stay
//!      no byte is left ──> policy: an event for each member
//! ```
//!
//! What a reader asks for after a directory, it asks for with what the directory says. So policy
//! knows that before the read is answered, unless it takes long to decode.
//!
//! *Invariants:* no request is made for the directory of a file: its program asks for it. Once it
//! has, those of stripes are asked for, which its program reads one after the other. A file
//! without one costs a comparison for each read. The read that takes the byte that is awaited, and
//! no other, looks; one that came before it was awaited is looked for again.
//!
//! The file knows no format (`foreread_layout`). Source: docs/decisions/0094, 0114, 0129.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use foreread_layout::{Chunk, Directory, Layout, Stripes, TAIL_BYTES, look};
use foreread_policy::{Chunks, Event, Extent, FileId};
use futures::future::try_join_all;

use crate::driver::Driver;
use crate::file::File;
use crate::pages::opened::Opened;
use crate::pages::pinned::Pages;
use crate::shard::Shard;

/// What comes next, after a look.
enum Next {
    /// All is told, or nothing ever will be.
    Nothing,
    /// This byte has to come.
    Byte(u64),
    /// What is there takes longer than a read may wait for it.
    Beside,
}

impl Driver {
    /// A read of `file` has brought `pages`, and with them the byte that was needed to tell where
    /// its parts lie.
    pub(crate) fn look_at_layout(self: &Arc<Self>, file: &File, pages: &Pages) {
        if !file.opened().take_tells_at() {
            return;
        }
        let stats = &self.storage.stats;
        let is_left = stats.survive("the layout of a file", || self.tell_layout(file, AT_ONCE_BYTES_MAX));
        if is_left != Some(true) {
            return;
        }
        // What was read is in no table any more, once no reader holds it and others need the room.
        let (driver, file, pages) = (Arc::clone(self), file.clone(), pages.clone());
        self.runtime.spawn_blocking(move || {
            let stats = &driver.storage.stats;
            stats.survive("the layout of a file", || driver.tell_layout(&file, usize::MAX));
            drop(pages);
        });
    }

    /// Tells policy where the parts of a file lie, as far as its bytes say so that have come.
    /// Returns whether those take longer to decode than `most` bytes.
    fn tell_layout(self: &Arc<Self>, file: &File, most: usize) -> bool {
        let opened = file.opened();
        loop {
            let next = match opened.take_directory() {
                Some(directory) => self.read_directory(opened, directory, most),
                None => self.look_at_end(file, most),
            };
            match next {
                Next::Nothing => return false,
                Next::Beside => return true,
                Next::Byte(at) => opened.tells_at(at),
            }
            // It may have come before that was known.
            let Next::Byte(at) = next else { return false };
            if opened.first_lacking(at, at + 1).is_some() || !opened.take_tells_at() {
                return false;
            }
        }
    }

    /// Looks at the end of a file, as far back as is needed.
    fn look_at_end(self: &Arc<Self>, file: &File, most: usize) -> Next {
        let (opened, size) = (file.opened(), file.size());
        let lacks = |bytes: u64| opened.first_lacking(size - bytes, size);
        let mut bytes = TAIL_BYTES;
        loop {
            if let Some(lacking) = lacks(bytes) {
                return Next::Byte(lacking);
            }
            if bytes > most as u64 {
                return Next::Beside;
            }
            let Some(pages) = opened.resident(size - bytes, size) else { return Next::Byte(size - bytes) };
            let mut end = vec![0; bytes as usize];
            pages.copy_to(&mut end);
            match look(&end, size, opened.object.key.as_str()) {
                Layout::Needs(more) if more > bytes => {
                    // An archive may end with a comment, of which its program has read enough.
                    let there = |&&less: &&u64| bytes < less && less < more && lacks(less).is_none();
                    let less = ENDS_BYTES.iter().find(there).filter(|_| lacks(more).is_some());
                    bytes = less.copied().unwrap_or(more);
                }
                Layout::Unknown | Layout::Needs(_) => {
                    opened.is_unknown();
                    return Next::Nothing;
                }
                Layout::Stripes(stripes) => {
                    self.look_at_stripes(file.clone(), stripes);
                    return Next::Nothing;
                }
                Layout::Chunks(chunks) => {
                    let known = Chunks::of(chunks.iter().map(|chunk| chunk.bytes.end - chunk.bytes.start));
                    self.tell_parts(opened, known, chunks.iter().map(|chunk| of_chunk(opened.id, chunk)));
                    return Next::Nothing;
                }
                Layout::Archive(directory) => {
                    let mut directory = Box::new(directory);
                    directory.keep_more(self.enter(|shard| members_max(shard)));
                    return self.read_directory(opened, directory, most);
                }
            }
        }
    }

    /// Reads the directory of an archive, as far as it has come.
    fn read_directory(self: &Arc<Self>, opened: &Arc<Opened>, mut directory: Box<Directory>, most: usize) -> Next {
        let (mut read, mut held) = (0, directory.memory_bytes());
        while directory.left() > 0 {
            let (start, end) = (directory.at(), directory.at() + directory.left().min(PIECE_BYTES));
            let end = opened.first_lacking(start, end).unwrap_or(end);
            read += (end - start) as usize;
            let next = if read > most { Next::Beside } else { Next::Byte(start) };
            let Some(pages) = (start < end && read <= most).then(|| opened.resident(start, end)).flatten() else {
                opened.keep_directory(directory);
                return next;
            };
            pages.slices().for_each(|piece| directory.read(piece));
            self.hold(opened, &mut directory, &mut held);
        }
        if directory.bytes() > most as u64 {
            opened.keep_directory(directory);
            return Next::Beside;
        }
        let is_cut = directory.is_cut();
        let mut members = directory.members().peekable();
        if members.peek().is_some() {
            let member = |bytes| Event::Member { file: opened.id, extent: pages_of(&bytes) };
            self.tell_parts(opened, Chunks::Pieces, members.map(member));
        } else if is_cut {
            opened.lacks_room();
        } else {
            opened.is_unknown();
        }
        if held > 0 {
            self.enter(|shard| self.tell(shard, Event::Directory { file: opened.id, bytes: 0 }));
        }
        Next::Nothing
    }

    /// What is kept of the `directory` of a file that is read counts as memory; `held` did so far.
    fn hold(self: &Arc<Self>, opened: &Opened, directory: &mut Directory, held: &mut u64) {
        let bytes = directory.memory_bytes();
        if bytes != *held {
            *held = bytes;
            let more = self.enter(|shard| {
                self.tell(shard, Event::Directory { file: opened.id, bytes });
                members_max(shard)
            });
            directory.keep_more(more);
        }
    }

    /// Reads the footers of all stripes of `file`, which stays open for as long, and tells policy
    /// what they say. Where one cannot be read, the next read of the end tries again.
    fn look_at_stripes(self: &Arc<Self>, file: File, stripes: Stripes) {
        let driver = Arc::clone(self);
        self.runtime.spawn(async move {
            let footers = stripes.footers().map(|footer| file.read_unseen(footer.start, footer.end));
            let Ok(footers) = try_join_all(footers).await else {
                return file.opened().tells_at(file.size() - TAIL_BYTES);
            };
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
        let mut has_told = false;
        while let Some(first) = parts.next() {
            let has_room = self.enter(|shard| {
                let has_room = !matches!(first, Event::Member { .. }) || shard.members_max() > 0;
                if has_room {
                    for part in iter::once(first).chain(parts.by_ref().take(PARTS_AT_ONCE - 1)) {
                        self.tell(shard, part);
                    }
                }
                has_room
            });
            if !has_room {
                if !has_told {
                    opened.lacks_room();
                }
                break;
            }
            has_told = true;
        }
        opened.has(known);
        if known.fit_a_window() {
            *self.latest_chunks.lock() = Some(known);
        }
    }
}

/// Of how many more members of an archive there is room for what its directory says, and for what
/// policy is told.
fn members_max(shard: &Shard) -> usize {
    shard.directory_members_max().min(shard.members_max())
}

/// What policy is told of a chunk.
fn of_chunk(file: FileId, chunk: &Chunk) -> Event {
    Event::Chunk { file, extent: pages_of(&chunk.bytes), group: chunk.group, column: chunk.column }
}

fn pages_of(bytes: &Range<u64>) -> Extent {
    Extent::of_bytes(bytes.start, bytes.end - bytes.start)
}

/// The longest directory that is decoded before the read is answered that brings it, in bytes: 128
/// KiB. Lower: the first reads of more files are guessed. Higher: such a read waits for longer.
/// Source: chosen here; about .3 ms for each 64 KiB.
const AT_ONCE_BYTES_MAX: usize = 128 << 10;

/// Parts that policy is told of in one go. Lower: the shard is locked more often. Higher: reads
/// wait for it longer. Source: as for pieces of the tier (`driver`).
const PARTS_AT_ONCE: usize = 512;

/// How much of the end of an archive is looked at where its directory is not found and 64 KiB are
/// not there: the most that is. Lower: an archive with a longer comment is not recognised, if its
/// program does not read all of it. Higher: more is copied. Source: `unzip` reads 8 KiB.
const ENDS_BYTES: [u64; 3] = [32 << 10, 16 << 10, 8 << 10];

/// A piece of a directory that is read at once, 1 MiB. Lower: more look-ups. Higher: more folios
/// are held at a time. Source: chosen here; eight folios.
const PIECE_BYTES: u64 = 1 << 20;
