//! Questions about residency: which pages are absent, in flight or resident, and which have been
//! read.
//!
//! ```text
//!   pages       . . . [ read ][ unread ] . . . [ in flight ] . . . [ read ] . .
//!   next_hole   ^^^^^                              the first absent run
//!   next_sieve  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^     across resident folios, not those in flight
//!   before(p)                 |<------>| p         (0, unread pages): the read folio ends the run
//! ```
//!
//! *Invariants:* nothing changes here: every method takes `&self`. A page counts as in flight from
//! the moment at which a request for it is made, so two requests of one event cannot overlap.
//!
//! The file does not say what is to be fetched (`read::path::plan`) or evicted (`budget`). Source:
//! docs/decisions/0001; `before` is the kernel's `count_history_pages()`, `next_sieve` data
//! sieving (docs/decisions/0010).

use alloc::vec::Vec;

use super::{Budget, from_folio};
use crate::residency::folio::State;
use crate::units::{Extent, FileId, RequestId};

impl Budget {
    /// The first run of pages in `within` that are neither resident nor in flight: a hole.
    pub(crate) fn next_hole(&self, file: FileId, within: Extent) -> Option<Extent> {
        if within.is_empty() {
            return None;
        }
        let mut start = within.start;
        if let Some((_, covering)) = self.folios.0.covering(file, start) {
            start = start.max(covering.end);
        }
        for (at, folio) in self.folios.0.range(file, Extent::new(start, within.end.max(start))) {
            if at > start {
                return Some(Extent::new(start, at));
            }
            start = folio.end;
        }
        (start < within.end).then(|| Extent::new(start, within.end))
    }

    /// The first run of pages in `within` that begins and ends with a hole and holds no page in
    /// flight. It may hold resident pages.
    pub(crate) fn next_sieve(&self, file: FileId, within: Extent) -> Option<Extent> {
        let mut sieve = self.next_hole(file, within)?;
        while let Some(hole) = self.next_hole(file, Extent::new(sieve.end, within.end)) {
            let mut between = self.folios.0.range(file, Extent::new(sieve.end, hole.start));
            if between.any(|(_, folio)| folio.state() == State::InFlight) {
                break;
            }
            sieve.end = hole.end;
        }
        Some(sieve)
    }

    /// The requests that have pages of `extent` in flight.
    pub(crate) fn requests_in(&self, file: FileId, extent: Extent) -> Vec<RequestId> {
        let folios = self.folios.0.range(file, from_folio(&self.folios, file, extent));
        let in_flight = folios.filter(|(_, f)| f.state() == State::InFlight);
        let mut requests: Vec<_> = in_flight.map(|(_, f)| f.request).collect();
        distinct(&mut requests);
        requests
    }

    /// The start of the folio that holds `page`, if there is one.
    pub(crate) fn folio_of(&self, file: FileId, page: u64) -> Option<u64> {
        self.folios.0.covering(file, page).map(|(start, _)| start)
    }

    /// Whether `page` is in flight.
    pub(crate) fn is_in_flight(&self, file: FileId, page: u64) -> bool {
        self.folios.0.covering(file, page).is_some_and(|(_, folio)| folio.state() == State::InFlight)
    }

    /// The requests that have pages of `extent` in flight for which they have no memory yet.
    pub(crate) fn pending(&self, file: FileId, extent: Extent) -> Vec<RequestId> {
        let folios = self.folios.0.range(file, from_folio(&self.folios, file, extent));
        let mut requests: Vec<_> = folios.filter(|(_, f)| !f.charged).map(|(_, f)| f.request).collect();
        distinct(&mut requests);
        requests
    }

    /// How many pages directly before `page` have been read, at most `most`.
    pub(crate) fn read_before(&self, file: FileId, page: u64, most: u64) -> u64 {
        let mut start = page;
        for (at, folio) in self.folios.0.before(file, page) {
            if folio.end < start || page - start >= most || !folio.is_read() {
                break;
            }
            start = at;
        }
        (page - start).min(most)
    }

    /// How many pages of `within` are there or in flight, in folios that have not been read.
    pub(crate) fn unread_in(&self, file: FileId, within: Extent) -> u64 {
        let folios = self.folios.0.range(file, from_folio(&self.folios, file, within));
        let unread = folios.filter(|(_, folio)| !folio.is_read());
        unread.map(|(start, folio)| folio.end.min(within.end).saturating_sub(start.max(within.start))).sum()
    }

    /// How many pages of `file` are there in folios that have been read.
    pub(crate) fn read_pages(&self, file: FileId) -> u64 {
        self.files.get(&file).map_or(0, |held| held.read_pages)
    }

    /// How many pages are there in folios that begin in `within` and have been read.
    pub(crate) fn read_in(&self, file: FileId, within: Extent) -> u64 {
        let folios = self.folios.0.range(file, within);
        folios.filter(|(_, folio)| folio.is_read()).map(|(start, folio)| folio.end - start).sum()
    }

    /// The pages of each folio that begins in `within` and has been read.
    pub(crate) fn folios_read_in(&self, file: FileId, within: Extent) -> impl Iterator<Item = u64> {
        self.folios.0.range(file, within).filter(|(_, folio)| folio.is_read()).map(|(start, folio)| folio.end - start)
    }
}

/// Each request once. Between folios of one may lie those of another: pages that were resident
/// when it was made, or that lie between its records.
fn distinct(requests: &mut Vec<RequestId>) {
    requests.sort_unstable();
    requests.dedup();
}
