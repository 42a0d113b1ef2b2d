//! The policies that ours is compared with: each is a rule of readahead over the same page cache.
//!
//! ```text
//!  Event::Read ──> Readahead::read() ──> Window { extent, mark } ──> missing pages ──> Submit
//!                  one value a descriptor                                  │
//!                                                    Cache ── no room ──> Drop, oldest first
//! ```
//!
//! A rule says which pages it wants and where the mark goes; the rest is the same for all, so two
//! columns of a report differ by the rule alone. Each rule is written from its published
//! description, which its file names.

pub(crate) mod amp;
mod cache;
pub(crate) mod fixed;
pub(crate) mod linux;
pub(crate) mod linux_2_6_20;
pub(crate) mod none;
pub(crate) mod on_demand_2007;
mod window;

use std::collections::{HashMap, VecDeque};

use foreread_policy::{Action, Class, Event, Extent, FileId, Found, Nanos, RequestId, Source};

use crate::policy::{Grain, Policy, Reading};
use cache::Cache;

/// Why a rule is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// A read begins, before its pages are looked at. Only for rules that hear every read.
    Read,
    /// The first page of the rest of the read is missing.
    Missing,
    /// That page has the mark.
    Marked,
}

/// What a rule wants fetched: the missing pages of `extent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    extent: Extent,
    /// The page that gets the mark.
    mark: Option<u64>,
}

/// What a rule may inspect.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    cache: &'a Cache,
    file: FileId,
    /// Pages of the file.
    pages: u64,
    /// The last page of the descriptor's previous read.
    prev: Option<u64>,
}

/// A rule of readahead: one value a descriptor.
pub(crate) trait Readahead {
    /// Whether the rule is called with [`Trigger::Read`].
    const HEARS_EVERY_READ: bool = false;

    /// Decides what to fetch; `read` is the rest of a read.
    fn read(&mut self, view: View<'_>, read: Extent, trigger: Trigger, windows: &mut Vec<Window>);

    /// A page that was read ahead was evicted unread.
    fn wasted(&mut self, _page: u64) {}
}

/// A rule over a page cache.
pub(crate) struct Baseline<R> {
    rule: Box<dyn Fn() -> R>,
    cache: Cache,
    files: HashMap<FileId, u64>,
    readers: HashMap<u32, R>,
    requests: HashMap<RequestId, (FileId, Extent)>,
    next_request: u64,
    /// Pages of the longest request; windows are cut into these.
    request_pages: u64,
    windows: Vec<Window>,
    actions: VecDeque<Action>,
}

impl<R> Baseline<R> {
    pub(crate) fn new(capacity_pages: u64, rule: impl Fn() -> R + 'static) -> Self {
        Self {
            rule: Box::new(rule),
            cache: Cache::new(capacity_pages),
            files: HashMap::new(),
            readers: HashMap::new(),
            requests: HashMap::new(),
            next_request: 0,
            request_pages: u64::MAX,
            windows: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    /// With requests of at most so many pages.
    #[must_use]
    pub(crate) fn with_requests_of(self, request_pages: u64) -> Self {
        Self { request_pages, ..self }
    }
}

impl<R: Readahead> Baseline<R> {
    fn read(&mut self, by: Reading, file: FileId, read: Extent, trigger: Trigger) {
        let pages = self.files.get(&file).copied().unwrap_or(0);
        let mut windows = std::mem::take(&mut self.windows);
        let view = View { cache: &self.cache, file, pages, prev: by.prev };
        let reader = self.readers.entry(by.descriptor).or_insert_with(|| (self.rule)());
        reader.read(view, read, trigger, &mut windows);
        for Window { extent, mark } in windows.drain(..) {
            let extent = Extent::new(extent.start, extent.end.min(pages));
            self.fetch(by, file, extent, read, mark);
        }
        self.windows = windows;
        if trigger == Trigger::Missing && !self.cache.holds(file, read.start) {
            self.fetch(by, file, Extent::new(read.start, read.start + 1), read, None);
        }
    }

    /// Submits each hole of `extent` as one request, while there is room.
    fn fetch(&mut self, by: Reading, file: FileId, extent: Extent, read: Extent, mark: Option<u64>) {
        let mut start = extent.start;
        while start < extent.end {
            start = self.cache.next_hole(file, Extent::new(start, extent.end));
            let mut end = start;
            while end < extent.end && !self.cache.holds(file, end) {
                let demand = read.contains(end);
                match self.cache.make_room() {
                    Ok(Some(gone)) => {
                        let folio = Extent::new(gone.page, gone.page + 1);
                        self.actions.push_back(Action::Drop { file: gone.file, folio });
                        if let Some(reader) = gone.wasted_for.and_then(|reader| self.readers.get_mut(&reader)) {
                            reader.wasted(gone.page);
                        }
                    }
                    Ok(None) => {}
                    // Pages of the read are fetched even without room; pages read ahead are not.
                    Err(()) if demand => {}
                    Err(()) => return self.submit(file, Extent::new(start, end), read, mark),
                }
                self.cache.insert(file, end, (!demand).then_some(by.descriptor));
                end += 1;
            }
            self.submit(file, Extent::new(start, end), read, mark);
            start = end;
        }
    }

    fn submit(&mut self, file: FileId, extent: Extent, read: Extent, mark: Option<u64>) {
        let pieces = extent.pages().div_ceil(self.request_pages);
        let mut places: Vec<u64> = (0..pieces).collect();
        // Several threads take a kernel's requests from its queue, and overtake each other.
        for (at, place) in places.clone().into_iter().enumerate() {
            let (id, later) = (self.next_request + place, places.len() - at);
            places.swap(at, at + (id.wrapping_mul(OVERTAKING) >> 60) as usize % later.min(OVERTAKEN));
        }
        for piece in places {
            let from = extent.start + piece * self.request_pages;
            let to = extent.end.min(from.saturating_add(self.request_pages));
            self.request(file, Extent::new(from, to), read, mark);
        }
    }

    fn request(&mut self, file: FileId, extent: Extent, read: Extent, mark: Option<u64>) {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(request, (file, extent));
        let class = if extent.overlaps(read) { Class::Demand } else { Class::Speculative };
        let mark = mark.filter(|&mark| extent.contains(mark));
        self.actions.push_back(Action::Submit {
            request,
            file,
            extent,
            records: None,
            class,
            source: Source::Storage,
            mark,
            granted: extent.end,
            late: None,
        });
    }
}

impl<R: Readahead> Policy for Baseline<R> {
    fn grain(&self) -> Grain {
        Grain::Page
    }

    fn hears_every_read(&self) -> bool {
        R::HEARS_EVERY_READ
    }

    fn handle(&mut self, _: Nanos, by: Reading, event: Event) {
        match event {
            Event::Open { file, pages } => {
                self.files.insert(file, pages);
            }
            Event::Read { file, extent, found, marked, .. } => {
                let trigger = match (found, marked) {
                    (Found::Absent, _) => Trigger::Missing,
                    (_, true) => Trigger::Marked,
                    (_, false) => Trigger::Read,
                };
                self.read(by, file, extent, trigger);
            }
            Event::Referenced { file, start, .. } => self.cache.touch(file, start),
            Event::Completed { request, .. } | Event::Failed { request } => {
                if let Some((file, extent)) = self.requests.remove(&request) {
                    self.cache.arrived(file, extent);
                }
            }
            Event::Release { .. }
            | Event::Forget { .. }
            | Event::Prefetch { .. }
            | Event::PrefetchEnds { .. }
            | Event::Discard { .. }
            | Event::Capacity { .. }
            | Event::Parts { .. }
            | Event::Directory { .. }
            | Event::Member { .. }
            | Event::Chunk { .. }
            | Event::Cached { .. }
            | Event::Uncached { .. }
            | Event::Tier { .. }
            | Event::Reserve { .. }
            | Event::Answered { .. }
            | Event::Wants { .. }
            | Event::Late { .. } => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

/// Requests that one may overtake, itself included: as many as threads take requests from a mount.
const OVERTAKEN: usize = 4;

/// Multiplier of Fibonacci hashing, by which requests overtake each other.
const OVERTAKING: u64 = 0x9e37_79b9_7f4a_7c15;
