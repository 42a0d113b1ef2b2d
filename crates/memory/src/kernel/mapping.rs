//! Anonymous memory of this process: reserved as a whole, given back page by page, unmapped at the
//! end.
//!
//! A child made by fork does not have it: the child would find zeroes where the contents are in a
//! spill file, and must find nothing instead.

#![allow(unsafe_code, reason = "memory is mapped and unmapped by address")]

use std::io;
use std::ptr::NonNull;

use foreread_policy::{Extent, PAGE_BYTES};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::error::Error;
use crate::kernel::uffd::{Range, Uffd};

/// A range of anonymous pages, numbered from its start.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    pages: u64,
}

// SAFETY: it is an address and a length; reading and writing through it needs `unsafe` elsewhere.
unsafe impl Send for Mapping {}
// SAFETY: as above; its methods are system calls, which any thread may make.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `pages` pages of zeroes, which take no memory before they are touched.
    pub(crate) fn new(pages: u64, writable: bool) -> io::Result<Self> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = pages.checked_mul(PAGE_BYTES).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(too_long)?;
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // Without access at first: of a program that locks all its memory (`MCL_FUTURE`) the
        // kernel would bring every page into memory here. SAFETY: the kernel chooses a free place,
        // so no memory in use changes.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), flags)? };
        let start = NonNull::new(start.cast()).ok_or_else(too_long)?;
        let mapping = Self { start, pages };
        mapping.unlock(mapping.all());
        let protection = MprotectFlags::from_bits_retain(protection.bits());
        // SAFETY: the mapping is new.
        unsafe { rustix::mm::mprotect(start.as_ptr().cast(), bytes, protection)? };
        mapping.advise(mapping.all(), Advice::LinuxDontFork)?;
        // The kernel merges equal pages of a program that wants it, and forgets their protection.
        // A kernel that cannot merge refuses this call.
        let _ = mapping.advise(mapping.all(), Advice::LinuxUnmergeable);
        // A huge page would take 512 pages of the budget at one touch. A kernel without huge pages
        // refuses this call.
        let _ = mapping.advise(mapping.all(), Advice::LinuxNoHugepage);
        Ok(mapping)
    }

    /// The same, with every page absent: a touch of one is a fault that `uffd` reports.
    pub(crate) fn registered(pages: u64, writable: bool, uffd: &Uffd) -> Result<Self, Error> {
        let mapping = Self::new(pages, writable).map_err(Error::system("mapping memory"))?;
        // SAFETY: the mapping is new, so no other code has its addresses. Unmapping it ends the
        // registration.
        let registered = unsafe { uffd.register(mapping.range(mapping.all())) };
        registered.map_err(Error::system("registering memory with userfaultfd"))?;
        Ok(mapping)
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn all(&self) -> Extent {
        Extent::new(0, self.pages)
    }

    /// The addresses of `pages`.
    pub(crate) fn range(&self, pages: Extent) -> Range {
        assert!(pages.start <= pages.end && pages.end <= self.pages, "{pages:?} of {} pages", self.pages);
        Range { start: self.start.addr().get() as u64 + pages.start * PAGE_BYTES, len: pages.pages() * PAGE_BYTES }
    }

    /// The address of `page`.
    pub(crate) fn at(&self, page: u64) -> *mut u8 {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        self.start.as_ptr().wrapping_add((page * PAGE_BYTES) as usize)
    }

    /// The page of an address; `None` for one outside the mapping.
    pub(crate) fn page_of(&self, address: u64) -> Option<u64> {
        let page = address.checked_sub(self.start.addr().get() as u64)? / PAGE_BYTES;
        (page < self.pages).then_some(page)
    }

    /// Gives pages back to the kernel: they are absent from now on.
    ///
    /// # Safety
    ///
    /// No code relies on their contents.
    pub(crate) unsafe fn forget(&self, pages: Extent) -> io::Result<()> {
        match self.advise(pages, Advice::LinuxDontNeed) {
            // The program has locked them. A kernel before Linux 5.18 has no advice for that.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.advise(pages, Advice::LinuxDontneedLocked).or_else(|_| {
                    self.unlock(pages);
                    self.advise(pages, Advice::LinuxDontNeed)
                })
            }
            result => result,
        }
    }

    /// Takes back a lock of `pages` (mlock): the budget decides what is in memory.
    pub(crate) fn unlock(&self, pages: Extent) {
        let range = self.range(pages);
        // SAFETY: the range is inside the mapping, and contents stay. It cannot fail for memory
        // that is mapped, but for a want of memory for the kernel's records.
        let _ = unsafe { rustix::mm::munlock(self.at_end(pages.start).cast(), range.len as usize) };
    }

    /// As [`Mapping::forget`] for each extent, with one flush of the processors' address caches
    /// where the kernel can.
    ///
    /// # Safety
    ///
    /// As [`Mapping::forget`].
    pub(crate) unsafe fn forget_all(&self, extents: &[Extent]) {
        for extents in extents.chunks(RANGES_MAX) {
            // SAFETY: the caller's contract.
            unsafe { self.forget_some(extents) };
        }
    }

    /// # Safety
    ///
    /// As [`Mapping::forget`].
    unsafe fn forget_some(&self, extents: &[Extent]) {
        let ranges = extents.iter().map(|pages| {
            let range = self.range(*pages);
            libc::iovec { iov_base: self.at_end(pages.start).cast(), iov_len: range.len as usize }
        });
        let ranges: Vec<libc::iovec> = ranges.collect();
        let bytes: usize = ranges.iter().map(|range| range.iov_len).sum();
        let done = if ranges.len() < 2 {
            0
        } else {
            // SAFETY: the ranges lie inside the mapping, and the caller answers for their
            // contents; the list lives through the call.
            let done = unsafe {
                let (list, count) = (ranges.as_ptr(), ranges.len());
                libc::syscall(libc::SYS_process_madvise, PIDFD_SELF, list, count, libc::MADV_DONTNEED, 0)
            };
            usize::try_from(done).unwrap_or(0)
        };
        if done < bytes {
            // One range, or a kernel before Linux 6.14, which does this for other processes only.
            // Doing it twice does no harm.
            for pages in extents {
                // SAFETY: the caller's contract.
                let _ = unsafe { self.forget(*pages) };
            }
        }
    }

    fn advise(&self, pages: Extent, advice: Advice) -> io::Result<()> {
        let range = self.range(pages);
        // SAFETY: the range is inside the mapping. Of the advice given here only `DONTNEED`
        // changes contents, and there the caller answers for them.
        unsafe { rustix::mm::madvise(self.at_end(pages.start).cast(), range.len as usize, advice)? };
        Ok(())
    }

    /// A thread that touches `pages` from now on is sent SIGSEGV.
    pub(crate) fn forbid(&self, pages: Extent) -> io::Result<()> {
        let range = self.range(pages);
        // SAFETY: the range is inside the mapping, and losing access to it is the purpose.
        unsafe { rustix::mm::mprotect(self.at_end(pages.start).cast(), range.len as usize, MprotectFlags::empty())? };
        Ok(())
    }

    /// Takes [`Mapping::forbid`] back, in a mapping that is written to.
    pub(crate) fn allow(&self, pages: Extent) -> io::Result<()> {
        self.permit(pages, MprotectFlags::READ | MprotectFlags::WRITE)
    }

    /// Takes [`Mapping::forbid`] back, in a mapping that is read.
    pub(crate) fn allow_reads(&self, pages: Extent) -> io::Result<()> {
        self.permit(pages, MprotectFlags::READ)
    }

    /// Whether a page is in memory, and not absent. A page that the kernel has swapped may count
    /// as absent.
    pub(crate) fn is_there(&self, page: u64) -> bool {
        let mut there = 0_u8;
        // SAFETY: the page is inside the mapping; there is a byte for one page.
        let asked = unsafe { libc::mincore(self.at(page).cast(), PAGE_BYTES as usize, &raw mut there) };
        asked != 0 || there & 1 == 1
    }

    fn permit(&self, pages: Extent, protection: MprotectFlags) -> io::Result<()> {
        let range = self.range(pages);
        // SAFETY: the range is inside the mapping, and its owner answers for the contents.
        unsafe { rustix::mm::mprotect(self.at_end(pages.start).cast(), range.len as usize, protection)? };
        Ok(())
    }

    /// As [`Mapping::at`], or just behind the last page.
    fn at_end(&self, page: u64) -> *mut u8 {
        self.start.as_ptr().wrapping_add((page * PAGE_BYTES) as usize)
    }

    /// Whether `page` holds only zeroes.
    ///
    /// # Safety
    ///
    /// The page is not absent (the calling thread would wait for its own answer), and no thread
    /// writes to it meanwhile.
    #[cfg(test)]
    #[expect(clippy::cast_ptr_alignment, reason = "a page starts with a word")]
    unsafe fn is_zero(&self, page: u64) -> bool {
        let words = self.at(page).cast::<u64>();
        // SAFETY: aligned, inside the mapping, and there. Volatile: the program holds references
        // to this memory, and the compiler must not draw conclusions from what is read here.
        (0..PAGE_BYTES as usize / 8).all(|index| unsafe { words.add(index).read_volatile() } == 0)
    }

    /// The bytes of `pages`.
    ///
    /// # Safety
    ///
    /// The pages are not absent, no thread writes to them meanwhile, and no other reference to
    /// them is used.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps track of which pages are borrowed")]
    pub(crate) unsafe fn bytes(&self, pages: Extent) -> &mut [u8] {
        let range = self.range(pages);
        // SAFETY: inside the mapping; the rest is the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(self.at_end(pages.start), range.len as usize) }
    }
}

/// Ranges of one system call. The kernel takes up to 1024. Lower: more calls and flushes. Higher:
/// a longer list on the heap.
const RANGES_MAX: usize = 64;

/// Stands for this process where a descriptor of a process is expected: `PIDFD_SELF_THREAD_GROUP`.
const PIDFD_SELF: libc::c_int = -10001;

impl Drop for Mapping {
    fn drop(&mut self) {
        let bytes = (self.pages * PAGE_BYTES) as usize;
        // SAFETY: it is the range that was mapped, and the code that drops it has no reference
        // into it.
        if let Err(errno) = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), bytes) } {
            tracing::warn!(%errno, "memory could not be unmapped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_numbered_from_the_start() {
        let mapping = Mapping::new(4, true).expect("memory");
        let range = mapping.range(Extent::new(1, 3));
        let page = |address| mapping.page_of(address);
        assert_eq!((page(range.start), page(range.start + range.len - 1)), (Some(1), Some(2)));
        assert_eq!((page(range.start - 2 * PAGE_BYTES), page(range.start + 3 * PAGE_BYTES)), (None, None));
    }

    #[test]
    fn forgetting_many_extents_leaves_their_neighbours_alone() {
        let mapping = Mapping::new(400, true).expect("memory");
        let gone: Vec<_> = (0..100).map(|n| Extent::new(n * 4 + 1, n * 4 + 3)).collect();
        // SAFETY: as below.
        unsafe {
            mapping.bytes(mapping.all()).fill(7);
            mapping.forget_all(&gone);
            assert!((0..400).all(|page| mapping.is_zero(page) == [1, 2].contains(&(page % 4))));
        }
    }

    #[test]
    fn a_forgotten_page_is_zeroes() {
        let mapping = Mapping::new(2, true).expect("memory");
        // SAFETY: the memory is not registered with a userfaultfd, so every page is there when
        // touched, and no other code has its address.
        unsafe {
            mapping.bytes(Extent::new(0, 2))[4096..].fill(7);
            assert!(mapping.is_zero(0) && !mapping.is_zero(1));
            mapping.forget(Extent::new(1, 2)).expect("given back");
            assert!(mapping.is_zero(1));
        }
    }
}
