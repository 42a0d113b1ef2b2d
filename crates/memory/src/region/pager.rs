//! The thread that answers the faults of a region: it tells policy what happened, and executes
//! policy's actions.
//!
//! ```text
//!              a touch ──> Fault, Written ─────┐          ┌──> Zero, Map: copied into the mapping
//!      a transfer ends ──> Completed, Cleaned ─┼─> policy ┼──> Read, Clean: spill transfers
//!   a page is all zero ──> Zeroes ─────────────┤          ├──> Drop: unmapped
//!       an order ──> Advised, Budget, Room ────┘          └──> Fail: a touch is SIGBUS
//! ```
//!
//! One turn of the loop in [`Pager::run`]:
//!
//! ```text
//!   wait ──> ended transfers ──> touches ──> orders ──> clean one batch ──> unmap ──> show counts
//!     ^──────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! This thread owns all of it, so nothing happens between an event and its actions.
//!
//! A write that fails is tried again for about a second ([`RETRIES`]), before policy learns that
//! its pages stay. All pages that could leave may be pinned: a device or another process keeps
//! them in memory. Their requests are then tried again for as long ([`PINNED_MAX`]), since a
//! device is usually done soon.
//!
//! Work that a thread waits for comes first: reads are submitted before pages are cleaned, and
//! pages that leave are unmapped together (`resident.rs`). Policy's budget is smaller by as many
//! pages as may be leaving ([`budget_of_policy`]).
//!
//! This thread does not log: a program may hold its log's lock while it touches a page. Failures
//! are counted ([`Gauges`]).
//!
//! A panic of this thread ends the process (SIGABRT), after a line on standard error. Policy alone
//! knows which slot of the spill holds a page. So no successor could give back the pages that are
//! not in memory, and a part of the program's own memory would be gone. Threads that wait for
//! pages would wait for ever, or read zeroes.
//!
//! *Invariant:* no rule about what to read, write or drop is here.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use foreread_policy::{
    Advice, CLEAN_PAGES_MAX, Extent, Nanos, PAGE_BYTES, RegionAction, RegionEvent, RegionPath, RequestId,
};

use crate::budget::BUDGET_BYTES_MIN;
use crate::kernel::frames::{FRAME_BYTES, Frames, RUN_MAX};
use crate::region::carrier::Carrier;
use crate::region::carrier::transfer::{Transfer, Woken};
use crate::region::cipher::Cipher;
use crate::region::held::Taken;
use crate::region::orders::{Done, Order, Orders};
use crate::region::page_states::{pieces, runs};
use crate::region::resident::{LEAVING_MAX, Resident};
use crate::region::stats::Gauges;

/// See the head of this file.
pub(super) struct Pager {
    orders: Arc<Orders>,
    policy: RegionPath,
    resident: Resident,
    carrier: Carrier,
    cipher: Option<Cipher>,
    /// Programs that wait until the pages that they gave up are gone.
    discards: Vec<Done>,
    requests: HashMap<RequestId, Request>,
    transfers: HashMap<u64, Piece>,
    next_token: u64,
    /// Requests to clean: their pages, and the first slot they are written to. They start after
    /// all reads.
    to_clean: VecDeque<(RequestId, Extent, u64)>,
    /// Requests to clean whose pages are all pinned, and since when there is nothing else to
    /// clean.
    pinned: Vec<(RequestId, Extent, u64)>,
    pinned_since: Option<Instant>,
    /// Pages found pinned since the last page that could leave.
    pinned_pages: u64,
    /// Writes that failed, and when each is tried again.
    retries: Vec<(Instant, Write)>,
    /// Events that arose while actions were executed; policy is told after those actions.
    pending: VecDeque<RegionEvent>,
    gauges: Gauges,
    /// The budget that policy was told.
    policy_pages: u64,
    started: Instant,
    /// Events after which it panics; 0: never.
    panics_after: u64,
}

/// A request of policy's in flight.
struct Request {
    pages: Extent,
    write: bool,
    /// Transfers that have not ended.
    left: usize,
    came: bool,
    /// Of a read: pages that have arrived.
    arrived: Vec<(Extent, Frames)>,
}

/// What one transfer moves.
enum Piece {
    Read { request: RequestId, pages: Extent, frames: Frames },
    Write(Write),
}

/// Adjacent requests, written together.
struct Write {
    requests: Vec<RequestId>,
    extents: Vec<Extent>,
    slot: u64,
    /// Encrypted copies of the pages; `None` where they are written as they are held.
    frames: Option<Frames>,
    /// How often it has failed.
    failed: u32,
}

/// Pages of a request, and the first slot they are written to.
struct Part {
    request: RequestId,
    pages: Extent,
    slot: u64,
}

impl Pager {
    pub(super) fn new(
        resident: Resident,
        orders: Arc<Orders>,
        policy: RegionPath,
        carrier: Carrier,
        cipher: Option<Cipher>,
        budget_pages: u64,
    ) -> Self {
        Self {
            orders,
            policy,
            resident,
            carrier,
            cipher,
            discards: Vec::new(),
            requests: HashMap::new(),
            transfers: HashMap::new(),
            next_token: 0,
            to_clean: VecDeque::new(),
            pinned: Vec::new(),
            pinned_since: None,
            pinned_pages: 0,
            retries: Vec::new(),
            pending: VecDeque::new(),
            gauges: Gauges { budget_pages, ..Gauges::default() },
            policy_pages: budget_of_policy(budget_pages, 0),
            started: Instant::now(),
            panics_after: 0,
        }
    }

    /// The same, which panics when policy is told of so many events, unless 0.
    pub(super) fn that_panics(mut self, after: u64) -> Self {
        self.panics_after = after;
        self
    }

    /// Answers faults until it is told to stop.
    pub(super) fn run(mut self) {
        let (mut woken, mut touches) = (Woken::default(), Vec::new());
        let mut stopped = false;
        // Transfers in flight use memory that this thread owns.
        while !(stopped && self.transfers.is_empty()) {
            self.carrier.wait(&mut woken, self.patience());
            self.try_again(stopped);
            for (token, came) in woken.done.drain(..) {
                self.transfer_ended(token, came);
            }
            if std::mem::take(&mut woken.touched) {
                self.resident.read_touches(&mut touches);
                for touch in touches.drain(..) {
                    if let Some(event) = self.resident.touched(touch) {
                        self.tell(event);
                    }
                }
            }
            if std::mem::take(&mut woken.rung) {
                for order in self.orders.take() {
                    stopped |= self.obey(order);
                }
            }
            self.charge();
            self.settle();
            if !self.discards.is_empty() && self.policy.discarding() == 0 {
                self.resident.unmap();
                self.discards.drain(..).for_each(Done::done);
            }
            self.show();
        }
        self.orders.closed();
    }

    /// Takes what the tables of pages need from policy's budget.
    fn charge(&mut self) {
        let pages = budget_of_policy(self.gauges.budget_pages, self.resident.tables_bytes());
        if std::mem::replace(&mut self.policy_pages, pages) != pages {
            self.tell(RegionEvent::Budget { pages });
        }
    }

    /// How long to wait for something to do; `None`: until there is something.
    fn patience(&self) -> Option<Duration> {
        if !self.to_clean.is_empty() {
            return Some(Duration::ZERO);
        }
        let retry = self.retries.iter().map(|(at, _)| *at).min();
        let first = [retry, self.resident.refused_until()].into_iter().flatten().min();
        let first = first.map(|at| at.saturating_duration_since(Instant::now()));
        let pinned = (!self.pinned.is_empty()).then_some(PINNED_PAUSE);
        first.into_iter().chain(pinned).min()
    }

    /// Does again what could not be done.
    fn try_again(&mut self, stopped: bool) {
        if self.resident.refused_until().is_some_and(|until| until <= Instant::now()) {
            self.resident.try_again(Extent::new(0, 0));
        }
        if stopped {
            self.retries.clear();
            return;
        }
        self.to_clean.extend(self.pinned.drain(..));
        let now = Instant::now();
        let due: Vec<_> = self.retries.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, write) in due {
            self.start_write(write);
        }
    }

    /// Whether it is the last order.
    fn obey(&mut self, order: Order) -> bool {
        match order {
            Order::Advise { pages, advice, done } => {
                if advice == Advice::DontNeed {
                    self.resident.try_again(pages);
                }
                self.tell(RegionEvent::Advised { pages, advice });
                self.discards.push(done);
            }
            Order::Budget { pages, done } => {
                self.gauges.budget_pages = pages;
                self.resident.pool.keep_idle(idle_frames(pages));
                self.policy_pages = 0;
                self.charge();
                self.resident.unmap();
                done.done();
            }
            Order::Room { slots, needed, done } => {
                self.tell(RegionEvent::Room { slots });
                needed.store(self.policy.slots(), Ordering::Relaxed);
                done.done();
            }
            Order::Stop => return true,
        }
        false
    }

    /// Tells policy of an event, and executes its actions.
    fn tell(&mut self, event: RegionEvent) {
        self.pending.push_back(event);
        self.tell_pending();
    }

    fn tell_pending(&mut self) {
        while let Some(event) = self.pending.pop_front() {
            if self.panics_after > 0 {
                self.panics_after -= 1;
                assert!(self.panics_after > 0, "a planted panic");
            }
            let now = Nanos(self.started.elapsed().as_nanos() as u64);
            self.policy.handle(now, event);
            while let Some(action) = self.policy.poll_action() {
                self.execute(action);
            }
        }
    }

    fn execute(&mut self, action: RegionAction) {
        match action {
            RegionAction::Zero { pages, protect } => self.resident.map_zeroes(pages, protect),
            RegionAction::Read { request, pages, slot, class: _ } => self.read(request, pages, slot),
            RegionAction::Map { pages, protect } => self.resident.map(pages, protect),
            RegionAction::Clean { request, pages, slot } => self.to_clean.push_back((request, pages, slot)),
            RegionAction::Drop { pages } => self.resident.drop_pages(pages),
            RegionAction::Fail { pages } => {
                self.gauges.pages_failed += pages.pages();
                self.resident.fail(pages);
            }
        }
    }

    /// Does work that no thread waits for: writes one batch of dirty pages, and unmaps pages that
    /// leave. Only one batch, so that a thread that touches a page meanwhile does not wait for all
    /// of them.
    fn settle(&mut self) {
        if !self.to_clean.is_empty() {
            self.carrier.submit();
            self.clean();
            self.tell_pending();
        }
        if self.resident.should_unmap() {
            self.carrier.submit();
            self.resident.unmap();
        }
    }

    fn read(&mut self, request: RequestId, pages: Extent, slot: u64) {
        let mut asked = Request { pages, write: false, left: 0, came: true, arrived: Vec::new() };
        for piece in pieces(pages, RUN_MAX) {
            let Ok(frames) = self.resident.pool.take(piece.pages()) else {
                asked.came = false;
                continue;
            };
            asked.left += 1;
            let (memory, slot) = (self.resident.pool.at(&frames), slot + piece.start - pages.start);
            self.start(Piece::Read { request, pages: piece, frames }, memory, piece.pages(), slot);
        }
        self.gauges.requests_read += u64::from(asked.left > 0);
        self.in_flight(request, asked);
    }

    /// Starts the next requests to clean whose slots are adjacent.
    fn clean(&mut self) {
        let start = self.to_clean.front().map_or(0, |&(_, _, slot)| slot);
        let (mut end, mut batch) = (start, Vec::new());
        while let Some(&(request, pages, slot)) = self.to_clean.front()
            && slot == end
            && end < start + WRITE_MAX
        {
            self.to_clean.pop_front();
            end += pages.pages();
            batch.push((request, pages, slot));
        }
        let mut room = self.resident.room_to_hold(end - start).ok();
        let (mut asked, mut parts) = (Vec::new(), Vec::new());
        for (request, pages, slot) in batch {
            let mut of_request = Request { pages, write: true, left: 0, came: false, arrived: Vec::new() };
            if let Some(room) = &mut room {
                let taken = self.resident.take_out(pages, room.split_to(pages.pages()));
                let Some(came) = self.taken(&taken, (request, pages, slot)) else { continue };
                of_request.came = came;
                let out = taken.iter().filter(|(_, what)| *what == Taken::Out).map(|(pages, _)| *pages);
                for out in out.collect::<Vec<_>>() {
                    for (part, zeroes) in runs(out, |page| self.resident.is_zero(page)).collect::<Vec<_>>() {
                        if zeroes {
                            self.blank(part);
                        } else {
                            parts.push(Part { request, pages: part, slot: slot + part.start - pages.start });
                        }
                    }
                }
            }
            asked.push((request, of_request));
        }
        for together in parts.chunk_by(|part, next| part.slot + part.pages.pages() == next.slot) {
            let started = self.write(together);
            for part in together {
                if let Some((_, request)) = asked.iter_mut().find(|(request, _)| *request == part.request) {
                    request.left += usize::from(started);
                    request.came &= started;
                }
            }
        }
        for (request, asked) in asked {
            self.in_flight(request, asked);
        }
    }

    /// What became of the pages of a request to clean that were taken out. Whether the request
    /// goes on; `None`: it is tried again later.
    fn taken(&mut self, taken: &[(Extent, Taken)], asked: (RequestId, Extent, u64)) -> Option<bool> {
        let kept = || taken.iter().filter(|(_, what)| *what == Taken::Kept).map(|(pages, _)| *pages);
        let pages: u64 = kept().map(Extent::pages).sum();
        self.gauges.pages_pinned += pages;
        if pages == asked.1.pages() {
            self.pinned_pages += pages;
            if self.pinned_pages > self.resident.mapped_pages() {
                // All pages have been tried. Policy would choose the same ones again.
                let since = *self.pinned_since.get_or_insert_with(Instant::now);
                if since.elapsed() > PINNED_MAX {
                    self.pinned_since = None;
                    return Some(false);
                }
                self.pinned.push(asked);
                return None;
            }
        } else {
            (self.pinned_pages, self.pinned_since) = (0, None);
        }
        for (pages, what) in taken {
            match what {
                Taken::Out => {}
                // It may be written to at any time, and so may differ.
                Taken::Kept => {
                    self.pending.extend((pages.start..pages.end).map(|page| RegionEvent::Written { page }));
                }
                Taken::Absent => self.blank(*pages),
            }
        }
        Some(true)
    }

    /// Pages that are to be cleaned hold only zeroes.
    fn blank(&mut self, pages: Extent) {
        self.gauges.pages_blank += pages.pages();
        self.resident.written_out(pages);
        self.pending.push_back(RegionEvent::Zeroes { pages });
    }

    /// Writes parts whose slots are adjacent. Whether the transfer has started.
    fn write(&mut self, parts: &[Part]) -> bool {
        let requests = parts.iter().map(|part| part.request).collect();
        let extents: Vec<_> = parts.iter().map(|part| part.pages).collect();
        let frames = match &self.cipher {
            None => None,
            Some(cipher) => {
                let pages = extents.iter().map(|extent| extent.pages()).sum();
                match self.resident.encrypted(extents.iter().copied(), pages, cipher) {
                    Ok(frames) => Some(frames),
                    Err(_) => return false,
                }
            }
        };
        self.start_write(Write { requests, extents, slot: parts[0].slot, frames, failed: 0 });
        true
    }

    fn start_write(&mut self, write: Write) {
        let memory = match &write.frames {
            Some(frames) => self.resident.pool.at(frames),
            // Pages with adjacent slots were taken out to adjacent frames.
            None => self.resident.held_at(write.extents[0].start),
        };
        let (pages, slot) = (write.extents.iter().map(|extent| extent.pages()).sum(), write.slot);
        self.start(Piece::Write(write), memory, pages, slot);
    }

    /// Starts to move `pages` pages between `memory` and the spill.
    #[expect(unsafe_code, reason = "memory is named by address")]
    fn start(&mut self, piece: Piece, memory: *mut u8, pages: u64, slot: u64) {
        let token = self.next_token;
        self.next_token += 1;
        let write = matches!(piece, Piece::Write(_));
        let (len, offset) = ((pages * PAGE_BYTES) as usize, slot * PAGE_BYTES);
        self.transfers.insert(token, piece);
        // SAFETY: frames belong to the transfer until it ends, those of held pages included, and
        // stay mapped until then (see `run`).
        unsafe { self.carrier.start(Transfer { token, write, memory, len, offset }) };
    }

    /// `came`: all bytes of the transfer were moved.
    fn transfer_ended(&mut self, token: u64, came: bool) {
        match self.transfers.remove(&token) {
            Some(Piece::Read { request, pages, mut frames }) => {
                if let Some(cipher) = self.cipher.as_ref().filter(|_| came) {
                    cipher.decrypt(self.resident.pool.bytes(&mut frames), pages.start);
                }
                if let Some(request) = self.requests.get_mut(&request) {
                    request.arrived.push((pages, frames));
                }
                self.part_ended(request, came);
            }
            Some(Piece::Write(mut write)) => {
                self.gauges.writes_failed += u64::from(!came);
                if !came && write.failed < RETRIES {
                    let pause = RETRY_PAUSE * 2_u32.pow(write.failed);
                    write.failed += 1;
                    self.retries.push((Instant::now() + pause, write));
                    return;
                }
                if let Some(frames) = write.frames {
                    self.resident.pool.give(&frames);
                }
                if came {
                    write.extents.iter().for_each(|pages| self.resident.written_out(*pages));
                }
                for request in write.requests {
                    self.part_ended(request, came);
                }
            }
            None => {}
        }
    }

    /// One transfer of a request has ended.
    fn part_ended(&mut self, id: RequestId, came: bool) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.left -= 1;
        request.came &= came;
        if request.left == 0
            && let Some(request) = self.requests.remove(&id)
        {
            let event = self.request_ended(id, request);
            self.tell(event);
        }
    }

    /// All transfers of a request have started; a request without any ends here.
    fn in_flight(&mut self, id: RequestId, request: Request) {
        if request.left > 0 {
            self.requests.insert(id, request);
        } else {
            let event = self.request_ended(id, request);
            self.pending.push_back(event);
        }
    }

    fn request_ended(&mut self, id: RequestId, request: Request) -> RegionEvent {
        let Request { pages, write, came, arrived, .. } = request;
        if write {
            if !came {
                self.resident.put_back(pages);
            }
            return RegionEvent::Cleaned { request: id, came };
        }
        self.gauges.reads_failed += u64::from(!came);
        for (pages, frames) in arrived {
            if came {
                self.resident.stage(pages, frames);
            } else {
                self.resident.pool.give(&frames);
            }
        }
        RegionEvent::Completed { request: id, came }
    }

    fn show(&mut self) {
        self.gauges.mapped_pages = self.resident.mapped_pages();
        self.gauges.staged_pages = self.resident.staged_pages();
        self.orders.show(self.gauges, self.policy.counters());
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Memory that a transfer writes to must not be unmapped, either. No lock is taken: a
            // thread that waits for a page may hold it.
            let _ = rustix::io::write(rustix::stdio::stderr(), FAILED.as_bytes());
            std::process::abort();
        }
    }
}

/// The last words of a process whose pager has panicked; the panic's own come before.
const FAILED: &str = "foreread: the thread that answers page faults of a memory region has failed, and the process \
                      ends: pages of the region that are not in memory cannot be given back. Please report it.\n";

/// The part of a budget that policy may fill: the rest holds pages that are leaving, and tables.
/// The tables of a region of a hundred times its budget would leave no room for pages, so they
/// take at most a half.
pub(super) fn budget_of_policy(pages: u64, tables_bytes: u64) -> u64 {
    let most = pages - LEAVING_MAX;
    let least = (most / 2).max(most.min(LEAVING_MAX));
    most.saturating_sub(tables_bytes.div_ceil(PAGE_BYTES)).max(least)
}

const _: () = assert!(BUDGET_BYTES_MIN as u64 >= 2 * LEAVING_MAX * PAGE_BYTES);

/// Pages written by one transfer, about: the last request may exceed it. Lower: more and smaller
/// writes. Higher: a thread that touches a page meanwhile waits longer for the copies.
const WRITE_MAX: u64 = 16;

// Pages that are written together are held in one run of frames.
const _: () = assert!(WRITE_MAX + CLEAN_PAGES_MAX as u64 <= RUN_MAX);

/// How often a write that failed is tried again, and the first pause; each is twice as long as the
/// one before, so they are a second together. Lower: an outage of the spill that is over soon is a
/// signal to a thread. Higher: a thread waits longer for the signal.
const RETRIES: u32 = 10;
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// How long a fault waits where all pages are pinned, and the pause between two tries. Lower: a
/// slow device's transfer is an error to the program. Higher: a program that pins more than the
/// budget waits longer for its error.
const PINNED_MAX: Duration = Duration::from_secs(1);
const PINNED_PAUSE: Duration = Duration::from_millis(1);

/// Free frames that keep their memory: a hundredth of the budget, and at least what a few requests
/// take. Lower: more page faults of the pager's own. Higher: more memory beside the budget.
pub(super) fn idle_frames(budget_pages: u64) -> u64 {
    (budget_pages / 100).clamp(32, 1024)
}

const _: () = assert!(FRAME_BYTES == PAGE_BYTES);
