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
//! unread leaves them.
//!
//! In the first group of a reader, columns that lie side by side and are read one after the other
//! have those behind them fetched: the more of them, the more (`row`).
//!
//! Threads may read several groups at once: reads near each other are one run. A kernel reads
//! ahead past the end of a chunk: what it reads there is fetched with the chunk (`past`). So one
//! that reads reach from the chunk before it counts as read once they have come to its end, and
//! the next group once they are farther in it than a kernel reads. A read that begins elsewhere in
//! a chunk of which nothing was fetched is none of a run. Where chunks were fetched and not read,
//! those that follow are not fetched whole for a while: their reader has an index of pages.
//!
//! *Invariants:* what is planned lies in chunks, or right behind one. The number of chunks, of
//! runs and of groups that a run remembers is bounded.
//!
//! The file knows no format, and not what is resident: the driver tells the chunks
//! (`Event::Chunk`), `read::path::columns` asks and submits. Source: Parquet's footer, which says
//! all of it; the window grows as that of a stream (`window`); docs/decisions/0094, 0098.

use alloc::vec::Vec;

mod chunk;
mod past;
mod row;
mod run;

pub(crate) use chunk::Chunk;
use chunk::chunks_of;
pub(crate) use past::Habit;
use past::Past;
use row::ROW_MAX;
use run::{ENDS_KEPT, GROUPS_NEAR, Run};

use crate::files::streams::Active;
use crate::files::window::TRUST;
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
    /// How far its readers read past the end of a chunk.
    past: Past,
    /// The memory that it took when it was counted last.
    counted_bytes: u64,
}

impl Layout {
    /// The file has `chunk`, behind all that were told before. One of a group before theirs is not
    /// kept: its file has its groups in another order than it counts them.
    pub(crate) fn push(&mut self, chunk: Chunk) {
        let is_next = |last: &Chunk| {
            last.group <= chunk.group && last.extent.start <= chunk.extent.start && last.extent.end <= chunk.extent.end
        };
        if !chunk.extent.is_empty() && self.chunks.len() < CHUNKS_MAX && self.chunks.last().is_none_or(is_next) {
            self.past.ends_at(chunk.extent.end);
            self.chunks.push(chunk);
        }
    }

    /// Takes over what another file's readers have shown of their kernel.
    pub(crate) fn hint(&mut self, past: Habit) {
        self.past.hint(past);
    }

    /// What its readers have shown of their kernel.
    pub(crate) fn habit(&self) -> Option<Habit> {
        self.past.habit()
    }

    /// No program has the file open any more.
    pub(crate) fn release(&mut self) {
        self.runs.clear();
        self.count();
    }

    /// Memory that it took when it was counted last, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.counted_bytes
    }

    /// Counts the memory that it takes, and what a driver keeps of it.
    pub(crate) fn count(&mut self) {
        let runs = self.runs.iter().map(Run::bytes).sum::<usize>();
        // The driver keeps as many, to tell them again.
        let chunks = 2 * self.chunks.capacity() * size_of::<Chunk>();
        self.counted_bytes = (size_of::<Self>() + chunks + runs) as u64;
    }

    /// Whether `stream` is the number of a run, and not of a stream.
    pub(crate) fn is_run(stream: u64) -> bool {
        stream >= FIRST_RUN
    }

    /// Takes note of a read. Returns the run that it belongs to, if it reads chunks. `absent`, and
    /// a page of it was neither resident nor in flight; `waits`, and it has to wait.
    pub(crate) fn observe(&mut self, now: Nanos, read: Extent, absent: bool, waits: bool) -> Option<u64> {
        // The last chunk that begins no later than the read.
        let at = self.chunks.partition_point(|chunk| chunk.extent.start <= read.start).checked_sub(1)?;
        let chunk = self.chunks[at];
        if read.start >= chunk.extent.end {
            return None;
        }
        self.past.observe(chunk.extent, read);
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
        if mine.is_none()
            && (read.start > chunk.extent.start || read.end < chunk.extent.end)
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
        self.begin(now, index, at, at + whole, absent, waits);
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
            run.columns_of(group).is_some() && run.ends.iter().any(|&end| read.start <= end && end < read.end)
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
        if mine.is_some() && run.is_shown() && !run.has_read(chunk) {
            self.begin(now, index, at, at, false, waits);
        }
        // One that goes on behind the only chunk of a group goes into the next group.
        let behind = match self.past.most_pages() {
            most @ CROSSED_PAGES..=GROUP_CROSSED_PAGES if self.is_only(at) => most,
            _ => CROSSED_PAGES,
        };
        let run = &mut self.runs[index];
        if mine.is_some() && absent && !run.todo.iter().any(|todo| todo.overlaps(read)) {
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
        let follows = |&end: &u64| read.start.checked_sub(end).is_some_and(|gap| gap <= most);
        self.runs.iter().position(|run| !run.is_shown() && came(run) && run.ends.iter().any(follows))
    }

    /// `read` goes on with the run at `index` into the group of the chunk at `at`. One that comes
    /// farther than a kernel reads ahead reads that group as well.
    fn go_on_behind(&mut self, now: Nanos, index: usize, at: usize, read: Extent, waits: bool) -> u64 {
        let group = self.chunks[at].group;
        let first = self.chunks.partition_point(|chunk| chunk.group < group);
        let until = self.chunks[first].extent.start + self.past.most_pages();
        let before = chunks_of(&self.chunks, group - 1).len();
        let run = &mut self.runs[index];
        run.wait(now, waits);
        run.went_to(read);
        let is_whole = run.columns_of(group - 1).is_some_and(|columns| columns.len() == before);
        if read.end >= until {
            self.begin(now, index, first, at, true, waits);
        } else if is_whole && until - read.start <= GROUP_CROSSED_PAGES {
            run.want_first(Extent::new(read.start, self.past.within(until)));
        }
        self.runs[index].id
    }

    /// The reads of the run at `index` have come from the chunk before it into the one at `at`, or
    /// through it, within a group: from one group into the next it is a stream. A kernel reads
    /// past the end of a chunk: one whose end is reached was read. In the first group it is
    /// fetched before that, if reads are far in it or its reader has read on into another one.
    fn cross(&mut self, now: Nanos, index: usize, at: usize, read: Extent, waits: bool) {
        for at in at..self.chunks.len() {
            let chunk = self.chunks[at];
            let run = &mut self.runs[index];
            if run.columns_of(chunk.group).is_none() {
                return;
            }
            let Some(pages) = read.end.checked_sub(chunk.extent.start).filter(|&pages| pages > 1) else { return };
            if read.end >= chunk.extent.end {
                run.crosses |= !run.has(chunk);
                self.begin(now, index, at, at, false, waits);
            } else if !run.is_shown() && !run.begun.contains(&at) && (run.crosses || pages >= CROSSED_PAGES) {
                run.fetches(at);
                run.want_first(Extent::new(read.end, self.past.end_of(chunk.extent)));
                self.fetch_row(index, at);
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
            if !run.has(chunk) && !run.begun.contains(&at) {
                run.fetches(at);
            }
            run.note(chunk);
            let before = chunk.group.checked_sub(1).and_then(|before| run.columns_of(before));
            let repeats = before.is_some_and(|columns| columns.binary_search(&chunk.column).is_ok());
            if !run.is_shown() && repeats {
                run.columns = before.cloned().unwrap_or_default();
                (run.front, run.ahead) = (chunk.group, run.seen * TRUST);
            } else if run.is_shown()
                && let Err(place) = run.columns.binary_search(&chunk.column)
            {
                run.columns.insert(place, chunk.column);
                // What is planned lacks it.
                let lacking = run.planned.iter().filter(|&&(group, _)| group > chunk.group).map(|&(group, _)| group);
                for group in lacking.collect::<Vec<_>>() {
                    let same = chunks_of(&self.chunks, group).iter().find(|other| other.column == chunk.column);
                    run.todo.extend(same.map(|same| same.extent));
                }
            }
        }
        let group = self.chunks[last].group;
        if run.is_shown() {
            run.front = run.front.max(group);
            // Several threads may still read the groups before it.
            run.planned.retain(|&(planned, _)| planned + GROUPS_NEAR >= group);
            if waits {
                run.grow();
            }
        } else {
            self.fetch_row(index, last);
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

    /// The run at `index` has come to the chunk at `last` in its first group. What lies behind a
    /// row of columns that it has read is fetched.
    fn fetch_row(&mut self, index: usize, last: usize) {
        let run = &self.runs[index];
        let group = self.chunks[last].group;
        // What was fetched behind a row and is resident is read without being told of.
        let is_of_row = |at: usize| run.rows.iter().any(|&(from, to)| from <= at && at <= to);
        let is_read = |&at: &usize| {
            self.chunks[at].group == group && (at == last || run.has_read(self.chunks[at]) || is_of_row(at))
        };
        let first = (0..=last).rev().take(ROW_MAX).take_while(is_read).last().unwrap_or(last);
        let pages = self.chunks[last].extent.end - self.chunks[first].extent.start;
        let until = self.chunks[last].extent.end + row::ahead(last - first + 1, self.is_first(first), pages);
        let run = &mut self.runs[index];
        for at in first..last {
            run.note(self.chunks[at]);
        }
        let row = run.rows.iter().position(|&(from, to)| from <= last && last <= to);
        let from = row.map_or(last, |row| run.rows[row].1) + 1;
        let is_behind = |&at: &usize| self.chunks[at].group == group && self.chunks[at].extent.start + 1 < until;
        let mut to = from;
        for at in (from..self.chunks.len()).take_while(is_behind) {
            to = at + 1;
            if !run.has_read(self.chunks[at]) && !run.begun.contains(&at) {
                run.fetches(at);
                run.want(self.chunks[at].extent);
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

    /// A chunk that the run fetched whole, and has passed since.
    pub(crate) fn passed(&mut self, id: u64) -> Option<Chunk> {
        let run = self.runs.iter_mut().find(|run| run.id == id)?;
        let chunk = self.chunks[*run.begun.front()?];
        let current = run.groups.iter().map(|&(group, _)| group).max()?;
        if chunk.group + GROUPS_NEAR >= current {
            return None;
        }
        run.begun.pop_front();
        Some(chunk)
    }

    /// Most of a `chunk` that run `id` has passed `was_read`, or was not.
    pub(crate) fn judge(&mut self, id: u64, chunk: Chunk, was_read: bool) {
        if was_read {
            self.distrust = 0;
            return;
        }
        let Some(run) = self.runs.iter_mut().find(|run| run.id == id) else { return };
        if run.columns_of(chunk.group).is_some_and(|columns| columns.contains(&chunk.column)) {
            self.distrust = (self.distrust + DISTRUST).min(DISTRUST_MAX);
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
            let current = run.groups.iter().map(|&(group, _)| group).max().unwrap_or_default();
            let planned = run.planned.iter().filter(|&&(planned, _)| planned > current).map(|&(_, pages)| pages);
            let (planned, ahead) = (planned.sum::<u64>(), limits.ahead_pages_max.min(run.ahead));
            part = part_of(ahead, planned, limits);
            let chunks = chunks_of(&self.chunks, group);
            let is_enough = run.has_todo(part) || (group > current && planned >= ahead);
            if is_enough || chunks.is_empty() {
                break;
            }
            let (mut pages, first) = (0, self.chunks.partition_point(|chunk| chunk.group < group));
            for (nth, chunk) in chunks.iter().enumerate() {
                let is_wanted = run.columns.binary_search(&chunk.column).is_ok();
                if !is_wanted || run.columns_of(group).is_some_and(|begun| begun.contains(&chunk.column)) {
                    continue;
                }
                run.fetches(first + nth);
                pages += chunk.extent.pages();
                run.want(Extent::new(chunk.extent.start, self.past.end_of(chunk.extent)));
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
            extent.start = extent.start.max(until);
            if extent.is_empty() {
                run.todo.pop_front();
            }
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

/// The most chunks of a file. Lower: files with many groups or columns are read as others are.
/// Higher: more memory for each such file, 24 bytes a chunk. Source: chosen here; 384 KiB.
const CHUNKS_MAX: usize = 1 << 14;

/// Runs of a file at most. Lower: of readers that are far apart in a file, some are forgotten.
/// Higher: each read compares with more. Source: a guess, not measured.
const RUNS_MAX: usize = 16;

/// Pages that reads without a gap come into a chunk from the one before it until it is fetched
/// whole, in the first group of a reader: 384 KiB. Lower: what a kernel reads ahead past the end
/// of a chunk has the next one fetched. Higher: a reader of columns side by side waits for more
/// of the second one. Source: three of the kernel's windows of 128 KiB; two of them are under
/// way behind a reader.
const CROSSED_PAGES: u64 = 96;

/// Pages of the next group that are fetched at most behind a group that was read whole, before it
/// is shown that its reader goes on: 640 KiB. Lower: such a reader waits for several requests.
/// Higher: more is fetched behind one row. Source: derived: five windows of 128 KiB.
const GROUP_CROSSED_PAGES: u64 = 160;

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
mod tests {
    use super::run::BEGUN_MAX;
    use super::*;

    const LIMITS: Limits = Limits {
        file_pages: u64::MAX,
        ahead_pages_max: u64::MAX,
        part_pages_max: 2_048,
        streams: 1,
        paced: false,
        gap_pages_max: 0,
        is_growing: false,
        rotational: false,
        sorted_pages_max: 0,
        records_apart: 0,
    };

    const NOTHING: Extent = Extent::new(u64::MAX, u64::MAX);

    /// `groups` of so many columns, each of 64 pages.
    fn layout(groups: u32, columns: u32) -> Layout {
        let mut layout = Layout::default();
        for (group, column) in (0..groups).flat_map(|group| (0..columns).map(move |column| (group, column))) {
            layout.push(Chunk { extent: chunk(group, column, columns), group, column });
        }
        layout
    }

    fn chunk(group: u32, column: u32, columns: u32) -> Extent {
        let start = 64 * u64::from(group * columns + column);
        Extent::new(start, start + 64)
    }

    /// All that is planned, side by side as one.
    fn planned(layout: &mut Layout, run: u64, ahead: u64, read: Extent) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        let limits = Limits { ahead_pages_max: ahead, ..LIMITS };
        while let Some(part) = layout.next_part(run, limits, read) {
            match extents.last_mut() {
                Some(last) if last.end == part.extent.start => last.end = part.extent.end,
                _ => extents.push(part.extent),
            }
            layout.planned(run, part.extent.end);
        }
        extents
    }

    fn read(layout: &mut Layout, extent: Extent) -> Vec<Extent> {
        let Some(run) = layout.observe(Nanos(0), extent, true, true) else { return Vec::new() };
        planned(layout, run, 10_000, extent)
    }

    #[test]
    fn a_chunk_comes_to_its_end_with_its_first_read() {
        let mut layout = layout(4, 3);
        assert_eq!(read(&mut layout, Extent::new(64, 80)), [Extent::new(64, 128)]);
        assert_eq!(read(&mut layout, Extent::new(321, 330)), [Extent::new(320, 384)], "its first page was there");
        assert_eq!(read(&mut layout, Extent::new(140, 141)), [], "not from its middle");
    }

    #[test]
    fn what_was_read_of_a_group_comes_with_the_next() {
        let mut layout = layout(8, 4);
        read(&mut layout, chunk(2, 0, 4));
        read(&mut layout, chunk(2, 3, 4));
        let next = read(&mut layout, chunk(3, 0, 4));
        let last_and_first = (3..7).map(|group| Extent::new(chunk(group, 3, 4).start, chunk(group + 1, 0, 4).end));
        let expected = [chunk(3, 0, 4)].into_iter().chain(last_and_first).chain([chunk(7, 3, 4)]);
        assert_eq!(next, expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_chunk_that_is_reached_from_the_one_before_it_is_read_once_reads_are_far_in_it() {
        let mut layout = Layout::default();
        let lie = [(0, 101), (100, 120), (119, 280), (279, 500)].map(|(start, end)| Extent::new(start, end));
        for (column, extent) in (0..).zip(lie) {
            layout.push(Chunk { extent, group: 0, column });
        }
        let fetched = |layout: &mut Layout, start| read(layout, Extent::new(start, start + 32));
        assert_eq!(fetched(&mut layout, 100), [Extent::new(100, 120)]);
        assert_eq!(fetched(&mut layout, 132), []);
        assert_eq!(fetched(&mut layout, 164), []);
        assert_eq!(fetched(&mut layout, 196), [Extent::new(228, 280)]);
        assert_eq!(layout.runs[0].columns_of(0), Some(&Vec::from([1])));
        assert_eq!(fetched(&mut layout, 260), [Extent::new(292, 500), Extent::new(260, 311)], "its reader reads on");
        assert_eq!(layout.runs[0].columns_of(0), Some(&Vec::from([1, 2])), "not the third before its end");
    }

    #[test]
    fn one_group_says_nothing_of_others() {
        let mut layout = layout(8, 6);
        let all = (1..6).map(|column| read(&mut layout, chunk(5, column, 6))).collect::<Vec<_>>();
        assert_eq!(all[..3], [[chunk(5, 1, 6)], [chunk(5, 2, 6)], [chunk(5, 3, 6)]]);
        assert_eq!(all[3], [Extent::new(chunk(5, 4, 6).start, chunk(5, 5, 6).end)], "and the one behind four");
        assert_eq!(all[4], [chunk(5, 5, 6)], "which is there");
        assert_eq!(read(&mut layout, chunk(7, 1, 6)), [chunk(7, 1, 6)], "nor does one that does not follow");
    }

    #[test]
    fn a_row_from_the_first_column_comes_to_the_end_of_its_group() {
        let mut layout = layout(8, 20);
        let until = |layout: &mut Layout, column| read(layout, chunk(5, column, 20)).last().map(|last| last.end);
        assert_eq!(until(&mut layout, 0), Some(chunk(5, 0, 20).end));
        assert_eq!(until(&mut layout, 1), Some(chunk(5, 3, 20).end), "as much again");
        assert_eq!(until(&mut layout, 2), Some(chunk(5, 5, 20).end));
        assert_eq!(until(&mut layout, 3), Some(chunk(5, 19, 20).end), "the rest, and not the next group");
    }

    #[test]
    fn a_row_of_many_short_columns_comes_in_few_pieces() {
        let mut layout = layout(2, 3_000);
        let pieces = (0..3_000).map(|column| read(&mut layout, chunk(0, column, 3_000)).len()).sum::<usize>();
        assert!(pieces < 2 * 3_000, "each read has a piece of its own, and few more: {pieces}");
        assert!(layout.runs[0].begun.len() <= BEGUN_MAX);
    }

    #[test]
    fn one_that_reads_on_into_the_next_group_farther_than_a_kernel_has_the_groups_behind() {
        let mut layout = self::layout(60, 1);
        let mut fetched = Vec::new();
        for start in (0..128).step_by(4) {
            fetched.extend(read(&mut layout, Extent::new(start, start + 4)));
        }
        assert_eq!(fetched.iter().map(|extent| extent.end).max(), Some(chunk(9, 0, 1).end), "four times two groups");
        let mut layout = self::layout(60, 1);
        for start in (0..64 + 16).step_by(4) {
            read(&mut layout, Extent::new(start, start + 4));
        }
        assert!(!layout.runs[0].is_shown(), "a kernel may have read that");
    }

    #[test]
    fn what_a_kernel_reads_past_a_column_is_no_other_column() {
        let mut layout = layout(8, 6);
        for (group, column) in (0..6).flat_map(|group| [(group, 1), (group, 4)]) {
            let extent = chunk(group, column, 6);
            // What was fetched ahead is read without being told of.
            let told = if group < 2 { extent.start } else { extent.start + 48 };
            for start in (told..extent.end + 24).step_by(24) {
                read(&mut layout, Extent::new(start, start + 24));
            }
        }
        assert_eq!(layout.runs[0].columns, [1, 4]);
    }

    #[test]
    fn a_kernel_that_reads_past_a_group_through_a_short_chunk_shows_no_second_group() {
        let mut layout = Layout::default();
        for (group, column, start, end) in [(0, 0, 0, 30), (0, 1, 29, 201), (1, 0, 200, 230), (1, 1, 229, 401)] {
            layout.push(Chunk { extent: Extent::new(start, end), group, column });
        }
        let fetched = (0..8).flat_map(|nth| read(&mut layout, Extent::new(nth * 32, nth * 32 + 32)));
        let fetched = fetched.map(|extent| extent.end).max();
        assert!(fetched < Some(401), "not the next group: {fetched:?}");
        assert!(!layout.runs[0].is_shown());
    }

    #[test]
    fn a_window_of_a_kernel_that_comes_in_any_order_goes_on_into_the_next_group() {
        let mut layout = Layout::default();
        for group in 0..40 {
            let start = 2_000 * u64::from(group);
            layout.push(Chunk { extent: Extent::new(start, start + 2_001), group, column: 0 });
        }
        for piece in [0, 3, 1, 2, 6, 4, 7, 5, 11, 8, 9, 10, 15, 12] {
            read(&mut layout, Extent::new(256 * piece, 256 * piece + 256));
        }
        assert!(layout.runs[0].is_shown(), "more than five pieces of the second group");
        // From here on windows begin in the middle of chunks, and what is there is not told.
        let front = layout.runs[0].front;
        let run = layout.observe(Nanos(0), Extent::new(8_100, 8_356), false, true);
        assert_eq!(run, Some(layout.runs[0].id));
        planned(&mut layout, FIRST_RUN, 20_000, NOTHING);
        assert!(layout.runs[0].front > front + 2, "{} after {front}", layout.runs[0].front);
    }

    #[test]
    fn what_adjoins_in_the_next_group_is_of_the_same_part_and_the_last_parts_are_short() {
        let mut layout = layout(200, 1);
        read(&mut layout, chunk(0, 0, 1));
        let run = layout.observe(Nanos(0), chunk(1, 0, 1), true, true).unwrap();
        layout.runs[0].ahead = 64 * 200;
        let parts: Vec<u64> = core::iter::from_fn(|| {
            let part = layout.next_part(run, LIMITS, NOTHING)?;
            layout.planned(run, part.extent.end);
            Some(part.extent.pages())
        })
        .collect();
        assert_eq!(parts.iter().sum::<u64>(), 64 * 199);
        let (longest, last) = (parts.iter().max(), parts.last());
        assert!(longest == Some(&512) && last <= Some(&256) && parts[0] == 256, "{parts:?}");
    }

    #[test]
    fn groups_come_as_far_ahead_as_the_reader_has_shown_and_may() {
        let mut layout = layout(100, 1);
        read(&mut layout, chunk(0, 0, 1));
        let run = layout.observe(Nanos(0), chunk(1, 0, 1), true, true).unwrap();
        assert_eq!(planned(&mut layout, run, 10_000, NOTHING), [Extent::new(64, 64 + 64 * 9)], "eight, four times two");
        let run = layout.observe(Nanos(0), chunk(2, 0, 1), false, true).unwrap();
        assert_eq!(planned(&mut layout, run, 64, NOTHING), [], "no more than may be");
    }

    #[test]
    fn a_column_that_is_read_later_is_added_and_one_that_is_not_leaves() {
        let mut layout = layout(60, 3);
        read(&mut layout, chunk(0, 0, 3));
        let run = layout.observe(Nanos(0), chunk(1, 0, 3), true, true).unwrap();
        planned(&mut layout, run, 300, NOTHING);
        let added = read(&mut layout, chunk(1, 1, 3));
        assert_eq!(added[..2], [chunk(1, 1, 3), chunk(2, 1, 3)]);
        for group in 2..20 {
            read(&mut layout, chunk(group, 1, 3));
            while let Some(chunk) = layout.passed(run) {
                layout.judge(run, chunk, chunk.column == 1);
            }
        }
        assert_eq!(layout.runs[0].columns, [1]);
    }

    #[test]
    fn where_chunks_are_not_read_they_do_not_come_whole() {
        let mut layout = layout(60, 1);
        for group in (0..6).map(|nth| nth * 2) {
            read(&mut layout, Extent::new(chunk(group, 0, 1).start, chunk(group, 0, 1).start + 1));
        }
        let run = layout.runs[0].id;
        while let Some(chunk) = layout.passed(run) {
            layout.judge(run, chunk, false);
        }
        assert_eq!(read(&mut layout, chunk(12, 0, 1)), []);
    }
}
