//! Reads of a file that says where its parts lie.
//!
//! ```text
//!   Chunk, Member ──> layout: one more
//!   read ──> layout: of a run? ── yes ──> plan_run: the chunk, its group, the next groups
//!                                └─ no ──> streams, as in any file (plan)
//!   passed chunks ── unread? ──> layout: chunks are not fetched whole for a while
//!   no room for more ──> ForgetParts, of the file that was closed first
//! ```
//!
//! To all other mechanisms a run is a stream: it has a number, an owner of the queue, a share of
//! the memory and turns.
//!
//! *Invariant:* nothing is submitted past the end of a chunk but what a reader waits for, and what
//! its kernel reads there.
//!
//! The file does not decide what a run wants (`files::layout`). Source: docs/decisions/0094, 0130.

use alloc::vec::Vec;

use super::{File, ReadPath};
use crate::files::kernel_window::{call_pages_max, may_begin_call};
use crate::files::layout::{Chunk, Layout, Read};
use crate::read::event::Action;
use crate::residency::folio::Ahead;
use crate::units::{Extent, FileId, Found, Nanos};

impl ReadPath {
    /// A file says where one of its chunks lies.
    pub(super) fn chunk(&mut self, file: FileId, chunk: Chunk) {
        self.tell_layout(file, chunk.extent, |layout| layout.push(chunk));
    }

    /// An archive says where one of its members lies.
    pub(super) fn member(&mut self, file: FileId, member: Extent) {
        if self.members_max() > 0 {
            self.tell_layout(file, member, |layout| layout.push_member(member));
        }
    }

    /// How many more members of archives may be told, at most. A driver that has more to tell
    /// stops where it is none.
    pub fn members_max(&self) -> usize {
        self.told.members_max(self.options.capacity_bytes)
    }

    /// Of how many more members the directories that a driver reads may be held, at most.
    pub fn directory_members_max(&self) -> usize {
        self.told.directory_members_max(self.options.capacity_bytes)
    }

    /// A driver holds so many `bytes` of the directory of a file.
    pub(super) fn directory(&mut self, file: FileId, bytes: u64) {
        let is_open = self.files.get(&file).is_some_and(|known| known.is_open);
        self.told.reads_directory(file, if is_open { bytes } else { 0 });
    }

    /// A program has opened `file`.
    pub(super) fn open_layout(&mut self, file: FileId) {
        let Some(layout) = self.files.get_mut(&file).and_then(|known| known.layout.as_mut()) else { return };
        self.told.remove(file, layout);
        layout.open();
        self.told.add(file, layout);
    }

    /// What closed files have told of their parts is given up where others need the room, of those
    /// first that were closed first.
    pub(super) fn give_up_layouts(&mut self) {
        while let Some(file) = self.told.in_the_way(self.options.capacity_bytes) {
            let Some(layout) = self.files.get_mut(&file).and_then(|known| known.layout.take()) else { return };
            self.told.remove(file, &layout);
            self.actions.push_back(Action::ForgetParts { file });
        }
    }

    fn tell_layout(&mut self, file: FileId, extent: Extent, tell: impl FnOnce(&mut Layout)) {
        if let Some(known) = self.files.get_mut(&file)
            && extent.end <= known.pages
        {
            let layout = known.layout.get_or_insert_default();
            self.told.remove(file, layout);
            if !known.is_open {
                layout.release(self.now);
            }
            if let Some(habit) = self.habit {
                layout.hint(habit);
            }
            tell(layout);
            layout.count();
            self.told.add(file, layout);
        }
    }

    /// Takes note of a read. Returns the run that it belongs to, if it reads chunks.
    pub(super) fn observe_chunks(&mut self, now: Nanos, file: FileId, extent: Extent, found: Found) -> Option<u64> {
        let layout = self.files.get_mut(&file)?.layout.as_mut()?;
        self.told.remove(file, layout);
        let width = layout.width();
        layout.is_like(self.alike.closed_of(width), self.alike.open_of(width));
        let run = layout.observe(now, extent, found == Found::Absent, found != Found::Resident);
        let is_in_flight = |page| self.budget.is_in_flight(file, page);
        let all_came = |chunk: Extent| !is_in_flight(chunk.start) && !is_in_flight(chunk.end - 1);
        while let Some((run, chunk)) = run.and_then(|run| Some((run, layout.passed(run, all_came)?))) {
            let unread = self.budget.unread_in(file, chunk.extent);
            layout.judge(run, chunk, unread <= chunk.extent.pages() / 2);
        }
        if let Some((columns, ahead)) = layout.reads() {
            self.alike.reads(file, width, columns, ahead);
        }
        self.habit = layout.habit().or(self.habit);
        layout.count();
        self.told.add(file, layout);
        run
    }

    /// The read of a program for which its kernel asks for `window` first. A driver that can give
    /// the kernel more than that reads all of it at once. `window` itself where nothing is known,
    /// and where it [may begin](crate::may_begin_call) no longer read.
    pub fn call_of(&mut self, file: FileId, window: Extent) -> Extent {
        if !self.options.readahead || !may_begin_call(window.pages()) {
            return window;
        }
        let most = call_pages_max(self.options.capacity_bytes);
        self.layout(file).map_or(window, |layout| layout.call_of(window, most))
    }

    /// `file` is closed: files like it are likely to be read like it.
    pub(super) fn close_layout(&mut self, file: FileId) {
        self.told.reads_directory(file, 0);
        let Some(layout) = self.files.get_mut(&file).and_then(|known| known.layout.as_mut()) else { return };
        if let Some((fetched, goes_on)) = layout.fetched() {
            let was_read = |chunk: &&Chunk| self.budget.unread_in(file, chunk.extent) <= chunk.extent.pages() / 2;
            let mut columns: Vec<u32> = fetched.iter().filter(was_read).map(|chunk| chunk.column).collect();
            columns.sort_unstable();
            self.alike.closed(file, Read { width: layout.width(), columns, goes_on, ahead: 0 });
        }
        self.told.remove(file, layout);
        layout.release(self.now);
        self.told.add(file, layout);
    }

    /// Where the parts of a file lie that says so. What it takes may grow by what is planned for
    /// its runs, which the next read counts.
    fn layout(&mut self, file: FileId) -> Option<&mut Layout> {
        self.files.get_mut(&file)?.layout.as_deref_mut()
    }

    /// Submits what `run` wants next; `read` is the extent that its reader waits for.
    pub(super) fn plan_run(&mut self, now: Nanos, file: FileId, run: u64, read: Extent, file_pages: u64) {
        let limits = self.limits(now, file, run, file_pages);
        while let Some(part) = self.layout(file).and_then(|layout| layout.next_part(run, limits, read)) {
            let until = self.submit_part(file, Ahead::Stream(run), part, read).err();
            if let Some(layout) = self.layout(file) {
                layout.planned(run, until.unwrap_or(part.extent.end));
            }
            if until.is_some() || self.has_had_turn(file, run) {
                return;
            }
        }
    }
}

impl File {
    /// How far ahead a stream or run wants to be, in pages.
    pub(super) fn ahead(&self, stream: u64) -> u64 {
        self.layout.as_ref().and_then(|layout| layout.ahead(stream)).unwrap_or_else(|| self.readahead.ahead(stream))
    }

    /// When the reader of a stream or run counts as stopped.
    pub(super) fn stops_at(&self, stream: u64) -> Option<Nanos> {
        match &self.layout {
            Some(layout) if Layout::is_run(stream) => layout.stops_at(stream),
            _ => self.readahead.stops_at(stream),
        }
    }

    /// How long that reader may be silent beyond what is usual.
    pub(super) fn patience(&self, stream: u64) -> Option<Nanos> {
        if Layout::is_run(stream) { Some(Nanos(0)) } else { self.readahead.patience(stream) }
    }

    /// Whether that reader has had to wait since then.
    pub(super) fn has_waited(&self, stream: u64, since: Nanos) -> bool {
        self.layout.as_ref().is_some_and(|layout| layout.has_waited(stream, since))
            || self.readahead.has_waited(stream, since)
    }

    /// Pages that were read ahead for a stream or run were evicted unread.
    pub(super) fn wasted(&mut self, stream: u64) {
        match &mut self.layout {
            Some(layout) if Layout::is_run(stream) => layout.wasted(stream),
            _ => self.readahead.wasted(stream, true),
        }
    }
}
