//! One folio: its state, what it is read ahead for, and what holding it costs.

use crate::residency::replacement::Uses;
use crate::units::{Extent, FileId, PAGE_BYTES, RequestId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    InFlight,
    Unread,
    /// Read, but not to its end: somebody is likely to go on. Whoever reads 128 KiB at a time has one such folio for ever.
    Partly,
    Used,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Folio {
    pub(crate) end: u64,
    pub(crate) request: RequestId,
    state: State,
    /// Its memory is spoken for.
    pub(crate) charged: bool,
    /// For whom it is read ahead, until it is read.
    pub(crate) ahead_for: Option<Ahead>,
    pub(crate) uses: Uses,
}

impl State {
    /// Every change of state there is: from, to, and what causes it. A folio in any state can be dropped.
    pub(crate) const CHANGES: [(Self, Self, &str); 6] = [
        (Self::InFlight, Self::Unread, "its request completes"),
        (Self::InFlight, Self::Partly, "a reader touches it, as far as it has come"),
        (Self::InFlight, Self::Used, "a reader touches its last page, or it was fetched nearby and completes"),
        (Self::Unread, Self::Partly, "a reader touches it"),
        (Self::Unread, Self::Used, "a reader touches its last page"),
        (Self::Partly, Self::Used, "a reader touches its last page, or none comes back for five seconds"),
    ];
}

impl Folio {
    /// A folio that ends before page `end`, asked for by `request`, of which nothing is charged.
    pub(crate) fn in_flight(end: u64, request: RequestId, ahead_for: Option<Ahead>) -> Self {
        Self { end, request, state: State::InFlight, charged: false, ahead_for, uses: Uses::default() }
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
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn is_read(&self) -> bool {
        matches!(self.state, State::Partly | State::Used) && self.ahead_for.is_none()
    }
}

/// A folio that had to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) file: FileId,
    pub(crate) folio: Extent,
    /// For whom it was read ahead in vain.
    pub(crate) wasted_for: Option<Ahead>,
}

/// For whom a folio is read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// A stream that will come to it. Kept until it does, or until demand needs the room.
    Stream(u64),
    /// Whoever is expected to open the file. Kept in the same way.
    File,
    /// Whoever comes to that place again. From its arrival it leaves like what has been read.
    Nearby,
}

/// The pages of `evicted` that were read ahead in vain.
pub(crate) fn wasted(evicted: Evicted) -> u64 {
    if evicted.wasted_for.is_some() { evicted.folio.pages() } else { 0 }
}

/// What a request for `extent` holds besides its folios while it is in flight, in bytes: what its connection has read and not
/// handed on. The buffer of a connection that is busy for long grows to 400 KiB; a short response is handed on as it comes.
pub(crate) fn connection(extent: Extent) -> u64 {
    if extent.pages() * PAGE_BYTES < CONNECTION_BUSY_BYTES { 0 } else { CONNECTION_BYTES }
}

/// What holding all folios of `extent` costs, in bytes.
pub(crate) fn charges(extent: Extent) -> u64 {
    extent.folios().map(charge).sum()
}

/// What holding a folio costs, in bytes.
pub(crate) fn charge(folio: Extent) -> u64 {
    folio.pages() * PAGE_BYTES + FOLIO_OVERHEAD_BYTES
}

/// What policy and driver keep beside a folio's bytes: map entries on both sides, a queue entry, the allocator's header.
/// Lower and a cache of single pages outgrows its budget; higher and it holds fewer pages than it could.
pub(crate) const FOLIO_OVERHEAD_BYTES: u64 = 512;

/// What a busy connection is charged. Less and forty connections outgrow the budget by 16 MiB; more and a small budget carries
/// fewer requests than it could.
const CONNECTION_BYTES: u64 = 256 << 10;

/// The response from which on a connection counts as busy: 1 MiB.
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
