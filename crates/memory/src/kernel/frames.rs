//! Frames: memory for pages that are being transferred or are staged, one page each.
//!
//! ```text
//!   arena 0  [##.####.|........]     a read takes the lowest free run that fits
//!   arena 1  [........|........]     mapped when arena 0 is full, unmapped when it is empty
//! ```
//!
//! A free frame keeps its memory for the next read, up to a bound; beyond it the kernel gets the
//! memory back, because free frames count in no budget.
//!
//! Frames of a *registered* pool are absent while they are free: pages are moved there.

#![allow(unsafe_code, reason = "frames are handed out as bytes")]

use std::io;
use std::sync::Arc;

use foreread_policy::{Extent, PAGE_BYTES};

use crate::kernel::mapping::Mapping;
use crate::kernel::uffd::{Range, Uffd};

/// Adjacent frames of one arena. Only the owner of this value reads and writes there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frames {
    arena: u32,
    /// Frames of that arena.
    run: Extent,
}

/// The source of frames. See the head of this file.
#[derive(Debug)]
pub(crate) struct Pool {
    arenas: Vec<Arena>,
    /// Free frames that may keep their memory.
    idle_max: u64,
    idle: u64,
    /// Where the arenas are registered.
    uffd: Option<Arc<Uffd>>,
}

#[derive(Debug)]
struct Arena {
    mapping: Mapping,
    /// One bit a frame: taken.
    used: [u64; WORDS],
    /// One bit a frame: free, and still has its memory.
    idle: [u64; WORDS],
}

impl Frames {
    /// How many frames.
    pub(crate) fn len(&self) -> u64 {
        self.run.pages()
    }

    /// Splits off the first `frames`.
    pub(crate) fn split_to(&mut self, frames: u64) -> Self {
        assert!(frames <= self.len(), "{frames} of {}", self.len());
        let middle = self.run.start + frames;
        let first = Self { arena: self.arena, run: Extent::new(self.run.start, middle) };
        self.run.start = middle;
        first
    }

    /// Whether `next` starts where this run ends.
    pub(crate) fn is_before(&self, next: &Self) -> bool {
        self.arena == next.arena && self.run.end == next.run.start
    }
}

impl Pool {
    /// At most `idle_max` free frames keep their memory.
    pub(crate) fn new(idle_max: u64) -> Self {
        Self { arenas: Vec::new(), idle_max, idle: 0, uffd: None }
    }

    /// Free frames are absent. A frame is touched only after a page was moved there.
    pub(crate) fn registered(uffd: Arc<Uffd>) -> Self {
        Self { uffd: Some(uffd), ..Self::new(0) }
    }

    /// Changes that bound. Frames beyond it lose their memory when further frames are given back.
    pub(crate) fn keep_idle(&mut self, idle_max: u64) {
        self.idle_max = idle_max;
    }

    /// `frames` adjacent frames, at most [`RUN_MAX`].
    pub(crate) fn take(&mut self, frames: u64) -> io::Result<Frames> {
        assert!((1..=RUN_MAX).contains(&frames), "a run of {frames}");
        let found = self.arenas.iter().enumerate().find_map(|(arena, a)| Some((arena, a.find(frames)?)));
        let (arena, run) = if let Some(found) = found {
            found
        } else {
            let mapping = match &self.uffd {
                None => Mapping::new(ARENA_FRAMES, true)?,
                Some(uffd) => Mapping::registered(ARENA_FRAMES, true, uffd).map_err(io::Error::other)?,
            };
            self.arenas.push(Arena { mapping, used: [0; WORDS], idle: [0; WORDS] });
            (self.arenas.len() - 1, Extent::new(0, frames))
        };
        let a = &mut self.arenas[arena];
        for frame in run.start..run.end {
            set(&mut a.used, frame);
            self.idle -= u64::from(clear(&mut a.idle, frame));
        }
        Ok(Frames { arena: arena as u32, run })
    }

    /// Takes frames back.
    pub(crate) fn give(&mut self, frames: &Frames) {
        let arena = &mut self.arenas[frames.arena as usize];
        for frame in frames.run.start..frames.run.end {
            assert!(clear(&mut arena.used, frame), "frame {frame} was free");
        }
        if self.idle + frames.len() <= self.idle_max {
            self.idle += frames.len();
            for frame in frames.run.start..frames.run.end {
                set(&mut arena.idle, frame);
            }
        } else {
            // SAFETY: the frames are free: no code relies on their contents.
            let _ = unsafe { arena.mapping.forget(frames.run) };
        }
        self.unmap_empty();
    }

    /// As [`Pool::give`] for each, with as few system calls as possible. None keeps its memory.
    pub(crate) fn give_all(&mut self, frames: &mut Vec<Frames>) {
        frames.sort_unstable_by_key(|frames| (frames.arena, frames.run.start));
        for together in frames.chunk_by(|one, next| one.arena == next.arena) {
            let arena = &mut self.arenas[together[0].arena as usize];
            for frame in together.iter().flat_map(|frames| frames.run.start..frames.run.end) {
                assert!(clear(&mut arena.used, frame), "frame {frame} was free");
            }
            let runs = together.chunk_by(Frames::is_before);
            let runs: Vec<_> = runs.map(|run| Extent::new(run[0].run.start, run[run.len() - 1].run.end)).collect();
            // SAFETY: the frames are free: no code relies on their contents.
            unsafe { arena.mapping.forget_all(&runs) };
        }
        frames.clear();
        self.unmap_empty();
    }

    /// Makes taken frames absent, in a registered pool.
    pub(crate) fn empty(&self, frames: &Frames) {
        // SAFETY: frames are absent until a page is moved there, so these have no contents.
        let _ = unsafe { self.arenas[frames.arena as usize].mapping.forget(frames.run) };
    }

    /// Takes back locks of the frames' memory (mlockall).
    pub(crate) fn unlock(&self) {
        self.arenas.iter().for_each(|arena| arena.mapping.unlock(arena.mapping.all()));
    }

    fn unmap_empty(&mut self) {
        while let Some(last) = self.arenas.last()
            && last.used == [0; WORDS]
            && self.arenas.len() > 1
        {
            self.idle -= last.idle.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
            self.arenas.pop();
        }
    }

    /// Their address.
    pub(crate) fn at(&self, frames: &Frames) -> *mut u8 {
        self.arenas[frames.arena as usize].mapping.at(frames.run.start)
    }

    /// Their addresses.
    pub(crate) fn range(&self, frames: &Frames) -> Range {
        self.arenas[frames.arena as usize].mapping.range(frames.run)
    }

    /// Their bytes. Not to be used while the kernel or another thread has the frames.
    pub(crate) fn bytes(&mut self, frames: &mut Frames) -> &mut [u8] {
        // SAFETY: a run has one owner, which is borrowed mutably here. Pages of an arena that is
        // not registered with a userfaultfd are there when touched; in a registered one a page was
        // moved there.
        unsafe { self.arenas[frames.arena as usize].mapping.bytes(frames.run) }
    }

    /// Frames that are taken.
    #[cfg(test)]
    fn used(&self) -> u64 {
        self.arenas.iter().flat_map(|arena| arena.used).map(|word| u64::from(word.count_ones())).sum()
    }
}

impl Arena {
    /// The lowest run of `frames` free frames.
    fn find(&self, frames: u64) -> Option<Extent> {
        let mut start = 0;
        while start + frames <= ARENA_FRAMES {
            // A taken frame is in the way: a run may begin after the last such frame.
            match (start..start + frames).rev().find(|frame| is_set(&self.used, *frame)) {
                None => return Some(Extent::new(start, start + frames)),
                Some(used) => start = used + 1,
            }
        }
        None
    }
}

fn is_set(bits: &[u64; WORDS], index: u64) -> bool {
    bits[(index / 64) as usize] & (1 << (index % 64)) != 0
}

fn set(bits: &mut [u64; WORDS], index: u64) {
    bits[(index / 64) as usize] |= 1 << (index % 64);
}

/// Whether it was set.
fn clear(bits: &mut [u64; WORDS], index: u64) -> bool {
    let was = is_set(bits, index);
    bits[(index / 64) as usize] &= !(1 << (index % 64));
    was
}

/// Frames of an arena (4 MiB). Each read searches an arena from its start. Lower: more mappings.
/// Higher: longer searches.
const ARENA_FRAMES: u64 = 1024;
const WORDS: usize = (ARENA_FRAMES / 64) as usize;

/// Frames of the longest run (1 MiB). A longer request is several transfers. Lower: more transfers
/// a request. Higher: runs that fit in an arena less often.
pub(crate) const RUN_MAX: u64 = 256;

/// Bytes of a frame.
pub(crate) const FRAME_BYTES: u64 = PAGE_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_do_not_overlap_and_are_used_again() {
        let mut pool = Pool::new(4);
        let mut first = pool.take(8).expect("memory");
        let second = pool.take(8).expect("memory");
        assert!(first.is_before(&second));
        let head = first.split_to(3);
        assert!(head.is_before(&first) && head.len() == 3 && first.len() == 5);
        pool.give(&first);
        assert_eq!(pool.used(), 11);
        let again = pool.take(5).expect("memory");
        assert_eq!(again, first);
        for frames in [head, again, second] {
            pool.give(&frames);
        }
        assert_eq!(pool.used(), 0);
        assert!(pool.idle <= 4);
    }

    #[test]
    fn a_second_arena_is_mapped_when_needed_and_unmapped_when_empty() {
        let mut pool = Pool::new(0);
        let runs: Vec<_> = (0..5).map(|_| pool.take(RUN_MAX).expect("memory")).collect();
        assert_eq!(pool.arenas.len(), 2);
        for run in runs {
            pool.give(&run);
        }
        assert_eq!((pool.arenas.len(), pool.used()), (1, 0));
    }
}
