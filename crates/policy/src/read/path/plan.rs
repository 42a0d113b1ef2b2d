//! What a read calls for, and which parts of its stream are submitted.
//!
//! ```text
//!   read ──> streams ──> Stream: plan its parts ───────────────> demand what is still absent
//!               │          a part: hole by hole, each one request;
//!               │          stops where room or the limit of requests ends
//!               └──────> Random: with the end of the file, if near (tail), or of the short
//!                        member of an archive that begins there (layout)
//!                                              ──> demand its pages
//!                                              ──> hot block: across resident pages
//! ```
//!
//! A file that is not long comes whole with its first read (`files::whole`). The stream plans
//! first, since its first part may hold what the reader waits for: one request then serves both.
//! If the window had come as far as the read, it begins anew at the first page that the read
//! lacks.
//!
//! *Invariants:* a speculative request finds room without evicting unread pages, and fewer than
//! the limit of speculative requests in flight. Hot blocks fetch no more than random reads have.
//!
//! The file does not size parts (`files::window`), and does not pick the block
//! (`files::hot_block`). Source: docs/decisions/0010 (hot blocks), 0013 (crowds), 0015 (streams
//! wait for a free request).

use super::room::first_bytes;
use super::submit::{DEMAND_PAGES_MAX, Wanted};
use super::{File, ReadPath};
use crate::ends::Ends;
use crate::files::hot_block::{self, FileRead};
use crate::files::layout::Layout;
use crate::files::scattered::{Order, Scattered};
use crate::files::streams::Shown;
use crate::files::tail;
use crate::files::whole::{Whole, parts_of};
use crate::files::window::parts::Part;
use crate::files::window::{PART_PAGES_MAX, REQUEST_PAGES_MAX, Read, SKIPPED_READS_MAX};
use crate::queue::fair_queue::Owner;
use crate::read::event::Action;
use crate::residency::folio::Ahead;
use crate::units::{Class, Extent, FileId, Found, Nanos, PAGE_BYTES, ReadId, Records, Source};

/// What is to be fetched after a read, beside its own pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    /// The next parts of this stream.
    Stream(u64),
    /// The rest of the block that it lies in, if that is hot.
    Random,
}

impl ReadPath {
    /// A read that was not a plain hit: fetches what it lacks, and what it calls for.
    pub(super) fn read(&mut self, now: Nanos, read: ReadId, file: FileId, extent: Extent, found: Found, marked: bool) {
        self.counters.misses += u64::from(found == Found::Absent);
        self.counters.waits += u64::from(found == Found::InFlight);
        self.counters.marks += u64::from(marked);
        if found != Found::Resident {
            self.promote(file, extent);
        }
        let next = if self.options.readahead { self.observe(now, file, extent, found) } else { Next::Nothing };
        let pages = self.files.get(&file).map_or(0, |f| f.pages);
        // The first part of a stream may hold what the reader waits for: one request then serves
        // both.
        if let Next::Stream(run) = next
            && Layout::is_run(run)
        {
            self.plan_run(now, file, run, extent, pages);
        } else if let Next::Stream(stream) = next {
            self.read_whole(file, extent, pages, found);
            self.plan(now, file, stream, extent, pages);
        }
        if found == Found::Absent && next == Next::Random {
            self.read_tail(file, extent, pages);
        }
        let is_of_run = matches!(next, Next::Stream(run) if Layout::is_run(run));
        if found == Found::Absent && next != Next::Nothing && !is_of_run {
            self.read_member(file, extent);
        }
        if found != Found::Resident {
            self.wait(read, file, extent);
        }
        if found == Found::Absent && next == Next::Random {
            self.read_hot_block(file, extent, pages);
        }
        if found == Found::Absent && next != Next::Nothing {
            self.read_scattered(file, extent, pages, next);
        }
    }

    /// Takes note of a read, and returns what it calls for.
    fn observe(&mut self, now: Nanos, file: FileId, extent: Extent, found: Found) -> Next {
        if let Some(run) = self.observe_chunks(now, file, extent, found) {
            return Next::Stream(run);
        }
        let room_pages = if self.options.rotational { 0 } else { self.budget.ahead_bytes_max() / PAGE_BYTES };
        let Some(File { pages, readahead, layout, .. }) = self.files.get_mut(&file) else { return Next::Nothing };
        let file_pages = *pages;
        // In a chunk, what was read before the read is of another one, or was fetched for it.
        let is_told = layout.is_some();
        let most = if readahead.closed().is_some() { REOPENED_PAGES } else { CONTEXT_PAGES_MAX };
        let before = if is_told { 0 } else { self.budget.read_before(file, extent.start, most) };
        let near_pages = CONTEXT_PAGES_MAX.max(SKIPPED_READS_MAX * extent.pages());
        let near = Extent::new(extent.start.saturating_sub(near_pages), extent.start);
        let skipped = self.budget.unread_in(file, near);
        let absent = (found == Found::Absent).then(|| self.budget.next_hole(file, extent)).flatten();
        let (absent, stalled) = (absent.map(|hole| hole.start), found != Found::Resident);
        self.streams_bytes -= readahead.bytes();
        let gap_pages_max = if self.options.rotational { 0 } else { self.link.first_byte_gap_pages() };
        let read = Read {
            extent,
            absent,
            stalled,
            before,
            file_pages,
            skipped,
            beside: false,
            gap_pages_max,
            room_pages,
            others_wait: self.waits.has_file(file),
            others_bytes: self.streams_bytes,
        };
        let (stream, shown) = readahead.observe(now, read, |page| self.budget.is_in_flight(file, page));
        self.streams_bytes += readahead.bytes();
        self.counters.streams_forward += u64::from(shown == Shown::Forward);
        self.counters.streams_strided += u64::from(shown == Shown::Strided);
        self.counters.streams_sparse += u64::from(shown == Shown::Sparse);
        if let Some((id, passed)) = stream.and_then(|id| Some((id, readahead.take_passed(id)?))) {
            if readahead.is_backward(id) {
                self.budget.finish_in(file, passed);
            } else {
                self.budget.passed_by(file, id, passed);
            }
        }
        stream.map_or(Next::Random, Next::Stream)
    }

    /// Fetches all of a file with its first read, if that is at its start and the file is not
    /// long.
    fn read_whole(&mut self, file: FileId, read: Extent, file_pages: u64, found: Found) {
        if found != Found::Absent || self.requests.demanded() >= CROWD || !self.budget.is_empty(file) {
            return;
        }
        for part in Whole::parts(read, file_pages) {
            if !self.whole.buys(part) {
                return;
            }
            if self.submit_part(file, Ahead::Whole, Part::plain(part), read).is_err() {
                self.whole.refused(part);
                return;
            }
        }
    }

    /// Fetches a random read together with the end of the file, if that is near.
    fn read_tail(&mut self, file: FileId, read: Extent, file_pages: u64) {
        if let Some(extent) = tail::with_end(read, file_pages) {
            // What finds no place is demanded with the read.
            let _ = self.submit_part(file, Ahead::Nearby, Part::plain(extent), read);
        }
    }

    /// Fetches a read together with the rest of the short member of an archive that begins with
    /// it.
    fn read_member(&mut self, file: FileId, read: Extent) {
        let member = self.files.get(&file).and_then(|f| f.layout.as_ref()?.member_of(read, false));
        if let Some(member) = member.filter(|member| member.end > read.end) {
            // What finds no place is demanded with the read.
            let _ = self.submit_part(file, Ahead::Nearby, Part::plain(member), read);
        }
    }

    /// Fetches the hot block that a random read lies in, if there is one.
    fn read_hot_block(&mut self, file: FileId, read: Extent, file_pages: u64) {
        let Some(File { random_pages, .. }) = self.files.get_mut(&file) else { return };
        *random_pages += read.pages();
        if !self.budget.prefers_nearby() {
            return;
        }
        let in_file = FileRead { pages: file_pages, read_pages: self.budget.read_pages(file) };
        let read_in = |extent| self.budget.read_in(file, extent);
        if let Some(block) = hot_block::block(read, in_file, read_in, |pages| self.link.cost_ns(pages)) {
            self.sieve(file, block, false);
        }
    }

    /// Fetches the rest of a small file of which enough was read in no order, or with gaps.
    fn read_scattered(&mut self, file: FileId, read: Extent, file_pages: u64, next: Next) {
        let room_pages = self.budget.capacity_bytes() / PAGE_BYTES;
        let Some(known) = self.files.get_mut(&file).filter(|_| !self.options.rotational) else { return };
        let is_archive = known.layout.as_ref().is_some_and(|layout| layout.is_archive());
        let order = match next {
            _ if is_archive => Order::Members,
            // A reader of columns says what it wants.
            Next::Stream(run) if Layout::is_run(run) => return,
            Next::Stream(stream) if known.layout.is_none() && known.readahead.has_gaps(stream) => Order::Gaps,
            _ => Order::None,
        };
        // What the disk has was hardly waited for.
        if known.cached.overlaps(read) {
            return;
        }
        let of_run = matches!(next, Next::Stream(run) if Layout::is_run(run));
        let member = known.layout.as_ref().and_then(|layout| layout.member_of(read, of_run));
        known.scattered.note(member.unwrap_or(read));
        let cost_ns = |pages| self.link.cost_ns(pages);
        let is_worth = known.scattered.is_worth(file_pages, room_pages, order, cost_ns);
        if !is_worth || !self.budget.prefers_nearby() {
            return;
        }
        for part in parts_of(file_pages) {
            // As often as it is refused, the reads that wait go on to ask for it.
            if !self.sieve(file, part, true) {
                return;
            }
        }
        if let Some(known) = self.files.get_mut(&file) {
            known.scattered = Scattered::default();
        }
    }

    /// Submits the absent pages of `block` in as few requests as possible: resident pages in
    /// between are fetched again. It `is_paid` for, or fetches no more than random reads have
    /// asked for. Returns whether all was submitted.
    fn sieve(&mut self, file: FileId, block: Extent, is_paid: bool) -> bool {
        let mut from = block.start;
        while let Some(sieve) = self.budget.next_sieve(file, Extent::new(from, block.end)) {
            // Where the tier has some of it, each hole is a request of its own.
            let is_mixed = self.files.get(&file).is_some_and(|f| f.cached.overlaps(sieve));
            let hole = self.budget.next_hole(file, sieve).filter(|_| is_mixed);
            let (sieve, source) = hole.map_or((sieve, Source::Storage), |hole| self.first_part(file, hole));
            let pages = if is_paid { 0 } else { sieve.pages() };
            let left = self.files.get(&file).and_then(|f| f.random_pages.checked_sub(pages));
            let Some(left) = left else { return false };
            let full = self.is_source_full(source) || !self.budget.admits(sieve, None);
            if full || !self.make_room(first_bytes(sieve, None), false) {
                return false;
            }
            let wanted = Wanted { extent: sieve, records: None, source };
            self.submit(file, wanted, Class::Speculative, Some(Ahead::Nearby), None);
            if let Some(f) = self.files.get_mut(&file) {
                f.random_pages = left;
            }
            from = sieve.end;
        }
        true
    }

    /// Submits the absent pages of `file`, as far as there is room for speculation; a file that is
    /// not small, as far as there is credit as well.
    pub(super) fn prefetch(&mut self, file: FileId) {
        let Some(&File { pages, .. }) = self.files.get(&file) else { return };
        self.prefetch_extent(file, Extent::new(0, pages), Whole::is_bought(pages));
    }

    /// Submits the absent pages of these ends of `file`, in the same way: they are paid for.
    pub(super) fn prefetch_ends(&mut self, file: FileId, ends: Ends) {
        let Some(&File { pages, .. }) = self.files.get(&file) else { return };
        ends.extents(pages).for_each(|extent| self.prefetch_extent(file, extent, false));
    }

    /// Submits the absent pages of `extent`; if it `is_long`, as far as there is credit.
    fn prefetch_extent(&mut self, file: FileId, extent: Extent, is_long: bool) {
        let mut from = extent.start;
        while from < extent.end {
            // A search never goes farther than a request, so that a file may be of any size.
            let near = |start: u64| Extent::new(start, extent.end.min(start + DEMAND_PAGES_MAX));
            let Some(first) = self.budget.next_hole(file, near(from)) else {
                from = near(from).end;
                continue;
            };
            let Some(hole) = self.budget.next_hole(file, near(first.start)) else { return };
            let (hole, source) = self.first_part(file, hole);
            let full = self.is_source_full(source) || !self.budget.admits(hole, None);
            if full || !self.make_room(first_bytes(hole, None), false) {
                return;
            }
            if is_long && !self.whole.buys(hole) {
                return;
            }
            let wanted = Wanted { extent: hole, records: None, source };
            let ahead = if is_long { Ahead::Whole } else { Ahead::File };
            self.submit(file, wanted, Class::Speculative, Some(ahead), None);
            from = hole.end;
        }
    }

    /// Whether as many speculative requests are with `source` as may be.
    fn is_source_full(&self, source: Source) -> bool {
        match source {
            Source::Storage => self.requests.is_speculation_full(self.queue.limit()),
            Source::Tier => self.is_tier_full(),
        }
    }

    /// Plans for the stream of `file` that was held back until now.
    pub(super) fn resume(&mut self, now: Nanos, file: FileId) {
        let open = self.files.get_mut(&file).filter(|known| known.is_open);
        if let Some(stream) = open.and_then(|known| known.readahead.due(now)) {
            self.plan_ahead(now, file, stream);
        }
    }

    /// Plans for the streams that found too many requests in flight: the one that has had the
    /// least of the storage's time first.
    pub(super) fn take_turns(&mut self, now: Nanos) {
        while !self.is_speculation_full() {
            let had_ns = |(file, stream)| self.queue.tag(Owner { file, stream: Some(stream) });
            let Some((file, stream)) = self.turns.pop(had_ns) else { return };
            self.in_turn = true;
            self.plan_ahead(now, file, stream);
            self.in_turn = false;
        }
    }

    /// Plans for the streams that found too many requests with the tier, in the order in which
    /// they came.
    pub(super) fn take_tier_turns(&mut self, now: Nanos) {
        while !self.is_tier_full() {
            let Some((file, stream)) = self.tier_turns.pop(|_| 0) else { return };
            self.plan_ahead(now, file, stream);
        }
    }

    /// Submits what `stream` wants next while no reader waits for it.
    fn plan_ahead(&mut self, now: Nanos, file: FileId, stream: u64) {
        if let Some(&File { pages, .. }) = self.files.get(&file) {
            let nothing = Extent::new(pages, pages);
            if Layout::is_run(stream) {
                self.plan_run(now, file, stream, nothing, pages);
            } else {
                self.plan(now, file, stream, nothing, pages);
            }
        }
    }

    /// Submits what `stream` wants next; `read` is the extent that its reader waits for.
    fn plan(&mut self, now: Nanos, file: FileId, stream: u64, read: Extent, file_pages: u64) {
        if self.requests.demanded() >= CROWD && self.files.get(&file).is_some_and(|f| f.readahead.is_new(stream)) {
            // Many reads wait for their first bytes: speculation for this one would delay them.
            return;
        }
        let limits = self.limits(now, file, stream, file_pages);
        let guess = self.files.get(&file).is_some_and(|f| f.readahead.is_guess(stream));
        let ahead = if guess { Ahead::Nearby } else { Ahead::Stream(stream) };
        while let Some(part) = self.files.get_mut(&file).and_then(|f| f.readahead.next_part(now, stream, limits)) {
            if let Err(until) = self.submit_part(file, ahead, part, read) {
                // It goes on behind what was submitted.
                if let Some(f) = self.files.get_mut(&file) {
                    f.readahead.planned_until(now, stream, part, until);
                }
                break;
            }
            if let Some(f) = self.files.get_mut(&file) {
                f.readahead.planned(now, stream, part);
            }
            if self.has_had_turn(file, stream) {
                break;
            }
        }
        let marked = self.files.get_mut(&file).and_then(|f| f.readahead.take_mark(stream));
        if let Some(start) = marked.and_then(|page| self.budget.folio_of(file, page)) {
            self.actions.push_back(Action::Mark { file, start });
        }
    }

    /// Whether `stream` has had its turn, a part, and others wait for theirs: then it waits for
    /// the next one behind them.
    pub(super) fn has_had_turn(&mut self, file: FileId, stream: u64) -> bool {
        let is_over = self.in_turn && !self.turns.is_empty();
        if is_over {
            self.turns.insert((file, stream), self.queue.tag(Owner { file, stream: Some(stream) }));
        }
        is_over
    }

    /// Whether no other stream has waited for a turn that comes before.
    fn may_go_first(&self, ahead: Ahead) -> bool {
        self.in_turn || self.turns.is_empty() || !matches!(ahead, Ahead::Stream(_))
    }

    /// Submits the absent pages of `part`, in several requests if it is longer than a request may
    /// be, or has more than one source. The error, if there is no room or enough is in flight, is
    /// the page before which all has been submitted.
    pub(super) fn submit_part(&mut self, file: FileId, ahead: Ahead, part: Part, read: Extent) -> Result<(), u64> {
        let mut from = part.extent.start;
        loop {
            let (rest, passes) = (Extent::new(from, part.extent.end), self.passes_tier(file, ahead));
            let Some(wanted) = self.next_request(file, rest, part.records, passes) else { return Ok(()) };
            let Wanted { extent: hole, records, source } = wanted;
            let is_waited_for = Records::within(records, hole).any(|kept| kept.overlaps(read));
            let class = if is_waited_for { Class::Demand } else { Class::Speculative };
            let of_tier = source == Source::Tier;
            if class == Class::Speculative && of_tier && self.is_tier_full() {
                if let Ahead::Stream(stream) = ahead {
                    self.tier_turns.insert((file, stream), 0);
                }
                return Err(from);
            }
            if class == Class::Speculative && !of_tier && (self.is_speculation_full() || !self.may_go_first(ahead)) {
                self.link.holds_back();
                if let Ahead::Stream(stream) = ahead {
                    self.turns.insert((file, stream), self.queue.tag(Owner { file, stream: Some(stream) }));
                    if passes && self.is_tier_full() {
                        self.tier_turns.insert((file, stream), 0);
                    }
                }
                return Err(from);
            }
            if !self.budget.admits(hole, records) || !self.make_room(first_bytes(hole, records), false) {
                return Err(from);
            }
            let mark = matches!(ahead, Ahead::Stream(_)).then(|| part.mark.clamp(hole.start, hole.end - 1));
            self.submit(file, wanted, class, Some(ahead), mark);
            from = hole.end;
        }
    }

    /// The first request for absent pages of `within`, or of the `records` in it: the first of
    /// these records that lacks pages, and those that follow it, as far as each is absent. What
    /// lies between records is fetched with them. It may `pass` the tier.
    fn next_request(&self, file: FileId, within: Extent, records: Option<Records>, passes: bool) -> Option<Wanted> {
        let mut kept = Records::within(records, within);
        let (record, first) = kept.find_map(|record| Some((record, self.budget.next_hole(file, record)?)))?;
        let most = Extent::new(first.start, first.end.min(first.start + REQUEST_PAGES_MAX));
        let (mut request, source) = if passes { (most, Source::Storage) } else { self.first_part(file, most) };
        let mut of = None;
        if source == Source::Storage && request.end == record.end {
            let is_whole = |&record: &Extent| {
                self.budget.next_hole(file, record) == Some(record)
                    && (passes || !self.files.get(&file).is_some_and(|f| f.cached.overlaps(record)))
            };
            let follow = kept.take_while(|record| record.end - request.start <= REQUEST_PAGES_MAX);
            for record in follow.take_while(is_whole) {
                (request.end, of) = (record.end, records);
            }
        }
        Some(Wanted { extent: request, records: of, source })
    }
}

/// Demand requests in flight from which on a new stream gets no readahead until its second read.
/// Lower: files that are opened together begin slower. Higher: more programs that begin together
/// wait for the speculation of the others. Source: docs/decisions/0013: `slow-200`, first byte p50
/// 115 to 87 ms; sixteen files at once are below it.
const CROWD: usize = 32;

/// Pages looked back at before a read for context: 1 MiB. Lower: large reads never have enough
/// context; 32 pages need 225. Higher: more folios are visited at a random read. Source: the
/// kernel's `count_history_pages()`, which looks back as far as its largest window, here the 1 MiB
/// of the published table (docs/decisions/0009).
const CONTEXT_PAGES_MAX: u64 = 256;

/// The same of a file that was closed and opened again: 8 MiB. Lower: a program that read on in
/// what was there is not found where it is heard of again, behind a part. Higher: more folios are
/// visited. Source: the largest part; docs/decisions/0105.
const REOPENED_PAGES: u64 = PART_PAGES_MAX;
