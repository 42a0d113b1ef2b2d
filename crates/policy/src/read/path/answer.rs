//! When a read that waits has memory for all its pages.
//!
//! ```text
//!   Read ──> check: submit what is absent, link the read with what is on its way
//!              │ nothing lacks memory ────────────────────────────────────┐
//!              v                                                          v
//!            lacking ── a request of it has its turn ──> reserve ──────> ready: its folios stay
//!              ^                                           │ no room       until it is answered
//!              └─── a request of it is over, or granted    v
//!                                                  the oldest such read is first next time
//! ```
//!
//! Memory is given to reads, not to their requests, the oldest read first. All that a read lacks
//! is reserved at once. Only then does it keep the folios that it stands on. Reads that take their
//! memory piece by piece would hold what the others need: 4,096 reads of 128 KiB in 64 MiB would
//! wait for ever. When a read is reserved its memory, those of its requests that wait for their
//! turn start too: a request that holds memory never waits for one that does not.
//!
//! Some requests bring many pages before those of the read. These pages are granted first, piece
//! by piece, so they need no memory all at once.
//!
//! *Why every read is answered.* Room for the oldest read that has a turn comes from all that
//! holds memory. Folios that no read keeps are evicted. Speculation in flight is cancelled. So are
//! requests of other lacking reads, if they wait for memory themselves. Ready reads and requests
//! at work need no more memory, so they come to an end. And each request has its turn
//! (`queue::fair_queue`). A read may take an eighth of the budget at most.
//!
//! *Invariants:* those of `read::waits`. A request that a ready read waits for is not cancelled,
//! unless its file is released.
//!
//! The file does not order turns (`queue`) or victims (`residency`). Source: docs/decisions/0043.

use alloc::vec::Vec;

use super::ReadPath;
use super::room::bytes_until;
use crate::read::event::Action;
use crate::units::{Extent, FOLIO_PAGES_MAX, FileId, PAGE_BYTES, ReadId, RequestId};

impl ReadPath {
    /// `read` waits from now on.
    pub(super) fn wait(&mut self, read: ReadId, file: FileId, extent: Extent) {
        if self.files.contains_key(&file) {
            self.waits.insert(read, file, self.cut(extent));
            self.check(read);
        }
    }

    /// The part of `extent` that a read is answered with: all of it, or as much as may be held for
    /// one read.
    fn cut(&self, extent: Extent) -> Extent {
        let most = (self.budget.capacity_bytes() / READ_SHARE / PAGE_BYTES).max(1);
        Extent::new(extent.start, extent.end.min(extent.start + most))
    }

    /// Submits what `read` needs and is absent, and links it with the requests that bring what it
    /// lacks. If it lacks nothing, it is ready.
    fn check(&mut self, read: ReadId) {
        let Some(wait) = self.waits.lacking(read) else { return };
        self.demand(wait.file, wait.extent);
        let pending = self.budget.pending(wait.file, wait.extent);
        if pending.is_empty() {
            self.ready(read);
        }
        for request in pending {
            self.requests.promote(request);
            self.queue.promote(request);
            if self.waits.link(read, request) {
                self.requests.waited_for(request);
            }
            if self.requests.is_wanting(request) {
                self.waits.want(read);
            }
        }
    }

    /// Checks the reads whose requests are over or were granted memory, the oldest first: they are
    /// answered in the order in which they came.
    pub(super) fn check_again(&mut self) {
        while let Some(read) = self.changed.pop_first() {
            self.check(read);
        }
    }

    /// `request` could go on if it had memory.
    pub(super) fn want(&mut self, request: RequestId) {
        self.requests.wants(request, self.now);
        if self.requests.is_wanting(request) {
            self.waits.want_of(request);
        }
    }

    /// Reserves memory for the reads that could go on with it, the oldest first. `false` if there
    /// is no room for one.
    pub(super) fn reserve_all(&mut self) -> bool {
        while let Some(read) = self.waits.first_wanting() {
            if !self.reserve(read) {
                return false;
            }
        }
        true
    }

    /// Makes room for all that `read` lacks and grants it, starting its requests. `false` if there
    /// is no room.
    fn reserve(&mut self, read: ReadId) -> bool {
        let Some(wait) = self.waits.lacking(read) else { return true };
        // The budget may have been reduced since.
        let (file, extent) = (wait.file, self.cut(wait.extent));
        self.waits.cut(read, extent);
        self.check(read);
        let pending = self.budget.pending(file, extent);
        if !pending.iter().any(|&request| self.requests.is_wanting(request)) {
            self.waits.unwant(read);
            return true;
        }
        let is_far = |&request: &RequestId| {
            self.requests.get(request).is_some_and(|request| request.next_grant().end <= extent.start)
        };
        let far: Vec<RequestId> = pending.iter().copied().filter(is_far).collect();
        if !far.is_empty() {
            return self.bring_near(read, &far);
        }
        let until = extent.end.div_ceil(FOLIO_PAGES_MAX) * FOLIO_PAGES_MAX;
        let requests = pending.iter().filter_map(|&request| self.requests.get(request));
        let bytes = requests.map(|request| bytes_until(request, until)).sum();
        // Room is not made at the cost of what the read stands on.
        self.keep(file, extent);
        let made = self.make_room(bytes, true)
            || self.cancel_speculation(bytes)
            || self.cancel_stalled(bytes, |request| !pending.contains(&request));
        self.unkeep(file, extent);
        if made {
            for request in pending {
                self.queue.start_beside(request);
                self.give(request, until);
            }
            self.ready(read);
        }
        made
    }

    /// Grants `requests` their next pages; they bring many pages before those of `read`. What has
    /// come of them may be evicted again, so a little memory is enough for all. `false` if there
    /// is no room.
    fn bring_near(&mut self, read: ReadId, requests: &[RequestId]) -> bool {
        for &id in requests {
            let Some(request) = self.requests.get(id).filter(|_| self.requests.is_wanting(id)) else { continue };
            let bytes = bytes_until(request, 0);
            let made = self.make_room(bytes, true)
                || self.cancel_speculation(bytes)
                || self.cancel_stalled(bytes, |other| !requests.contains(&other));
            if !made {
                return false;
            }
            self.give(id, 0);
        }
        // The read could use memory again when these pages have come.
        self.waits.unwant(read);
        true
    }

    /// All pages of `read` have memory: they stay until it is answered.
    fn ready(&mut self, read: ReadId) {
        if let Some((wait, requests)) = self.waits.ready(read) {
            self.unlinked(&requests);
            self.keep(wait.file, wait.extent);
            self.actions.push_back(Action::Ready { read, end: wait.extent.end });
        }
    }

    /// `read` was answered, or is not wanted any more.
    pub(super) fn answered(&mut self, read: ReadId) {
        if let Some((wait, requests)) = self.waits.remove(read) {
            self.unlinked(&requests);
            if wait.ready {
                self.unkeep(wait.file, wait.extent);
            }
        }
    }

    /// A read waits no more for memory of `requests`.
    fn unlinked(&mut self, requests: &[RequestId]) {
        for &request in requests {
            self.requests.not_waited_for(request);
        }
    }

    /// `request` for `extent` of `file` has failed: ready reads that wait for it are over.
    pub(super) fn fail_reads(&mut self, request: RequestId, file: FileId, extent: Extent) {
        for (read, wait) in self.waits.within(file, extent) {
            if wait.ready && self.budget.requests_in(file, wait.extent).contains(&request) {
                self.answered(read);
            }
        }
    }

    /// No read of `file` waits any more.
    pub(super) fn drop_reads(&mut self, file: FileId) {
        for (read, _) in self.waits.within(file, Extent::new(0, u64::MAX)) {
            self.answered(read);
        }
    }

    /// The folios of `extent` stay, and the requests that fill them are not cancelled.
    fn keep(&mut self, file: FileId, extent: Extent) {
        let requests = &mut self.requests;
        self.budget.keep(file, extent, |request| requests.keep(request));
    }

    /// The reverse of [`ReadPath::keep`].
    fn unkeep(&mut self, file: FileId, extent: Extent) {
        let requests = &mut self.requests;
        self.budget.unkeep(file, extent, |request| requests.unkeep(request));
    }
}

/// The part of the budget that one read may take, an eighth: a longer read is answered in pieces.
/// Lower: a read may take so much that the requests of others find no room meanwhile. Higher: long
/// reads are answered in more pieces. Source: a guess, not measured.
const READ_SHARE: u64 = 8;
