//! Coalescing: adjacent demand requests that wait in the fair queue start as one request.
//!
//! Each request costs the storage a first byte. Adjacent requests that start together cost one.
//!
//! ```text
//!   waiting    |.A.|.B.|     |.C.|.......D.......|
//!   B's turn   |AAA|BBB|                         one request; A and B end separately
//!                  ^ B is the lead and A joins it; C and D are not adjacent to them
//! ```
//!
//! The lead request and the requests that joined it are a *group*. A group has one place at the
//! storage:
//!
//! ```text
//!   ──enter──> waiting ──join──> in the group ──finish──> over; the last one frees the place
//!                 │                    │
//!                 │                    └─ the holder of the place ends first: an heir has it
//!                 └──leave: started alone, or cancelled
//! ```
//!
//! *Invariants:* only demand requests join or are joined. A group is adjacent pages of one file,
//! at most [`GROUP_PAGES_MAX`] long. No request is held back until a neighbour comes: a request
//! that does not have to wait is not joined.
//!
//! Speculation is not coalesced. Its size is the one that its stream wants, and a larger request
//! delays others. A read in place receives all bytes of a request at once, so speculation joined
//! to demand would delay the reader.
//!
//! This file does not decide which queue has its turn, nor whether there is memory for the group
//! (the read path asks for that before it joins). Source: docs/decisions/0023; front and back
//! merges of the kernel's block layer, at the moment of dispatch.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::units::{Extent, FileId, RequestId};

/// A demand request that has not been started.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    id: RequestId,
    end: u64,
}

/// The waiting demand requests by position, and the groups that have started.
#[derive(Debug, Default)]
pub(crate) struct Coalesce {
    /// By file and first page.
    waiting: BTreeMap<(FileId, u64), Waiting>,
    /// Each joined request, and the request of its group that holds the group's place.
    joined: BTreeMap<RequestId, RequestId>,
    /// The holder of each place, and the requests that joined it, if any.
    groups: BTreeMap<RequestId, BTreeSet<RequestId>>,
}

impl Coalesce {
    /// A waiting request is demand from now on.
    pub(crate) fn enter(&mut self, id: RequestId, file: FileId, extent: Extent) {
        self.waiting.insert((file, extent.start), Waiting { id, end: extent.end });
    }

    /// The request `id` at `start` has been started, or is cancelled.
    pub(crate) fn leave(&mut self, id: RequestId, file: FileId, start: u64) {
        if self.waiting.get(&(file, start)).is_some_and(|waiting| waiting.id == id) {
            self.waiting.remove(&(file, start));
        }
    }

    /// The waiting requests that form one run of pages with `extent`, as far as the group stays
    /// within [`GROUP_PAGES_MAX`]. Requests behind `extent` are taken before those in front of it.
    pub(crate) fn adjacent(&self, file: FileId, extent: Extent) -> Vec<RequestId> {
        let (mut group, mut found) = (extent, Vec::new());
        loop {
            let fits = |start: u64, end: u64| group.pages() + Extent::new(start, end).pages() <= GROUP_PAGES_MAX;
            let behind = self.waiting.get(&(file, group.end)).filter(|waiting| fits(group.end, waiting.end));
            if let Some(&Waiting { id, end }) = behind {
                found.push(id);
                group.end = end;
                continue;
            }
            let before = self.waiting.range((file, 0)..(file, group.start)).next_back();
            let is_adjacent = |&((_, start), &Waiting { end, .. }): &(&(FileId, u64), &Waiting)| {
                end == group.start && fits(*start, end)
            };
            let Some((&(_, start), &Waiting { id, .. })) = before.filter(is_adjacent) else { return found };
            found.push(id);
            group.start = start;
        }
    }

    /// `id` starts with `lead`.
    pub(crate) fn join(&mut self, id: RequestId, lead: RequestId) {
        self.joined.insert(id, lead);
        self.groups.entry(lead).or_default().insert(id);
    }

    /// How many requests have no place of their own at the storage.
    pub(crate) fn joined(&self) -> usize {
        self.joined.len()
    }

    /// The request that takes over the place of `id` when `id` ends: one of its group, if any.
    pub(crate) fn heir(&self, id: RequestId) -> Option<RequestId> {
        self.groups.get(&id)?.first().copied()
    }

    /// A started request is over. Returns whether a place at the storage is free now.
    pub(crate) fn finish(&mut self, id: RequestId) -> bool {
        if let Some(lead) = self.joined.remove(&id) {
            if let Some(group) = self.groups.get_mut(&lead) {
                group.remove(&id);
            }
            return false;
        }
        let mut group = self.groups.remove(&id).unwrap_or_default();
        let Some(next) = group.pop_first() else { return true };
        self.joined.remove(&next);
        self.joined.extend(group.iter().map(|&other| (other, next)));
        self.groups.insert(next, group);
        false
    }

    /// No request waits, and none is joined.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.joined.is_empty() && self.groups.is_empty()
    }
}

/// The longest group, in pages: 512 KiB, the piece in which a local file is read. A longer request
/// counts as long in the fair queue. Lower: neighbours pay a first byte each, which costs more
/// than their bytes. Higher: the first reader waits for bytes that had no turn yet; on an old disk
/// 512 KiB already take 8 ms. Source: docs/decisions/0021 (the piece) and 0023 (the group).
pub(crate) const GROUP_PAGES_MAX: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(1);

    fn waiting(all: &[(u64, u64, u64)]) -> Coalesce {
        let mut coalesce = Coalesce::default();
        for &(id, start, end) in all {
            coalesce.enter(RequestId(id), FILE, Extent::new(start, end));
        }
        coalesce
    }

    fn adjacent(coalesce: &Coalesce, start: u64, end: u64) -> Vec<u64> {
        let mut found: Vec<u64> = coalesce.adjacent(FILE, Extent::new(start, end)).iter().map(|id| id.0).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_run_of_adjacent_requests_is_found_on_both_sides() {
        let coalesce = waiting(&[(0, 0, 8), (1, 8, 16), (2, 24, 32), (3, 33, 40)]);
        assert_eq!(adjacent(&coalesce, 16, 24), [0, 1, 2], "there is a gap before the last one");
        assert_eq!(adjacent(&coalesce, 40, 48), [3]);
        assert_eq!(adjacent(&coalesce, 50, 60), [0; 0]);
        assert!(coalesce.adjacent(FileId(2), Extent::new(16, 24)).is_empty(), "another file");
    }

    #[test]
    fn a_group_stays_short() {
        let all: Vec<_> = (0..100).map(|at| (at, at * 16, at * 16 + 16)).collect();
        let mut coalesce = waiting(&all);
        coalesce.leave(RequestId(50), FILE, 50 * 16);
        assert_eq!(adjacent(&coalesce, 50 * 16, 51 * 16), [51, 52, 53, 54, 55, 56, 57]);
        assert_eq!(adjacent(&coalesce, 2_000, 2_000 + GROUP_PAGES_MAX), [0; 0]);
        let coalesce = waiting(&[(0, 0, 100), (1, 104, 112)]);
        assert_eq!(adjacent(&coalesce, 100, 104), [0, 1]);
        assert_eq!(adjacent(&coalesce, 100, 140), [0; 0], "neither neighbour fits");
    }

    #[test]
    fn a_request_that_left_is_not_found_and_removes_no_other() {
        let mut coalesce = waiting(&[(0, 0, 8), (1, 16, 24)]);
        coalesce.leave(RequestId(7), FILE, 16);
        assert_eq!(adjacent(&coalesce, 8, 16), [0, 1]);
        coalesce.leave(RequestId(1), FILE, 16);
        assert_eq!(adjacent(&coalesce, 8, 16), [0]);
    }

    #[test]
    fn a_place_is_free_when_the_last_request_of_a_group_is_over() {
        let mut coalesce = Coalesce::default();
        for id in 1..4 {
            coalesce.join(RequestId(id), RequestId(0));
        }
        coalesce.join(RequestId(11), RequestId(10));
        assert!(!coalesce.finish(RequestId(2)));
        assert!(!coalesce.finish(RequestId(0)), "the lead may be over first");
        assert_eq!(coalesce.joined(), 2, "one of the two that are left holds the place");
        assert!(!coalesce.finish(RequestId(3)));
        assert!(coalesce.finish(RequestId(1)));
        assert!(!coalesce.finish(RequestId(11)));
        assert!(coalesce.finish(RequestId(10)));
        assert!(coalesce.is_empty());
    }
}
