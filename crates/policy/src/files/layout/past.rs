//! How far a kernel reads past the end of a chunk, and before its start.
//!
//! ```text
//!   chunk    |====================|
//!   reads    |------|------|------|------|      in windows, from its first page
//!                               ^    ^ more windows
//!                               └ the one that holds the end
//! ```
//!
//! A kernel that reads ahead of a program asks for windows of one length. The one that holds the
//! end of a chunk is answered as a whole, and its program waits for it. So what lies behind the
//! end is fetched with the chunk, as far as reads of the chunks before it came. A program that
//! reads without a kernel ends at the end, and so does one whose kernel is given all of its call.
//!
//! For a fault of a mapping, a kernel reads as much before the page as behind it: what lies before
//! the first page of a chunk is fetched with it as well.
//!
//! *Invariants:* no more is told than [`PAST_PAGES_MAX`] behind a chunk, and half a window before
//! it, and nothing behind the last chunk.
//!
//! Source: `mm/readahead.c` of Linux 6.12, whose windows begin at the marker of the window before;
//! docs/decisions/0098.

use alloc::collections::VecDeque;

use crate::units::Extent;

/// What reads past the ends of chunks have shown.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// The longest read that does not end where its chunk does, in pages.
    longest: u64,
    /// The length of the last window that held the end of a chunk, in pages.
    window: u64,
    /// Where the reads past the latest ends came to, and windows behind the first one.
    seen: VecDeque<(u64, u64)>,
    /// What another file has shown, or its own first fault.
    habit: Option<Habit>,
    /// The last read that came to the end of a chunk was all of it.
    is_exact: bool,
    /// The end of the last chunk.
    end: u64,
    /// How many pages before a chunk the latest read of its first page began.
    before: u64,
}

/// The windows of a kernel: the length of one in pages, and how many it reads behind the one that
/// holds the end of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Habit {
    window: u64,
    more: u64,
}

impl Past {
    /// Takes over what another file has shown, until its own reads have.
    pub(super) fn hint(&mut self, habit: Habit) {
        self.habit = Some(habit);
    }

    /// What is known of its readers' kernel.
    pub(super) fn habit(&self) -> Option<Habit> {
        let windows = self.seen.iter().map(|&(_, windows)| windows).filter(|&windows| windows <= WINDOWS_MAX);
        // Those of the latest are still to come.
        let own = windows.max().map(|more| Habit { window: self.window, more });
        own.or(self.habit)
    }

    /// A chunk ends there, behind all others.
    pub(super) fn ends_at(&mut self, end: u64) {
        self.end = end;
    }

    /// A read begins in `chunk`.
    pub(super) fn observe(&mut self, chunk: Extent, read: Extent) {
        // One that ends where the chunk does is no window that reaches past it.
        let begins = (chunk.start..=chunk.start + 1).contains(&read.start);
        if begins {
            self.before = 0;
        }
        if read.end != chunk.end {
            self.longest = self.longest.max(read.pages());
        } else if begins {
            self.is_exact = true;
        }
        if let Some((at, windows)) = self.seen.iter_mut().find(|(at, _)| *at == read.start) {
            *at = read.end;
            *windows += 1;
        } else if read.start > chunk.start + 1 && read.start < chunk.end && chunk.end < read.end {
            (self.window, self.is_exact) = (read.pages(), false);
            if self.seen.len() >= SEEN_KEPT {
                self.seen.pop_front();
            }
            self.seen.push_back((read.end, 0));
        }
    }

    /// Where reads of `chunk` will end.
    pub(super) fn end_of(&self, chunk: Extent) -> u64 {
        let Some(Habit { window, more }) = self.habit().filter(|_| !self.is_exact) else { return chunk.end };
        let pages = self.before + chunk.pages();
        let past = pages.next_multiple_of(window.max(1)) - pages + more * window;
        let end = if past > PAST_PAGES_MAX { chunk.end } else { chunk.end + past };
        end.min(self.end.max(chunk.end))
    }

    /// The first page of a chunk was faulted for, by a `read` that began so many pages `before`
    /// it: a window of its kernel.
    pub(super) fn faulted(&mut self, before: u64, read: Extent) {
        self.before = before;
        self.is_exact = false;
        self.habit.get_or_insert(Habit { window: read.pages(), more: 0 });
    }

    /// No program reads the file any more: the next one may map it, or call.
    pub(super) fn release(&mut self) {
        self.before = 0;
    }

    /// What reads of `chunk` will ask for.
    pub(super) fn around(&self, chunk: Extent) -> Extent {
        Extent::new(chunk.start.saturating_sub(self.before), self.end_of(chunk))
    }

    /// `end`, or the end of the last chunk.
    pub(super) fn within(&self, end: u64) -> u64 {
        end.min(self.end)
    }

    /// Pages in a row that no kernel reads past the end of a chunk.
    pub(super) fn most_pages(&self) -> u64 {
        most_pages(self.longest)
    }
}

/// Pages in a row that no kernel whose reads have so many pages reads past the end of a chunk.
pub(super) fn most_pages(read: u64) -> u64 {
    read * (WINDOWS_MAX + 1)
}

/// Ends that are remembered. Lower: threads that read side by side have what the others have read
/// past the ends forgotten. Higher: more to compare with. Source: chosen here.
const SEEN_KEPT: usize = 8;

/// Windows past the one that holds the end of a chunk that a kernel reads at most. Lower: more
/// requests where it reads more. Higher: a reader that goes on is taken for a kernel for longer.
/// Source: measured: one, and up to four of 128 KiB behind a long read.
const WINDOWS_MAX: u64 = 4;

/// Pages past the end of a chunk that are fetched with it at most: 512 KiB. Lower: more requests.
/// Higher: a wrong guess fetches more in vain. Source: as [`WINDOWS_MAX`], of windows of 128 KiB.
const PAST_PAGES_MAX: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(past: &mut Past, chunk: Extent, until: u64) {
        for start in (chunk.start..until).step_by(32) {
            let of = if start < chunk.end { chunk } else { Extent::new(chunk.end, chunk.end + 200) };
            past.observe(of, Extent::new(start, start + 32));
        }
    }

    #[test]
    fn what_a_kernel_reads_past_an_end_comes_with_the_next_chunk() {
        let mut past = Past::default();
        past.ends_at(10_000);
        let (chunk, other) = (Extent::new(100, 300), Extent::new(1_000, 1_100));
        assert_eq!(past.end_of(chunk), 300);
        read(&mut past, chunk, 100 + 8 * 32);
        assert_eq!(past.end_of(other), 1_160, "one window past the fourth, which holds the end");
        assert_eq!(past.end_of(Extent::new(9_900, 10_000)), 10_000, "not past the last");
    }

    #[test]
    fn reads_that_end_where_a_chunk_does_are_no_kernels() {
        let mut past = Past::default();
        past.ends_at(10_000);
        for chunk in [Extent::new(100, 300), Extent::new(300, 400)] {
            past.observe(chunk, chunk);
        }
        assert_eq!(past.end_of(Extent::new(500, 600)), 600);
    }

    #[test]
    fn where_all_of_a_chunk_is_read_at_once_nothing_behind_it_comes() {
        let mut past = Past::default();
        past.ends_at(10_000);
        past.hint(Habit { window: 32, more: 1 });
        let chunk = Extent::new(500, 600);
        assert_eq!(past.end_of(chunk), 660);
        past.observe(chunk, Extent::new(501, 600));
        assert_eq!(past.end_of(chunk), 600);
        read(&mut past, Extent::new(100, 300), 100 + 8 * 32);
        assert_eq!(past.end_of(chunk), 660, "windows again");
    }

    #[test]
    fn a_reader_that_goes_on_is_no_kernel() {
        let mut past = Past::default();
        past.ends_at(10_000);
        read(&mut past, Extent::new(100, 300), 600);
        assert_eq!(past.end_of(Extent::new(500, 600)), 600);
    }
}
