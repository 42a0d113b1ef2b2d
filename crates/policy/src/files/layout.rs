//! Files that say where their parts lie: chunks of columns, in groups of rows.
//!
//! ```text
//!   group     0              1              2              3
//!   column  | a | b | c |  | a | b | c |  | a | b | c |  | a | b | c |
//!   reads     1       2      3                                          a, c: and a again
//!   fetched   1       2      3       x      x       x      x       x    as far as `ahead` goes
//! ```
//!
//! A read that begins where a chunk does fetches that chunk to its end, and nothing behind it. A
//! reader that begins, in a group, with a column that it has read in the group before, will read
//! the same columns there: they come together, and those of the following groups as far ahead as
//! memory and link allow. A column that is read later is added to them. One whose chunk was passed
//! unread leaves them. Where threads take groups in any order, those that were passed over come
//! with the first of them that is read.
//!
//! Columns that are not planned, lie side by side and are read one after the other have those
//! behind them fetched: the more of them, the more (`row`).
//!
//! Threads may read several groups at once: reads near each other are one run. A kernel reads
//! ahead past the end of a chunk: what it reads there is fetched with the chunk (`past`). So one
//! that reads reach from the chunk before it counts as read once they have come to its end, and
//! the next group once they are farther in it than a kernel reads (`bursts`). A read that begins
//! elsewhere in a chunk of which nothing was fetched is none of a run. Where chunks were fetched
//! and not read, those that follow are not fetched whole for a while: their reader has an index of
//! pages.
//!
//! For a fault of a mapping a kernel reads around it: a read with the start of a chunk in its
//! middle begins that chunk, and what lies before the next ones is fetched with them.
//!
//! *Invariants:* what is planned lies in chunks, or right behind or before one. The number of
//! chunks, of runs and of groups that a run remembers is bounded.
//!
//! The members of an archive are the columns of one group (`members`).
//!
//! The file decodes no format, and does not know what is resident: the driver tells the chunks
//! (`Event::Chunk`, `Event::Member`), `read::path::columns` asks and submits. Source: Parquet's
//! footer, which says all of it; the window grows as that of a stream (`window`);
//! docs/decisions/0094, 0098, 0101, 0104, 0114, 0125.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

mod alike;
mod bursts;
mod chunk;
mod faults;
mod fetched;
mod members;
mod past;
mod row;
mod run;

pub(crate) use alike::{Alike, Read};
use bursts::Early;
pub(crate) use chunk::Chunk;
use chunk::{CHUNKS_MAX, chunks_of};
use faults::Faults;
use members::Members;
pub(crate) use past::Habit;
use past::Past;
use row::ROW_MAX;
use run::{BEGUN_MAX, BEGUN_NEAR, ENDS_KEPT, End, GROUPS_NEAR, Run};

use crate::files::streams::Active;
use crate::files::window::parts::{Limits, Part, part_of};
use crate::units::{Extent, FOLIO_PAGES_MAX, Nanos};

/// The chunks of one file, and the runs through it.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// In the order in which they lie.
    chunks: Vec<Chunk>,
    runs: Vec<Run>,
    next_id: u64,
    /// How many more chunks are not fetched whole.
    distrust: u32,
    /// Reads that may have overtaken the first one of theirs.
    early: Early,
    /// How far its readers read past the end of a chunk.
    past: Past,
    /// Calls so far, and the latest chunks that came by one and are not judged yet.
    calls: u32,
    called: VecDeque<usize>,
    /// What was read of files like it that are closed, and of one that is open.
    alike: Option<Read>,
    beside: Option<Read>,
    /// Its reads, which tell faults of a mapping.
    faults: Faults,
    /// Its members, if it is an archive: what its chunks are of.
    members: Members,
    /// When its file was closed, if it is.
    closed_at: Option<Nanos>,
    /// The memory that it took when it was counted last.
    counted_bytes: u64,
}

impl Layout {
    /// The file has `chunk`, behind all that were told before. One of a group before theirs is not
    /// kept: its file has its groups in another order than it counts them.
    pub(crate) fn push(&mut self, chunk: Chunk) {
        if self.chunks.len() < CHUNKS_MAX && chunk.is_next(self.chunks.last()) {
            self.past.ends_at(chunk.extent.end);
            self.chunks.push(chunk);
        }
    }

    /// The file is an archive, and has `member` behind all that were told before.
    pub(crate) fn push_member(&mut self, member: Extent) {
        self.members.push(member, &mut self.chunks);
        self.past.ends_at(self.chunks.last().map_or(0, |last| last.extent.end));
    }

    /// Whether it is an archive.
    pub(crate) fn is_archive(&self) -> bool {
        self.members.count() > 0
    }

    /// All of the member that begins where `read` does, if that is short or `of_run`.
    pub(crate) fn member_of(&self, read: Extent, of_run: bool) -> Option<Extent> {
        let at = self.chunk_at(read.start)?;
        let long = self.chunks.get(at).map(|long| long.extent).filter(|long| of_run && long.start == read.start);
        self.members.member_of(read, at, &self.chunks).or(long)
    }

    /// Takes over what another file's readers have shown of their kernel.
    pub(crate) fn hint(&mut self, past: Habit) {
        self.past.hint(past);
    }

    /// What its readers have shown of their kernel.
    pub(crate) fn habit(&self) -> Option<Habit> {
        self.past.habit()
    }

    /// The columns that its latest reader has read in several groups, and how far ahead of it is
    /// fetched, in pages.
    pub(crate) fn reads(&self) -> Option<(&[u32], u64)> {
        let goes_on = |run: &&Run| run.is_shown() && run.groups.len() > 1;
        let latest = self.runs.iter().filter(goes_on).max_by_key(|run| run.last)?;
        Some((&latest.columns, latest.ahead))
    }

    /// `closed` was read of files like it that are closed, `open` of one that is open.
    pub(crate) fn is_like(&mut self, closed: Option<&Read>, open: Option<&Read>) {
        if self.runs.is_empty() && (self.alike.as_ref() != closed || self.beside.as_ref() != open) {
            (self.alike, self.beside) = (closed.cloned(), open.cloned());
        }
    }

    /// How many columns it has.
    pub(crate) fn width(&self) -> u32 {
        self.chunks.last().map_or(0, |last| last.column.saturating_add(1))
    }

    /// A program has opened the file.
    pub(crate) fn open(&mut self) {
        self.closed_at = None;
    }

    /// When no program had the file open any more, if none has.
    pub(crate) fn closed_at(&self) -> Option<Nanos> {
        self.closed_at
    }

    /// No program has the file open any more.
    pub(crate) fn release(&mut self, now: Nanos) {
        self.closed_at = Some(now);
        self.runs.clear();
        self.faults.release();
        self.past.release();
        self.count();
    }

    /// Memory that it took when it was counted last, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.counted_bytes
    }

    /// Counts the memory that it takes, and what a driver keeps of it.
    pub(crate) fn count(&mut self) {
        let runs = self.runs.iter().map(Run::bytes).sum::<usize>();
        // The driver keeps them as well, or all members, to tell them again.
        let chunks = self.chunks.capacity() * size_of::<Chunk>();
        let chunks = chunks + if self.is_archive() { self.members.told_bytes() } else { chunks };
        let alike = [&self.alike, &self.beside].into_iter().flatten().map(|read| 4 * read.columns.capacity());
        let alike = alike.sum::<usize>() + 8 * self.called.capacity() + self.faults.bytes() + self.members.bytes();
        self.counted_bytes = (size_of::<Self>() + chunks + runs + alike + self.early.bytes()) as u64;
    }

    /// Whether `stream` is the number of a run, and not of a stream.
    pub(crate) fn is_run(stream: u64) -> bool {
        stream >= FIRST_RUN
    }

    /// Takes note of a read. Returns the run that it belongs to, if it reads chunks. `absent`, and
    /// a page of it was neither resident nor in flight; `waits`, and it has to wait.
    pub(crate) fn observe(&mut self, now: Nanos, read: Extent, absent: bool, waits: bool) -> Option<u64> {
        let fault = self.of_fault(read);
        let read = fault.unwrap_or(read);
        let at = self.chunk_of(read)?;
        let chunk = self.chunks[at].extent;
        if fault.is_none() {
            self.past.observe(chunk, read);
        }
        let Some(run) = self.join(now, at, read, absent, waits) else {
            if read.start > chunk.start + 1 {
                self.early.push(now, read);
            }
            return None;
        };
        // The requests of one window overtake one another.
        let mut end = read.end;
        while let Some(early) = self.early.take_at(now, end) {
            if let Some(at) = self.chunk_at(early.start) {
                self.join(now, at, early, false, false);
            }
            end = early.end;
        }
        Some(run)
    }

    /// The part of `read` from the fault on for which a kernel makes it, if that is the first
    /// page of a chunk. One that goes on with the chunk before is none, or begins a short member.
    fn of_fault(&mut self, read: Extent) -> Option<Extent> {
        let middle = self.faults.page_of(read)?;
        let page = Extent::new(middle, middle + 1);
        let chunk = self.chunks[self.chunk_of(page)?].extent;
        let is_run = |at| self.runs.iter().any(|run| run.has(self.chunks[at]));
        let goes_on = self.chunk_at(read.start).is_some_and(is_run) || self.member_of(read, false).is_some();
        if read.start >= chunk.start || middle > chunk.start + 1 || goes_on {
            return None;
        }
        self.past.faulted(chunk.start - read.start, read);
        Some(if chunk == page { chunk } else { Extent::new(chunk.start, read.end) })
    }

    /// The read of a program for which its kernel asks for `window` first: to the end of the chunk
    /// that it begins, if that has `most` pages at most and its readers have no index of pages.
    ///
    /// Of a chunk that comes so, nothing shows how much of it its program reads. So one is left to
    /// the kernel's windows now and then, and tells (`judge`).
    pub(crate) fn call_of(&mut self, window: Extent, most: u64) -> Extent {
        let Some(at) = self.chunk_at(window.start).filter(|_| self.distrust == 0) else { return window };
        let chunk = self.chunks[at].extent;
        if window.start > chunk.start + 1 || chunk.end <= window.end || chunk.pages() > most {
            return window;
        }
        self.calls += 1;
        if self.calls >= CALLS_UNSEEN && self.calls.is_power_of_two() {
            return window;
        }
        if self.called.len() >= BEGUN_MAX {
            self.called.pop_front();
        }
        self.called.push_back(at);
        Extent::new(window.start, chunk.end)
    }

    /// The chunk that `read` begins in. One that is all of the read comes before one that begins
    /// in its last page.
    fn chunk_of(&self, read: Extent) -> Option<usize> {
        let at = self.chunk_at(read.start)?;
        let is_all = |before: &usize| {
            let before = self.chunks[*before].extent;
            read.start == before.start && read.end == before.end && read.end <= self.chunks[at].extent.start + 1
        };
        at.checked_sub(1).filter(is_all).or(Some(at))
    }

    /// The last chunk that begins no later than `page`, if that lies in it.
    fn chunk_at(&self, page: u64) -> Option<usize> {
        let at = self.chunks.partition_point(|chunk| chunk.extent.start <= page).checked_sub(1)?;
        (page < self.chunks[at].extent.end).then_some(at)
    }

    /// The run that `read` belongs to, which begins in the chunk at `at`, if it does to one.
    fn join(&mut self, now: Nanos, at: usize, read: Extent, absent: bool, waits: bool) -> Option<u64> {
        let chunk = self.chunks[at];
        let mine = self.runs.iter().position(|run| run.has(chunk) || run.begun.contains(&at));
        // A kernel may read several such groups past the one that its program reads.
        let is_exact = read == chunk.extent;
        if mine.is_none() && !is_exact && self.is_only(at) && chunk.extent.pages() <= self.past.most_pages() {
            return None;
        }
        // The first page may be that of the neighbour before it, which the kernel has already.
        let begins = read.start <= chunk.extent.start + 1;
        let before = at.checked_sub(1).map(|before| self.chunks[before]);
        let is_neighbours = |before: Chunk| {
            read.end <= before.extent.end && self.runs.iter().any(|run| run.has(before)) && mine.is_none()
        };
        if begins && before.is_some_and(is_neighbours) {
            return None;
        }
        // A program's own reads begin with the page of the chunk's first byte, and reach its end.
        // A call ends there, and begins one page later where the kernel has that one.
        let is_own = read.start == chunk.extent.start && read.end >= chunk.extent.end;
        let is_call = begins && read.end == chunk.extent.end;
        if mine.is_none()
            && !(is_own || is_call)
            && let Some(index) = self.coming_from_before(at, read)
        {
            return Some(self.go_on_behind(now, index, at, read, waits));
        }
        if !begins {
            return self.go_on(now, at, mine, read, absent, waits);
        }
        if self.distrust > 0 && mine.is_none() {
            self.distrust -= 1;
            return None;
        }
        let whole = self.chunks[at + 1..].iter().take_while(|next| next.extent.end <= read.end).count();
        let index = mine.unwrap_or_else(|| self.run_near(now, chunk.group));
        let run = &self.runs[index];
        let is_known = |chunk: &Chunk| run.columns.binary_search(&chunk.column).is_ok();
        let is_new = run.is_shown() && !self.chunks[at..=at + whole].iter().all(is_known);
        self.begin(now, index, at, at + whole, absent, waits);
        if is_new {
            self.fetch_row(index, at + whole, false);
        }
        self.runs[index].went_to(read);
        self.cross(now, index, at + whole + 1, read, waits);
        Some(self.runs[index].id)
    }

    /// `read` begins in the middle of the chunk at `at`, which the run `mine` has, if one does.
    fn go_on(
        &mut self,
        now: Nanos,
        at: usize,
        mine: Option<usize>,
        read: Extent,
        absent: bool,
        waits: bool,
    ) -> Option<u64> {
        let group = self.chunks[at].group;
        let goes_on = |run: &Run| {
            run.columns_of(group).is_some() && run.ends.iter().any(|end| end.may_go_on(read, 0) && end.at < read.end)
        };
        let index = mine.or_else(|| self.runs.iter().position(goes_on))?;
        let is_first = self.is_first(at);
        let run = &mut self.runs[index];
        run.wait(now, waits);
        if waits {
            run.grow();
        }
        run.went_to(read);
        let (id, chunk) = (run.id, self.chunks[at]);
        // Where chunks adjoin, a kernel's windows begin in the middle of them.
        if run.is_shown() && run.has(chunk) && !run.has_read(chunk) {
            self.begin(now, index, at, at, false, waits);
        }
        // One that goes on behind the only chunk of a group goes into the next group.
        let behind = match self.past.most_pages() {
            most @ CROSSED_PAGES..=GROUP_CROSSED_PAGES if self.is_only(at) => most,
            _ => CROSSED_PAGES,
        };
        let run = &mut self.runs[index];
        if mine.is_some() && absent && !run.hurry(read) {
            let may_be_row = is_first && !run.is_shown() && read.end > chunk.extent.end;
            let row = if may_be_row { self.past.within(chunk.extent.end + behind) } else { 0 };
            run.want_first(Extent::new(read.start, self.past.end_of(chunk.extent).max(row)));
        }
        self.cross(now, index, at, read, waits);
        Some(id)
    }

    /// `read` is of no run. Returns the run whose reads it goes on with from the group before the
    /// one of the chunk at `at`, as a kernel reads, or a reader of all groups. Where that run has
    /// read in this group as well, its reads have come from there.
    fn coming_from_before(&self, at: usize, read: Extent) -> Option<usize> {
        let group = self.chunks[at].group;
        let before = group.checked_sub(1)?;
        let came = |run: &Run| run.columns_of(before).is_some() && run.columns_of(group).is_none();
        // The reads of one window come in any order. Of several columns, one is skipped as well.
        let most = if self.is_only(at) { past::most_pages(read.pages()) } else { 0 };
        let follows = |end: &End| end.at <= read.start && end.may_go_on(read, most);
        self.runs.iter().position(|run| came(run) && run.ends.iter().any(follows))
    }

    /// `read` goes on with the run at `index` into the group of the chunk at `at`. One that comes
    /// farther than a kernel reads ahead, and in more windows, reads that group as well.
    fn go_on_behind(&mut self, now: Nanos, index: usize, at: usize, read: Extent, waits: bool) -> u64 {
        let group = self.chunks[at].group;
        let first = self.chunks.partition_point(|chunk| chunk.group < group);
        let until = self.chunks[first].extent.start + self.past.most_pages();
        let before = chunks_of(&self.chunks, group - 1).len();
        // A reader of one column after the other is more frequent than one of a single chunk.
        let is_only = self.is_only(at);
        let run = &mut self.runs[index];
        run.wait(now, waits);
        run.went_to(read);
        let is_whole = run.columns_of(group - 1).is_some_and(|columns| columns.len() == before);
        run.bursts.came(now, at);
        if read.end >= until && (is_only || run.bursts.show(at)) {
            self.begin(now, index, first, at, true, waits);
        } else if is_whole && (read.start..=read.start + GROUP_CROSSED_PAGES).contains(&until) {
            run.want_first(Extent::new(read.start, self.past.within(until)));
        }
        self.runs[index].id
    }

    /// The reads of the run at `index` have come from the chunk before it into the one at `at`, or
    /// through it, within a group: from one group into the next it is a stream. A kernel reads
    /// past the end of a chunk: one whose end is reached was read. One that is not planned is
    /// fetched before that, if reads are far in it or its reader has read on into another one.
    fn cross(&mut self, now: Nanos, index: usize, at: usize, read: Extent, waits: bool) {
        for at in at..self.chunks.len() {
            let chunk = self.chunks[at];
            let Some(pages) = read.end.checked_sub(chunk.extent.start).filter(|&pages| pages > 1) else { return };
            let run = &mut self.runs[index];
            let is_known = run.has(chunk) || run.begun.contains(&at);
            if !is_known {
                run.bursts.came(now, at);
            }
            if run.columns_of(chunk.group).is_none() {
                return;
            }
            // Where the columns are known, others are likely to be what a kernel reads.
            let goes_on = if run.is_shown() { run.bursts.show(at) } else { run.crosses || pages >= CROSSED_PAGES };
            if read.end >= chunk.extent.end {
                run.crosses |= !run.has(chunk);
                let is_shown = run.is_shown();
                self.begin(now, index, at, at, false, waits);
                if is_shown && !is_known && goes_on {
                    self.fetch_row(index, at, true);
                }
            } else if !is_known && goes_on {
                run.fetches(at);
                self.fetch_row(index, at, true);
                self.runs[index].want_first(Extent::new(read.end, self.past.end_of(chunk.extent)));
            }
        }
    }

    /// A run that may go on with `group`, or a new one.
    fn run_near(&mut self, now: Nanos, group: u32) -> usize {
        if let Some(near) = self.runs.iter().position(|run| run.is_near(group)) {
            return near;
        }
        if self.runs.len() >= RUNS_MAX
            && let Some(oldest) = (0..self.runs.len()).min_by_key(|&at| self.runs[at].last)
        {
            self.runs.remove(oldest);
        }
        self.runs.push(Run::new(FIRST_RUN + self.next_id, now));
        self.next_id += 1;
        self.runs.len() - 1
    }

    /// The run at `index` reads the chunks from `first` to `last`.
    fn begin(&mut self, now: Nanos, index: usize, first: usize, last: usize, absent: bool, waits: bool) {
        let run = &mut self.runs[index];
        run.wait(now, waits);
        for at in (first..=last).rev() {
            let chunk = self.chunks[at];
            if absent {
                run.want_first(Extent::new(chunk.extent.start, self.past.end_of(chunk.extent)));
            }
            if run.has_read(chunk) {
                continue;
            }
            run.seen += chunk.extent.pages();
            if !run.has(chunk) {
                run.fetches(at);
            }
            run.note(chunk);
            let before = chunk.group.checked_sub(1).and_then(|before| run.columns_of(before));
            let repeats = before.filter(|columns| columns.contains(&chunk.column));
            if !run.is_shown()
                && let Some(before) = repeats.map(|before| before.iter().copied().collect::<Vec<_>>())
            {
                run.show(&before, chunk.group);
            } else {
                run.add_column(chunk, &self.chunks);
            }
        }
        let group = self.chunks[last].group;
        if !run.is_shown() {
            self.read_alike(index, first, last);
        }
        let run = &mut self.runs[index];
        if run.is_shown() {
            let is_planned = run.planned.iter().any(|&(planned, _)| planned == group);
            let is_passed_over = absent && !is_planned && run.has_all(&run.columns, group);
            run.front = if is_passed_over { group } else { run.front.max(group) };
            // Several threads may still read the groups beside it.
            run.forget_planned(group);
            if waits {
                run.grow();
            }
            // One at the front is about to be planned.
            if absent && run.front > group {
                self.fetch_known(index, last);
            }
        } else {
            self.fetch_row(index, last, true);
        }
    }

    /// A reader waits for the chunk at `last`. Its group may have been begun when the run at
    /// `index` knew fewer columns: those behind the chunk are fetched that are not yet.
    fn fetch_known(&mut self, index: usize, last: usize) {
        let (group, run) = (self.chunks[last].group, &mut self.runs[index]);
        let behind = self.chunks.iter().enumerate().skip(last + 1).take(ROW_MAX);
        for (at, &chunk) in behind.take_while(|(_, chunk)| chunk.group == group) {
            if run.columns.binary_search(&chunk.column).is_ok() && !run.has_read(chunk) && !run.begun.contains(&at) {
                run.fetches(at);
                run.want(self.past.around(chunk.extent));
            }
        }
    }

    /// The run at `index` has begun the chunks from `first` to `last`, and its next groups are not
    /// known. If it has read all columns of a group that another reader reads, of this file or of
    /// one beside it that is open, it goes on as that one does. In its first group, what was read
    /// beside one of them of the files before is read here.
    fn read_alike(&mut self, index: usize, first: usize, last: usize) {
        let group = self.chunks[last].group;
        let has_all = |columns: &[u32]| self.runs[index].has_all(columns, group);
        let open = self.beside.as_ref().map(|read| (&read.columns[..], read.ahead));
        if let Some((columns, ahead)) = self.reads().or(open).filter(|(columns, _)| has_all(columns)) {
            let columns = columns.to_vec();
            let run = &mut self.runs[index];
            run.show(&columns, group);
            run.ahead = run.ahead.max(ahead);
            return;
        }
        let Some(Read { columns, goes_on, .. }) = &self.alike else { return };
        let is_alike = |chunk: &Chunk| columns.binary_search(&chunk.column).is_ok();
        let run = &mut self.runs[index];
        if run.groups.len() > 1 || !self.chunks[first..=last].iter().any(is_alike) {
            return;
        }
        if *goes_on {
            return run.show(columns, group);
        }
        for at in self.places_of(group, columns.clone()) {
            let (run, other) = (&mut self.runs[index], self.chunks[at]);
            if !run.has_read(other) && !run.begun.contains(&at) {
                run.fetches(at);
                run.want(self.past.around(other.extent));
            }
        }
    }

    /// Whether the chunk at `at` is the only one of its group.
    fn is_only(&self, at: usize) -> bool {
        let group = self.chunks[at].group;
        self.is_first(at) && self.chunks.get(at + 1).is_none_or(|next| next.group != group)
    }

    /// Whether the chunk at `at` is the first one of its group.
    fn is_first(&self, at: usize) -> bool {
        at.checked_sub(1).is_none_or(|before| self.chunks[before].group != self.chunks[at].group)
    }

    /// The run at `index` has come to the chunk at `last`, which is not planned. What lies behind
    /// a row of columns that it has read is fetched: sooner behind one from the first column on,
    /// if that `counts`.
    fn fetch_row(&mut self, index: usize, last: usize, counts: bool) {
        let run = &self.runs[index];
        let group = self.chunks[last].group;
        // What was fetched behind a row and is resident is read without being told of.
        let is_of_row = |at: usize| run.rows.iter().any(|&(from, to)| from <= at && at <= to);
        let is_read = |&at: &usize| {
            self.chunks[at].group == group && (at == last || run.has_read(self.chunks[at]) || is_of_row(at))
        };
        let first = (0..=last).rev().take(ROW_MAX).take_while(is_read).last().unwrap_or(last);
        let pages = self.chunks[last].extent.end - self.chunks[first].extent.start;
        let until = self.chunks[last].extent.end + row::ahead(last - first + 1, counts && self.is_first(first), pages);
        let run = &mut self.runs[index];
        for at in first..last {
            run.note(self.chunks[at]);
            run.add_column(self.chunks[at], &self.chunks);
        }
        let row = run.rows.iter().position(|&(from, to)| from <= last && last <= to);
        let from = row.map_or(last, |row| run.rows[row].1) + 1;
        let is_behind = |&at: &usize| self.chunks[at].group == group && self.chunks[at].extent.start + 1 < until;
        let (mut to, mut behind) = (from, Vec::new());
        for at in (from..self.chunks.len()).take_while(is_behind) {
            to = at + 1;
            if !run.has_read(self.chunks[at]) && !run.begun.contains(&at) {
                run.fetches(at);
                behind.push(self.chunks[at].extent);
            }
        }
        if run.is_shown() {
            // Before what is planned of other groups.
            for extent in behind.into_iter().rev() {
                run.want_first(extent);
            }
        } else {
            for extent in behind {
                run.want(extent);
            }
        }
        match row {
            Some(row) => run.rows[row].1 = to - 1,
            None if to > from => {
                if run.rows.len() >= ENDS_KEPT {
                    run.rows.pop_front();
                }
                run.rows.push_back((last, to - 1));
            }
            None => {}
        }
    }

    /// A chunk that the run fetched whole, and has passed since, if `all_came` of it: readers of
    /// several groups at once are far ahead of what they wait for. Where chunks are members of an
    /// archive, it has passed one when it has begun a few others.
    pub(crate) fn passed(&mut self, id: u64, all_came: impl Fn(Extent) -> bool) -> Option<Chunk> {
        let is_archive = self.is_archive();
        let run = self.runs.iter_mut().find(|run| run.id == id)?;
        let chunk = self.chunks[*run.begun.front()?];
        let current = run.groups.iter().map(|&(group, _)| group).max()?;
        let is_behind = chunk.group + GROUPS_NEAR < current || (is_archive && run.begun.len() > BEGUN_NEAR);
        if !is_behind || !all_came(chunk.extent) {
            return None;
        }
        run.begun.pop_front();
        Some(chunk)
    }

    /// Most of a `chunk` that run `id` has passed `was_read`, or was not.
    pub(crate) fn judge(&mut self, id: u64, chunk: Chunk, was_read: bool) {
        if let Some(nth) = self.called.iter().position(|&at| self.chunks[at] == chunk) {
            self.called.remove(nth);
            return;
        }
        if was_read {
            self.distrust = 0;
            return;
        }
        let Some(run) = self.runs.iter_mut().find(|run| run.id == id) else { return };
        if run.columns_of(chunk.group).is_some_and(|columns| columns.contains(&chunk.column)) {
            (self.distrust, self.calls) = ((self.distrust + DISTRUST).min(DISTRUST_MAX), 0);
        }
        run.columns.retain(|&column| column != chunk.column);
    }

    /// What to fetch next for run `id`, as far ahead of its reader and in such parts as `limits`
    /// allow. What `read` waits for comes in several parts, to the end of its chunk.
    pub(crate) fn next_part(&mut self, id: u64, limits: Limits, read: Extent) -> Option<Part> {
        let of = self.chunks.partition_point(|chunk| chunk.extent.start <= read.start).checked_sub(1);
        // A disk reads one part after the other: the rest of a chunk comes no sooner in several.
        let of = of.filter(|_| !limits.rotational);
        let until = of.map_or(read.end, |at| read.end.max(self.chunks[at].extent.end));
        let awaited = Extent::new(read.start, until);
        let run = self.runs.iter_mut().find(|run| run.id == id)?;
        let mut part = limits.part_pages_max;
        while run.is_shown() {
            let group = run.front;
            let before = run.planned.iter().filter(|&&(planned, _)| planned < group);
            let unread = before.filter(|&&(planned, _)| run.columns_of(planned).is_none());
            let planned = unread.map(|&(_, pages)| pages).sum::<u64>();
            let ahead = limits.ahead_pages_max.min(run.ahead);
            part = part_of(ahead, planned, limits);
            let chunks = chunks_of(&self.chunks, group);
            let is_enough = run.has_todo(part) || (run.columns_of(group).is_none() && planned >= ahead);
            if is_enough || chunks.is_empty() {
                break;
            }
            if run.planned.iter().any(|&(planned, _)| planned == group) {
                run.front += 1;
                continue;
            }
            let (mut pages, first) = (0, self.chunks.partition_point(|chunk| chunk.group < group));
            for (nth, chunk) in chunks.iter().enumerate() {
                let is_wanted = run.columns.binary_search(&chunk.column).is_ok();
                if !is_wanted || run.columns_of(group).is_some_and(|begun| begun.contains(&chunk.column)) {
                    continue;
                }
                run.fetches(first + nth);
                pages += chunk.extent.pages();
                run.want(self.past.around(chunk.extent));
            }
            run.planned.push_back((group, pages));
            run.front += 1;
        }
        let &extent = run.todo.front()?;
        let is_awaited = extent.overlaps(awaited);
        if is_awaited {
            // Near parts are short, so that they come soon.
            part = part.min(PART_PAGES_WAITING.max(extent.start.saturating_sub(awaited.start) / PARTS_WAITING));
        }
        if !limits.rotational {
            // What is asked for last is not to come long after all else.
            let rest = self.chunks.last().map_or(0, |last| last.extent.end.saturating_sub(extent.start));
            part = part.min((rest / PARTS_LAST).next_power_of_two().max(PART_PAGES_WAITING));
        }
        let end = (extent.start + part.max(FOLIO_PAGES_MAX)) / FOLIO_PAGES_MAX * FOLIO_PAGES_MAX;
        // A tail too small for a request of its own joins the last part that is waited for.
        let joins = is_awaited && extent.end < end + part / 4;
        let end = if joins { extent.end } else { end.min(extent.end) };
        Some(Part::plain(Extent::new(extent.start, end)))
    }

    /// The pages before `until` of what is to be fetched next have been submitted, or are there.
    pub(crate) fn planned(&mut self, id: u64, until: u64) {
        let Some(run) = self.runs.iter_mut().find(|run| run.id == id) else { return };
        if let Some(extent) = run.todo.front_mut() {
            let part = Extent::new(extent.start, until.max(extent.start));
            extent.start = part.end;
            if extent.is_empty() {
                run.todo.pop_front();
            }
            run.has_fetched(part);
        }
    }

    /// Pages that were fetched for run `id` were evicted unread.
    pub(crate) fn wasted(&mut self, id: u64) {
        if let Some(run) = self.runs.iter_mut().find(|run| run.id == id) {
            run.ahead = (run.ahead / 2).max(1);
        }
    }

    /// How far ahead run `id` wants to be, in pages.
    pub(crate) fn ahead(&self, id: u64) -> Option<u64> {
        let run = self.runs.iter().find(|run| run.id == id)?;
        Some(run.ahead.max(run.todo.front().map_or(0, |todo| todo.pages())))
    }

    /// How far ahead each run that is active wants to be, in pages.
    pub(crate) fn wanted(&self, active: Active) -> impl Iterator<Item = u64> {
        self.runs.iter().filter(move |run| run.is_shown() && run.last >= active.since).map(|run| run.ahead)
    }

    /// Whether the reader of run `id` has had to wait since then.
    pub(crate) fn has_waited(&self, id: u64, since: Nanos) -> bool {
        self.runs.iter().any(|run| run.id == id && run.waited_at.is_some_and(|at| at >= since))
    }

    /// When the reader of run `id` counts as stopped.
    pub(crate) fn stops_at(&self, id: u64) -> Option<Nanos> {
        self.runs.iter().find(|run| run.id == id).map(|run| Nanos(run.last.0 + STOPPED.0))
    }
}

/// The number of the first run. Lower: streams, which are counted from 0, might come as far.
/// Higher: runs have fewer numbers. Source: derived: half of what is left to both.
const FIRST_RUN: u64 = 1 << 62;

/// Runs of a file at most. Lower: of readers that are far apart in a file, some are forgotten.
/// Higher: each read compares with more. Source: a guess, not measured.
const RUNS_MAX: usize = 16;

/// Pages that reads without a gap come into a chunk from the one before it until it is fetched
/// whole, while the columns of its reader are not known: 384 KiB. Lower: what a kernel reads ahead
/// past the end of a chunk has the next one fetched. Higher: a reader of columns side by side
/// waits for more of the second one. Source: three of the kernel's windows of 128 KiB; two of them
/// are under way behind a reader.
const CROSSED_PAGES: u64 = 96;

/// Pages of the next group that are fetched at most behind a group that was read whole, before it
/// is shown that its reader goes on: 640 KiB. Lower: such a reader waits for several requests.
/// Higher: more is fetched behind one row. Source: derived: five windows of 128 KiB.
const GROUP_CROSSED_PAGES: u64 = 160;

/// Calls before one chunk is left to the kernel's windows; then after twice as many, and so on.
/// Lower: more chunks are read past their end, and what was read there is fetched with others: 187
/// in place of 145 MB for six of ten columns with 16. Higher: of a file whose readers have an
/// index of pages, more is fetched in vain. Source: measured; docs/decisions/0111.
const CALLS_UNSEEN: u32 = 64;

/// Chunks that are not fetched whole after one that was not read. Lower: a reader with an index of
/// pages has more fetched in vain. Higher: a reader of whole chunks that follows waits more often.
/// Source: chosen here.
const DISTRUST: u32 = 8;

/// The same, after many. Lower: a reader with an index has more fetched in vain. Higher: a reader
/// of whole chunks waits for longer until it is trusted. Source: chosen here; eight in a row.
const DISTRUST_MAX: u32 = 64;

/// The longest part that a reader waits for, in pages: 1 MiB. Lower: more requests. Higher: a
/// reader waits for one connection where several would carry a chunk. Source: the largest demand
/// request.
const PART_PAGES_WAITING: u64 = 256;

/// Parts of what lies between a reader and the part of its chunk that is fetched next. Lower: it
/// waits for long parts, of which few are on their way at first. Higher: more requests for a long
/// chunk. Source: derived: 8 MiB in parts of 1 MiB, the least bound of `queue::link`.
const PARTS_WAITING: u64 = 8;

/// Parts of what is left of a file at least. Lower: the last part comes long after all others.
/// Higher: more requests at the end of each file. Source: the parts of a first window
/// (`window::parts`).
const PARTS_LAST: u64 = 4;

/// Time without a read after which the reader of a run counts as stopped: 5 s. Lower: what is
/// fetched for a program that computes goes to others. Higher: what is fetched for one that has
/// ended is kept from others. Source: the time that a stream counts as active
/// (`read::path::limits`).
const STOPPED: Nanos = Nanos::from_millis(5_000);

#[cfg(test)]
mod tests;
