//! One folio: its state, what it is read ahead for, and what holding it costs.
//!
//! ```text
//!   from \ to    Unread   Partly   Used   removed       Folio::to asserts the first three columns
//!   InFlight        x        x       x       x          against State::CHANGES
//!   Unread                   x       x       x
//!   Partly                           x       x
//!   Used                                     x
//!
//!   charge   | pages x 4096 bytes | 512 bytes of bookkeeping |   of one folio
//!            | 256 KiB |                                         of one request of 1 MiB or more
//! ```
//!
//! *Invariants:* a folio changes its state only as [`State::CHANGES`] lists; the folder's header
//! holds the same list, and a test compares them. A folio that was read ahead keeps its purpose
//! ([`Ahead`]) until a reader touches it.
//!
//! The file does not decide when a state changes or what is evicted (`budget`, `replacement`).
//! Source: docs/decisions/0001 (policy keeps the states) and 0003 (arrival is charged when it is
//! granted).

use crate::residency::replacement::Uses;
use crate::units::{Extent, FileId, PAGE_BYTES, Records, RequestId};

/// Where a folio stands between its request and its eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// A request for it is made, and has not completed.
    InFlight,
    /// It has arrived, and no reader has touched it.
    Unread,
    /// Touched, but not on its last page: its reader is likely to go on. A reader that reads in
    /// steps of less than a folio always has one such folio.
    Partly,
    /// Read to its end, or treated as such.
    Used,
}

/// What is known of one folio. Its file and first page are its key in `FolioMap`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Folio {
    /// The page after its last one.
    pub(crate) end: u64,
    pub(crate) request: RequestId,
    state: State,
    /// Its memory is charged to the budget.
    pub(crate) charged: bool,
    /// What it was read ahead for, until a reader touches it.
    pub(crate) ahead_for: Option<Ahead>,
    /// How many ready reads keep it: it is not evicted then.
    pub(crate) kept: u32,
    /// It was to be evicted while it was kept, and is in no queue now.
    pub(crate) passed_over: bool,
    pub(crate) uses: Uses,
}

impl State {
    /// Every change of state: from, to, and its cause. A folio in any state can be removed.
    pub(crate) const CHANGES: [(Self, Self, &str); 6] = [
        (Self::InFlight, Self::Unread, "its request completes"),
        (Self::InFlight, Self::Partly, "a reader touches it before its request completes"),
        (Self::InFlight, Self::Used, "a reader touches its last page, or it was fetched nearby and completes"),
        (Self::Unread, Self::Partly, "a reader touches it"),
        (Self::Unread, Self::Used, "a reader touches its last page, or none comes for twelve seconds"),
        (Self::Partly, Self::Used, "a reader touches its last page, or room is needed five seconds later"),
    ];
}

impl Folio {
    /// A folio that ends before page `end`, requested by `request`, of which nothing is charged.
    pub(crate) fn in_flight(end: u64, request: RequestId, ahead_for: Option<Ahead>) -> Self {
        let (state, uses) = (State::InFlight, Uses::default());
        Self { end, request, state, charged: false, ahead_for, kept: 0, passed_over: false, uses }
    }

    /// Enters the state `next`.
    ///
    /// # Panics
    ///
    /// In a debug build, unless [`State::CHANGES`] has that change.
    pub(crate) fn to(&mut self, next: State) {
        debug_assert!(
            State::CHANGES.iter().any(|&(from, to, _)| (from, to) == (self.state, next)),
            "a folio does not become {next:?} from {:?}",
            self.state
        );
        self.state = next;
        self.passed_over = false;
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Whether a reader has touched it.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.state, State::Partly | State::Used) && self.ahead_for.is_none()
    }
}

/// A folio that was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) file: FileId,
    pub(crate) folio: Extent,
    /// What it was read ahead for, if no reader touched it.
    pub(crate) wasted_for: Option<Ahead>,
}

/// What a folio is read ahead for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// A stream that is expected to reach it. Kept until it does, or until demand needs the room.
    Stream(u64),
    /// An expected open of its file. Kept in the same way.
    File,
    /// The rest of a file whose start is read. Kept in the same way.
    Whole,
    /// A random read nearby. From its arrival on it is evicted like a folio that was read.
    Nearby,
}

/// The pages of `evicted` that were read ahead and never touched.
pub(crate) fn wasted(evicted: Evicted) -> u64 {
    if evicted.wasted_for.is_some() { evicted.folio.pages() } else { 0 }
}

/// Bytes that a request for `extent` holds beside its folios while it is in flight: data that its
/// connection has received and not passed on. The buffer of a connection that is busy for long
/// grows to 400 KiB; a short response is passed on as it arrives.
pub(crate) fn connection(extent: Extent) -> u64 {
    if extent.pages() * PAGE_BYTES < CONNECTION_BUSY_BYTES { 0 } else { CONNECTION_BYTES }
}

/// Bytes charged for all folios of `extent`.
pub(crate) fn charges(extent: Extent) -> u64 {
    extent.folios().map(charge).sum()
}

/// Bytes charged for all folios of `extent` that lie in `records`.
pub(crate) fn charges_within(records: Option<Records>, extent: Extent) -> u64 {
    Records::within(records, extent).map(charges).sum()
}

/// Bytes charged for one folio.
pub(crate) fn charge(folio: Extent) -> u64 {
    folio.pages() * PAGE_BYTES + FOLIO_OVERHEAD_BYTES
}

/// Bytes that policy and driver keep beside a folio's data: map entries on both sides, a queue
/// entry, the allocator's header. Lower: a cache of single pages exceeds its budget. Higher: a
/// cache holds fewer pages than fit. Source: docs/decisions/0001, which rests on this figure; an
/// upper estimate, not measured one by one.
pub(crate) const FOLIO_OVERHEAD_BYTES: u64 = 512;

/// Bytes charged for a busy connection. Lower: connections exceed the budget, forty of them by 16
/// MiB if nothing is charged. Higher: a small budget carries fewer requests than it could. Source:
/// measured through a mount, where the buffer of a busy connection grows to 400 KiB; the value
/// below that is a guess, not measured.
const CONNECTION_BYTES: u64 = 256 << 10;

/// Bytes of a response from which on its connection counts as busy: 1 MiB. Lower: requests are
/// charged for a buffer that they do not fill. Higher: buffers of longer requests are not charged.
/// Source: a guess, not measured.
const CONNECTION_BUSY_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_header_lists_every_change_of_state() {
        let header = include_str!("../residency.rs");
        let listed = header.lines().filter(|line| line.contains(" -> ")).count();
        assert_eq!(listed, State::CHANGES.len());
        for (from, to, cause) in State::CHANGES {
            let line = alloc::format!("//!   {:<20} {cause}", alloc::format!("{from:?} -> {to:?}"));
            assert!(header.lines().any(|other| other == line), "missing: {line}");
        }
    }

    #[test]
    #[should_panic(expected = "does not become InFlight from Used")]
    fn a_folio_that_was_read_is_never_in_flight_again() {
        let mut folio = Folio::in_flight(32, RequestId(0), None);
        folio.to(State::Used);
        folio.to(State::InFlight);
    }
}
