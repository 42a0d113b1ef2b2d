//! One request to the storage, made of one or more requests of policy that touch.

use std::collections::VecDeque;

use foreread_policy::{Extent, FileId, Nanos, RequestId};

use super::page::Page;

/// What the storage is asked for at once: a request on its way, or several that touch, under the name of the one whose turn it was.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) file: FileId,
    /// The open file for which it was made.
    pub(super) descriptor: u32,
    pub(super) extent: Extent,
    pub(super) bytes: u64,
    /// When the storage was asked; `None` while it is not its turn.
    pub(super) since_ns: Option<u64>,
    /// After how long without an answer it is late.
    pub(super) late: Option<Nanos>,
    pub(super) first_byte_ns: Option<u64>,
    /// Bytes that have come, and those that were taken in.
    pub(super) came: u64,
    pub(super) taken: u64,
    /// The next page to be taken in, and the first that must not be yet.
    pub(super) next: u64,
    pub(super) granted: u64,
    pub(super) wants: bool,
    /// How often it broke off.
    pub(super) broken: u64,
    /// Attempts that were made, the names of those that have not ended (two while it is made twice), and after how many bytes the
    /// last one breaks off.
    pub(super) attempts: u64,
    pub(super) asked: Vec<RequestId>,
    pub(super) breaks_at: Option<u64>,
    pub(super) request: RequestId,
    /// The requests that it is made of and that have not been given up, as they lie.
    pub(super) members: VecDeque<Member>,
    /// Who waits for which folio (its first page), and in which epoch of his.
    pub(super) waiting: Vec<(u64, usize, u32)>,
}

/// One request of those that are asked for at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) request: RequestId,
    pub(super) extent: Extent,
    /// When it was submitted.
    pub(super) at_ns: u64,
}

impl InFlight {
    /// Takes in what touches it.
    pub(super) fn join(&mut self, other: Self) {
        debug_assert!(self.since_ns.is_none() && other.since_ns.is_none(), "what is on its way stays as it is");
        let (mut members, mut waiting) = (other.members, other.waiting);
        if other.extent.end == self.extent.start {
            members.append(&mut self.members);
            self.members = members;
        } else {
            self.members.append(&mut members);
        }
        self.extent = Extent::new(self.extent.start.min(other.extent.start), self.extent.end.max(other.extent.end));
        self.bytes += other.bytes;
        (self.next, self.granted) = (self.extent.start, self.extent.start);
        self.waiting.append(&mut waiting);
    }

    /// One of the requests is given up: whoever waits for it waits no longer.
    pub(super) fn part(&mut self, request: RequestId) {
        if let Some(at) = self.members.iter().position(|member| member.request == request)
            && let Some(Member { extent, .. }) = self.members.remove(at)
        {
            self.waiting.retain(|&(start, ..)| !extent.contains(start));
        }
    }

    /// Whether `entry` is a page that it fetches.
    pub(super) fn fetches(&self, entry: Page) -> bool {
        self.members.iter().any(|member| u64::from(entry.request) == member.request.0)
    }

    /// A name for the next attempt.
    pub(super) fn ask(&mut self) -> RequestId {
        let name = RequestId(self.request.0 << ATTEMPT_BITS | self.attempts);
        self.attempts += 1;
        self.asked.push(name);
        name
    }

    /// Whether `attempt` is one that counts. If so no other does from now on; those are moved to `others`.
    pub(super) fn hear(&mut self, attempt: RequestId, others: &mut Vec<RequestId>) -> bool {
        let Some(at) = self.asked.iter().position(|&asked| asked == attempt) else { return false };
        if self.asked.len() > 1 {
            // Only the first one breaks off.
            self.breaks_at = self.breaks_at.filter(|_| at == 0);
            self.asked.swap_remove(at);
            others.append(&mut self.asked);
            self.asked.push(attempt);
        }
        true
    }
}

/// Of what the storage calls an attempt, those that number it.
pub(super) const ATTEMPT_BITS: u32 = 16;
