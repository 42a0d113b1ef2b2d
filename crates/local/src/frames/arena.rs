//! The memory that frames are made of: pages from the kernel, and back to it.
//!
//! ```text
//!   chunk   |used|used|idle|idle|used|void ..    2 MiB, mapped once
//!     take  void, idle ──> used        the chunk whose longest run fits best, its first run
//!     give  used ──> idle              free, and still in memory
//!     tidy  idle ──> void              beyond 4 MiB: of the chunk that has idle pages longest
//!           all void: unmapped
//! ```
//!
//! Frames have all lengths, and live as long as what a program reads again and again. In the heap
//! of the C library they leave holes between each other and between small blocks: a mount of 64
//! MiB had 190 MiB resident after the heads of 20,000 files, and more with each further file. Here
//! a hole goes back to the kernel, so what is resident is what is in use, and at most
//! [`IDLE_PAGES_MAX`].
//!
//! *Invariant:* a page is in use by one frame at most. The lock is not held during the use.
//!
//! Source: docs/decisions/0048.

#![allow(unsafe_code, reason = "memory is mapped and given back by address")]

use std::collections::BTreeSet;
use std::ptr::NonNull;

use crate::lock::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::runs::{CHUNK_PAGES, FRAME_BYTES, Pages, RUN_PAGES_MAX};

/// Some pages in use, at an address.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) start: NonNull<u8>,
    chunk: u32,
    first: u16,
    pages: u16,
}

// SAFETY: a run is the only owner of its pages, as a box is of its memory.
unsafe impl Send for Run {}
// SAFETY: as above; a shared reference to it only reads.
unsafe impl Sync for Run {}

/// Chunks of memory, and what of them is free.
#[derive(Debug)]
pub(super) struct Arena(Mutex<State>);

#[derive(Debug)]
struct State {
    chunks: Vec<Option<Chunk>>,
    /// Numbers of chunks that are not mapped.
    unmapped: Vec<u32>,
    /// Chunks by their longest free runs; whole ones last, so that those in use are used further.
    by_run: [Vec<u32>; CLASSES],
    /// Chunks with idle pages, by the time since when they have some.
    idle_since: BTreeSet<(u64, u32)>,
    clock: u64,
    idle_pages: usize,
    used_pages: usize,
}

#[derive(Debug)]
struct Chunk {
    start: NonNull<u8>,
    free: Pages,
    /// Those of the free pages that are in memory.
    idle: Pages,
    idle_since: u64,
    /// In which list of `by_run` it is, and where.
    class: usize,
    place: usize,
}

// SAFETY: it is an address and what is free there; the pages are reached through runs alone.
unsafe impl Send for Chunk {}

/// Lists of chunks: by the pages of the longest free run, and those that are wholly free.
const CLASSES: usize = RUN_PAGES_MAX + 2;

impl Arena {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(State {
            chunks: Vec::new(),
            unmapped: Vec::new(),
            by_run: [const { Vec::new() }; CLASSES],
            idle_since: BTreeSet::new(),
            clock: 0,
            idle_pages: 0,
            used_pages: 0,
        }))
    }

    /// A run of 1 to [`RUN_PAGES_MAX`] pages. Its content is arbitrary. Panics where there is no
    /// memory, as allocations do.
    pub(super) fn take(&self, pages: usize) -> Run {
        assert!((1..=RUN_PAGES_MAX).contains(&pages), "a run of {pages} pages");
        let state = &mut *self.0.lock();
        let found = state.by_run[pages..].iter().find_map(|chunks| chunks.last().copied());
        let number = found.unwrap_or_else(|| state.map());
        let chunk = state.chunks[number as usize].as_mut().expect("a chunk in a list is mapped");
        let first = chunk.free.first(pages).expect("the chunk's class says that it has such a run");
        chunk.free.remove(first, pages);
        let idle = chunk.idle.count_of(first, pages);
        chunk.idle.remove(first, pages);
        // SAFETY: `first` is less than the chunk's pages.
        let start = unsafe { chunk.start.add(first * FRAME_BYTES) };
        state.idle_pages -= idle;
        state.used_pages += pages;
        state.sort(number);
        Run { start, chunk: number, first: first as u16, pages: pages as u16 }
    }

    /// Takes back a run that is no longer used.
    pub(super) fn give(&self, run: &Run) {
        let state = &mut *self.0.lock();
        let (first, pages) = (usize::from(run.first), usize::from(run.pages));
        let chunk = state.chunks[run.chunk as usize].as_mut().expect("a chunk in use is mapped");
        debug_assert_eq!(chunk.free.count_of(first, pages), 0, "a run is given back once");
        chunk.free.insert(first, pages);
        chunk.idle.insert(first, pages);
        state.idle_pages += pages;
        state.used_pages -= pages;
        state.sort(run.chunk);
        while state.idle_pages > IDLE_PAGES_MAX {
            state.tidy();
        }
    }

    /// Memory that is in use, and memory that is kept for the next use, in bytes.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let state = self.0.lock();
        ((state.used_pages * FRAME_BYTES) as u64, (state.idle_pages * FRAME_BYTES) as u64)
    }
}

impl State {
    /// Maps a chunk.
    fn map(&mut self) -> u32 {
        let (flags, access) = (MapFlags::PRIVATE, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses a free place, so no memory in use changes.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), CHUNK_BYTES, access, flags) };
        let start = start.ok().and_then(|start| NonNull::new(start.cast())).expect("memory for a read");
        let number = self.unmapped.pop().unwrap_or_else(|| {
            self.chunks.push(None);
            self.chunks.len() as u32 - 1
        });
        let class = CLASSES - 1;
        let place = self.by_run[class].len();
        self.by_run[class].push(number);
        let chunk = Chunk { start, free: Pages::ALL, idle: Pages::NONE, idle_since: 0, class, place };
        self.chunks[number as usize] = Some(chunk);
        number
    }

    /// Puts a chunk into the lists that it belongs to now.
    fn sort(&mut self, number: u32) {
        let Some(chunk) = &mut self.chunks[number as usize] else { return };
        let is_whole = chunk.free == Pages::ALL;
        let class = if is_whole { CLASSES - 1 } else { chunk.free.longest(RUN_PAGES_MAX) };
        let has_idle = chunk.idle != Pages::NONE;
        if has_idle != (chunk.idle_since > 0) {
            if has_idle {
                self.clock += 1;
                chunk.idle_since = self.clock;
                self.idle_since.insert((chunk.idle_since, number));
            } else {
                self.idle_since.remove(&(chunk.idle_since, number));
                chunk.idle_since = 0;
            }
        }
        if class != chunk.class {
            let (before, place) = (chunk.class, chunk.place);
            (chunk.class, chunk.place) = (class, self.by_run[class].len());
            self.by_run[class].push(number);
            self.leave(before, place);
        }
    }

    /// A chunk leaves its place in a list; the last one of the list takes it.
    fn leave(&mut self, class: usize, place: usize) {
        self.by_run[class].swap_remove(place);
        if let Some(&moved) = self.by_run[class].get(place)
            && let Some(chunk) = &mut self.chunks[moved as usize]
        {
            chunk.place = place;
        }
    }

    /// Gives the idle pages of one chunk back to the kernel.
    fn tidy(&mut self) {
        let (_, number) = self.idle_since.pop_first().expect("some chunk has the idle pages");
        let chunk = self.chunks[number as usize].as_mut().expect("a chunk with idle pages is mapped");
        self.idle_pages -= chunk.idle.count_of(0, CHUNK_PAGES);
        if chunk.free == Pages::ALL {
            // SAFETY: no run of the chunk is in use, and none will be.
            let unmapped = unsafe { rustix::mm::munmap(chunk.start.as_ptr().cast(), CHUNK_BYTES) };
            debug_assert!(unmapped.is_ok(), "a chunk is a mapping");
            let (class, place) = (chunk.class, chunk.place);
            self.chunks[number as usize] = None;
            self.unmapped.push(number);
            self.leave(class, place);
            return;
        }
        let mut from = 0;
        while let Some((first, end)) = chunk.idle.run(from) {
            // Where a program locks its memory, the kernel refuses: the pages stay.
            // SAFETY: no run in use has these pages, and what they held is of no use.
            let _ = unsafe {
                let start = chunk.start.add(first * FRAME_BYTES).as_ptr().cast();
                rustix::mm::madvise(start, (end - first) * FRAME_BYTES, Advice::LinuxDontNeed)
            };
            from = end;
        }
        (chunk.idle, chunk.idle_since) = (Pages::NONE, 0);
    }
}

const CHUNK_BYTES: usize = CHUNK_PAGES * FRAME_BYTES;

/// Pages that are kept for the next use, 4 MiB. Lower: where memory is given back and taken in
/// bursts, a fresh 128 KiB costs 32 page faults, which at a gigabyte a second is a twentieth of a
/// core. Higher: more memory that the budget does not count.
const IDLE_PAGES_MAX: usize = (4 << 20) / FRAME_BYTES;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write(run: &Run, byte: u8) {
        let len = usize::from(run.pages) * FRAME_BYTES;
        // SAFETY: the run is in use by this test alone.
        unsafe { run.start.write_bytes(byte, len) };
    }

    fn has(run: &Run, byte: u8) -> bool {
        let len = usize::from(run.pages) * FRAME_BYTES;
        // SAFETY: as above, and it has been written.
        unsafe { std::slice::from_raw_parts(run.start.as_ptr(), len) }.iter().all(|&b| b == byte)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Frames of all lengths are made and dropped in any order.
        #[test]
        fn no_page_has_two_owners_and_holes_go_back(
            steps in prop::collection::vec((1..=RUN_PAGES_MAX, any::<u16>(), 0..5u8), 1..2000),
        ) {
            let (arena, mut runs) = (Arena::new(), Vec::new());
            for (at, (pages, which, kind)) in steps.into_iter().enumerate() {
                if kind < 3 || runs.is_empty() {
                    let run = arena.take(pages);
                    write(&run, at as u8);
                    runs.push((run, at as u8));
                } else {
                    let (run, byte) = runs.swap_remove(usize::from(which) % runs.len());
                    prop_assert!(has(&run, byte));
                    arena.give(&run);
                }
                let used: usize = runs.iter().map(|(run, _)| usize::from(run.pages) * FRAME_BYTES).sum();
                let (counted, idle) = arena.bytes();
                prop_assert_eq!(counted, used as u64);
                prop_assert!(idle <= (IDLE_PAGES_MAX * FRAME_BYTES) as u64);
            }
            for (run, byte) in &runs {
                prop_assert!(has(run, *byte));
                arena.give(run);
            }
            let state = arena.0.lock();
            let mapped = state.chunks.iter().flatten().count();
            prop_assert!(mapped * CHUNK_PAGES <= IDLE_PAGES_MAX + CHUNK_PAGES * state.by_run[CLASSES - 1].len());
            prop_assert_eq!((state.used_pages, mapped), (0, state.by_run[CLASSES - 1].len()));
        }
    }

    /// Every other frame is dropped, as where a program reads some of its files again: what they
    /// held is not resident any more.
    #[test]
    fn memory_between_frames_in_use_is_not_resident() {
        let arena = Arena::new();
        let runs: Vec<_> = (0..16_384).map(|_| arena.take(4)).collect();
        for run in &runs {
            write(run, 1);
        }
        runs.iter().step_by(2).for_each(|run| arena.give(run));
        let resident = |run: &Run| {
            let mut pages = [0u8; 4];
            // SAFETY: the range is a run's, and the kernel writes a byte for each of its pages.
            let result = unsafe { libc::mincore(run.start.as_ptr().cast(), 4 * FRAME_BYTES, pages.as_mut_ptr()) };
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
            pages.iter().filter(|&page| page & 1 == 1).count()
        };
        let given: usize = runs.iter().step_by(2).map(resident).sum();
        let kept: usize = runs.iter().skip(1).step_by(2).map(resident).sum();
        assert_eq!(kept, 8_192 * 4, "those in use stay, but for what the machine swaps");
        assert!(given <= IDLE_PAGES_MAX, "{given} pages of what was dropped are resident");
        runs.iter().skip(1).step_by(2).for_each(|run| arena.give(run));
    }
}
