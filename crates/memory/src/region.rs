//! A region of memory that is larger than its budget: the program's side.
//!
//! ```text
//!   [ page | page | page | page | page | page ]   len bytes, read and written as memory
//!      |      in the spill file     |      |
//!      +------- at most `budget` bytes of them are in memory at the same time
//! ```

#![allow(unsafe_code, reason = "the mapping is shown as bytes")]

mod carrier;
mod cipher;
mod held;
mod orders;
mod page_states;
mod pager;
mod resident;
pub(crate) mod spill;
pub(crate) mod stats;

use std::ops::{Bound, Deref, DerefMut, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use foreread_local::lock::Mutex;
use foreread_policy::{Advice as Said, Extent, Nanos, PAGE_BYTES, RegionEvent, RegionOptions, RegionPath};

use crate::budget;
use crate::error::Error;
use crate::kernel::bell::Bell;
use crate::kernel::mapping::Mapping;
use crate::kernel::uffd::{Uffd, take_no_signals};
use crate::view::ViewBuilder;
use carrier::{Carrier, Place};
use cipher::Cipher;
use orders::{Order, Orders};
use pager::{Pager, budget_of_policy, idle_frames};
use resident::Resident;
use spill::{Spill, SpillFile};
use stats::Stats;

/// What a program says about bytes that it is going to use. It changes speed, never contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// No advice: withdraws earlier advice.
    Normal,
    /// In ascending order, once.
    Sequential,
    /// In no order: reading ahead is not worth it.
    Random,
    /// Soon: they are read now, as far as there is room.
    WillNeed,
}

/// Zeroed memory that may be larger than its budget: pages that do not fit are in a file, and come
/// back when they are touched.
///
/// It dereferences to a slice, which any thread reads and writes. A thread that touches a page
/// that is not in memory waits, as at any page fault. The memory is freed and the file removed
/// when the region is dropped, or when the process ends in any way.
///
/// # Aliasing
///
/// A region owns its bytes as a `Box<[u8]>` does: a shared borrow of it is `&[u8]`, a mutable one
/// `&mut [u8]`, which can be split among threads (`chunks_mut` and scoped threads). Pages come and
/// go underneath without a change of contents that a reference could see. Threads that write side
/// by side without borrowing use [`Region::as_mut_ptr`], with the rules of any raw pointer: no
/// reference to the same bytes at the same time, and no data race.
///
/// # Signals and errors
///
/// A thread that touches a page that the spill cannot give back is sent SIGBUS (before Linux 6.6
/// SIGSEGV). So is a thread that touches a page for which there is no room because no page in
/// memory can be written out any more. Memory never holds wrong bytes instead. A tenth of a second
/// later a touch tries again. A page that cannot be written to the spill stays in memory.
///
/// # What is forbidden
///
/// Pins before Linux 6.8 (`O_DIRECT` reads into a region, fixed buffers), `MADV_DONTNEED` and the
/// like of the program's own, same-page merging, huge pages, and changes of the mapping. The
/// book's page on memory regions has the list, and says what becomes of each. `mlock` does not
/// hold pages of a region.
///
/// A system call that is given bytes of a region (`read` into it, `write` from it) fails with
/// `EFAULT` where a page is not in memory, unless the region was made with
/// [`RegionBuilder::kernel_faults`]. Copy through another buffer instead.
///
/// # Fork
///
/// A child process has no region: the addresses are unmapped there, and a touch is SIGSEGV, never
/// a zero. Calls fail with [`Error::Forked`]; dropping the region there does nothing.
#[derive(Debug)]
pub struct Region {
    mapping: Arc<Mapping>,
    len: usize,
    orders: Arc<Orders>,
    pager: Option<JoinHandle<()>>,
    process: u32,
    io_uring: bool,
    direct: bool,
    /// The spill file, unless the program gave another place.
    file: Option<Arc<SpillFile>>,
    /// Slots that there is room for in it.
    slots: Mutex<u64>,
}

/// Options of a region. See [`Region::anonymous`].
#[derive(Debug)]
#[must_use]
pub struct RegionBuilder {
    len: usize,
    budget: Option<usize>,
    room: Option<usize>,
    spill: Spills,
    encrypted: bool,
    kernel_faults: bool,
    io_uring: bool,
    panics_after: u64,
}

enum Spills {
    /// Where the system keeps temporary files, on storage.
    Temporary,
    Dir(PathBuf),
    Given(Arc<dyn Spill>),
}

impl std::fmt::Debug for Spills {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Temporary => f.write_str("temporary"),
            Self::Dir(dir) => dir.fmt(f),
            Self::Given(_) => f.write_str("given"),
        }
    }
}

impl RegionBuilder {
    /// Bytes that may be in memory at the same time: at least [`crate::BUDGET_BYTES_MIN`], rounded
    /// down to pages. Required.
    ///
    /// Pages that are mapped, read ahead or being read count, and so does what is kept of pages
    /// that were ever used: 21 bytes each, in steps of 256 pages, but at most half of the budget.
    /// The process has up to a twentieth beside it, and what such tables take beyond that half:
    /// nothing, where less than a hundred times the budget was used.
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = Some(bytes);
        self
    }

    /// The directory whose file system holds the pages that do not fit: in a file without a name,
    /// as long as the region. Default: the system's directory for temporary files, or `/var/tmp`
    /// where that is in memory (tmpfs). A directory in memory that is named here is used: the file
    /// then takes memory beyond the budget.
    pub fn spill(mut self, dir: impl AsRef<Path>) -> Self {
        self.spill = Spills::Dir(dir.as_ref().to_owned());
        self
    }

    /// Has room for only so many bytes in the spill file at first, rounded up to pages; default:
    /// for the whole region. See [`Region::set_room`].
    pub fn room(mut self, bytes: usize) -> Self {
        self.room = Some(bytes);
        self
    }

    /// Keeps the pages that do not fit in a [`Spill`] of the program's own.
    pub fn spill_to(mut self, spill: Arc<dyn Spill>) -> Self {
        self.spill = Spills::Given(spill);
        self
    }

    /// Encrypts the spill (AES-256, XTS) with a key that exists only in this process's memory.
    pub fn encrypted(mut self, encrypted: bool) -> Self {
        self.encrypted = encrypted;
        self
    }

    /// Lets system calls use bytes of the region that are not in memory. Needs a privilege (root,
    /// or `sysctl vm.unprivileged_userfaultfd=1`, or the right to open `/dev/userfaultfd`),
    /// because a program could use it to stop the kernel in the middle of its work.
    pub fn kernel_faults(mut self, kernel_faults: bool) -> Self {
        self.kernel_faults = kernel_faults;
        self
    }

    /// Whether `io_uring` may be used; the default is yes, where the system allows it. Otherwise
    /// threads read and write the spill file.
    pub fn io_uring(mut self, io_uring: bool) -> Self {
        self.io_uring = io_uring;
        self
    }

    /// Has the thread that answers faults panic at so many events: for tests of what that does. It
    /// ends the process.
    pub fn panic_after(mut self, events: u64) -> Self {
        self.panics_after = events;
        self
    }

    /// Makes the region.
    ///
    /// Errors: [`Error::Invalid`] for an empty region, one of 16 TiB or more, a budget that is too
    /// small, or no directory for temporary files on storage; [`Error::Forbidden`],
    /// [`Error::Unsupported`] and [`Error::PageSize`] where page faults cannot be answered;
    /// [`Error::Spill`] where the file system has no room for the whole region;
    /// [`Error::System`], without memory for the records of its pages too.
    pub fn create(self) -> Result<Region, Error> {
        if self.len == 0 {
            return Err(Error::Invalid { what: "a region holds at least one byte" });
        }
        let budget = self.budget.ok_or(Error::Invalid { what: "a region needs a budget" })?;
        let budget_pages = budget_pages(budget)?;
        let pages = (self.len as u64).div_ceil(PAGE_BYTES);
        if pages >= PAGES_END {
            return Err(Error::Invalid { what: "a region is shorter than 16 TiB" });
        }
        // Policy's records are allocated at once, and a failure there would end the process.
        let records = Vec::<u8>::new().try_reserve_exact((pages * RECORD_BYTES) as usize);
        let too_large = |_| Error::system("records of the region's pages")(std::io::ErrorKind::OutOfMemory);
        records.map_err(too_large)?;
        let uffd = Arc::new(Uffd::new(self.kernel_faults)?);
        let slots = self.room.map_or(pages, |bytes| (bytes as u64).div_ceil(PAGE_BYTES).min(pages));
        let on_file = |dir: &Path| SpillFile::new(dir, pages * PAGE_BYTES, slots * PAGE_BYTES).map(Arc::new);
        let (place, file) = match self.spill {
            Spills::Temporary => (None, Some(on_file(&spill::temporary_dir()?)?)),
            Spills::Dir(dir) => (None, Some(on_file(&dir)?)),
            Spills::Given(spill) => (Some(Place::Given(spill)), None),
        };
        let direct = file.as_ref().is_none_or(|file| file.direct);
        let place = place.or_else(|| file.clone().map(Place::File)).ok_or(Error::Invalid { what: "no spill" })?;
        let cipher = self.encrypted.then(Cipher::new).transpose().map_err(Error::system("making a key"))?;
        let mapping = Arc::new(Mapping::registered(pages, true, &uffd)?);
        let bell = Bell::new().map_err(Error::system("making an eventfd"))?;
        let orders = Arc::new(Orders::new(bell.clone()));
        let mut policy = RegionPath::new(RegionOptions { pages, budget: budget_of_policy(budget_pages, 0) });
        if file.is_some() && slots < pages {
            policy.handle(Nanos(0), RegionEvent::Room { slots });
        }
        let (ready, told) = mpsc::sync_channel(1);
        let (mapping_of_pager, orders_of_pager) = (Arc::clone(&mapping), Arc::clone(&orders));
        let (may_ring, panics_after) = (self.io_uring, self.panics_after);
        let serve = move || {
            take_no_signals();
            // A ring belongs to the thread that makes it.
            let carrier = Carrier::new(place, Arc::clone(&uffd), bell, may_ring);
            let io_uring = matches!(carrier, Carrier::Ring(_));
            match Resident::new(mapping_of_pager, uffd, idle_frames(budget_pages)) {
                Ok(resident) => {
                    if ready.send(Ok(io_uring)).is_ok() {
                        let serving = Pager::new(resident, orders_of_pager, policy, carrier, cipher, budget_pages);
                        serving.that_panics(panics_after).run();
                    }
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            }
        };
        let thread = std::thread::Builder::new().name("foreread-pager".to_owned()).spawn(serve);
        let thread = thread.map_err(Error::system("starting a thread"))?;
        let stopped = || Err(std::io::ErrorKind::BrokenPipe.into());
        let io_uring = told.recv().unwrap_or_else(|_| stopped()).map_err(Error::system("starting to answer faults"))?;
        let (len, process) = (self.len, std::process::id());
        let slots = Mutex::new(slots);
        Ok(Region { mapping, len, orders, pager: Some(thread), process, io_uring, direct, file, slots })
    }
}

impl Region {
    /// A region of `len` bytes, all zero.
    ///
    /// ```no_run
    /// use foreread_memory::Region;
    ///
    /// let mut region = Region::anonymous(8 << 30).budget(1 << 30).spill("/var/tmp").create()?;
    /// region[5 << 30] = 7;
    /// assert_eq!(region[5 << 30], 7);
    /// # Ok::<(), foreread_memory::Error>(())
    /// ```
    pub fn anonymous(len: usize) -> RegionBuilder {
        RegionBuilder {
            len,
            budget: None,
            room: None,
            spill: Spills::Temporary,
            encrypted: false,
            kernel_faults: false,
            io_uring: true,
            panics_after: 0,
        }
    }

    /// An object as read-only memory. Pages that are touched are read through the file's engine,
    /// within its budget and with its readahead.
    ///
    /// # Safety
    ///
    /// The bytes of one version of the object never change: a page that leaves and comes back
    /// shows what the storage has then, beneath the view's `&[u8]`. Stores with strong validators
    /// (an `ETag`, a generation) see to that: a read of another version fails, and the touch is a
    /// signal. A local file does not: any process that may write to it can change it without a new
    /// version, so no process may write to it while it is mapped, as with any `mmap` of a file.
    pub unsafe fn map(file: foreread_engine::File) -> ViewBuilder {
        ViewBuilder::new(file)
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its address, for threads that write side by side: see *Aliasing* above. Valid for
    /// [`Region::len`] bytes until the region is dropped.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.mapping.start().as_ptr()
    }

    /// Its words, up to the last whole one, for threads that share them without dividing them.
    #[expect(clippy::cast_ptr_alignment, reason = "it starts at a page")]
    pub fn as_atomics(&mut self) -> &[AtomicU64] {
        // SAFETY: as for `deref_mut`: the region is borrowed mutably. A page is aligned better
        // than a word needs, and any bytes are a word.
        unsafe { std::slice::from_raw_parts(self.as_mut_ptr().cast::<AtomicU64>(), self.len / size_of::<u64>()) }
    }

    /// Says how the bytes of `range` are going to be used. Applies to every page that has a byte
    /// in `range`.
    ///
    /// Errors: [`Error::Invalid`] for a range beyond the end; [`Error::Forked`].
    pub fn advise(&self, range: impl RangeBounds<usize>, advice: Advice) -> Result<(), Error> {
        let (start, end) = self.bounds(&range)?;
        let pages = Extent::new(start as u64 / PAGE_BYTES, (end as u64).div_ceil(PAGE_BYTES));
        let advice = match advice {
            Advice::Normal => Said::Normal,
            Advice::Sequential => Said::Sequential,
            Advice::Random => Said::Random,
            Advice::WillNeed => Said::WillNeed,
        };
        self.say(pages, advice)
    }

    /// Gives up the bytes of `range`: they are zero from now on, and their memory is free.
    ///
    /// Errors as [`Region::advise`].
    pub fn discard(&mut self, range: impl RangeBounds<usize>) -> Result<(), Error> {
        let (start, end) = self.bounds(&range)?;
        // SAFETY: this borrow is the only one.
        unsafe { self.discard_shared(start..end) }
    }

    /// As [`Region::discard`], for threads that share the region by its address.
    ///
    /// # Safety
    ///
    /// No other thread uses these bytes meanwhile, and no reference to them exists.
    pub unsafe fn discard_shared(&self, range: impl RangeBounds<usize>) -> Result<(), Error> {
        let (start, end) = self.bounds(&range)?;
        let page = PAGE_BYTES as usize;
        // No bytes of the region lie behind its end in the last page.
        let last = if end == self.len { end.next_multiple_of(page) } else { end };
        let (first_whole, last_whole) = (start.next_multiple_of(page), last / page * page);
        // SAFETY: inside the region; the rest is the caller's contract.
        let zero = |from: usize, to: usize| unsafe { self.as_mut_ptr().add(from).write_bytes(0, to - from) };
        if first_whole >= last_whole {
            zero(start, end);
            return Ok(());
        }
        self.say(Extent::new(first_whole as u64 / PAGE_BYTES, last_whole as u64 / PAGE_BYTES), Said::DontNeed)?;
        zero(start, first_whole);
        zero(last_whole.min(end), end);
        Ok(())
    }

    /// Changes the budget. When this returns, pages beyond the new budget have left memory or are
    /// on their way out.
    ///
    /// Errors: [`Error::Invalid`] for less than [`crate::BUDGET_BYTES_MIN`]; [`Error::Forked`].
    pub fn set_budget(&self, bytes: usize) -> Result<(), Error> {
        self.check_process()?;
        let pages = budget_pages(bytes)?;
        self.orders.give_and_wait(|done| Order::Budget { pages, done });
        Ok(())
    }

    /// Changes for how many bytes there is room in the spill file, rounded up to pages. The
    /// program sees to it that there is room for all that it uses at the same time, and
    /// [`crate::ROOM_BESIDE_BYTES`] beside, for pages that are mapped ahead of a touch. Where
    /// there is not, a touch may be a signal, as where the spill cannot be written to.
    ///
    /// Room is given back from the end of the file, as far as no page lies there: try again after
    /// a discard. Returns for how many bytes there is room now. Does nothing where the program
    /// gave the spill.
    ///
    /// Errors: [`Error::Spill`] where the file system has no room: what there was stays;
    /// [`Error::Forked`].
    pub fn set_room(&self, bytes: usize) -> Result<usize, Error> {
        self.check_process()?;
        let Some(file) = &self.file else { return Ok(self.len) };
        let wanted = (bytes as u64).div_ceil(PAGE_BYTES).min(self.mapping.all().pages());
        let mut slots = self.slots.lock();
        if wanted > *slots {
            file.make_room(*slots * PAGE_BYTES, wanted * PAGE_BYTES)?;
            self.say_room(wanted);
            *slots = wanted;
        } else if wanted < *slots {
            let needed = self.say_room(wanted);
            if file.give_room(needed * PAGE_BYTES, *slots * PAGE_BYTES).is_ok() {
                *slots = needed;
            } else {
                // Not every file system can. The room is used again.
                self.say_room(*slots);
            }
        }
        Ok((*slots * PAGE_BYTES) as usize)
    }

    /// For how many slots there has to be room.
    fn say_room(&self, slots: u64) -> u64 {
        let needed = Arc::new(AtomicU64::new(slots));
        self.orders.give_and_wait(|done| Order::Room { slots, needed: Arc::clone(&needed), done });
        needed.load(Ordering::Relaxed)
    }

    /// Counts, as of when the pager last had work.
    pub fn stats(&self) -> Stats {
        let (gauges, counters) = self.orders.shown();
        Stats { counters, gauges, io_uring: self.io_uring, direct: self.direct }
    }

    fn say(&self, pages: Extent, advice: Said) -> Result<(), Error> {
        self.check_process()?;
        if !pages.is_empty() {
            self.orders.give_and_wait(|done| Order::Advise { pages, advice, done });
        }
        Ok(())
    }

    fn check_process(&self) -> Result<(), Error> {
        if self.process == std::process::id() { Ok(()) } else { Err(Error::Forked) }
    }

    fn bounds(&self, range: &impl RangeBounds<usize>) -> Result<(usize, usize), Error> {
        let beyond = Error::Invalid { what: "the range does not lie in the region" };
        let start = match range.start_bound() {
            Bound::Included(start) => Some(*start),
            Bound::Excluded(before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.checked_add(1),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => Some(self.len),
        };
        match (start, end) {
            (Some(start), Some(end)) if start <= end && end <= self.len => Ok((start, end)),
            _ => Err(beyond),
        }
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped as long as the region lives, and hold what was last
        // written, zeroes at first. No other code writes to them during this borrow: code that
        // uses `as_mut_ptr` has to see to that.
        unsafe { std::slice::from_raw_parts(self.mapping.start().as_ptr(), self.len) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the region is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start().as_ptr(), self.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The pager and the memory are the parent's: here, something else may be mapped at the
            // address.
            std::mem::forget(Arc::clone(&self.mapping));
            if let Some(pager) = self.pager.take() {
                std::mem::forget(pager);
            }
            return;
        }
        self.orders.give(Order::Stop);
        if let Some(pager) = self.pager.take() {
            let _ = pager.join();
        }
    }
}

fn budget_pages(bytes: usize) -> Result<u64, Error> {
    budget::budget_pages(bytes).ok_or(Error::Invalid { what: "a region's budget is 512 KiB at least" })
}

/// Pages of a region, at least one less: policy numbers them in 32 bits.
const PAGES_END: u64 = u32::MAX as u64;

/// Bytes that are kept of each page of a region's length: 16 in its record, 4 for its slot, and
/// bits.
const RECORD_BYTES: u64 = 21;
