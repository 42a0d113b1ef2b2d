//! Requests: executes the actions of policy, and tells it of their results.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::mem;

use foreread_policy::{
    Action, Class, Event, Extent, FileId, Nanos, PAGE_BYTES, REQUEST_PAGES_MAX, Records, RequestId, Source,
};

use super::World;
use super::in_flight::{ATTEMPT_BITS, InFlight, Member};
use super::page::{AGAIN, KNOWN, MARKED, Page, THERE};
use crate::outcome::violation::Violation;
use crate::policy::{Grain, Reading};
use crate::storage::delivery::Delivery;

impl World<'_> {
    /// Takes deliveries due by now, and wakes the readers that waited for them.
    pub(super) fn deliver(&mut self) -> Result<(), Violation> {
        self.storage.advance(self.now_ns);
        if let Some(tier) = &mut self.tier {
            tier.storage.advance(self.now_ns);
        }
        while self.refused.front().is_some_and(|&(at_ns, _)| at_ns <= self.now_ns) {
            if let Some((_, request)) = self.refused.pop_front() {
                self.attempt(request);
            }
        }
        while let Some(delivery) = self.storage.poll().or_else(|| self.tier.as_mut()?.storage.poll()) {
            match delivery {
                Delivery::Head(attempt) => {
                    let request = RequestId(attempt.0 >> ATTEMPT_BITS);
                    if self.hear(request, attempt) {
                        self.begun(request);
                    }
                }
                Delivery::Bytes(attempt, bytes) => {
                    let request = RequestId(attempt.0 >> ATTEMPT_BITS);
                    if self.hear(request, attempt)
                        && let Some(this) = self.requests.get_mut(&request)
                    {
                        this.came += bytes;
                        if this.first_byte_ns.is_none() {
                            self.begun(request);
                        }
                        let Some(this) = self.requests.get_mut(&request) else { continue };
                        let broken = this.breaks_at.is_some_and(|at| this.came >= at);
                        this.came = this.came.min(this.breaks_at.unwrap_or(u64::MAX));
                        self.take_in(request)?;
                        if broken {
                            self.broke(request)?;
                        }
                    }
                }
                Delivery::Broken(violation) => return Err(violation),
                Delivery::Refused(attempt, after_ns) => {
                    let request = RequestId(attempt.0 >> ATTEMPT_BITS);
                    if self.hear(request, attempt)
                        && let Some(this) = self.requests.get_mut(&request)
                    {
                        this.asked.clear();
                        self.refused.push_back((self.now_ns + after_ns.max(1), request));
                        self.refused.make_contiguous().sort_unstable();
                    }
                }
            }
        }
        self.wake()
    }

    /// Something came of `attempt`. Whether it is listened to; if there were two, the other one is
    /// given up.
    fn hear(&mut self, request: RequestId, attempt: RequestId) -> bool {
        let mut others = Vec::new();
        let Some(this) = self.requests.get_mut(&request) else { return false };
        let (heard, source) = (this.hear(attempt, &mut others), this.source);
        self.give_up(source, others);
        heard
    }

    /// The first byte of `request` has come.
    fn begun(&mut self, request: RequestId) {
        let Some(this) = self.requests.get_mut(&request) else { return };
        let took = self.now_ns - this.since_ns.unwrap_or(self.now_ns);
        this.first_byte_ns = Some(took);
        let (file, extent) = (this.file, this.extent);
        self.quickest_ns = self.quickest_ns.min(took.max(1));
        if took / SLOW > self.quickest_ns {
            self.begin_patience(file, extent);
        }
    }

    /// Tells policy of late requests.
    pub(super) fn tell_late(&mut self) -> Result<(), Violation> {
        while let Some(&Reverse((at_ns, request))) = self.late.peek()
            && at_ns <= self.now_ns
        {
            self.late.pop();
            // Of merged requests, the lead reports for all.
            let counts = |this: &InFlight| this.members.iter().any(|member| member.request == request);
            if self.requests.get(&request).is_some_and(|this| this.first_byte_ns.is_none() && counts(this)) {
                let silence = at_ns - self.requests.get(&request).and_then(|this| this.since_ns).unwrap_or(at_ns);
                self.tell(Reading::default(), Event::Late { request, silence: Nanos(silence) })?;
                // A reader may begin to wait for it.
                if self.requests.get(&request).is_some_and(|this| this.asked.len() == 1) {
                    self.late.push(Reverse((at_ns + silence, request)));
                }
            }
        }
        Ok(())
    }

    /// Makes a second attempt of a request.
    fn hedge(&mut self, request: RequestId) {
        let Some(this) = self.requests.get_mut(&request) else { return };
        let (file, offset, rest) = (this.file, this.extent.start * PAGE_BYTES + this.taken, this.bytes - this.taken);
        let (hedge, descriptor) = (this.ask(), this.descriptor);
        self.tally.asked_again(self.now_ns);
        self.storage.read(self.now_ns, hedge, descriptor, self.index(file), offset, rest);
    }

    /// Readers that have all their pages go on.
    pub(super) fn wake(&mut self) -> Result<(), Violation> {
        while let Some(reader) = self.woken.pop_front() {
            self.go_on(reader)?;
        }
        Ok(())
    }

    /// Takes in the bytes of `request` that have come and are granted.
    pub(super) fn take_in(&mut self, request: RequestId) -> Result<(), Violation> {
        let Some(mut this) = self.requests.remove(&request) else { return Ok(()) };
        // Granted bytes are taken in as they come; a folio is resident when all its bytes have.
        let room = (this.granted - this.extent.start) * PAGE_BYTES;
        let taken = this.came.min(room).max(this.taken);
        if let Some(&attempt) = this.asked.first() {
            let now_ns = self.now_ns;
            self.device(this.source).taken(now_ns, attempt, taken - this.taken);
        }
        this.taken = taken;
        while this.next < this.extent.end && this.next < this.granted {
            let entry = self.pages.get(this.file, this.next);
            // A folio that was dropped meanwhile left a gap, or other folios took its place.
            let end = (this.next + u64::from(entry.pages - entry.back).max(1)).min(this.extent.end);
            let until = ((end - this.extent.start) * PAGE_BYTES).min(this.bytes);
            if this.taken < until {
                break;
            }
            self.arrive(&mut this, end);
        }
        let ended = this.next == this.extent.end;
        let wants = !ended && this.next >= this.granted && this.came > this.taken && !this.wants;
        this.wants |= wants;
        self.requests.insert(request, this);
        if ended {
            self.settle(request)
        } else if wants {
            self.tell(Reading::default(), Event::Wants { request })
        } else {
            Ok(())
        }
    }

    /// Ends a request to the storage: policy hears of each member once. A member whose bytes have
    /// all come is complete, whatever became of the others. Reads that still wait for the request
    /// once it is over end with an error. So do reads that became ready while policy was told of
    /// the first members.
    pub(super) fn settle(&mut self, carrier: RequestId) -> Result<(), Violation> {
        while let Some(this) = self.requests.get_mut(&carrier) {
            let first_byte = Nanos(this.first_byte_ns.unwrap_or(0));
            let total = Nanos(self.now_ns - this.since_ns.unwrap_or(self.now_ns));
            let (member, next) = (this.members.pop_front(), this.next);
            let over = this.members.is_empty().then(|| self.requests.remove(&carrier)).flatten();
            let Some(Member { request, extent, .. }) = member else { break };
            self.joined.remove(&request);
            let event = if extent.end <= next {
                Event::Completed { request, first_byte, silence: first_byte, total }
            } else {
                Event::Failed { request }
            };
            self.tell(Reading::default(), event)?;
            for (_, number, epoch) in over.into_iter().flat_map(|over| over.waiting) {
                if self.readers[number].epoch == epoch {
                    self.abort(number);
                }
            }
        }
        Ok(())
    }

    /// The lead request that carries `request`.
    pub(super) fn carrier(&self, request: RequestId) -> RequestId {
        self.joined.get(&request).copied().unwrap_or(request)
    }

    /// The pages of a request before `end` have arrived.
    pub(super) fn arrive(&mut self, this: &mut InFlight, end: u64) {
        for page in this.next..end {
            let entry = self.pages.entry(this.file, page);
            if entry.is(KNOWN) && this.fetches(*entry) {
                entry.flags |= THERE;
                self.held += 1;
            }
        }
        self.arrived += end.saturating_sub(this.next);
        this.next = end;
        let mut waiting = std::mem::take(&mut this.waiting);
        waiting.retain(|&(start, number, epoch)| {
            if start >= end {
                return true;
            }
            if self.readers[number].epoch != epoch {
                return false;
            }
            let reader = &mut self.readers[number];
            reader.missing -= 1;
            if reader.missing == 0 {
                self.answer(number);
            }
            false
        });
        this.waiting = waiting;
    }

    /// Tells policy of an event, and executes its actions.
    pub(super) fn tell(&mut self, by: Reading, event: Event) -> Result<(), Violation> {
        self.tell_answered()?;
        self.handle(by, event)?;
        if let Some(course) = &mut self.tally.course {
            course.charged(self.policy.charged_bytes());
        }
        self.beyond = self.beyond.min(self.policy.charged_bytes().div_ceil(PAGE_BYTES));
        if self.held > self.budget.max(self.beyond) {
            return Err(Violation::OverBudget { pages: self.held, budget: self.budget, at_ns: self.now_ns });
        }
        // Bytes that came before their grant are taken in after the last action. That may end
        // requests and lead to more grants, thousands in a row: the first of nested calls takes
        // all of them in.
        if mem::replace(&mut self.takes_in, true) {
            return Ok(());
        }
        while let Some(request) = self.granted.pop_front() {
            self.take_in(request)?;
        }
        self.takes_in = false;
        Ok(())
    }

    /// Tells policy of the reads that were answered, and of the folios that they touched.
    pub(super) fn tell_answered(&mut self) -> Result<(), Violation> {
        let mut answered = std::mem::take(&mut self.answered);
        for event in answered.drain(..) {
            self.handle(Reading::default(), event)?;
        }
        if self.answered.is_empty() {
            self.answered = answered;
        }
        Ok(())
    }

    fn handle(&mut self, by: Reading, event: Event) -> Result<(), Violation> {
        self.policy.handle(Nanos(self.now_ns), by, event);
        while let Some(action) = self.policy.poll_action() {
            self.act(by, action)?;
        }
        Ok(())
    }

    fn act(&mut self, by: Reading, action: Action) -> Result<(), Violation> {
        match action {
            Action::Hedge { request } => self.hedge(request),
            Action::Submit { request, file, extent, class, .. } => {
                if let Some(picture) = &mut self.tally.picture {
                    picture.submitted(self.now_ns, request, file, extent, class);
                }
                self.submit(by, action)?;
            }
            Action::Grant { request, granted } => {
                self.grant(request, granted);
                self.granted.push_back(request);
            }
            Action::Ready { read, end } => self.ready(read, end)?,
            Action::Join { request, with } => self.join(request, with),
            Action::Cancel { request } => {
                let carrier = self.carrier(request);
                self.joined.remove(&request);
                if let Some(this) = self.requests.get_mut(&carrier) {
                    this.part(request);
                    if this.members.is_empty() {
                        let (asked, source) = (std::mem::take(&mut this.asked), this.source);
                        self.give_up(source, asked);
                        self.requests.remove(&carrier);
                    }
                }
            }
            Action::Clear { file, start } => self.pages.entry(file, start).flags &= !AGAIN,
            Action::Mark { file, start } => self.pages.entry(file, start).flags |= MARKED,
            Action::Drop { file, folio } => {
                let head = self.pages.get(file, folio.start);
                if head.is(THERE) {
                    self.held -= folio.pages();
                    if head.is_unread() {
                        self.tally.wasted(RequestId(u64::from(head.request)), folio.pages());
                    }
                }
                self.pages.fill(file, folio, Page::default());
                *self.known.entry(file).or_default() -= folio.pages();
            }
            Action::Forget { file } if self.known.get(&file).is_some_and(|&pages| pages > 0) => {
                return Err(Violation::LeftBehind { file: file.0, at_ns: self.now_ns });
            }
            Action::Cache { file, folio } => self.take_offer(file, folio),
            Action::Forget { .. } | Action::ForgetParts { .. } => {}
        }
        Ok(())
    }

    /// Merges `request` into `with`; neither has started.
    fn join(&mut self, request: RequestId, with: RequestId) {
        if let Some(other) = self.requests.remove(&request)
            && let Some(this) = self.requests.get_mut(&with)
        {
            this.join(other);
            self.joined.insert(request, with);
        }
    }

    /// Grants memory to the pages of `request` before `granted`. The first grant starts the
    /// request.
    fn grant(&mut self, request: RequestId, granted: u64) {
        let now_ns = self.now_ns;
        let Some(this) = self.requests.get_mut(&request) else { return };
        this.granted = granted;
        this.wants = false;
        if granted > this.extent.start && this.since_ns.is_none() {
            if this.members.len() > 1 {
                // A merged request is granted as a whole.
                this.granted = this.extent.end;
                self.tally.coalesced(this.members.iter().map(|member| (member.at_ns, member.extent.pages())));
            }
            this.since_ns = Some(now_ns);
            self.late.extend(this.late.map(|late| Reverse((now_ns + late.0, request))));
            self.attempt(request);
        }
    }

    fn submit(&mut self, by: Reading, action: Action) -> Result<(), Violation> {
        let Action::Submit { request, file, extent, records, class, source, mark, granted, late } = action else {
            return Ok(());
        };
        let size = self.sizes[self.index(file)];
        let (pages, at_ns) = (size.div_ceil(PAGE_BYTES), self.now_ns);
        if extent.end > pages || extent.is_empty() {
            return Err(Violation::PastTheEnd { file: file.0, extent, pages, at_ns });
        }
        if extent.pages() > REQUEST_PAGES_MAX {
            return Err(Violation::TooLong { file: file.0, extent, at_ns });
        }
        for page in Records::within(records, extent).flat_map(|kept| kept.start..kept.end) {
            let entry = self.pages.get(file, page);
            // Resident pages in the middle are read over.
            let edge = page == extent.start || page + 1 == extent.end;
            if entry.is(KNOWN) && (edge || !entry.is(THERE)) {
                return Err(Violation::SubmittedTwice { file: file.0, page, at_ns });
            }
        }
        for kept in Records::within(records, extent) {
            let mut start = kept.start;
            while start < kept.end {
                let absent = (start..kept.end).take_while(|&page| !self.pages.get(file, page).is(KNOWN)).count() as u64;
                let hole = Extent::new(start, start + absent);
                match self.grain {
                    Grain::Folio => hole.folios().for_each(|folio| self.insert(request, file, folio, mark)),
                    Grain::Page => (hole.start..hole.end)
                        .for_each(|page| self.insert(request, file, Extent::new(page, page + 1), mark)),
                }
                start = hole.end.max(start + 1);
            }
        }
        let bytes = (extent.end * PAGE_BYTES).min(size) - extent.start * PAGE_BYTES;
        let in_flight = InFlight {
            file,
            descriptor: by.descriptor,
            extent,
            source,
            bytes,
            since_ns: None,
            late,
            first_byte_ns: None,
            came: 0,
            taken: 0,
            next: extent.start,
            granted: extent.start,
            wants: false,
            broken: 0,
            attempts: 0,
            asked: Vec::new(),
            breaks_at: None,
            request,
            members: VecDeque::from([Member { request, extent, at_ns, demanded: class == Class::Demand }]),
            waiting: Vec::new(),
        };
        self.requests.insert(request, in_flight);
        // What the tier is asked for counts when it is asked: it may have left.
        if source == Source::Storage {
            self.tally.submitted(at_ns, extent.pages());
        }
        self.grant(request, granted);
        Ok(())
    }

    pub(super) fn insert(&mut self, request: RequestId, file: FileId, folio: Extent, mark: Option<u64>) {
        let marked = if mark.is_some_and(|mark| folio.contains(mark)) { MARKED } else { 0 };
        *self.known.entry(file).or_default() += folio.pages();
        for page in folio.start..folio.end {
            let back = (page - folio.start) as u8;
            let flags = KNOWN | if back == 0 { marked } else { 0 };
            *self.pages.entry(file, page) = Page { request: request.0 as u32, back, pages: folio.pages() as u8, flags };
        }
    }
}

/// A first byte is of the slow ones if it took so many times as long as the quickest of the run.
/// Lower: reads of ordinary requests have patience anew, and one that starves is not found.
/// Higher: a read that waits for a slow request counts as one that starves. Origin: the ordinary
/// ones are within 12 times of each other, the slow ones take 20 times as long as those.
const SLOW: u64 = 16;
