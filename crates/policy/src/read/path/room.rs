//! Which request is granted memory, and what is evicted or cancelled for it.
//!
//! ```text
//!   grant: reads that wait, the oldest first ──> evict Used, then Partly, then Unread folios
//!            │ (answer)                          ──> cancel the latest speculation
//!            v                                   ──> cancel requests that wait for memory
//!          requests that no read waits for ────> evict Used folios, and leave a grant to each
//!            demand first, then the oldest       older request that has begun
//!                                                ──> or the oldest of these has it
//!                                                ──> or wait
//! ```
//!
//! *Invariants:* memory is charged only after room was made for it. A read or a request that finds
//! no room keeps its place, and those behind it wait too, but for the older ones that it leaves
//! memory to: else demand would wait for speculation that waits behind it. Folios that ready reads
//! keep are not evicted, and their requests are not cancelled.
//!
//! The file does not order grants (`read::waits`, `queue::requests`) or victims (`residency`), and
//! does not retry: the next event does. Source: docs/decisions/0003, 0043.

use super::ReadPath;
use crate::queue::requests::{Met, Request, grant_from};
use crate::read::event::Action;
use crate::residency::folio::{Ahead, charges_within, connection};
use crate::units::{Class, Extent, PAGE_BYTES, Records, RequestId};

/// Bytes that a request for `extent`, or for the `records` in it, needs to start: its first grant
/// and its connection.
pub(super) fn first_bytes(extent: Extent, records: Option<Records>) -> u64 {
    charges_within(records, grant_from(extent, extent.start)) + connection(extent)
}

/// Bytes that a request needs to receive its pages before `until`, and at least its next grant: a
/// request that starts with it needs its connection as well.
pub(super) fn bytes_until(request: Request, until: u64) -> u64 {
    let granted = Extent::new(request.granted, request.next_grant_until(until));
    charges_within(request.records, granted) + connection_to_come(request)
}

fn connection_to_come(request: Request) -> u64 {
    if request.has_begun() { 0 } else { connection(request.extent) }
}

impl ReadPath {
    /// Grants pages to reads and requests that want them, as far as there is memory.
    pub(super) fn grant(&mut self) {
        if !self.reserve_all() {
            return;
        }
        while let Some(first) = self.requests.first_wanting() {
            // What it leaves to older requests is theirs, demand or not.
            let is_granted =
                self.grant_one(first) || self.requests.oldest_left_to(first.0).is_some_and(|it| self.grant_one(it));
            if !is_granted {
                return;
            }
        }
    }

    /// Grants a request its next pages. `false` if there is no room, or none but what it leaves to
    /// older ones.
    fn grant_one(&mut self, (id, request): (RequestId, Request)) -> bool {
        let bytes = bytes_until(request, 0);
        let left = self.requests.left_to_older(id) * PAGE_BYTES;
        let may = self.budget.free_bytes() >= left + bytes && self.make_room(bytes, false);
        if may {
            self.give(id, 0);
        }
        may
    }

    /// Grants a request its pages before `until`, and at least its next grant; room has been made.
    pub(super) fn give(&mut self, id: RequestId, until: u64) {
        let Some(granted) = self.charge(id, until) else { return };
        // If it was made in the same event, it starts with this grant.
        let made = self.actions.iter_mut().rev().find_map(|action| match action {
            Action::Submit { request, granted, .. } if *request == id => Some(granted),
            _ => None,
        });
        match made {
            Some(first) => *first = granted,
            None => self.actions.push_back(Action::Grant { request: id, granted }),
        }
    }

    /// Charges for the pages of a request before `until`, and at least for its next grant; room
    /// has been made. Returns the page up to which it is granted now.
    pub(super) fn charge(&mut self, id: RequestId, until: u64) -> Option<u64> {
        let request = self.requests.get(id)?;
        let end = request.next_grant_until(until);
        if request.granted < end {
            self.budget.connect(connection_to_come(request));
            self.budget.grant(request.file, Extent::new(request.granted, end), id);
            let met = if request.is_from_storage() {
                self.met_by(request)
            } else {
                Met { beside: self.disk.has(), ..Met::default() }
            };
            if !request.has_begun() && met.alone {
                self.link.begins(self.now, self.requests.came());
            }
            if !request.has_begun() && !request.is_from_storage() {
                self.disk.asked(self.now);
            }
            self.requests.grant(id, end, met, self.now);
            self.changed.extend(self.waits.of(id));
        }
        Some(end)
    }

    /// The other requests that one meets at the storage if it starts now.
    fn met_by(&self, request: Request) -> Met {
        // A joined request waits for no first byte of its own.
        let there = self.requests.demanded().saturating_sub(self.queue.demanded() + self.queue.joined());
        let demanded = there.saturating_sub(usize::from(request.class == Class::Demand));
        let beside = self.queue.started().saturating_sub(1);
        Met { demanded, alone: beside == 0, beside, came: 0, arrived: self.link.arrived_bytes() }
    }

    /// Makes room for `bytes` by evicting folios, of which those unread only for `demand`.
    pub(super) fn make_room(&mut self, bytes: u64, demand: bool) -> bool {
        let mut room = core::mem::take(&mut self.room);
        let made = self.budget.make_room(bytes, demand, &mut room);
        // Cleared first: a folio that was spared may have been evicted in the same call.
        self.actions.extend(room.passed.drain(..).map(|(file, start)| Action::Clear { file, start }));
        for gone in room.evicted.drain(..) {
            self.actions.push_back(Action::Drop { file: gone.file, folio: gone.folio });
            self.note_waste(gone, matches!(gone.wasted_for, Some(Ahead::Stream(_))));
            self.rests(gone.file);
            let Some(file) = self.files.get_mut(&gone.file) else { continue };
            match gone.wasted_for {
                Some(Ahead::Stream(stream)) => {
                    self.counters.pages_thrashed += gone.folio.pages();
                    file.wasted(stream);
                }
                Some(Ahead::File | Ahead::Whole | Ahead::Nearby) | None => {}
            }
        }
        self.room = room;
        made
    }

    /// Cancels requests at the storage that no read waits for, the latest first, until there is
    /// room for `bytes`. `false` if that is not enough.
    pub(super) fn cancel_speculation(&mut self, bytes: u64) -> bool {
        loop {
            let Some(latest) = self.requests.latest_spare() else { return false };
            self.cancel(latest);
            if self.make_room(bytes, true) {
                return true;
            }
        }
    }

    /// Cancels requests at the storage that wait for memory, as far as they `may` be and no ready
    /// read waits for them, the latest first, until there is room for `bytes`. `false` if that is
    /// not enough. The reads that wait for them have them made again.
    pub(super) fn cancel_stalled(&mut self, bytes: u64, may: impl Fn(RequestId) -> bool) -> bool {
        loop {
            let Some(latest) = self.requests.latest_stalled(&may) else { return false };
            self.cancel(latest);
            if self.make_room(bytes, true) {
                return true;
            }
        }
    }
}
