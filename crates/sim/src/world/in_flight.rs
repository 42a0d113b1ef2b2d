//! One request to the storage, made of one or more adjacent requests of policy.

use std::collections::VecDeque;

use foreread_policy::{Extent, FileId, Nanos, RequestId, Source};

use super::page::Page;

/// One operation at the storage: a request of policy, or several adjacent ones under the name of
/// the lead.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) file: FileId,
    /// The open file for which it was made.
    pub(super) descriptor: u32,
    pub(super) extent: Extent,
    /// Where it comes from.
    pub(super) source: Source,
    pub(super) bytes: u64,
    /// When it started; `None` while it waits for its turn.
    pub(super) since_ns: Option<u64>,
    /// How long it may have no answer before it is late.
    pub(super) late: Option<Nanos>,
    pub(super) first_byte_ns: Option<u64>,
    /// Bytes that have come; `taken` counts those that were taken in.
    pub(super) came: u64,
    pub(super) taken: u64,
    /// The next page to take in; `granted` is the first without a grant.
    pub(super) next: u64,
    pub(super) granted: u64,
    pub(super) wants: bool,
    /// Attempts that failed.
    pub(super) broken: u64,
    /// Attempts made so far; `asked` names those in flight (two while a request is hedged); the
    /// first breaks off after `breaks_at` bytes.
    pub(super) attempts: u64,
    pub(super) asked: Vec<RequestId>,
    pub(super) breaks_at: Option<u64>,
    pub(super) request: RequestId,
    /// Its requests that are not cancelled, in the order of their extents.
    pub(super) members: VecDeque<Member>,
    /// Waiting readers: the first page of the folio, the reader, and the reader's epoch.
    pub(super) waiting: Vec<(u64, usize, u32)>,
}

/// One request of policy in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) request: RequestId,
    pub(super) extent: Extent,
    /// When it was submitted.
    pub(super) at_ns: u64,
    /// A reader waits for it, or did.
    pub(super) demanded: bool,
}

impl InFlight {
    /// Merges an adjacent request into it.
    pub(super) fn join(&mut self, other: Self) {
        debug_assert!(
            self.since_ns.is_none() && other.since_ns.is_none(),
            "only requests that have not started are merged"
        );
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

    /// Removes a cancelled request; its waiting readers wait no longer.
    pub(super) fn part(&mut self, request: RequestId) {
        if let Some(at) = self.members.iter().position(|member| member.request == request)
            && let Some(Member { extent, .. }) = self.members.remove(at)
        {
            self.waiting.retain(|&(start, ..)| !extent.contains(start));
        }
    }

    /// Whether `entry` is a page that it fetches.
    pub(super) fn fetches(&self, entry: Page) -> bool {
        self.members.iter().any(|member| entry.request() == member.request)
    }

    /// A reader waits for the page that `entry` is.
    pub(super) fn demand(&mut self, entry: Page) {
        let member = self.members.iter_mut().find(|member| entry.request() == member.request);
        if let Some(member) = member {
            member.demanded = true;
        }
    }

    /// Whether a reader waits for one of its requests that has not arrived.
    pub(super) fn is_demanded(&self) -> bool {
        self.members.iter().any(|member| member.demanded && member.extent.end > self.next)
    }

    /// A name for the next attempt.
    pub(super) fn ask(&mut self) -> RequestId {
        let name = RequestId(self.request.0 << ATTEMPT_BITS | self.attempts);
        self.attempts += 1;
        self.asked.push(name);
        name
    }

    /// Whether `attempt` is in flight. If so, it is the only one from now on; the rest move to
    /// `others`.
    pub(super) fn hear(&mut self, attempt: RequestId, others: &mut Vec<RequestId>) -> bool {
        let Some(at) = self.asked.iter().position(|&asked| asked == attempt) else { return false };
        if self.asked.len() > 1 {
            // Only the first attempt breaks off.
            self.breaks_at = self.breaks_at.filter(|_| at == 0);
            self.asked.swap_remove(at);
            others.append(&mut self.asked);
            self.asked.push(attempt);
        }
        true
    }
}

/// Lower bits of an attempt's name, which number it.
pub(super) const ATTEMPT_BITS: u32 = 16;
