//! How requests are made, wait for their turn, and start.

use super::ReadPath;
use crate::queue::fair_queue::Owner;
use crate::queue::requests::{Met, Request};
use crate::read::event::Action;
use crate::residency::folio::{Ahead, charges, connection};
use crate::units::{Class, Extent, FileId, RequestId};

impl ReadPath {
    /// Submits what a reader waits for, whatever must go for it.
    pub(super) fn demand(&mut self, file: FileId, extent: Extent) {
        let mut from = extent.start;
        while let Some(hole) = self.resident.next_hole(file, Extent::new(from, extent.end)) {
            let hole = Extent::new(hole.start, hole.end.min(hole.start + DEMAND_PAGES_MAX));
            let first = first_bytes(file, hole);
            if !self.make_room(first, true) && !self.cancel_speculation(first) {
                self.waiting.push_back((file, Extent::new(hole.start, extent.end)));
                return;
            }
            self.submit(file, hole, Class::Demand, None, None);
            from = hole.end;
        }
    }

    /// Demand that found no room, in order.
    pub(super) fn retry_waiting(&mut self) {
        for _ in 0..self.waiting.len() {
            if let Some((file, extent)) = self.waiting.pop_front()
                && self.files.contains_key(&file)
            {
                self.demand(file, extent);
            }
        }
    }

    pub(super) fn submit(
        &mut self,
        file: FileId,
        extent: Extent,
        class: Class,
        ahead_for: Option<Ahead>,
        mark: Option<u64>,
    ) {
        let request = self.requests.make(file, extent, class);
        self.resident.connect(extent);
        self.resident.insert(file, extent, request, ahead_for);
        self.counters.pages_submitted += extent.pages();
        match class {
            Class::Demand => self.counters.requests_demand += 1,
            Class::Speculative => self.counters.requests_speculative += 1,
        }
        let stream = if let Some(Ahead::Stream(stream)) = ahead_for { Some(stream) } else { None };
        let (owner, cost) = (Owner { file, stream }, self.link.cost(extent.pages()));
        let granted = if self.queue.must_wait() {
            self.queue.enter(self.now, request, owner, extent, class, cost);
            extent.start
        } else {
            self.queue.start_now(request, owner, extent, cost);
            self.grant_next(request).unwrap_or(extent.start)
        };
        // A disk that is late is late because others are served, and a second request is one more of those.
        let hedges = class == Class::Demand && self.options.readahead && !self.options.rotational;
        let late = self.hedge.late_after().filter(|_| hedges);
        self.actions.push_back(Action::Submit { request, file, extent, class, mark, granted, late });
    }

    /// Starts what waits for the storage, as far as it may be and there is memory.
    pub(super) fn start_waiting(&mut self) {
        while let Some(id) = self.queue.next(self.now, self.requests.wanting()) {
            let Some(request) = self.requests.get(id) else { return };
            if !self.has_room(charges(request.next_grant()), request.class) {
                self.requests.wants(id);
            } else if !self.coalesce(id, request) {
                self.give(id);
            }
        }
    }

    /// Starts `id` with what touches it and is waited for as well, if there is any and memory for all of it. Nothing in flight is given up
    /// for that.
    fn coalesce(&mut self, id: RequestId, request: Request) -> bool {
        if request.class != Class::Demand {
            return false;
        }
        let adjacent = self.queue.adjacent(request.file, request.extent);
        let bytes_of = |&id: &RequestId| self.requests.get(id).map_or(0, |r| charges(r.extent));
        let bytes = charges(request.extent) + adjacent.iter().map(bytes_of).sum::<u64>();
        if adjacent.is_empty() || !self.make_room(bytes, true) {
            return false;
        }
        for &other in &adjacent {
            self.queue.join(other, id);
            self.grant_all(other);
            self.counters.requests_coalesced += 1;
            self.actions.push_back(Action::Join { request: other, with: id });
        }
        self.grant_all(id);
        self.actions.push_back(Action::Grant { request: id, granted: request.extent.end });
        true
    }
}

/// What a request for `extent` needs to begin, in bytes.
pub(super) fn first_bytes(file: FileId, extent: Extent) -> u64 {
    let request = Request { file, extent, class: Class::Demand, granted: extent.start, met: Met::default() };
    charges(request.next_grant()) + connection(extent)
}

/// The largest demand request, 1 MiB: a large read is fetched in parallel.
pub(super) const DEMAND_PAGES_MAX: u64 = 256;
