//! What the storage is asked for at once: one request, or several that touch and waited together. What comes of it is theirs again: each has
//! its folios filled, and its end told to policy once.
//!
//! ```text
//!   request 7    |####|              Carrier::Held, a joint of one
//!   request 9         |##|           Join 9 with 7: its folios go over to the joint of 7
//!                |####|##|           Grant 7: one range, one carrier for both
//!                 |    └ 9 given up: its bytes are dropped when they come, and the others go on
//!                 └ all of them given up: the carrier is
//! ```

use std::sync::Arc;

use foreread_policy::{Event, Extent, Nanos, PAGE_BYTES};
use smallvec::SmallVec;

use crate::engine::Inner;
use crate::file::Opened;
use crate::pages::table::Folios;
use crate::requests::fetch::Fetch;
use crate::shard::Shard;

/// See the module's text.
#[derive(Clone)]
pub(crate) struct Joint {
    pub(crate) opened: Arc<Opened>,
    /// The one whose turn it was comes first.
    members: SmallVec<[Arc<Fetch>; 1]>,
    /// Those of all, as they lie.
    pub(crate) folios: Folios,
    extent: Extent,
}

impl Joint {
    /// One request alone, with the folios that it fills.
    pub(crate) fn new(opened: Arc<Opened>, made: Arc<Fetch>, folios: Folios) -> Self {
        let extent = made.extent();
        Self { opened, members: [made].into(), folios, extent }
    }

    /// Takes in what touches it.
    pub(crate) fn join(&mut self, mut other: Self) {
        let (start, end) = (self.extent.start.min(other.extent.start), self.extent.end.max(other.extent.end));
        if other.extent.start < self.extent.start {
            std::mem::swap(&mut self.folios, &mut other.folios);
        }
        self.folios.append(&mut other.folios);
        self.members.append(&mut other.members);
        self.extent = Extent::new(start, end);
    }

    /// The request whose turn it was: when it is late all are.
    pub(crate) fn lead(&self) -> &Arc<Fetch> {
        &self.members[0]
    }

    pub(crate) fn members(&self) -> &[Arc<Fetch>] {
        &self.members
    }

    /// The pages of all of them.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether there is memory for all of it.
    pub(crate) fn is_granted(&self) -> bool {
        self.members.iter().all(|made| made.is_granted())
    }

    /// Whether a reader waits for one of those that lack bytes from `arrived` on.
    pub(crate) fn is_demanded(&self, arrived: u64) -> bool {
        self.members.iter().any(|made| made.is_demanded() && !self.is_whole(made, arrived))
    }

    /// It is over; the bytes before `arrived` have come. Each request that still counts is told of: as completed where all of its own have come, and
    /// otherwise as failed.
    pub(crate) fn settle(&self, engine: &Arc<Inner>, shard: &mut Shard, arrived: u64, first_byte: Nanos, total: Nanos) {
        for made in &self.members {
            let request = made.request();
            let event = if self.is_whole(made, arrived) {
                Event::Completed { request, first_byte, total }
            } else {
                Event::Failed { request }
            };
            // What policy does of one may have given up another.
            if shard.finished(request) {
                engine.tell(shard, event);
            }
        }
    }

    fn is_whole(&self, made: &Fetch, arrived: u64) -> bool {
        arrived >= (made.extent().end * PAGE_BYTES).min(self.opened.object.version.size)
    }
}
