//! Which request is granted memory, and what is evicted or cancelled for it.
//!
//! ```text
//!   grant: the first that wants ─┬─ demand ───────> evict Used, then Partly, then Unread folios
//!          (demand, then oldest) │                  ──> cancel the latest speculation
//!                                └─ speculation ──> evict Used folios, and leave a grant to
//!                                                   each older request ──> or wait
//! ```
//!
//! *Invariants:* memory is charged only after room was made for it. A request that finds no room
//! for its grant keeps its place, and those behind it wait too.
//!
//! The file does not order grants (`queue::requests`) or victims (`residency`), and does not
//! retry: the next event does. Source: docs/decisions/0003.

use super::ReadPath;
use crate::queue::requests::{Met, Request};
use crate::read::event::Action;
use crate::residency::folio::{Ahead, charges, wasted};
use crate::units::{Class, PAGE_BYTES, RequestId};

impl ReadPath {
    /// Grants pages to requests that want them, as far as there is memory.
    pub(super) fn grant(&mut self) {
        while let Some((id, request)) = self.requests.first_wanting() {
            let bytes = charges(request.next_grant());
            let demand = request.class == Class::Demand;
            let left = self.requests.left_to_older(id) * PAGE_BYTES;
            if !demand && self.resident.free_bytes() < left + bytes {
                return;
            }
            if !self.has_room(bytes, request.class) {
                return;
            }
            self.give(id);
        }
    }

    /// Makes room for `bytes`. For demand, unread folios are evicted and speculation is cancelled
    /// if that is what it takes.
    pub(super) fn has_room(&mut self, bytes: u64, class: Class) -> bool {
        let demand = class == Class::Demand;
        self.make_room(bytes, demand) || (demand && self.cancel_speculation(bytes))
    }

    /// Grants a request its next pages.
    pub(super) fn give(&mut self, id: RequestId) {
        if let Some(granted) = self.grant_next(id) {
            self.actions.push_back(Action::Grant { request: id, granted });
        }
    }

    /// Charges for the next pages of a request; room has been made. Returns the page up to which
    /// it is granted now.
    pub(super) fn grant_next(&mut self, id: RequestId) -> Option<u64> {
        let request = self.requests.get(id)?;
        let next = request.next_grant();
        self.resident.grant(request.file, next, id);
        self.requests.grant(id, next.end, self.met_by(request));
        Some(next.end)
    }

    /// Charges for all pages of a request; room has been made.
    pub(super) fn grant_all(&mut self, id: RequestId) {
        if let Some(request) = self.requests.get(id) {
            self.resident.grant(request.file, request.extent, id);
            self.requests.grant(id, request.extent.end, self.met_by(request));
        }
    }

    /// The other requests that one meets at the storage if it starts now.
    fn met_by(&self, request: Request) -> Met {
        // A joined request waits for no first byte of its own.
        let there = self.requests.demanded().saturating_sub(self.queue.demanded() + self.queue.joined());
        let demanded = there.saturating_sub(usize::from(request.class == Class::Demand));
        Met { demanded, nobody: self.queue.started() <= 1, came: 0 }
    }

    /// Makes room for `bytes` by evicting folios, of which those unread only for `demand`.
    pub(super) fn make_room(&mut self, bytes: u64, demand: bool) -> bool {
        let mut room = core::mem::take(&mut self.room);
        let made = self.resident.make_room(bytes, demand, &mut room);
        // Cleared first: a folio that was spared may have been evicted in the same call.
        self.actions.extend(room.passed.drain(..).map(|(file, start)| Action::Clear { file, start }));
        for gone in room.evicted.drain(..) {
            self.actions.push_back(Action::Drop { file: gone.file, folio: gone.folio });
            self.counters.pages_wasted += wasted(gone);
            let Some(file) = self.files.get_mut(&gone.file) else { continue };
            match gone.wasted_for {
                Some(Ahead::Stream(stream)) => {
                    self.counters.pages_thrashed += gone.folio.pages();
                    file.readahead.wasted(stream, true);
                }
                Some(Ahead::File | Ahead::Nearby) | None => {}
            }
        }
        self.room = room;
        made
    }

    /// Cancels speculative requests in flight, the latest first, until there is room for `bytes`.
    /// `false` if that is not enough.
    pub(super) fn cancel_speculation(&mut self, bytes: u64) -> bool {
        loop {
            let Some(latest) = self.requests.latest_speculative() else { return false };
            self.cancel(latest);
            if self.make_room(bytes, true) {
                return true;
            }
        }
    }
}
