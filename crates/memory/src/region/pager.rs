//! The thread that answers the faults of a region: it tells policy what happened, and does what policy says.
//!
//! ```text
//!            touch ──> Fault, Written ──┐             ┌──> Zero, Map: copied into the mapping, who waits goes on
//!   transfer is over ──> Completed, ────┼──> policy ──┼──> Read, Clean: transfers between memory and spill
//!                        Cleaned        │             ├──> Drop: unmapped, or its frame given back
//!          a command ──> Advised, .. ───┘             └──> Fail: whoever touches it is sent SIGBUS
//! ```
//!
//! One thread has it all, so that nothing is done between an event and its actions. A page that is clean and protected may be dropped at any
//! time: a write that came before waits for this thread, and is answered as a fault on a page that is not there.
//!
//! What a thread waits for comes first: reads are given to the kernel before pages are cleaned, and pages that leave are unmapped together, with one
//! flush of the processors' tables, once there are [`LEAVING_MAX`] of them. Policy's budget is less by so many.
//!
//! It does not log either: a program may hold its log's lock while it touches a page. What goes wrong is counted ([`Gauges`]).
//!
//! *Invariant:* no rule about what to read, to write or to drop is here, and nothing here touches a page of the region that is not there.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use foreread_policy::{CLEAN_PAGES_MAX, Extent, Nanos, PAGE_BYTES, RequestId, SwapAction, SwapEvent, SwapPath};
use rustix::io::Errno;

use crate::region::carrier::{Carrier, Transfer, Woken};
use crate::region::cipher::Cipher;
use crate::kernel::frames::{FRAME_BYTES, Frames, Pool, RUN_MAX};
use crate::kernel::mapping::Mapping;
use crate::region::orders::{Done, Order, Orders};
use crate::region::page_states::{PageStates, pieces, runs};
use crate::region::stats::Gauges;
use crate::kernel::uffd::{How, Touch, Uffd};

/// See the head of this file.
pub(crate) struct Pager {
    mapping: Arc<Mapping>,
    uffd: Arc<Uffd>,
    orders: Arc<Orders>,
    policy: SwapPath,
    carrier: Carrier,
    cipher: Option<Cipher>,
    states: PageStates,
    pool: Pool,
    /// As many zeroes as are mapped at a time.
    zeroes: Frames,
    /// Pages that were read and are not in the mapping, a frame each.
    staged: HashMap<u64, Frames>,
    /// Programs that wait until what they gave up is gone.
    discards: Vec<Done>,
    requests: HashMap<RequestId, Request>,
    transfers: HashMap<u64, Piece>,
    next_token: u64,
    /// Pages that have left by the book, and are yet to be unmapped.
    leaving: Vec<Extent>,
    leaving_pages: u64,
    /// What is to be cleaned when all that was to be read has been asked for: which slots it is written to from which on.
    to_clean: VecDeque<(RequestId, Extent, u64)>,
    /// Events that came of executing actions, told after those.
    pending: VecDeque<SwapEvent>,
    gauges: Gauges,
    started: Instant,
}

/// A request of policy's that is under way.
struct Request {
    pages: Extent,
    write: bool,
    /// Transfers that are not over.
    left: usize,
    came: bool,
    /// Of a read: its pages that are there.
    arrived: Vec<(Extent, Frames)>,
}

/// What one transfer moves.
enum Piece {
    Read {
        request: RequestId,
        pages: Extent,
        frames: Frames,
    },
    /// For as many requests as lie side by side.
    Write {
        requests: Vec<RequestId>,
        /// Copies of the pages, where they are not written from where they are.
        frames: Option<Frames>,
    },
}

/// Pages of a request that are to be written from a slot on.
struct Part {
    request: RequestId,
    pages: Extent,
    slot: u64,
}

impl Pager {
    pub(crate) fn new(
        mapping: Arc<Mapping>,
        uffd: Arc<Uffd>,
        orders: Arc<Orders>,
        policy: SwapPath,
        carrier: Carrier,
        cipher: Option<Cipher>,
        budget_pages: u64,
    ) -> std::io::Result<Self> {
        let pages = mapping.all().pages();
        let mut pool = Pool::new(idle_frames(budget_pages));
        let zeroes = pool.take(ZEROES)?;
        Ok(Self {
            mapping,
            uffd,
            orders,
            policy,
            carrier,
            cipher,
            states: PageStates::new(pages),
            pool,
            zeroes,
            staged: HashMap::new(),
            discards: Vec::new(),
            requests: HashMap::new(),
            transfers: HashMap::new(),
            next_token: 0,
            leaving: Vec::new(),
            leaving_pages: 0,
            to_clean: VecDeque::new(),
            pending: VecDeque::new(),
            gauges: Gauges { budget_pages, ..Gauges::default() },
            started: Instant::now(),
        })
    }

    /// Answers faults until it is told to stop.
    pub(crate) fn run(mut self) {
        let (mut woken, mut touches) = (Woken::default(), Vec::new());
        let mut stopped = false;
        // What is under way has memory of ours.
        while !(stopped && self.transfers.is_empty()) {
            self.carrier.wait(&mut woken, self.to_clean.is_empty());
            for (token, came) in woken.done.drain(..) {
                self.moved(token, came);
            }
            if std::mem::take(&mut woken.touched) {
                self.uffd.read_touches(&mut touches);
                for touch in touches.drain(..) {
                    self.touched(touch);
                }
            }
            if std::mem::take(&mut woken.rung) {
                for order in self.orders.take() {
                    stopped |= self.obey(order);
                }
            }
            self.settle();
            if !self.discards.is_empty() && self.policy.discarding() == 0 {
                self.unmap();
                self.discards.drain(..).for_each(Done::done);
            }
            self.show();
        }
        self.orders.closed();
    }

    /// Whether it is the last one.
    fn obey(&mut self, order: Order) -> bool {
        match order {
            Order::Advise { pages, advice, done } => {
                self.tell(SwapEvent::Advised { pages, advice });
                self.discards.push(done);
            }
            Order::Budget { pages, done } => {
                self.gauges.budget_pages = pages;
                self.pool.keep_idle(idle_frames(pages));
                self.tell(SwapEvent::Budget { pages: budget_of_policy(pages) });
                self.unmap();
                done.done();
            }
            Order::Stop => return true,
        }
        false
    }

    fn touched(&mut self, touch: Touch) {
        let page = self.mapping.page_of(touch.address);
        let here = Extent::new(page, page + 1);
        let write = touch.how != How::Read;
        if !self.states.is_mapped(page) {
            self.tell(SwapEvent::Fault { page, thread: touch.thread, write });
        } else if write && self.states.is_protected(page) {
            self.protect(here, false);
            self.tell(SwapEvent::Written { page });
        } else {
            // It was answered with another touch of the page. The thread may not know.
            let _ = self.uffd.wake(self.mapping.range(here));
        }
    }

    /// Tells policy, and does what it says.
    fn tell(&mut self, event: SwapEvent) {
        self.pending.push_back(event);
        self.tell_pending();
    }

    fn tell_pending(&mut self) {
        while let Some(event) = self.pending.pop_front() {
            let now = Nanos(self.started.elapsed().as_nanos() as u64);
            self.policy.handle(now, event);
            while let Some(action) = self.policy.poll_action() {
                self.execute(action);
            }
        }
    }

    /// Does what nobody waits for. Of what is to be cleaned as much as is written together: who touches a page meanwhile is not held up by the rest.
    fn settle(&mut self) {
        if !self.to_clean.is_empty() {
            self.carrier.submit();
            self.clean();
            self.tell_pending();
        }
        if self.leaving_pages >= LEAVING_MAX {
            self.carrier.submit();
            self.unmap();
        }
    }

    /// Unmaps what has left by the book.
    #[expect(unsafe_code, reason = "memory is named by address")]
    fn unmap(&mut self) {
        // SAFETY: the pages were clean and protected, or the program has given them up. A write since then waits for this thread.
        unsafe { self.mapping.forget_all(&self.leaving) };
        self.leaving.clear();
        self.leaving_pages = 0;
    }

    /// What is put into the mapping finds nothing there.
    fn unmap_if_in(&mut self, pages: Extent) {
        if self.leaving.iter().any(|leaving| leaving.overlaps(pages)) {
            self.unmap();
        }
    }

    fn execute(&mut self, action: SwapAction) {
        match action {
            SwapAction::Zero { pages, protect } => {
                self.unmap_if_in(pages);
                self.map_zeroes(pages, protect);
                self.states.map(pages, protect);
            }
            SwapAction::Read { request, pages, slot, class: _ } => self.read(request, pages, slot),
            SwapAction::Map { pages, protect } => {
                self.unmap_if_in(pages);
                self.map(pages, protect);
            }
            SwapAction::Clean { request, pages, slot } => self.to_clean.push_back((request, pages, slot)),
            SwapAction::Drop { pages } => self.drop_pages(pages),
            SwapAction::Fail { pages } => self.fail(pages),
        }
    }

    fn map_zeroes(&self, pages: Extent, protect: bool) {
        for piece in pieces(pages, ZEROES) {
            self.copy(self.pool.at(&self.zeroes), piece, protect);
        }
    }

    #[expect(unsafe_code, reason = "memory is named by address")]
    fn copy(&self, from: *mut u8, pages: Extent, protect: bool) {
        // SAFETY: `from` is frames of this pager, as many as there are pages, and no transfer has them; the pages are the region's.
        let copied = unsafe { self.uffd.copy(from.addr() as u64, self.mapping.range(pages), protect) };
        match copied {
            // The second: the process is ending, and nobody goes on here.
            Ok(()) | Err(Errno::SRCH) => {}
            // The kernel has no memory, and whoever waits for the page cannot go on without it.
            Err(_) => self.refuse(pages),
        }
    }

    #[expect(unsafe_code, reason = "memory is named by address")]
    fn protect(&mut self, pages: Extent, protect: bool) -> bool {
        // SAFETY: the pages are the region's, which is registered.
        let changed = unsafe { self.uffd.protect(self.mapping.range(pages), protect) };
        if changed.is_ok() {
            self.states.protect(pages, protect);
        }
        changed.is_ok()
    }

    fn map(&mut self, pages: Extent, protect: bool) {
        // Frames that follow each other are copied at once.
        let mut run: Option<(u64, Frames, Vec<Frames>)> = None;
        for page in pages.start..pages.end {
            let frame =
                self.staged.remove(&page).unwrap_or_else(|| panic!("page {page} is to be mapped and was not staged"));
            match &mut run {
                Some((_, first, rest)) if rest.last().unwrap_or(first).is_before(&frame) => rest.push(frame),
                _ => {
                    self.copy_run(run.take(), page, protect);
                    run = Some((page, frame, Vec::new()));
                }
            }
        }
        self.copy_run(run, pages.end, protect);
        self.states.map(pages, protect);
    }

    fn copy_run(&mut self, run: Option<(u64, Frames, Vec<Frames>)>, end: u64, protect: bool) {
        let Some((start, first, rest)) = run else { return };
        self.copy(self.pool.at(&first), Extent::new(start, end), protect);
        self.pool.give(&first);
        for frame in &rest {
            self.pool.give(frame);
        }
    }

    fn read(&mut self, request: RequestId, pages: Extent, slot: u64) {
        let mut asked = Request { pages, write: false, left: 0, came: true, arrived: Vec::new() };
        for piece in pieces(pages, RUN_MAX) {
            let Ok(frames) = self.pool.take(piece.pages()) else {
                asked.came = false;
                continue;
            };
            asked.left += 1;
            let (memory, slot) = (self.pool.at(&frames), slot + piece.start - pages.start);
            self.start(Piece::Read { request, pages: piece, frames }, memory, piece.pages(), slot);
        }
        self.gauges.requests_read += u64::from(asked.left > 0);
        self.under_way(request, asked);
    }

    /// Cleans what comes next and is to lie side by side.
    fn clean(&mut self) {
        let (mut asked, mut parts) = (Vec::new(), Vec::new());
        let mut end = self.to_clean.front().map_or(0, |&(_, _, slot)| slot);
        let last = end + WRITE_MAX;
        while let Some(&(request, pages, slot)) = self.to_clean.front()
            && slot == end
            && end < last
        {
            self.to_clean.pop_front();
            end += pages.pages();
            let came = self.protect(pages, true);
            asked.push((request, Request { pages, write: true, left: 0, came, arrived: Vec::new() }));
            for (part, zeroes) in runs(pages, |page| self.is_zero(page)).filter(|_| came).collect::<Vec<_>>() {
                if zeroes {
                    self.gauges.pages_blank += part.pages();
                    self.pending.push_back(SwapEvent::Zeroes { pages: part });
                } else {
                    parts.push(Part { request, pages: part, slot: slot + part.start - pages.start });
                }
            }
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
            self.under_way(request, asked);
        }
    }

    /// Writes what lies side by side in the spill. Whether it has begun.
    fn write(&mut self, parts: &[Part]) -> bool {
        let pages = parts.iter().map(|part| part.pages.pages()).sum();
        let requests = parts.iter().map(|part| part.request).collect();
        let (memory, frames) = match parts {
            [part] if self.cipher.is_none() && self.carrier.takes_shared_memory() => {
                (self.mapping.at(part.pages.start), None)
            }
            _ => {
                let Ok(frames) = self.copies(parts, pages) else { return false };
                (self.pool.at(&frames), Some(frames))
            }
        };
        self.start(Piece::Write { requests, frames }, memory, pages, parts[0].slot);
        true
    }

    #[expect(unsafe_code, reason = "memory is named by address")]
    fn is_zero(&self, page: u64) -> bool {
        // SAFETY: policy cleans mapped pages only, and this one is protected: who writes to it waits for this thread.
        self.states.is_mapped(page) && unsafe { self.mapping.is_zero(page) }
    }

    /// Copies of protected pages, side by side and as the spill is to have them.
    #[expect(unsafe_code, reason = "memory is named by address")]
    fn copies(&mut self, parts: &[Part], pages: u64) -> std::io::Result<Frames> {
        let mut frames = self.pool.take(pages)?;
        let mut rest = self.pool.bytes(&mut frames);
        for Part { pages, .. } in parts {
            let into = rest.split_off_mut(..(pages.pages() * PAGE_BYTES) as usize).expect("room for all parts");
            let from = self.mapping.at(pages.start);
            // SAFETY: as for `is_zero`: the pages are there, and nobody writes to them while this thread is here.
            unsafe { from.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
            if let Some(cipher) = &self.cipher {
                cipher.encrypt(into, pages.start);
            }
        }
        Ok(frames)
    }

    /// Has so many pages moved between `memory` and the spill.
    #[expect(unsafe_code, reason = "memory is named by address")]
    fn start(&mut self, piece: Piece, memory: *mut u8, pages: u64, slot: u64) {
        let token = self.next_token;
        self.next_token += 1;
        let write = matches!(piece, Piece::Write { .. });
        let (len, offset) = ((pages * PAGE_BYTES) as usize, slot * PAGE_BYTES);
        self.transfers.insert(token, piece);
        // SAFETY: frames are the transfer's until it is over, and stay mapped so long, as the region does (see `run`). Pages of the region are
        // written only by a carrier that takes shared memory (see `write`).
        unsafe { self.carrier.start(Transfer { token, write, memory, len, offset }) };
    }

    /// A transfer is over.
    fn moved(&mut self, token: u64, came: bool) {
        match self.transfers.remove(&token) {
            Some(Piece::Read { request, pages, mut frames }) => {
                if let Some(cipher) = self.cipher.as_ref().filter(|_| came) {
                    cipher.decrypt(self.pool.bytes(&mut frames), pages.start);
                }
                if let Some(request) = self.requests.get_mut(&request) {
                    request.arrived.push((pages, frames));
                }
                self.part_moved(request, came);
            }
            Some(Piece::Write { requests, frames }) => {
                if let Some(frames) = frames {
                    self.pool.give(&frames);
                }
                for request in requests {
                    self.part_moved(request, came);
                }
            }
            None => {}
        }
    }

    /// One of the transfers of a request is over.
    fn part_moved(&mut self, id: RequestId, came: bool) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.left -= 1;
        request.came &= came;
        if request.left == 0
            && let Some(request) = self.requests.remove(&id)
        {
            let event = self.over(id, request);
            self.tell(event);
        }
    }

    /// A request has been started; or is over already, where nothing was to be moved.
    fn under_way(&mut self, id: RequestId, request: Request) {
        if request.left > 0 {
            self.requests.insert(id, request);
        } else {
            let event = self.over(id, request);
            self.pending.push_back(event);
        }
    }

    fn over(&mut self, id: RequestId, request: Request) -> SwapEvent {
        let Request { pages, write, came, arrived, .. } = request;
        if write {
            if !came {
                self.gauges.writes_failed += 1;
                // They are dirty as before: nobody needs to be told of writes to them.
                self.protect(pages, false);
            }
            return SwapEvent::Cleaned { request: id, came };
        }
        self.gauges.reads_failed += u64::from(!came);
        for (pages, mut frames) in arrived {
            if !came {
                self.pool.give(&frames);
                continue;
            }
            for page in pages.start..pages.end {
                self.staged.insert(page, frames.split_to(1));
            }
        }
        SwapEvent::Completed { request: id, came }
    }

    fn drop_pages(&mut self, pages: Extent) {
        if !self.staged.is_empty() {
            for page in pages.start..pages.end {
                if let Some(frame) = self.staged.remove(&page) {
                    self.pool.give(&frame);
                }
            }
        }
        if self.states.unmap(pages) {
            self.leaving.push(pages);
            self.leaving_pages += pages.pages();
        }
    }

    fn fail(&mut self, pages: Extent) {
        self.gauges.pages_failed += pages.pages();
        self.unmap_if_in(pages);
        self.refuse(pages);
    }

    #[expect(unsafe_code, reason = "memory is named by address")]
    fn refuse(&self, pages: Extent) {
        // SAFETY: the pages are the region's, and policy gives up absent ones only.
        let poisoned = unsafe { self.uffd.poison(self.mapping.range(pages)) };
        if !poisoned {
            let _ = self.mapping.forbid(pages);
        }
        let _ = self.uffd.wake(self.mapping.range(pages));
    }

    fn show(&mut self) {
        self.gauges.mapped_pages = self.states.mapped_pages() + self.leaving_pages;
        self.gauges.staged_pages = self.staged.len() as u64;
        self.orders.show(self.gauges, self.policy.counters());
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Whoever waits for a page would wait for ever, and memory that a transfer writes to would be unmapped.
            tracing::error!("the thread that answers page faults has failed");
            std::process::abort();
        }
    }
}

/// What policy may hold of a budget of so many pages.
pub(crate) fn budget_of_policy(pages: u64) -> u64 {
    pages - LEAVING_MAX
}

/// Pages that are unmapped together. Fewer interrupt the other processors more often; more are memory that is of no use.
const LEAVING_MAX: u64 = 16;

const _: () = assert!((crate::region::BUDGET_BYTES_MIN as u64) >= 2 * LEAVING_MAX * PAGE_BYTES);

/// Pages that are written together, about. More hold up who touches a page meanwhile.
const WRITE_MAX: u64 = 16;

// Copies of what is written together are one run of frames.
const _: () = assert!(WRITE_MAX + CLEAN_PAGES_MAX as u64 <= RUN_MAX);

/// Zeroes that are mapped at a time.
const ZEROES: u64 = 64;

/// Frames that keep their memory while they are free: a hundredth of the budget, and what a few requests take.
fn idle_frames(budget_pages: u64) -> u64 {
    (budget_pages / 100).clamp(32, 1024)
}

const _: () = assert!(FRAME_BYTES == PAGE_BYTES);
