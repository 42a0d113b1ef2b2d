//! Blocks of memory in one region: for a program that makes and frees many, under one budget.
//!
//! ```text
//!   region   [ block | block |  free  | block |  free .......................... ]   addresses
//!   file     [ room for the pages of all blocks, and a little |   no room yet    ]   storage
//! ```
//!
//! The region is longer than its file has room: a block takes room when it is made, so a block
//! that was made always has a place for its pages. A freed block's pages are given up, and its
//! room is used by the next one, or goes back to the file system where less than half of it is in
//! use.
//!
//! A child made by fork has no blocks. Their addresses are reserved there, without access, so that
//! no other memory of the child comes to lie at them: [`Allocator::holds`] is right in a child,
//! and a touch is SIGSEGV.
//!
//! *Invariants:* a new block is all zero. Its memory is no other block's.

#![allow(unsafe_code, reason = "blocks are named by their addresses")]

mod extents;

use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use foreread_local::lock::Mutex;
use foreread_policy::{Extent, PAGE_BYTES};

use crate::error::Error;
use crate::region::spill;
use crate::region::stats::Stats;
use crate::region::{Region, RegionBuilder};
use extents::Extents;

/// Blocks of zeroed memory that together may be larger than their budget.
///
/// What [`Region`] says of signals, system calls and what is forbidden holds for its blocks. They
/// begin at a page, and take whole pages.
///
/// ```no_run
/// use foreread_memory::Allocator;
///
/// let memory = Allocator::with_budget(1 << 30).spill("/var/tmp").create()?;
/// let block = memory.allocate(8 << 30)?;
/// // SAFETY: the block has 8 GiB, and no other thread uses it.
/// unsafe {
///     block.add(5 << 30).write(7);
///     memory.free(block);
/// }
/// # Ok::<(), foreread_memory::Error>(())
/// ```
#[derive(Debug)]
pub struct Allocator {
    region: Region,
    blocks: Mutex<Blocks>,
    process: u32,
    kernel_faults: bool,
    listed: Listed,
}

/// Options of an allocator. See [`Allocator::with_budget`].
#[derive(Debug)]
#[must_use]
pub struct AllocatorBuilder {
    budget: usize,
    spill: Option<PathBuf>,
    encrypted: bool,
    kernel_faults: bool,
}

/// Counts of an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllocatorStats {
    /// Of the region that its blocks lie in.
    pub region: Stats,
    /// Blocks that there are.
    pub blocks: u64,
    /// Bytes of their pages.
    pub bytes: u64,
    /// The most bytes that there were at one time.
    pub bytes_max: u64,
    /// Bytes that there is room for in the spill file.
    pub room_bytes: u64,
}

#[derive(Debug)]
struct Blocks {
    extents: Extents,
    pages_max: u64,
    /// Pages that there is room for in the spill file.
    room: u64,
}

impl AllocatorBuilder {
    /// As for a region: [`RegionBuilder::spill`]. The file grows and shrinks with the blocks.
    pub fn spill(mut self, dir: impl AsRef<Path>) -> Self {
        self.spill = Some(dir.as_ref().to_owned());
        self
    }

    /// As for a region: [`RegionBuilder::encrypted`].
    pub fn encrypted(mut self, encrypted: bool) -> Self {
        self.encrypted = encrypted;
        self
    }

    /// Whether system calls may use bytes that are not in memory, where this process has the
    /// privilege that [`RegionBuilder::kernel_faults`] needs. Default: yes.
    pub fn kernel_faults(mut self, kernel_faults: bool) -> Self {
        self.kernel_faults = kernel_faults;
        self
    }

    /// Makes the allocator. It takes addresses for twice what is free in the file system, and for
    /// no more than 64 times the machine's memory: tables of so many pages have room.
    ///
    /// Errors: those of [`RegionBuilder::create`], and [`Error::Invalid`] where there are too many
    /// allocators in this process.
    pub fn create(self) -> Result<Allocator, Error> {
        let dir = self.spill.map_or_else(spill::temporary_dir, Ok)?;
        let len = length(&dir)?;
        let builder = |kernel_faults: bool| -> RegionBuilder {
            let region = Region::anonymous(len).budget(self.budget).room(0).spill(&dir);
            region.encrypted(self.encrypted).kernel_faults(kernel_faults)
        };
        let mut kernel_faults = self.kernel_faults;
        let region = match builder(kernel_faults).create() {
            Err(Error::Forbidden { kernel: true, .. }) => {
                kernel_faults = false;
                builder(false).create()?
            }
            made => made?,
        };
        let listed = Listed::new(region.as_mut_ptr().addr(), region.len())?;
        let blocks = Blocks { extents: Extents::new(len as u64 / PAGE_BYTES), pages_max: 0, room: 0 };
        Ok(Allocator { region, blocks: Mutex::new(blocks), process: std::process::id(), kernel_faults, listed })
    }
}

impl Allocator {
    /// An allocator of which at most `bytes` bytes are in memory: see [`RegionBuilder::budget`].
    pub fn with_budget(bytes: usize) -> AllocatorBuilder {
        AllocatorBuilder { budget: bytes, spill: None, encrypted: false, kernel_faults: true }
    }

    /// A new block of at least `bytes` bytes, all zero. It takes no memory before it is touched.
    ///
    /// Costs a search of the free places, and now and then a call of the file system.
    ///
    /// Errors: [`Error::Spill`] where the file system has no room; [`Error::Invalid`] where there
    /// are no addresses; [`Error::Forked`].
    pub fn allocate(&self, bytes: usize) -> Result<NonNull<u8>, Error> {
        self.check_process()?;
        let pages = pages_of(bytes);
        let mut blocks = self.blocks.lock();
        let block = blocks.extents.take(pages).ok_or(Error::Invalid { what: "no addresses are left for a block" })?;
        self.make_room(&mut blocks).inspect_err(|_| blocks.extents.give(block.start))?;
        Ok(self.at(block.start))
    }

    /// Frees a block: its room is free when this returns. Does nothing in a child of a fork.
    ///
    /// # Safety
    ///
    /// The block was made by this allocator, and no code uses it any more.
    pub unsafe fn free(&self, block: NonNull<u8>) {
        if self.check_process().is_err() {
            return;
        }
        let start = self.page_of(block);
        let Some(pages) = self.blocks.lock().extents.len_of(start) else { return };
        // SAFETY: the caller's contract.
        unsafe { self.discard(Extent::new(start, start + pages)) };
        let mut blocks = self.blocks.lock();
        blocks.extents.give(start);
        self.give_room(&mut blocks);
    }

    /// Gives a block another length, at the same place where that is possible. Returns where it
    /// lies now. Bytes behind the old pages are zero. After an error it is what it was.
    ///
    /// Errors as [`Allocator::allocate`].
    ///
    /// # Safety
    ///
    /// The block was made by this allocator, and no other code uses it meanwhile.
    pub unsafe fn resize(&self, block: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>, Error> {
        self.check_process()?;
        let (start, wanted) = (self.page_of(block), pages_of(bytes));
        let mut blocks = self.blocks.lock();
        let pages = blocks.extents.len_of(start).ok_or(Error::Invalid { what: "this is no block" })?;
        if wanted < pages {
            drop(blocks);
            // SAFETY: the caller's contract.
            unsafe { self.discard(Extent::new(start + wanted, start + pages)) };
            let mut blocks = self.blocks.lock();
            blocks.extents.resize(start, wanted);
            self.give_room(&mut blocks);
            return Ok(block);
        }
        if blocks.extents.resize(start, wanted) {
            self.make_room(&mut blocks).inspect_err(|_| _ = blocks.extents.resize(start, pages))?;
            return Ok(block);
        }
        drop(blocks);
        let moved = self.allocate(bytes)?;
        // SAFETY: two blocks of at least so many bytes; the caller has the old one alone, and no
        // other code knows the new one.
        unsafe {
            moved.copy_from_nonoverlapping(block, (pages * PAGE_BYTES) as usize);
            self.free(block);
        }
        Ok(moved)
    }

    /// Whether `address` lies in memory that its blocks are made of; also in a child of a fork.
    pub fn holds(&self, address: *const u8) -> bool {
        let start = self.region.as_mut_ptr().addr();
        (start..start + self.region.len()).contains(&address.addr())
    }

    /// Whether `address` lies in memory of any allocator of this process, or of the process that
    /// it was forked from.
    pub fn is_in_any(address: *const u8) -> bool {
        RANGES.iter().any(|range| {
            let start = range.start.load(Ordering::Acquire);
            start > BEING_LISTED && (start..start + range.len.load(Ordering::Relaxed)).contains(&address.addr())
        })
    }

    /// Whether system calls may use bytes that are not in memory. Otherwise they fail with
    /// `EFAULT`.
    pub fn takes_kernel_faults(&self) -> bool {
        self.kernel_faults
    }

    /// As [`Region::set_budget`].
    pub fn set_budget(&self, bytes: usize) -> Result<(), Error> {
        self.region.set_budget(bytes)
    }

    /// Counts.
    ///
    /// Errors: [`Error::Forked`].
    pub fn stats(&self) -> Result<AllocatorStats, Error> {
        self.check_process()?;
        let region = self.region.stats();
        let blocks = self.blocks.lock();
        Ok(AllocatorStats {
            region,
            blocks: blocks.extents.count(),
            bytes: blocks.extents.used() * PAGE_BYTES,
            bytes_max: blocks.pages_max * PAGE_BYTES,
            room_bytes: blocks.room * PAGE_BYTES,
        })
    }

    /// Before anything is locked: a child may have been forked while another thread had the lock.
    fn check_process(&self) -> Result<(), Error> {
        if self.process == std::process::id() { Ok(()) } else { Err(Error::Forked) }
    }

    fn at(&self, page: u64) -> NonNull<u8> {
        let start = self.region.as_mut_ptr().wrapping_add((page * PAGE_BYTES) as usize);
        // A region does not lie at 0.
        NonNull::new(start).unwrap_or(NonNull::dangling())
    }

    fn page_of(&self, block: NonNull<u8>) -> u64 {
        block.addr().get().wrapping_sub(self.region.as_mut_ptr().addr()) as u64 / PAGE_BYTES
    }

    /// # Safety
    ///
    /// No code uses these pages any more.
    unsafe fn discard(&self, pages: Extent) {
        let range = (pages.start * PAGE_BYTES) as usize..(pages.end * PAGE_BYTES) as usize;
        // SAFETY: the caller's contract. It cannot fail for whole pages of a region of this
        // process.
        let _ = unsafe { self.region.discard_shared(range) };
    }

    /// Sees to it that there is room for all blocks.
    fn make_room(&self, blocks: &mut Blocks) -> Result<(), Error> {
        let needed = blocks.extents.used() + ROOM_BESIDE;
        if needed > blocks.room {
            let set = |pages: u64| self.region.set_room((pages * PAGE_BYTES) as usize);
            let room = set(needed.next_multiple_of(ROOM_STEP)).or_else(|_| set(needed))?;
            blocks.room = room as u64 / PAGE_BYTES;
        }
        blocks.pages_max = blocks.pages_max.max(blocks.extents.used());
        Ok(())
    }

    /// Gives room back where less than half of it is in use.
    fn give_room(&self, blocks: &mut Blocks) {
        let needed = (blocks.extents.used() + ROOM_BESIDE).next_multiple_of(ROOM_STEP);
        if needed * 2 < blocks.room
            && let Ok(room) = self.region.set_room((needed * PAGE_BYTES) as usize)
        {
            blocks.room = room as u64 / PAGE_BYTES;
        }
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        // A child keeps the addresses reserved: what it was forked with may still be asked for.
        if self.process == std::process::id() {
            RANGES[self.listed.0].start.store(NOT_LISTED, Ordering::Release);
        }
    }
}

fn pages_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(PAGE_BYTES).max(1)
}

/// Bytes of addresses for blocks that spill to `dir`.
fn length(dir: &Path) -> Result<usize, Error> {
    let about = rustix::fs::statvfs(dir).map_err(|errno| Error::Spill {
        dir: dir.to_owned(),
        bytes: 0,
        cause: errno.into(),
    })?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    // SAFETY: it takes no memory of this program's.
    let memory_pages = u64::try_from(unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }).unwrap_or(0);
    let most = memory_pages.saturating_mul(PAGE_BYTES * MEMORIES).min(LENGTH_MAX);
    let length = free.saturating_mul(2).clamp(LENGTH_MIN, most.max(LENGTH_MIN));
    Ok((length / PAGE_BYTES * PAGE_BYTES) as usize)
}

/// Addresses for blocks, in multiples of the machine's memory. Lower: less can be allocated on a
/// small machine with a large disk. Higher: the tables of all pages, half a percent, are more than
/// the memory, and the kernel refuses them.
const MEMORIES: u64 = 64;

/// Bytes of addresses for blocks, where the disk is nearly full and at most: a region is shorter
/// than 16 TiB.
const LENGTH_MIN: u64 = 1 << 30;
const LENGTH_MAX: u64 = 15 << 40;

/// Pages beside those of the blocks that there is room for: pages of zeroes that are mapped ahead
/// of a touch, behind a block, take a place while they leave. Lower: pages that leave together
/// wait for places; below a cluster of 256, a touch may be refused. Higher: more room in the file
/// system. Source: chosen here, four clusters.
const ROOM_BESIDE: u64 = crate::ROOM_BESIDE_BYTES as u64 / PAGE_BYTES;

/// Pages that room is made for at a time (16 MiB). Lower: more calls of the file system for small
/// blocks. Higher: more room that is not used.
const ROOM_STEP: u64 = 4096;

/// A place in [`RANGES`].
#[derive(Debug)]
struct Listed(usize);

impl Listed {
    fn new(start: usize, len: usize) -> Result<Self, Error> {
        static ASKED: Once = Once::new();
        // SAFETY: the function makes only calls that are allowed after a fork.
        ASKED.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(reserve_all)) });
        let own = |range: &Range| {
            let taken = range.start.compare_exchange(NOT_LISTED, BEING_LISTED, Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        };
        let place = RANGES.iter().position(own);
        let place = place.ok_or(Error::Invalid { what: "a process has 256 allocators at most" })?;
        RANGES[place].len.store(len, Ordering::Relaxed);
        RANGES[place].start.store(start, Ordering::Release);
        Ok(Self(place))
    }
}

/// Runs in a child, at the fork: the addresses of regions are unmapped there.
unsafe extern "C" fn reserve_all() {
    for range in &RANGES {
        let start = range.start.load(Ordering::Acquire);
        if start > BEING_LISTED {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
            let (at, len) = (std::ptr::without_provenance_mut(start), range.len.load(Ordering::Relaxed));
            // SAFETY: it replaces nothing: addresses that a parent reserved are taken already.
            unsafe { libc::mmap(at, len, libc::PROT_NONE, flags, -1, 0) };
        }
    }
}

/// The addresses of an allocator.
struct Range {
    start: AtomicUsize,
    len: AtomicUsize,
}

/// The allocators of this process, and those that it was forked with.
static RANGES: [Range; 256] = [const { Range { start: AtomicUsize::new(NOT_LISTED), len: AtomicUsize::new(0) } }; 256];
const NOT_LISTED: usize = 0;
const BEING_LISTED: usize = 1;
