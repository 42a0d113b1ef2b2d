//! The requests in flight, and who of them is granted memory next.
//!
//! A request holds memory only for what may arrive of it: its grant, which it outgrows step by step ([`Event::Wants`]). What a reader
//! waits for comes first, then the oldest, since that is what a reader comes to first.
//!
//! [`Event::Wants`]: crate::Event::Wants

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::collections::request_map::RequestMap;
use crate::units::Class;
use crate::units::{Extent, FOLIO_PAGES_MAX, FileId, RequestId};

/// One request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) file: FileId,
    pub(crate) extent: Extent,
    pub(crate) class: Class,
    /// The page after the last one that may arrive.
    pub(crate) granted: u64,
    /// Who else was there when it came to the storage.
    pub(crate) met: Met,
}

/// What a request met when it came to the storage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Met {
    /// How many others that readers waited for.
    pub(crate) demanded: usize,
    /// Nobody.
    pub(crate) nobody: bool,
    /// How many have ever come to the storage, itself included.
    pub(crate) came: u64,
}

impl Request {
    /// The pages that it is granted next: whole folios.
    pub(crate) fn next_grant(self) -> Extent {
        let end = (self.granted + GRANT_PAGES) / FOLIO_PAGES_MAX * FOLIO_PAGES_MAX;
        Extent::new(self.granted, end.min(self.extent.end))
    }

    fn is_granted_whole(self) -> bool {
        self.granted >= self.extent.end
    }
}

/// All requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// In the order in which they were made.
    made: RequestMap<Request>,
    /// Those that could be given more than they are granted.
    wanting: BTreeSet<RequestId>,
    speculative: usize,
    next: u64,
    /// How many have come to the storage.
    came: u64,
}

impl Requests {
    /// Whether no other was with the storage from when `request` came there until now.
    pub(crate) fn was_alone(&self, request: Request) -> bool {
        request.met.nobody && request.met.came == self.came
    }

    /// How many are in flight that readers wait for.
    pub(crate) fn demanded(&self) -> usize {
        self.made.len() - self.speculative
    }

    /// A request for `extent`, of which nothing is granted.
    pub(crate) fn make(&mut self, file: FileId, extent: Extent, class: Class) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        self.made.push(id, Request { file, extent, class, granted: extent.start, met: Met::default() });
        self.speculative += usize::from(class == Class::Speculative);
        id
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<Request> {
        self.made.get(id).copied()
    }

    /// A request is over, whatever became of it.
    pub(crate) fn finish(&mut self, id: RequestId) -> Option<Request> {
        let request = self.made.remove(id)?;
        self.wanting.remove(&id);
        self.speculative -= usize::from(request.class == Class::Speculative);
        Some(request)
    }

    /// A reader waits for it: whatever it was made for, it is demand now.
    pub(crate) fn promote(&mut self, id: RequestId) {
        if let Some(request) = self.made.get_mut(id)
            && request.class == Class::Speculative
        {
            request.class = Class::Demand;
            self.speculative -= 1;
        }
    }

    /// It has been given all that it was granted.
    pub(crate) fn wants(&mut self, id: RequestId) {
        if self.made.get(id).is_some_and(|r| !r.is_granted_whole()) {
            self.wanting.insert(id);
        }
    }

    /// Who is granted memory next.
    pub(crate) fn first_wanting(&self) -> Option<(RequestId, Request)> {
        let demanded = |id: &&RequestId| self.made.get(**id).is_some_and(|r| r.class == Class::Demand);
        let id = *self.wanting.iter().find(demanded).or_else(|| self.wanting.first())?;
        Some((id, self.get(id)?))
    }

    /// It may have pages up to `end`. With the first of them it comes to the storage, and has `met` others there.
    pub(crate) fn grant(&mut self, id: RequestId, end: u64, met: Met) {
        self.wanting.remove(&id);
        if let Some(request) = self.made.get_mut(id) {
            if request.granted == request.extent.start {
                self.came += 1;
                request.met = Met { came: self.came, ..met };
            }
            request.granted = end;
        }
    }

    /// How many pages to leave to requests that were made before `id`, have begun and are not granted whole, or a reader would come to the oldest
    /// and find the memory given to what it needs last.
    pub(crate) fn left_to_older(&self, id: RequestId) -> u64 {
        let begun = |r: &Request| r.granted > r.extent.start && !r.is_granted_whole();
        let older = self.made.iter().take_while(|(other, _)| *other < id).filter(|(_, r)| begun(r));
        older.take(OLDER_MAX).count() as u64 * GRANT_PAGES
    }

    /// Those that wait for memory.
    pub(crate) fn wanting(&self) -> &BTreeSet<RequestId> {
        &self.wanting
    }

    /// Whether enough speculation is in flight.
    pub(crate) fn is_speculation_full(&self) -> bool {
        self.speculative >= SPECULATIVE_MAX
    }

    /// The speculative request that was made last: of those that hold memory, or else of those whose connection does.
    pub(crate) fn latest_speculative(&self) -> Option<RequestId> {
        let speculative = || self.made.iter().rev().filter(|(_, r)| r.class == Class::Speculative);
        let begun = speculative().find(|(_, r)| r.granted > r.extent.start);
        begun.or_else(|| speculative().next()).map(|(id, _)| id)
    }

    /// All requests for `file`.
    pub(crate) fn of_file(&self, file: FileId) -> Vec<RequestId> {
        self.made.iter().filter(|(_, r)| r.file == file).map(|(id, _)| id).collect()
    }
}

/// Pages granted at a time: 256 KiB. Smaller makes more events (four thousand a second at 1 GB/s as it is), larger holds memory for
/// what has not come: 1 MiB cost 5 % of a stream's throughput in 96 MiB.
const GRANT_PAGES: u64 = 64;

/// Older requests that each leave a grant free.
const OLDER_MAX: usize = 8;

/// Speculative requests in flight at once. Above the useful concurrency of every storage measured (16 to 64 connections fill a
/// link); higher only makes demand wait behind speculation.
const SPECULATIVE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn make(requests: &mut Requests, start: u64, class: Class) -> RequestId {
        let id = requests.make(FileId(1), Extent::new(start, start + 256), class);
        requests.wants(id);
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
        requests.grant(new, 512, Met::default());
        assert_eq!(requests.first_wanting().unwrap().0, old);
    }

    #[test]
    fn grants_are_whole_folios_and_end_with_the_request() {
        let request = Request {
            file: FileId(1),
            extent: Extent::new(5, 130),
            class: Class::Demand,
            granted: 5,
            met: Met::default(),
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
        assert_eq!(requests.left_to_older(ids[11]), 0, "none of them has begun");
        ids.iter().zip(0..).for_each(|(&id, at)| requests.grant(id, at * 256 + 64, Met::default()));
        assert_eq!(requests.left_to_older(ids[0]), 0);
        assert_eq!(requests.left_to_older(ids[3]), 3 * GRANT_PAGES);
        assert_eq!(requests.left_to_older(ids[11]), OLDER_MAX as u64 * GRANT_PAGES);
        requests.grant(ids[0], 256, Met::default());
        assert_eq!(requests.left_to_older(ids[3]), 2 * GRANT_PAGES);
    }

    #[test]
    fn speculation_is_counted_until_it_is_over_or_demand() {
        let mut requests = Requests::default();
        let ids: Vec<_> = (0..64).map(|at| make(&mut requests, at * 256, Class::Speculative)).collect();
        assert_eq!(requests.latest_speculative(), Some(ids[63]), "none of them holds memory");
        ids[..63].iter().zip(0..).for_each(|(&id, at)| requests.grant(id, at * 256 + 64, Met::default()));
        assert!(requests.is_speculation_full());
        requests.promote(ids[63]);
        requests.promote(ids[63]);
        assert!(!requests.is_speculation_full());
        assert_eq!(requests.latest_speculative(), Some(ids[62]));
        requests.finish(ids[63]);
        make(&mut requests, 1 << 20, Class::Speculative);
        assert!(requests.is_speculation_full());
        assert_eq!(requests.of_file(FileId(1)).len(), 64);
    }
}
