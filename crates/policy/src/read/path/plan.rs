//! What a read calls for, and which parts of its stream are submitted.

use super::submit::{DEMAND_PAGES_MAX, first_bytes};
use super::{File, ReadPath};
use crate::files::hot_block::{self, FileRead};
use crate::files::streams::{Read, Shown};
use crate::files::window::Part;
use crate::queue::fair_queue::Owner;
use crate::residency::folio::Ahead;
use crate::units::{Class, Extent, FileId, Found, Nanos};

/// What a read calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    /// The next parts of this stream.
    Stream(u64),
    /// What is around it, if anything.
    Random,
}

impl ReadPath {
    pub(super) fn read(&mut self, now: Nanos, file: FileId, extent: Extent, found: Found, marked: bool) {
        self.counters.misses += u64::from(found == Found::Absent);
        self.counters.waits += u64::from(found == Found::InFlight);
        self.counters.marks += u64::from(marked);
        if found != Found::Resident {
            self.promote(file, extent);
        }
        let next = if self.options.readahead { self.observe(now, file, extent, found) } else { Next::Nothing };
        let pages = self.files.get(&file).map_or(0, |f| f.pages);
        // The first part of a stream may hold what the reader waits for: one request then serves both.
        if let Next::Stream(stream) = next {
            self.plan(now, file, stream, extent, pages);
        }
        if found == Found::Absent {
            self.demand(file, extent);
            if next == Next::Random {
                self.read_hot_block(file, extent, pages);
            }
        }
    }

    /// Takes note of a read. Says what it calls for.
    fn observe(&mut self, now: Nanos, file: FileId, extent: Extent, found: Found) -> Next {
        let Some(File { pages, readahead, .. }) = self.files.get_mut(&file) else { return Next::Nothing };
        let file_pages = *pages;
        let (before, skipped) = self.resident.before(file, extent.start, CONTEXT_PAGES_MAX);
        let absent = (found == Found::Absent).then(|| self.resident.next_hole(file, extent)).flatten();
        let (absent, stalled) = (absent.map(|hole| hole.start), found != Found::Resident);
        let (stream, shown) = readahead.observe(now, Read { extent, absent, stalled, before, file_pages, skipped });
        self.counters.streams_forward += u64::from(shown == Shown::Forward);
        self.counters.streams_strided += u64::from(shown == Shown::Strided);
        stream.map_or(Next::Random, Next::Stream)
    }

    /// What is worth having along with a random read.
    fn read_hot_block(&mut self, file: FileId, read: Extent, file_pages: u64) {
        let Some(File { random_pages, .. }) = self.files.get_mut(&file) else { return };
        *random_pages += read.pages();
        if !self.resident.prefers_nearby() {
            return;
        }
        let in_file = FileRead { pages: file_pages, read_pages: self.resident.read_pages(file) };
        let read_in = |extent| self.resident.read_in(file, extent);
        if let Some(block) = hot_block::block(read, in_file, read_in, |pages| self.link.cost_ns(pages)) {
            self.sieve(file, block);
        }
    }

    /// Submits what `block` lacks, with as few requests as there can be: what is resident in between is fetched once more.
    fn sieve(&mut self, file: FileId, block: Extent) {
        let mut from = block.start;
        while let Some(sieve) = self.resident.next_sieve(file, Extent::new(from, block.end)) {
            let left = self.files.get(&file).and_then(|f| f.random_pages.checked_sub(sieve.pages()));
            let Some(left) = left else { return };
            let full = self.requests.is_speculation_full() || !self.resident.admits(sieve);
            if full || !self.make_room(first_bytes(file, sieve), false) {
                return;
            }
            self.submit(file, sieve, Class::Speculative, Some(Ahead::Nearby), None);
            if let Some(f) = self.files.get_mut(&file) {
                f.random_pages = left;
            }
            from = sieve.end;
        }
    }

    /// Submits what `file` lacks, as far as there is room for what nobody waits for.
    pub(super) fn prefetch(&mut self, file: FileId) {
        let Some(&File { pages, .. }) = self.files.get(&file) else { return };
        let mut from = 0;
        while let Some(hole) = self.resident.next_hole(file, Extent::new(from, pages)) {
            let hole = Extent::new(hole.start, hole.end.min(hole.start + DEMAND_PAGES_MAX));
            let full = self.requests.is_speculation_full() || !self.resident.admits(hole);
            if full || !self.make_room(first_bytes(file, hole), false) {
                return;
            }
            self.submit(file, hole, Class::Speculative, Some(Ahead::File), None);
            from = hole.end;
        }
    }

    /// Goes on with a stream of `file` whose next part was held back until now.
    pub(super) fn resume(&mut self, now: Nanos, file: FileId) {
        if let Some(stream) = self.files.get_mut(&file).and_then(|f| f.readahead.due(now)) {
            self.plan_ahead(now, file, stream);
        }
    }

    /// Plans for the streams that had to wait until less is in flight: first whoever has had least of the storage's time.
    pub(super) fn take_turns(&mut self, now: Nanos) {
        while !self.requests.is_speculation_full() {
            let tag = |&(at, &(file, stream)): &(usize, &(FileId, u64))| {
                (self.queue.tag(Owner { file, stream: Some(stream) }), at)
            };
            let Some((at, &(file, stream))) = self.turns.iter().enumerate().min_by_key(tag) else { return };
            self.turns.remove(at);
            self.plan_ahead(now, file, stream);
        }
    }

    /// Submits what `stream` wants next where no reader waits for it.
    fn plan_ahead(&mut self, now: Nanos, file: FileId, stream: u64) {
        if let Some(&File { pages, .. }) = self.files.get(&file) {
            self.plan(now, file, stream, Extent::new(pages, pages), pages);
        }
    }

    /// Submits what `stream` wants next; `read` is what its reader waits for.
    fn plan(&mut self, now: Nanos, file: FileId, stream: u64, read: Extent, file_pages: u64) {
        if self.requests.demanded() >= CROWD && self.files.get(&file).is_some_and(|f| f.readahead.is_new(stream)) {
            // Many wait for their first bytes: what comes after this one's would be in their way.
            return;
        }
        let limits = self.limits(now, file, stream, file_pages);
        let guess = self.files.get(&file).is_some_and(|f| f.readahead.is_guess(stream));
        let ahead = if guess { Ahead::Nearby } else { Ahead::Stream(stream) };
        while let Some(part) = self.files.get_mut(&file).and_then(|f| f.readahead.next_part(now, stream, limits)) {
            if !self.submit_part(file, ahead, part, read) {
                break;
            }
            if let Some(f) = self.files.get_mut(&file) {
                f.readahead.planned(now, stream, part);
            }
        }
    }

    /// Submits what `part` lacks. `false` if there is no room or enough is in flight.
    fn submit_part(&mut self, file: FileId, ahead: Ahead, part: Part, read: Extent) -> bool {
        let mut from = part.extent.start;
        while let Some(hole) = self.resident.next_hole(file, Extent::new(from, part.extent.end)) {
            let class = if hole.overlaps(read) { Class::Demand } else { Class::Speculative };
            if class == Class::Speculative && self.requests.is_speculation_full() {
                if let Ahead::Stream(stream) = ahead
                    && !self.turns.contains(&(file, stream))
                {
                    self.turns.push_back((file, stream));
                }
                return false;
            }
            if !self.resident.admits(hole) || !self.make_room(first_bytes(file, hole), false) {
                return false;
            }
            let mark = matches!(ahead, Ahead::Stream(_)).then(|| part.mark.clamp(hole.start, hole.end - 1));
            self.submit(file, hole, class, Some(ahead), mark);
            from = hole.end;
        }
        true
    }
}

/// Readers that wait at once, from which on a stream that begins is given what it asks for and no more until it reads again. Two hundred
/// that begin together have their first bytes a third sooner; sixteen are no crowd.
const CROWD: usize = 32;

/// How far back pages that were read count as context: the largest window of the kernel's form, 1 MiB.
const CONTEXT_PAGES_MAX: u64 = 256;
