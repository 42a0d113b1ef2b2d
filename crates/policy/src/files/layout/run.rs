//! One reader of chunks, or several side by side that go from group to group.
//!
//! ```text
//!   begun    chunk ──> fetched whole, not judged yet ──> passed: it was read, or was not
//!   todo     extents in the order in which they are fetched; what adjoins is one
//!   ends     where its latest reads came to: one that begins there goes on with it
//! ```
//!
//! *Invariants:* the number of groups, chunks and ends that it remembers is bounded. Columns are
//! kept in ascending order.
//!
//! The file does not decide what a run fetches (`layout`). Source: docs/decisions/0094.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::files::layout::bursts::Bursts;
use crate::files::layout::chunk::{Chunk, chunks_of};
use crate::files::window::{GROWTH, TRUST};
use crate::units::{Extent, Nanos};

/// Where a read ended. What was fetched for the run from there on may be read without being told
/// of, so the next read that is told may begin as far behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) at: u64,
    /// The end of what was fetched from there on without a gap.
    fetched: u64,
}

impl End {
    /// Whether `read` may go on from here, `gap` pages behind what was fetched.
    pub(super) fn may_go_on(&self, read: Extent, gap: u64) -> bool {
        read.start <= self.fetched + gap && self.at <= read.end
    }
}

/// One reader, or several side by side, that goes from group to group.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: u64,
    /// The latest groups that were read, and the columns of each.
    pub(super) groups: VecDeque<(u32, BTreeSet<u32>)>,
    /// The columns that are read of each group, once that is shown; ascending.
    pub(super) columns: Vec<u32>,
    /// Chunks that are fetched behind rows of it, each from the first to the last.
    pub(super) rows: VecDeque<(usize, usize)>,
    /// The group after the last one planned.
    pub(super) front: u32,
    /// The groups planned ahead of the reader, and the pages of each.
    pub(super) planned: VecDeque<(u32, u64)>,
    /// What is to be fetched, in this order.
    pub(super) todo: VecDeque<Extent>,
    /// Chunks that were fetched whole, the oldest first, until it is known whether they are read.
    pub(super) begun: VecDeque<usize>,
    /// Pages of the chunks that it has begun.
    pub(super) seen: u64,
    /// Pages wanted ahead of the reader.
    pub(super) ahead: u64,
    /// It has read on from a chunk into the next one, to the end of that.
    pub(super) crosses: bool,
    /// Where its latest reads ended.
    pub(super) ends: VecDeque<End>,
    /// Its reads that have left what was planned.
    pub(super) bursts: Bursts,
    pub(super) last: Nanos,
    pub(super) waited_at: Option<Nanos>,
}

impl Run {
    pub(super) fn new(id: u64, now: Nanos) -> Self {
        Self {
            id,
            groups: VecDeque::new(),
            columns: Vec::new(),
            rows: VecDeque::new(),
            front: 0,
            planned: VecDeque::new(),
            todo: VecDeque::new(),
            begun: VecDeque::new(),
            seen: 0,
            ahead: 0,
            crosses: false,
            ends: VecDeque::new(),
            bursts: Bursts::default(),
            last: now,
            waited_at: None,
        }
    }

    /// Memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let columns = 4 * self.columns.len().max(4);
        let group = |own: &BTreeSet<u32>| size_of::<(u32, BTreeSet<u32>)>() + COLUMN_BYTES * own.len().max(COLUMNS_MIN);
        let groups = self.groups.iter().map(|(_, own)| group(own)).sum::<usize>();
        let kept = 8 * (self.begun.len() + 4 * ENDS_KEPT);
        let wanted = size_of::<Extent>() * (self.planned.len() + self.todo.len()) + kept;
        size_of::<Self>() + columns + groups + wanted + self.bursts.bytes()
    }

    /// Whether its next groups are known.
    pub(super) fn is_shown(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Whether a read of `group` may be its own.
    pub(super) fn is_near(&self, group: u32) -> bool {
        let near = |&(known, _): &(u32, BTreeSet<u32>)| group.abs_diff(known) <= GROUPS_NEAR;
        self.groups.iter().any(near) || (self.is_shown() && self.planned.iter().any(|&(known, _)| known == group))
    }

    /// Whether it has begun `chunk`, or planned it.
    pub(super) fn has(&self, chunk: Chunk) -> bool {
        self.has_read(chunk)
            || (self.columns.binary_search(&chunk.column).is_ok()
                && self.planned.iter().any(|&(group, _)| group == chunk.group))
    }

    /// Whether it has begun `chunk`.
    pub(super) fn has_read(&self, chunk: Chunk) -> bool {
        self.columns_of(chunk.group).is_some_and(|columns| columns.contains(&chunk.column))
    }

    /// Whether a part of so many pages is to be fetched, or one to which nothing adjoins any more.
    pub(super) fn has_todo(&self, pages: u64) -> bool {
        self.todo.len() > 1 || self.todo.front().is_some_and(|only| only.pages() >= pages)
    }

    /// `extent` is to be fetched behind all else: as one with what it adjoins.
    pub(super) fn want(&mut self, extent: Extent) {
        match self.todo.back_mut() {
            Some(last) if last.start <= extent.start && extent.start <= last.end => last.end = last.end.max(extent.end),
            _ => self.todo.push_back(extent),
        }
    }

    /// `extent` is to be fetched before all else.
    pub(super) fn want_first(&mut self, extent: Extent) {
        match self.todo.front_mut() {
            Some(first) if extent.start <= first.start && first.start <= extent.end => {
                *first = Extent::new(extent.start, first.end.max(extent.end));
            }
            _ => self.todo.push_front(extent),
        }
    }

    /// Whether pages of `read` are to be fetched: before all else now.
    pub(super) fn hurry(&mut self, read: Extent) -> bool {
        let place = self.todo.iter().position(|todo| todo.overlaps(read));
        if let Some(todo) = place.and_then(|place| self.todo.remove(place)) {
            self.todo.push_front(todo);
        }
        place.is_some()
    }

    /// The chunk at `at` is fetched whole.
    pub(super) fn fetches(&mut self, at: usize) {
        if self.begun.contains(&at) {
            return;
        }
        if self.begun.len() >= BEGUN_MAX {
            self.begun.pop_front();
        }
        self.begun.push_back(at);
    }

    /// The columns that were read of `group` lately.
    pub(super) fn columns_of(&self, group: u32) -> Option<&BTreeSet<u32>> {
        self.groups.iter().find(|(known, _)| *known == group).map(|(_, columns)| columns)
    }

    /// Whether all `columns` were read of `group`.
    pub(super) fn has_all(&self, columns: &[u32], group: u32) -> bool {
        let own = self.columns_of(group);
        columns.iter().all(|column| own.is_some_and(|own| own.contains(column)))
    }

    /// `chunk` is read for the first time.
    pub(super) fn note(&mut self, chunk: Chunk) {
        if let Some((_, columns)) = self.groups.iter_mut().find(|(known, _)| *known == chunk.group) {
            columns.insert(chunk.column);
            return;
        }
        if self.groups.len() >= GROUPS_KEPT {
            self.groups.pop_front();
        }
        self.groups.push_back((chunk.group, BTreeSet::from([chunk.column])));
    }

    /// Its next groups are known: it reads these columns from `group` on, and those that it has
    /// begun there.
    pub(super) fn show(&mut self, columns: &[u32], group: u32) {
        let own = self.columns_of(group).into_iter().flatten();
        let mut all: Vec<u32> = columns.iter().chain(own).copied().collect();
        all.sort_unstable();
        all.dedup();
        (self.columns, self.front, self.ahead) = (all, group, self.seen * TRUST);
    }

    /// It has come to `group`: what was planned is forgotten of groups that it has passed, and of
    /// those that it has begun.
    pub(super) fn forget_planned(&mut self, group: u32) {
        let is_begun = |planned: u32| self.groups.iter().any(|&(begun, _)| begun == planned);
        self.planned
            .retain(|&(planned, _)| planned.abs_diff(group) <= GROUPS_NEAR || (planned > group && !is_begun(planned)));
    }

    /// It reads `chunk`: if its next groups are known, it reads the column there as well.
    pub(super) fn add_column(&mut self, chunk: Chunk, chunks: &[Chunk]) {
        if self.is_shown()
            && let Err(place) = self.columns.binary_search(&chunk.column)
        {
            self.columns.insert(place, chunk.column);
            // What is planned lacks it.
            for &(group, _) in self.planned.iter().filter(|&&(group, _)| group > chunk.group) {
                let same = chunks_of(chunks, group).iter().find(|other| other.column == chunk.column);
                self.todo.extend(same.map(|same| same.extent));
            }
        }
    }

    /// A read of it ended there.
    pub(super) fn went_to(&mut self, read: Extent) {
        let ends = self.ends.iter_mut().filter(|end| end.may_go_on(read, 0) && end.at <= read.end);
        if let Some(end) = ends.max_by_key(|end| end.at) {
            *end = End { at: read.end, fetched: end.fetched.max(read.end) };
            return;
        }
        if self.ends.len() >= ENDS_KEPT {
            self.ends.pop_front();
        }
        self.ends.push_back(End { at: read.end, fetched: read.end });
    }

    /// `part` has been fetched for it.
    pub(super) fn has_fetched(&mut self, part: Extent) {
        for end in self.ends.iter_mut().filter(|end| part.start <= end.fetched && end.at <= part.end) {
            end.fetched = end.fetched.max(part.end);
        }
    }

    /// Its reader waits: it wants to be farther ahead of it, as far as it is trusted.
    pub(super) fn grow(&mut self) {
        self.ahead = (self.ahead * GROWTH).min(self.seen * TRUST).max(self.ahead);
    }

    /// Takes note of a read.
    pub(super) fn wait(&mut self, now: Nanos, waits: bool) {
        self.last = now;
        if waits {
            self.waited_at = Some(now);
        }
    }
}

/// Groups that a run remembers the columns of. Lower: threads that read more groups than that at
/// once show no run. Higher: more to compare with. Source: chosen here; as many as threads of a
/// query are likely to have in one file.
const GROUPS_KEPT: usize = 16;

/// Memory that a column of a group takes, in bytes. Lower: more is held than is charged. Higher:
/// fewer pages stay. Source: derived: a number of 4 in a tree whose nodes are two thirds full.
const COLUMN_BYTES: usize = 8;

/// The columns of a group for which memory is charged at least. Lower: more is held than is
/// charged. Higher: fewer pages stay. Source: derived: a node of 56 bytes.
const COLUMNS_MIN: usize = 7;

/// How far apart groups are that are read by one run. Lower: threads that take groups in turn are
/// several runs. Higher: two readers of one file are taken for one. Source: chosen here.
pub(super) const GROUPS_NEAR: u32 = 4;

/// Chunks of the only group of a file that a reader has begun after one that it has passed. Lower:
/// one whose reader is still in it, or that was fetched behind a row, counts as unread. Higher: of
/// an archive of which the first bytes of each member are read, more is fetched in vain. Source:
/// chosen here; as many members are read side by side.
pub(super) const BEGUN_NEAR: usize = 8;

/// Places at which reads of a run ended that are remembered. Lower: of many threads that read
/// through a kernel, some are not found again behind the end of a chunk. Higher: more to compare
/// with. Source: chosen here; as [`GROUPS_KEPT`].
pub(super) const ENDS_KEPT: usize = 16;

/// Chunks of a run at most of which it is yet to be seen whether they are read. Lower: of many
/// columns or groups that are fetched, fewer are judged. Higher: each read compares with more.
/// Source: chosen here; the columns of a wide table.
pub(super) const BEGUN_MAX: usize = 1 << 10;
