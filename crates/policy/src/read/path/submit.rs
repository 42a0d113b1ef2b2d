//! How requests are made, wait for their turn, and start.
//!
//! ```text
//!   submit ──(the queue has a place)──> its turn ──(memory)──> granted: started
//!     ├─────(the queue is full)───────> entered, waits for its turn: it holds no memory
//!     └─────(the tier has it)─────────> no turn: memory, and it is started
//!                                                    │ adjacent demand, and
//!                                                    v memory for all
//!                                           Join each ──> one request starts
//! ```
//!
//! *Invariants:* a request that waits for its turn holds no memory for pages. A turn that finds no
//! memory is kept: the request counts as wanting a grant. Coalescing cancels nothing in flight.
//! Speculation is submitted only after room was made for its first grant.
//!
//! The file does not choose extents (`plan`) or the next turn (`queue::fair_queue`). Source:
//! docs/decisions/0003 (grants), 0017 (when a request is late), 0021 (turns), 0023 (coalescing).

use super::ReadPath;
use super::room::first_bytes;
use crate::queue::fair_queue::Owner;
use crate::queue::requests::Request;
use crate::read::event::Action;
use crate::residency::folio::{Ahead, charges_within};
use crate::units::{Class, Extent, FileId, Records, RequestId, Source};

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) extent: Extent,
    /// The pages to keep of it, if not all.
    pub(super) records: Option<Records>,
    pub(super) source: Source,
}

impl ReadPath {
    /// Submits the absent pages of `extent`, which a reader waits for.
    pub(super) fn demand(&mut self, file: FileId, extent: Extent) {
        let mut from = extent.start;
        while let Some(hole) = self.budget.next_hole(file, Extent::new(from, extent.end)) {
            let hole = Extent::new(hole.start, hole.end.min(hole.start + DEMAND_PAGES_MAX));
            let (hole, source) = self.demanded_part(file, hole);
            self.submit(file, Wanted { extent: hole, records: None, source }, Class::Demand, None, None);
            from = hole.end;
        }
    }

    /// Makes a request. It starts now, or waits for its turn. Demand is granted memory for its
    /// reads; for speculation room has been made.
    pub(super) fn submit(
        &mut self,
        file: FileId,
        wanted: Wanted,
        class: Class,
        ahead_for: Option<Ahead>,
        mark: Option<u64>,
    ) {
        let Wanted { extent, records, source } = wanted;
        let request = self.requests.make(file, extent, records, class, source);
        self.budget.insert(file, extent, records, request, ahead_for);
        self.counters.pages_submitted += extent.pages();
        match class {
            Class::Demand => self.counters.requests_demand += 1,
            Class::Speculative => self.counters.requests_speculative += 1,
        }
        if source == Source::Tier {
            return self.ask_tier(request, file, wanted, class, mark);
        }
        let stream = if let Some(Ahead::Stream(stream)) = ahead_for { Some(stream) } else { None };
        let (owner, cost) = (Owner { file, stream }, self.link.cost(extent.pages()));
        let starts = !self.queue.must_wait();
        if !starts {
            self.link.holds_back();
        }
        if starts {
            self.queue.start_now(request, owner, extent, class, cost);
        } else {
            self.queue.enter(self.now, request, owner, extent, class, cost);
        }
        let granted = match class {
            Class::Speculative if starts => self.charge(request, extent.start).unwrap_or(extent.start),
            _ => extent.start,
        };
        // A request is late on a disk because the disk serves others; a second request would be
        // one more of those.
        let hedges = self.options.readahead && !self.options.rotational;
        let late = hedges.then(|| self.hedge.late_after());
        self.actions.push_back(Action::Submit { request, file, extent, records, class, source, mark, granted, late });
        if class == Class::Demand && starts {
            self.want(request);
        }
    }

    /// The tier is asked for `request`: it waits for memory alone, and is neither queued nor late.
    fn ask_tier(&mut self, request: RequestId, file: FileId, wanted: Wanted, class: Class, mark: Option<u64>) {
        let Wanted { extent, records, source } = wanted;
        self.counters.requests_tier += 1;
        let granted = match class {
            Class::Speculative => self.charge(request, extent.start).unwrap_or(extent.start),
            Class::Demand => extent.start,
        };
        let late = None;
        self.actions.push_back(Action::Submit { request, file, extent, records, class, source, mark, granted, late });
        if class == Class::Demand {
            self.want(request);
        }
    }

    /// Starts requests that wait for their turn, as far as the queue and memory allow.
    pub(super) fn start_waiting(&mut self) {
        while let Some(id) = self.queue.next(self.now, self.requests.wanting()) {
            let Some(request) = self.requests.get(id) else { return };
            self.arm.starts(request.file, request.extent, self.queue.is_shared());
            if self.waits.has(id) {
                // Older reads that found no memory are first.
                if self.waits.first_wanting().is_some() || !self.coalesce(id, request) {
                    self.want(id);
                    self.reserve_all();
                }
            } else if self.make_room(first_bytes(request.extent, request.records), false) {
                self.give(id, 0);
            } else {
                self.want(id);
            }
        }
    }

    /// Starts `id` together with the adjacent demand requests, if there are any and there is
    /// memory for all. Cancels nothing in flight for that.
    fn coalesce(&mut self, id: RequestId, request: Request) -> bool {
        if request.class != Class::Demand {
            return false;
        }
        let adjacent = self.queue.adjacent(request.file, request.extent);
        let bytes_of = |&id: &RequestId| self.requests.get(id).map_or(0, |r| charges_within(r.records, r.extent));
        let bytes = charges_within(request.records, request.extent) + adjacent.iter().map(bytes_of).sum::<u64>();
        if adjacent.is_empty() || !self.make_room(bytes, true) {
            return false;
        }
        for &other in &adjacent {
            self.queue.join(other, id);
            self.charge(other, u64::MAX);
            self.counters.requests_coalesced += 1;
            self.actions.push_back(Action::Join { request: other, with: id });
        }
        self.charge(id, u64::MAX);
        self.actions.push_back(Action::Grant { request: id, granted: request.extent.end });
        true
    }
}

/// Pages of the largest demand request, and of the largest request of a prefetch: 1 MiB. Lower: a
/// large read makes more requests. Higher: it is fetched with less parallelism. Source: a guess,
/// not measured.
pub(super) const DEMAND_PAGES_MAX: u64 = 256;
