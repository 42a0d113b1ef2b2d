//! What the storage is asked for at once: one request, or adjacent ones that waited together.
//!
//! ```text
//!   request 7    |####|              waits, a joint of one
//!   request 9         |##|           Join 9 with 7: its folios go over to the joint of 7
//!                |####|##|           Grant 7: one range, one carrier for both
//!                 |    └ 9 given up: its bytes are dropped when they come, and 7 goes on
//!                 └ both given up: so is the carrier
//! ```
//!
//! The answer is each request's own again: its folios are filled, and policy is told of its end
//! once.

use std::sync::Arc;

use foreread_policy::{Event, Extent, Nanos, PAGE_BYTES, RequestId, Source};
use smallvec::SmallVec;

use crate::pages::folio::Folios;
use crate::pages::opened::Opened;
use crate::pages::request::Request;

/// One request, or adjacent ones that are asked for together.
#[derive(Clone)]
pub(crate) struct Joint {
    pub(crate) opened: Arc<Opened>,
    /// The lead comes first: the request that had its turn.
    members: SmallVec<[Arc<Request>; 1]>,
    /// The folios of all members, in order.
    pub(crate) folios: Folios,
    extent: Extent,
    /// Where the bytes come from.
    pub(crate) source: Source,
}

/// How far a joint request has come when it is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    /// The bytes of the object before this one have come.
    pub(crate) arrived: u64,
    /// From submission to the first byte.
    pub(crate) first_byte: Nanos,
    /// The longest that the storage was silent.
    pub(crate) silence: Nanos,
    /// From submission to the end.
    pub(crate) total: Nanos,
}

impl End {
    /// Nothing has come.
    pub(crate) fn of_nothing() -> Self {
        Self { arrived: 0, first_byte: Nanos(0), silence: Nanos(0), total: Nanos(0) }
    }
}

impl Joint {
    /// One request alone, with the folios that it fills.
    pub(crate) fn new(opened: Arc<Opened>, request: Arc<Request>, folios: Folios, source: Source) -> Self {
        let extent = request.extent();
        Self { opened, members: [request].into(), folios, extent, source }
    }

    /// `source` is asked for it.
    pub(crate) fn ask(&self, source: Source) {
        self.members.iter().for_each(|member| member.course().ask(member.made(), source));
    }

    /// Its first byte has come.
    pub(crate) fn answer(&self) {
        self.members.iter().for_each(|member| member.course().answer(member.made()));
    }

    /// Takes in an adjacent one.
    pub(crate) fn join(&mut self, mut other: Self) {
        let (start, end) = (self.extent.start.min(other.extent.start), self.extent.end.max(other.extent.end));
        if other.extent.start < self.extent.start {
            std::mem::swap(&mut self.folios, &mut other.folios);
        }
        self.folios.append(&mut other.folios);
        self.members.append(&mut other.members);
        self.extent = Extent::new(start, end);
    }

    /// The request that had its turn: when it is late, all are.
    pub(crate) fn lead(&self) -> &Arc<Request> {
        &self.members[0]
    }

    pub(crate) fn members(&self) -> &[Arc<Request>] {
        &self.members
    }

    /// The pages of all members.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether there is memory for all of it.
    pub(crate) fn is_granted(&self) -> bool {
        self.members.iter().all(|member| member.is_granted())
    }

    /// Whether a reader waits for a member that lacks bytes, those before `arrived` having come.
    pub(crate) fn is_demanded(&self, arrived: u64) -> bool {
        self.members.iter().any(|member| member.is_demanded() && !self.is_whole(member, arrived))
    }

    /// What each member has come to: completed, if all of its own bytes have come, or failed.
    pub(crate) fn ends(&self, end: End) -> impl Iterator<Item = (RequestId, Event)> {
        let End { arrived, first_byte, silence, total } = end;
        self.members.iter().map(move |member| {
            let request = member.id();
            let event = if self.is_whole(member, arrived) {
                Event::Completed { request, first_byte, silence, total }
            } else {
                Event::Failed { request }
            };
            (request, event)
        })
    }

    /// The pages that lack bytes, those before `arrived` having come.
    pub(crate) fn lacking(&self, arrived: u64) -> impl Iterator<Item = Extent> {
        let lacking = self.members.iter().filter(move |member| !self.is_whole(member, arrived));
        lacking.map(|member| member.extent())
    }

    fn is_whole(&self, member: &Request, arrived: u64) -> bool {
        arrived >= (member.extent().end * PAGE_BYTES).min(self.opened.size())
    }
}
