//! What waits side by side is asked for at once: each request costs the storage a first byte, and what touches needs one for all.
//!
//! ```text
//!   waiting    |.A.|.B.|     |.C.|.......D.......|
//!   B's turn   |AAA|BBB|                              one request: A and B each end when their bytes are there
//!                  ^ whoever's turn it is takes along what touches it, whosever it is, as long as the whole stays short
//! ```
//!
//! A request that is taken along is *joined*. It takes no place at the storage of its own; the place is free when the last of them is over,
//! so one that is given up leaves it to the others. Nothing is held back for a neighbour to come: where nothing has to wait nothing is
//! joined. **Only what readers wait for** goes together. Speculation has the size that its stream wants, and what is added to it is in
//! the way of others; what nobody waits for, joined to what somebody does, would keep him waiting, since in place all of a request is
//! there at once. Origin: the back and front merges of block layers, at the moment of dispatch.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::units::{Extent, FileId, RequestId};

/// A request that has not been started and that a reader waits for.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    id: RequestId,
    end: u64,
}

/// What is waited for, by where it lies, and what was joined to what.
#[derive(Debug, Default)]
pub(crate) struct Coalesce {
    /// By file and first page.
    waiting: BTreeMap<(FileId, u64), Waiting>,
    /// Each that was joined, and one of the same whole that takes the place for all of them.
    joined: BTreeMap<RequestId, RequestId>,
}

impl Coalesce {
    /// A request that has not been started is waited for from now on.
    pub(crate) fn enter(&mut self, id: RequestId, file: FileId, extent: Extent) {
        self.waiting.insert((file, extent.start), Waiting { id, end: extent.end });
    }

    /// The request `id` at `start` has been started, or is over.
    pub(crate) fn leave(&mut self, id: RequestId, file: FileId, start: u64) {
        if self.waiting.get(&(file, start)).is_some_and(|waiting| waiting.id == id) {
            self.waiting.remove(&(file, start));
        }
    }

    /// What touches `extent`, or touches what does: as much as makes a short request.
    pub(crate) fn adjacent(&self, file: FileId, extent: Extent) -> Vec<RequestId> {
        let (mut whole, mut found) = (extent, Vec::new());
        loop {
            let fits = |start: u64, end: u64| whole.pages() + Extent::new(start, end).pages() <= WHOLE_PAGES_MAX;
            let behind = self.waiting.get(&(file, whole.end)).filter(|waiting| fits(whole.end, waiting.end));
            if let Some(&Waiting { id, end }) = behind {
                found.push(id);
                whole.end = end;
                continue;
            }
            let before = self.waiting.range((file, 0)..(file, whole.start)).next_back();
            let touches = |&((_, start), &Waiting { end, .. }): &(&(FileId, u64), &Waiting)| {
                end == whole.start && fits(*start, end)
            };
            let Some((&(_, start), &Waiting { id, .. })) = before.filter(touches) else { return found };
            found.push(id);
            whole.start = start;
        }
    }

    /// `id` is asked for with `lead`.
    pub(crate) fn join(&mut self, id: RequestId, lead: RequestId) {
        self.joined.insert(id, lead);
    }

    /// How many take no place of their own at the storage.
    pub(crate) fn joined(&self) -> usize {
        self.joined.len()
    }

    /// Who has the place of `id` once that is over: one of those that were joined to it, if any.
    pub(crate) fn heir(&self, id: RequestId) -> Option<RequestId> {
        self.joined.iter().find(|(_, lead)| **lead == id).map(|(&other, _)| other)
    }

    /// A request that was started is over. Whether the place that it had is free.
    pub(crate) fn finish(&mut self, id: RequestId) -> bool {
        if self.joined.remove(&id).is_some() {
            return false;
        }
        let Some(next) = self.heir(id) else { return true };
        self.joined.remove(&next);
        self.joined.values_mut().filter(|lead| **lead == id).for_each(|lead| *lead = next);
        false
    }

    /// Nothing waits, and nothing is joined.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.joined.is_empty()
    }
}

/// What requests come to that are asked for at once: 512 KiB, what an engine reads of a file at once. So none of them comes later than a short
/// request may keep others waiting (8 ms of an old disk); with more, whoever was first waits for what was not due. With less, neighbours
/// cost a first byte each that is dearer than their bytes.
pub(crate) const WHOLE_PAGES_MAX: u64 = 128;

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
    fn what_touches_what_touches_is_found_on_both_sides() {
        let coalesce = waiting(&[(0, 0, 8), (1, 8, 16), (2, 24, 32), (3, 33, 40)]);
        assert_eq!(adjacent(&coalesce, 16, 24), [0, 1, 2], "there is a gap before the last one");
        assert_eq!(adjacent(&coalesce, 40, 48), [3]);
        assert_eq!(adjacent(&coalesce, 50, 60), [0; 0]);
        assert!(coalesce.adjacent(FileId(2), Extent::new(16, 24)).is_empty(), "another file");
    }

    #[test]
    fn the_whole_stays_short() {
        let all: Vec<_> = (0..100).map(|at| (at, at * 16, at * 16 + 16)).collect();
        let mut coalesce = waiting(&all);
        coalesce.leave(RequestId(50), FILE, 50 * 16);
        assert_eq!(adjacent(&coalesce, 50 * 16, 51 * 16), [51, 52, 53, 54, 55, 56, 57]);
        assert_eq!(adjacent(&coalesce, 2_000, 2_000 + WHOLE_PAGES_MAX), [0; 0]);
        let coalesce = waiting(&[(0, 0, 100), (1, 104, 112)]);
        assert_eq!(adjacent(&coalesce, 100, 104), [0, 1]);
        assert_eq!(adjacent(&coalesce, 100, 140), [0; 0], "neither of them fits");
    }

    #[test]
    fn who_has_left_is_not_found_and_leaves_no_other() {
        let mut coalesce = waiting(&[(0, 0, 8), (1, 16, 24)]);
        coalesce.leave(RequestId(7), FILE, 16);
        assert_eq!(adjacent(&coalesce, 8, 16), [0, 1]);
        coalesce.leave(RequestId(1), FILE, 16);
        assert_eq!(adjacent(&coalesce, 8, 16), [0]);
    }

    #[test]
    fn a_place_is_free_when_the_last_of_a_whole_is_over() {
        let mut coalesce = Coalesce::default();
        for id in 1..4 {
            coalesce.join(RequestId(id), RequestId(0));
        }
        coalesce.join(RequestId(11), RequestId(10));
        assert!(!coalesce.finish(RequestId(2)));
        assert!(!coalesce.finish(RequestId(0)), "who leads may be over first");
        assert_eq!(coalesce.joined(), 2, "one of the two that are left has the place");
        assert!(!coalesce.finish(RequestId(3)));
        assert!(coalesce.finish(RequestId(1)));
        assert!(!coalesce.finish(RequestId(11)));
        assert!(coalesce.finish(RequestId(10)));
        assert!(coalesce.is_empty());
    }
}
