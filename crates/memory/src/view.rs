//! An object as read-only memory: page faults are answered by reads of the engine's file.
//!
//! ```text
//!   touch ──> policy: ViewPath ──> Read: File::read ──> arrived (on any thread) ──> policy
//!                                                                                     │
//!                        Drop: unmapped <─────────────────────────────────────────────┤
//!                        Map: copied into the mapping, the thread goes on <───────────┘
//! ```
//!
//! `policy::ViewPath` decides which blocks are read and which leave. Mapped pages are copies of
//! the engine's pages, within a budget of their own: a page that left too early may still be in
//! the engine's memory.
//!
//! A thread that panics here gives the view up: touches of pages that are not there are signals,
//! and no thread waits.
//!
//! Two threads or more use this: the one that reads touches (`Shared::serve`), and those that
//! deliver reads. A lock holds policy, and is held for no copy: a block that policy drops while it
//! is being copied is dropped after that. Reads start after the lock is released, since a read of
//! resident bytes delivers them at once, on the same thread.

#![allow(unsafe_code, reason = "the mapping is shown as bytes")]

use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use foreread_engine::{File, Pages};
use foreread_local::lock::Mutex;
use foreread_policy::{Extent, PAGE_BYTES, ViewAction, ViewEvent, ViewOptions, ViewPath};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::budget::budget_pages;
use crate::error::Error;
use crate::kernel::bell::Bell;
use crate::kernel::frames::{Frames, Pool};
use crate::kernel::mapping::Mapping;
use crate::kernel::uffd::{Uffd, take_no_signals};

/// One version of an object as a slice. See [`crate::Region::map`].
///
/// Any thread reads it; a thread that touches a page that is not in memory waits. A thread that
/// touches a page that the storage does not deliver, or that now belongs to another version, is
/// sent SIGBUS (before Linux 6.6 SIGSEGV). Forks and system calls behave as described at
/// [`crate::Region`].
#[derive(Debug)]
pub struct View {
    shared: Arc<Shared>,
    len: usize,
    bell: Bell,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

/// Options of a view.
#[derive(Debug)]
#[must_use]
pub struct ViewBuilder {
    file: File,
    budget: usize,
    kernel_faults: bool,
}

/// Counts of a view. All but the first only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewStats {
    /// Pages in the mapping.
    pub mapped_pages: u64,
    /// Touches of absent pages.
    pub faults: u64,
    /// Reads of the file.
    pub reads: u64,
    /// Pages whose touch was answered by a signal.
    pub pages_failed: u64,
}

#[derive(Debug)]
struct Shared {
    mapping: Mapping,
    uffd: Uffd,
    file: File,
    /// For the last page, of which the object has only a part.
    pool: Mutex<Pool>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    path: ViewPath,
    /// Pages that are being copied into the mapping, and whether policy has dropped them since.
    copying: Vec<(Extent, bool)>,
    /// The view is dropped: no page is mapped from now on.
    closed: bool,
    /// Blocks whose touch is a signal until they are read again, in the order of time.
    refused: Vec<(Extent, Instant)>,
    /// The next event is a panic.
    #[cfg(test)]
    fails: bool,
}

/// What a read of the file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// Policy asked for the block.
    Policy,
    /// To policy the block is mapped; the program gave pages of it up by itself (madvise).
    Refill,
}

impl ViewBuilder {
    pub(crate) fn new(file: File) -> Self {
        Self { file, budget: BUDGET_BYTES, kernel_faults: false }
    }

    /// Bytes that may be mapped at the same time, beside the engine's memory: at least
    /// [`crate::BUDGET_BYTES_MIN`]. Default: 32 MiB.
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// As [`crate::RegionBuilder::kernel_faults`].
    pub fn kernel_faults(mut self, kernel_faults: bool) -> Self {
        self.kernel_faults = kernel_faults;
        self
    }

    /// Maps the object.
    ///
    /// Errors: [`Error::Invalid`] for an empty object or a budget that is too small;
    /// [`Error::Forbidden`] and [`Error::Unsupported`] where page faults cannot be answered.
    pub fn create(self) -> Result<View, Error> {
        let budget = budget_pages(self.budget).ok_or(Error::Invalid { what: "a view's budget is 512 KiB at least" })?;
        let len = usize::try_from(self.file.size()).ok().filter(|len| *len > 0);
        let len = len.ok_or(Error::Invalid { what: "an object that is mapped holds at least one byte" })?;
        let pages = self.file.size().div_ceil(PAGE_BYTES);
        let uffd = Uffd::new(self.kernel_faults)?;
        let mapping = Mapping::registered(pages, false, &uffd)?;
        let bell = Bell::new().map_err(Error::system("making an eventfd"))?;
        let path = ViewPath::new(ViewOptions { pages, budget });
        let state = State {
            path,
            copying: Vec::new(),
            closed: false,
            refused: Vec::new(),
            #[cfg(test)]
            fails: false,
        };
        let (pool, state) = (Mutex::new(Pool::new(1)), Mutex::new(state));
        let shared = Arc::new(Shared { mapping, uffd, file: self.file, pool, state });
        let (serving, stop) = (Arc::clone(&shared), bell.clone());
        let serve = move || {
            take_no_signals();
            serving.or_give_up(|| serving.serve(&stop));
        };
        let thread = std::thread::Builder::new().name("foreread-view".to_owned()).spawn(serve);
        let thread = thread.map_err(Error::system("starting a thread"))?;
        Ok(View { shared, len, bell, thread: Some(thread), process: std::process::id() })
    }
}

impl View {
    /// Counts so far.
    pub fn stats(&self) -> ViewStats {
        let state = self.shared.state.lock();
        let counters = state.path.counters();
        ViewStats {
            mapped_pages: state.path.mapped(),
            faults: counters.faults,
            reads: counters.reads,
            pages_failed: counters.pages_failed,
        }
    }
}

impl Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped as long as the view lives, and hold the bytes of one
        // version of the object; no code writes there.
        unsafe { std::slice::from_raw_parts(self.shared.mapping.start().as_ptr(), self.len) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(Arc::clone(&self.shared));
            std::mem::forget(self.thread.take());
            return;
        }
        // A read that arrives later finds the view closed.
        self.shared.state.lock().closed = true;
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, stop: &Bell) {
        let mut touches = Vec::new();
        loop {
            let mut fds = [PollFd::new(&self.uffd, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            let until = self.state.lock().refused.first().map(|(_, since)| *since + REFUSED);
            let until = until.map(|until| until.saturating_duration_since(Instant::now()));
            let timeout = until.map(|time| Timespec::try_from(time).unwrap_or_default());
            if rustix::event::poll(&mut fds, timeout.as_ref()).is_err() {
                continue;
            }
            if !fds[1].revents().is_empty() {
                return;
            }
            self.try_again();
            self.uffd.read_touches(&mut touches);
            for touch in touches.drain(..) {
                let Some(page) = self.mapping.page_of(touch.address) else { continue };
                self.tell(ViewEvent::Fault { page }, &[]);
            }
        }
    }

    /// Runs `work`. If it panics, no touch is answered any more: each is a signal at once.
    fn or_give_up(&self, work: impl FnOnce()) {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
            self.state.lock().closed = true;
            let _ = self.mapping.forbid(self.mapping.all());
            let _ = self.uffd.wake(self.mapping.range(self.mapping.all()));
        }
    }

    /// A touch of blocks that could not be read is a fault again, where it is time for that.
    fn try_again(&self) {
        let mut state = self.state.lock();
        let now = Instant::now();
        for (pages, _) in state.refused.extract_if(.., |(_, since)| now >= *since + REFUSED) {
            let _ = self.mapping.allow_reads(pages);
            // SAFETY: the contents can be read again.
            let _ = unsafe { self.mapping.forget(pages) };
        }
    }

    /// Tells policy of an event, and executes its actions. `bytes`: what has arrived, for
    /// `Completed`.
    fn tell(self: &Arc<Self>, event: ViewEvent, bytes: &[Pages]) {
        let mut read = None;
        self.or_give_up(|| read = self.handle(event, bytes));
        // Unlocked: bytes that the engine has are delivered at once, on this thread.
        if let Some((pages, what)) = read {
            self.read(pages, Vec::new(), 0, what);
        }
    }

    /// Returns what is to be read.
    fn handle(&self, event: ViewEvent, bytes: &[Pages]) -> Option<(Extent, For)> {
        let (mut read, mut events) = (None, vec![event]);
        while let Some(event) = events.pop() {
            let maps = {
                let state = &mut *self.state.lock();
                if state.closed {
                    return None;
                }
                #[cfg(test)]
                assert!(!state.fails, "a test wants this panic");
                state.path.handle(event);
                self.execute(state, &mut read)
            };
            for pages in maps {
                if self.copy(pages, bytes).is_err() {
                    events.push(ViewEvent::Lost { pages });
                }
                self.copied(&mut self.state.lock(), pages);
            }
        }
        read
    }

    /// Executes policy's actions, but for copies: returns the blocks that are to be copied.
    fn execute(&self, state: &mut State, read: &mut Option<(Extent, For)>) -> Vec<Extent> {
        let mut maps = Vec::new();
        while let Some(action) = state.path.poll_action() {
            match action {
                ViewAction::Read { pages } => *read = Some((pages, For::Policy)),
                ViewAction::Map { pages } => {
                    state.copying.push((pages, false));
                    maps.push(pages);
                }
                ViewAction::Wake { page } => {
                    let here = Extent::new(page, page + 1);
                    let is_coming = state.copying.iter().any(|(pages, _)| overlap(*pages, here));
                    if self.mapping.is_there(page) {
                        let _ = self.uffd.wake(self.mapping.range(here));
                    } else if !is_coming {
                        // A copy on its way wakes the thread.
                        *read = Some((here, For::Refill));
                    }
                }
                ViewAction::Drop { pages } => {
                    let copying = state.copying.iter_mut().filter(|(other, _)| overlap(*other, pages));
                    copying.for_each(|(_, dropped)| *dropped = true);
                    // SAFETY: the contents can be read again: the object's version does not
                    // change.
                    let _ = unsafe { self.mapping.forget(pages) };
                }
                ViewAction::Fail { pages } => self.refuse(state, pages),
            }
        }
        maps
    }

    /// Pages have been copied, or not: what policy dropped meanwhile goes.
    fn copied(&self, state: &mut State, pages: Extent) {
        let Some(at) = state.copying.iter().position(|(other, _)| *other == pages) else { return };
        let (_, dropped) = state.copying.swap_remove(at);
        if dropped {
            // SAFETY: the contents can be read again.
            let _ = unsafe { self.mapping.forget(pages) };
        }
    }

    fn refuse(&self, state: &mut State, pages: Extent) {
        // SAFETY: the pages are this view's.
        if !unsafe { self.uffd.poison(self.mapping.range(pages)) } {
            let _ = self.mapping.forbid(pages);
        }
        let _ = self.uffd.wake(self.mapping.range(pages));
        state.refused.push((pages, Instant::now()));
    }

    /// Reads the rest of a block, of which `got` bytes have arrived. A read may bring less than it
    /// was asked for.
    fn read(self: &Arc<Self>, block: Extent, mut arrived: Vec<Pages>, got: u64, what: For) {
        let start = block.start * PAGE_BYTES;
        let len = self.file.size().min(block.end * PAGE_BYTES) - start;
        let shared = Arc::clone(self);
        self.file.read(start + got, (len - got) as usize, move |result| {
            let came = result.map_or(0, |pages| {
                let came = pages.slices().map(|piece| piece.len() as u64).sum();
                arrived.push(pages);
                came
            });
            if came > 0 && got + came < len {
                shared.read(block, arrived, got + came, what);
            } else if what == For::Policy {
                shared.tell(ViewEvent::Completed { pages: block, came: came > 0 }, &arrived);
            } else {
                shared.or_give_up(|| shared.refill(block, came > 0, &arrived));
            }
        });
    }

    /// A page that the program gave up has been read, if it `came`.
    fn refill(&self, page: Extent, came: bool, bytes: &[Pages]) {
        {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            state.copying.push((page, false));
        }
        let copied = came && self.copy(page, bytes).is_ok();
        let mut state = self.state.lock();
        self.copied(&mut state, page);
        if !copied && !state.closed {
            self.refuse(&mut state, page);
        }
    }

    fn copy(&self, pages: Extent, bytes: &[Pages]) -> std::io::Result<()> {
        let slices: Vec<&[u8]> = bytes.iter().flat_map(Pages::slices).collect();
        let page = PAGE_BYTES as usize;
        let whole = slices.split_last().is_none_or(|(_, before)| before.iter().all(|slice| slice.len() % page == 0));
        if !whole {
            // A slice ends inside a page: join the slices first.
            return self.copy_last(pages, &slices.concat());
        }
        let mut at = pages.start;
        for slice in slices {
            let count = (slice.len() / page) as u64;
            let to = Extent::new(at, at + count);
            if count > 0 {
                // SAFETY: the slice is borrowed and holds that many pages; the destination is this
                // view's.
                unsafe { self.uffd.copy(slice.as_ptr().addr() as u64, self.mapping.range(to), false)? };
            }
            at += count;
            let rest = &slice[count as usize * page..];
            if !rest.is_empty() {
                self.copy_last(Extent::new(at, at + 1), rest)?;
                at += 1;
            }
        }
        Ok(())
    }

    /// Copies through frames of the pool, with zeroes up to the end of the page.
    fn copy_last(&self, pages: Extent, bytes: &[u8]) -> std::io::Result<()> {
        let pool = &mut *self.pool.lock();
        let mut frames: Frames = pool.take(pages.pages())?;
        let into = pool.bytes(&mut frames);
        into[..bytes.len()].copy_from_slice(bytes);
        into[bytes.len()..].fill(0);
        // SAFETY: the frames are the pool's, as many as there are pages; the destination is this
        // view's.
        let copied = unsafe { self.uffd.copy(pool.at(&frames).addr() as u64, self.mapping.range(pages), false) };
        pool.give(&frames);
        copied?;
        Ok(())
    }
}

/// Whether any page is in both.
fn overlap(a: Extent, b: Extent) -> bool {
    a.start < b.end && b.start < a.end
}

/// Default budget of a view, in bytes. Lower: threads that read in many places unmap each other's
/// blocks. Higher: more copies of pages that the engine holds as well.
const BUDGET_BYTES: usize = 32 << 20;

/// How long a touch of a block that could not be read is a signal without another try, as for a
/// region. Lower: a thread that is late waits for another try. Higher: the block is refused for
/// longer after the storage works again.
const REFUSED: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use foreread_backend::{ConnectOptions, Key, connect};
    use foreread_engine::{Engine, Options};

    use crate::region::Region;

    const ROLE: &str = "FOREREAD_TEST_ROLE";

    #[test]
    fn a_panic_in_the_views_thread_is_a_signal_to_those_who_touch_and_hangs_none() {
        const TEST: &str = "view::tests::a_panic_in_the_views_thread_is_a_signal_to_those_who_touch_and_hangs_none";
        if std::env::var_os(ROLE).is_some() {
            // SAFETY: it changes a timer of this process.
            unsafe { libc::alarm(60) };
            let dir = tempfile::tempdir().expect("a directory");
            std::fs::write(dir.path().join("object"), vec![7_u8; 1 << 20]).expect("written");
            let url = format!("file://{}", dir.path().display());
            let connected = connect(&url, &ConnectOptions::default()).expect("a backend");
            let engine = Engine::new(connected.backend, &Options::default()).expect("an engine");
            let object = engine.runtime().block_on(engine.stat(&Key::new("object"))).expect("an object");
            // SAFETY: nothing writes to the file.
            let view = unsafe { Region::map(engine.open(&object)) }.create().expect("a view");
            assert_eq!(view[0], 7);
            view.shared.state.lock().fails = true;
            println!("reached the panic");
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let view = &view;
                    scope.spawn(move || std::hint::black_box(view[(1 << 20) - 1 - thread * 4096]));
                }
            });
            return;
        }
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let output = command.args([TEST, "--exact", "--nocapture"]).env(ROLE, "1").output().expect("it runs");
        assert!(String::from_utf8_lossy(&output.stdout).contains("reached the panic"), "{output:?}");
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
    }
}
