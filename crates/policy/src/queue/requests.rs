//! Requests: the requests in flight, and which of them is granted memory next.
//!
//! ```text
//!   extent    |=====granted=====|.....not granted.....|
//!             start       granted                   end
//!                               ^ the next grant ends at a folio's end, 256 KiB further or less
//!
//!   made ──first grant──> at the storage ──wants──> wanting ──grant──> ... ──> granted whole
//!              (it starts)                  (its grant has arrived)
//!   finish ends it in any state: complete, failed or cancelled
//! ```
//!
//! A request holds memory only for what may arrive: its grant, which grows step by step
//! ([`Event::Wants`]). A demand request is granted memory before speculation; among equals the
//! oldest request is first, since a reader reaches it first. A younger request leaves memory for
//! older ones that have begun. Where none is left beside that, the oldest of these that waits has
//! it: demand that leaves memory to speculation would else wait for it, and the speculation for
//! the demand.
//!
//! *Invariants:* a grant never shrinks and never passes the end of the request. A speculative
//! request may become demand, never the reverse.
//!
//! This file does not charge memory and does not make room (`residency`), does not decide when a
//! request may start (`fair_queue`), and does not retry (the driver). Source: docs/decisions/0003.
//!
//! [`Event::Wants`]: crate::Event::Wants

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::collections::request_map::RequestMap;
use crate::units::{Class, Extent, FOLIO_PAGES_MAX, FileId, Nanos, Records, RequestId, Source};

/// One request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) file: FileId,
    pub(crate) extent: Extent,
    /// The pages of it that are kept, if not all.
    pub(crate) records: Option<Records>,
    pub(crate) class: Class,
    pub(crate) source: Source,
    /// The page after the last one that may arrive.
    pub(crate) granted: u64,
    /// The page before which all pages have arrived, as the driver last told.
    pub(crate) arrived: u64,
    /// How many times ready reads keep folios that it fills: it is not cancelled then.
    kept: u32,
    /// How many reads wait for it that have no memory for all of their pages.
    waited: u32,
    /// It waits for its next grant.
    wants: bool,
    /// Since when it does.
    wants_since: Nanos,
    /// It has waited for a grant since it began: the storage was not read meanwhile.
    pub(crate) held_up: bool,
    /// What else was at the storage when it came there.
    pub(crate) met: Met,
    /// The tier was asked for it, and has not answered.
    pub(crate) is_at_disk: bool,
}

/// What else was at the storage when a request came there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Met {
    /// The number of other demand requests.
    pub(crate) demanded: usize,
    /// No other request was there.
    pub(crate) alone: bool,
    /// The number of other requests.
    pub(crate) beside: usize,
    /// How many requests had ever come to the storage, itself included.
    pub(crate) came: u64,
    /// Bytes that had ever arrived.
    pub(crate) arrived: u64,
}

impl Request {
    /// The pages of the next grant. It ends at the end of a folio or of the request.
    pub(crate) fn next_grant(self) -> Extent {
        grant_from(self.extent, self.granted)
    }

    /// The end of the next grant, or of as many pages before `until` as there are.
    pub(crate) fn next_grant_until(self, until: u64) -> u64 {
        self.next_grant().end.max(until).min(self.extent.end)
    }

    /// Whether the storage is asked for it.
    pub(crate) fn is_from_storage(self) -> bool {
        self.source == Source::Storage
    }

    /// Whether it was granted memory, and so was started.
    pub(crate) fn has_begun(self) -> bool {
        self.granted > self.extent.start
    }

    /// Its places in the sets of [`Requests`]: `wanting_demand`, `partial`, `spare`, `stalled`.
    fn places(self) -> [bool; 4] {
        let unkept = self.has_begun() && self.kept == 0;
        [
            self.wants && self.class == Class::Demand,
            self.has_begun() && !self.is_granted_whole(),
            unkept && self.waited == 0,
            unkept && self.wants,
        ]
    }

    /// The pages that may not arrive yet, if it waits for memory.
    fn held_up_pages(self) -> u64 {
        if self.wants { self.extent.end - self.granted } else { 0 }
    }

    fn is_granted_whole(self) -> bool {
        self.granted >= self.extent.end
    }
}

/// The pages of a grant to a request for `extent` that begins at page `from`.
pub(crate) fn grant_from(extent: Extent, from: u64) -> Extent {
    let end = (from + GRANT_PAGES) / FOLIO_PAGES_MAX * FOLIO_PAGES_MAX;
    Extent::new(from, end.min(extent.end))
}

/// All requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// In the order in which they were made.
    made: RequestMap<Request>,
    /// Pages that may not arrive yet of those that wait for memory.
    held_up_pages: u64,
    /// The requests that wait for a further grant: those that the storage is asked for, those that
    /// the tier is, and those of both that are demand.
    wanting: BTreeSet<RequestId>,
    wanting_tier: BTreeSet<RequestId>,
    wanting_demand: BTreeSet<RequestId>,
    /// Those that have begun and are not granted whole.
    partial: BTreeSet<RequestId>,
    /// Those that hold memory which no read stands on, speculation last: it is cancelled first.
    spare: BTreeSet<(bool, RequestId)>,
    /// Those that hold memory which no ready read stands on, and wait for more of it.
    stalled: BTreeSet<(bool, RequestId)>,
    speculative: usize,
    /// Of all that the storage is asked for.
    pages: u64,
    /// Those that the tier is asked for, and how many of them are speculative.
    tier: usize,
    tier_speculative: usize,
    next: u64,
    /// How many requests have come to the storage, and the last of them that is complete.
    came: u64,
    complete: u64,
}

impl Requests {
    /// No request; the next one is `first`.
    pub(crate) fn starting_at(first: RequestId) -> Self {
        Self { next: first.0, ..Self::default() }
    }

    /// Whether `request` was alone at the storage from its first grant until now.
    pub(crate) fn was_alone(&self, request: Request) -> bool {
        request.met.alone && request.met.came == self.came
    }

    /// A request is complete.
    pub(crate) fn completed(&mut self, request: Request) {
        self.complete = self.complete.max(request.met.came);
    }

    /// Whether one that came to the storage after `id` is complete.
    pub(crate) fn is_overtaken(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(|request| request.met.came < self.complete)
    }

    /// How many requests have come to the storage.
    pub(crate) fn came(&self) -> u64 {
        self.came
    }

    /// The number of demand requests for the storage, those that wait for their turn included.
    pub(crate) fn demanded(&self) -> usize {
        self.made.len() - self.tier - self.speculative
    }

    /// Makes a request for `extent`, or for the `records` in it, with nothing granted.
    pub(crate) fn make(
        &mut self,
        file: FileId,
        extent: Extent,
        records: Option<Records>,
        class: Class,
        source: Source,
    ) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        let (granted, arrived) = (extent.start, extent.start);
        self.made.push(
            id,
            Request {
                file,
                extent,
                records,
                class,
                source,
                granted,
                arrived,
                kept: 0,
                waited: 0,
                wants: false,
                wants_since: Nanos(0),
                held_up: false,
                met: Met::default(),
                is_at_disk: false,
            },
        );
        let is_speculative = usize::from(class == Class::Speculative);
        if source == Source::Tier {
            self.tier += 1;
            self.tier_speculative += is_speculative;
        } else {
            self.speculative += is_speculative;
            self.pages += extent.pages();
        }
        id
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<Request> {
        self.made.get(id).copied()
    }

    /// A request is complete, failed or cancelled.
    pub(crate) fn finish(&mut self, id: RequestId) -> Option<Request> {
        let request = self.made.remove(id)?;
        self.wanting_of(request.source).remove(&id);
        self.place(id, request, request.places(), [false; 4]);
        self.held_up_pages -= request.held_up_pages();
        *self.speculative_of(request.source) -= usize::from(request.class == Class::Speculative);
        if request.is_from_storage() {
            self.pages -= request.extent.pages();
        } else {
            self.tier -= 1;
        }
        Some(request)
    }

    /// A reader waits for `id`: it is a demand request from now on.
    pub(crate) fn promote(&mut self, id: RequestId) {
        if let Some(request) = self.get(id).filter(|request| request.class == Class::Speculative) {
            // Its places depend on its class.
            self.place(id, request, request.places(), [false; 4]);
            let demand = Request { class: Class::Demand, ..request };
            self.place(id, demand, [false; 4], demand.places());
            if let Some(request) = self.made.get_mut(id) {
                *request = demand;
            }
            *self.speculative_of(request.source) -= 1;
        }
    }

    fn speculative_of(&mut self, source: Source) -> &mut usize {
        match source {
            Source::Storage => &mut self.speculative,
            Source::Tier => &mut self.tier_speculative,
        }
    }

    fn wanting_of(&mut self, source: Source) -> &mut BTreeSet<RequestId> {
        match source {
            Source::Storage => &mut self.wanting,
            Source::Tier => &mut self.wanting_tier,
        }
    }

    /// Changes a request, and its places in the sets with it.
    fn change(&mut self, id: RequestId, change: impl FnOnce(&mut Request)) {
        let Some(request) = self.made.get_mut(id) else { return };
        let (before, held_up) = (request.places(), request.held_up_pages());
        change(request);
        let (request, after) = (*request, request.places());
        self.held_up_pages = self.held_up_pages - held_up + request.held_up_pages();
        if before != after {
            self.place(id, request, before, after);
        }
    }

    fn place(&mut self, id: RequestId, request: Request, before: [bool; 4], after: [bool; 4]) {
        let key = (request.class == Class::Speculative, id);
        let single = [&mut self.wanting_demand, &mut self.partial].into_iter().zip(before.into_iter().zip(after));
        for (set, (was, is)) in single {
            match (was, is) {
                (false, true) => _ = set.insert(id),
                (true, false) => _ = set.remove(&id),
                _ => {}
            }
        }
        let pairs = before[2..].iter().zip(&after[2..]);
        for (set, (was, is)) in [&mut self.spare, &mut self.stalled].into_iter().zip(pairs) {
            match (was, is) {
                (false, true) => _ = set.insert(key),
                (true, false) => _ = set.remove(&key),
                _ => {}
            }
        }
    }

    /// `id` waits for its next grant: all that it was granted has arrived, or it starts and there
    /// is no room.
    pub(crate) fn wants(&mut self, id: RequestId, now: Nanos) {
        if let Some(source) = self.made.get(id).filter(|r| !r.is_granted_whole()).map(|r| r.source) {
            self.wanting_of(source).insert(id);
            self.change(id, |request| {
                if !request.wants {
                    request.wants_since = now;
                }
                request.wants = true;
            });
        }
    }

    /// Whether `id` waits for its next grant.
    pub(crate) fn is_wanting(&self, id: RequestId) -> bool {
        self.made.get(id).is_some_and(|request| request.wants)
    }

    /// All pages that `id` was granted have arrived. Returns those that had not before.
    pub(crate) fn arrived(&mut self, id: RequestId) -> Extent {
        let Some(request) = self.made.get_mut(id) else { return Extent::new(0, 0) };
        Extent::new(core::mem::replace(&mut request.arrived, request.granted), request.granted)
    }

    /// A ready read keeps a folio that `id` fills.
    pub(crate) fn keep(&mut self, id: RequestId) {
        self.change(id, |request| request.kept += 1);
    }

    /// The reverse of [`Requests::keep`].
    pub(crate) fn unkeep(&mut self, id: RequestId) {
        self.change(id, |request| request.kept -= 1);
    }

    /// One more read that has no memory for all of its pages waits for `id`.
    pub(crate) fn waited_for(&mut self, id: RequestId) {
        self.change(id, |request| request.waited += 1);
    }

    /// The reverse of [`Requests::waited_for`].
    pub(crate) fn not_waited_for(&mut self, id: RequestId) {
        self.change(id, |request| request.waited -= 1);
    }

    /// The request that is granted memory next.
    pub(crate) fn first_wanting(&self) -> Option<(RequestId, Request)> {
        // The tier's are over first.
        let waiting = self.wanting_demand.first().or_else(|| self.wanting_tier.first());
        let id = *waiting.or_else(|| self.wanting.first())?;
        Some((id, self.get(id)?))
    }

    /// `id` may have pages up to `end`. With its first grant it comes to the storage, and has
    /// `met` others there.
    pub(crate) fn grant(&mut self, id: RequestId, end: u64, met: Met, now: Nanos) {
        let Some(source) = self.made.get(id).map(|request| request.source) else { return };
        self.wanting_of(source).remove(&id);
        let came = self.came + 1;
        if source == Source::Storage && self.made.get(id).is_some_and(|request| !request.has_begun()) {
            self.came = came;
        }
        self.change(id, |request| {
            if !request.has_begun() {
                request.met = Met { came, ..met };
                request.is_at_disk = source == Source::Tier;
            } else if request.wants {
                request.held_up |= now > request.wants_since;
            }
            request.granted = end;
            request.wants = false;
        });
    }

    /// The pages to leave free for requests that are older than `id`, have begun and are not
    /// granted whole. Otherwise a reader that reaches the oldest request finds its memory given to
    /// the pages that it needs last.
    pub(crate) fn left_to_older(&self, id: RequestId) -> u64 {
        self.partial.range(..id).take(OLDER_MAX).count() as u64 * GRANT_PAGES
    }

    /// The oldest request that a grant is left free for by `id`, and that waits for it.
    pub(crate) fn oldest_left_to(&self, id: RequestId) -> Option<(RequestId, Request)> {
        let left = self.partial.range(..id).take(OLDER_MAX);
        left.filter_map(|&older| Some((older, self.get(older)?))).find(|(_, request)| request.wants)
    }

    /// The requests for the storage that wait for memory.
    pub(crate) fn wanting(&self) -> &BTreeSet<RequestId> {
        &self.wanting
    }

    /// Pages that may not arrive yet of requests that wait for memory.
    pub(crate) fn held_up_pages(&self) -> u64 {
        self.held_up_pages
    }

    /// Pages of all requests for the storage, those that have arrived included.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Whether a request for `pages` is over before those beside it have told what came: they are
    /// told grant by grant.
    pub(crate) fn is_short(&self, pages: u64) -> bool {
        let beside = (self.made.len() - self.tier) as u64;
        pages < GRANT_PAGES && pages * SHORT_OF * beside < self.pages
    }

    /// Whether as many speculative requests are in flight as may be, where the storage is given
    /// `limit` requests at a time.
    pub(crate) fn is_speculation_full(&self, limit: usize) -> bool {
        self.speculative >= SPECULATIVE_MIN.max(limit - limit / DEMAND_SHARE)
    }

    /// Whether as many speculative requests are with the tier as may be, where its disk is given
    /// `depth` at a time.
    pub(crate) fn is_tier_full(&self, depth: usize) -> bool {
        self.tier_speculative >= depth
    }

    /// The tier does not have what `id` asks it for: the storage is asked. Returns whether its
    /// disk had not answered.
    pub(crate) fn left_disk(&mut self, id: RequestId) -> bool {
        self.made.get_mut(id).is_some_and(|request| core::mem::take(&mut request.is_at_disk))
    }

    /// The latest request that holds memory and that no read waits for or stands on; speculation
    /// before what was waited for once.
    pub(crate) fn latest_spare(&self) -> Option<RequestId> {
        self.spare.last().map(|&(_, id)| id)
    }

    /// The latest request that holds memory, that waits for more, that no ready read stands on,
    /// and that `may` be cancelled; speculation first. Costs a step for each that may not.
    pub(crate) fn latest_stalled(&self, may: impl Fn(RequestId) -> bool) -> Option<RequestId> {
        self.stalled.iter().rev().map(|&(_, id)| id).find(|&id| may(id))
    }

    /// All requests for `file`.
    pub(crate) fn of_file(&self, file: FileId) -> Vec<RequestId> {
        self.made.iter().filter(|(_, r)| r.file == file).map(|(id, _)| id).collect()
    }
}

/// The largest grant, in pages: 256 KiB. Lower: more events, which are four thousand a second at 1
/// GB/s already. Higher: memory is held for bytes that have not come; 1 MiB cost 5 % of a stream's
/// throughput in 96 MiB. Source: docs/decisions/0003.
pub(crate) const GRANT_PAGES: u64 = 64;

/// Older requests that a grant is left free for. Lower: the memory of an old request is given to
/// younger ones when a reader reaches it. Higher: more memory stays unused while it is left free.
/// Source: docs/decisions/0003.
const OLDER_MAX: usize = 8;

/// A request is short if it has less than one part in so many of what those beside it have on
/// average: a quarter. Lower: the bytes of longer requests are divided by the time of a shorter
/// one. Higher: where few requests are long, no request shows what the link carries. Source:
/// docs/decisions/0099.
const SHORT_OF: u64 = 4;

/// Speculative requests that may be made at any limit. Lower: where few may start, streams plan
/// again for each of them. Higher: more requests wait for their turn. Source: measured, as the
/// connections that fill a link (16 to 64).
const SPECULATIVE_MIN: usize = 64;

/// The part of the limit that is left to demand: an eighth. Lower: a larger part, and a fast link
/// with long latency is not filled by one stream. Higher: demand waits for the end of speculation.
/// Source: a guess, not measured; the same part may exceed the limit.
const DEMAND_SHARE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn make(requests: &mut Requests, start: u64, class: Class) -> RequestId {
        let id = requests.make(FileId(1), Extent::new(start, start + 256), None, class, Source::Storage);
        requests.wants(id, Nanos(0));
        id
    }

    #[test]
    fn demand_is_granted_first_then_the_oldest() {
        let mut requests = Requests::default();
        let old = make(&mut requests, 0, Class::Speculative);
        let new = make(&mut requests, 256, Class::Speculative);
        assert_eq!(requests.first_wanting().unwrap().0, old);
        requests.promote(new);
        assert_eq!(requests.first_wanting().unwrap().0, new);
        requests.grant(new, 512, Met::default(), Nanos(0));
        assert_eq!(requests.first_wanting().unwrap().0, old);
    }

    #[test]
    fn grants_are_whole_folios_and_end_with_the_request() {
        let request = Request {
            file: FileId(1),
            extent: Extent::new(5, 130),
            records: None,
            class: Class::Demand,
            source: Source::Storage,
            granted: 5,
            arrived: 5,
            kept: 0,
            waited: 0,
            wants: false,
            wants_since: Nanos(0),
            held_up: false,
            met: Met::default(),
            is_at_disk: false,
        };
        assert_eq!(request.next_grant(), Extent::new(5, 64));
        let request = Request { granted: 64, ..request };
        assert_eq!(request.next_grant(), Extent::new(64, 128));
        let request = Request { granted: 128, ..request };
        assert_eq!(request.next_grant(), Extent::new(128, 130));
    }

    #[test]
    fn a_grant_is_left_to_each_older_request_that_lacks_one() {
        let mut requests = Requests::default();
        let ids: Vec<_> = (0..12).map(|at| make(&mut requests, at * 256, Class::Speculative)).collect();
        assert_eq!(requests.left_to_older(ids[11]), 0, "no request has begun");
        ids.iter().zip(0..).for_each(|(&id, at)| requests.grant(id, at * 256 + 64, Met::default(), Nanos(0)));
        assert_eq!(requests.left_to_older(ids[0]), 0);
        assert_eq!(requests.left_to_older(ids[3]), 3 * GRANT_PAGES);
        assert_eq!(requests.left_to_older(ids[11]), OLDER_MAX as u64 * GRANT_PAGES);
        requests.grant(ids[0], 256, Met::default(), Nanos(0));
        assert_eq!(requests.left_to_older(ids[3]), 2 * GRANT_PAGES);
        // Demand is first, and leaves memory to those before it.
        requests.promote(ids[11]);
        for id in [ids[11], ids[2], ids[1]] {
            requests.wants(id, Nanos(0));
        }
        assert_eq!(requests.first_wanting().unwrap().0, ids[11]);
        let oldest = |requests: &Requests, id| requests.oldest_left_to(id).map(|(older, _)| older);
        assert_eq!(oldest(&requests, ids[11]), Some(ids[1]));
        requests.grant(ids[1], 512, Met::default(), Nanos(0));
        assert_eq!(oldest(&requests, ids[11]), Some(ids[2]));
        assert_eq!(oldest(&requests, ids[2]), None, "those before it do not wait");
    }

    #[test]
    fn speculation_is_counted_until_it_is_over_or_demand() {
        let mut requests = Requests::default();
        let ids: Vec<_> = (0..64).map(|at| make(&mut requests, at * 256, Class::Speculative)).collect();
        assert_eq!(requests.latest_spare(), None, "no request holds memory");
        ids[..63].iter().zip(0..).for_each(|(&id, at)| requests.grant(id, at * 256 + 64, Met::default(), Nanos(0)));
        assert!(requests.is_speculation_full(64));
        requests.promote(ids[63]);
        requests.promote(ids[63]);
        assert!(!requests.is_speculation_full(64));
        assert_eq!(requests.latest_spare(), Some(ids[62]));
        requests.keep(ids[62]);
        assert_eq!(requests.latest_spare(), Some(ids[61]), "a read keeps the latest");
        requests.waited_for(ids[61]);
        assert_eq!(requests.latest_spare(), Some(ids[60]), "a read waits for that one");
        requests.not_waited_for(ids[61]);
        assert_eq!(requests.latest_stalled(|_| true), None, "all have been granted what they wanted");
        requests.wants(ids[5], Nanos(0));
        assert_eq!(requests.latest_stalled(|_| true), Some(ids[5]));
        assert_eq!(requests.latest_stalled(|id| id < ids[3]), None);
        requests.unkeep(ids[62]);
        requests.finish(ids[63]);
        make(&mut requests, 1 << 20, Class::Speculative);
        assert!(requests.is_speculation_full(64));
        assert_eq!(requests.of_file(FileId(1)).len(), 64);
    }
}
