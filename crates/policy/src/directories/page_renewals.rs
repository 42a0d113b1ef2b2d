//! Page renewals: which pages of a directory of several are asked for again, in place, for the
//! names that are looked up in it.
//!
//! ```text
//!   pages    | 0 | 1 | 2 | 3 | 4 | 5 |  ..      each is believed for a time to live
//!                      x                        a name in an expired page has that page renewed
//!                          [ahead ]             and those behind it, as many as its confidence
//!
//!   ahead ──a name in it answered──> a hit: with a wait, twice as many
//!      └────expired before that────> a miss
//! ```
//!
//! A reader in order has as many pages ahead as it has come through in half a time to live, at
//! most: it comes to them before they expire. One that is slower waits for each page, once in a
//! time to live. For names in no order each page that a reader had to wait for has more of the
//! others come with it, so that in the end all of a directory is renewed side by side.
//!
//! *Invariants:* a page is in flight once. The first name after a pause has no page renewed.
//!
//! This file does not know names, and does not decide which directories are renewed so
//! (`path/pages`). Source: docs/decisions/0128.

use alloc::collections::{BTreeMap, VecDeque};
use core::cmp::Ordering;

use crate::directories::confidence::Confidence;
use crate::units::Nanos;

/// Pages of the latest listing that were renewed, and how good guesses were.
#[derive(Debug)]
pub(crate) struct PageRenewals {
    /// By the number of the page.
    pages: BTreeMap<usize, Renewed>,
    confidence: Confidence,
    /// The page of the last name that was looked up.
    last: Option<usize>,
    steps: Steps,
    /// When names were looked up in another page than the one before: the last times.
    passed: VecDeque<Nanos>,
    /// Names that were answered since a page was last asked for, and names that were not in the
    /// time to live before that: up to a few.
    answered: u32,
    waited: u32,
    waited_at: Nanos,
    /// When the listing was asked for whose pages these are; `None` until its first one comes.
    listed: Option<Nanos>,
    /// A page that was asked for had other names by then.
    pub(crate) differs: bool,
}

/// How the pages of names follow one another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Steps {
    #[default]
    Forward,
    Backward,
    /// One step was to a page that is far, or in another direction.
    Uncertain,
    /// More than one.
    Scattered,
}

/// One page that was asked for again.
#[derive(Debug, Clone, Copy)]
struct Renewed {
    requested: Nanos,
    is_coming: bool,
    /// No name in it has been looked up since.
    is_ahead: bool,
    /// A file in it has been opened since.
    is_opened: bool,
}

impl Default for PageRenewals {
    fn default() -> Self {
        Self {
            pages: BTreeMap::new(),
            confidence: Confidence::closed(AHEAD_MAX),
            last: None,
            steps: Steps::Forward,
            passed: VecDeque::new(),
            answered: 0,
            waited: 0,
            waited_at: Nanos(0),
            listed: None,
            differs: false,
        }
    }
}

impl PageRenewals {
    /// A new listing is asked for.
    pub(crate) fn restart(&mut self) {
        self.pages.clear();
        (self.last, self.listed, self.differs) = (None, None, false);
    }

    /// Its first page has come. It was asked for at that moment, if that is known.
    pub(crate) fn begin(&mut self, listed: Option<Nanos>) {
        self.restart();
        self.listed = listed;
    }

    /// Whether pages of the latest listing are there, and have the names that they had.
    pub(crate) fn may_renew(&self) -> bool {
        self.listed.is_some() && !self.differs
    }

    /// When the listing was asked for whose pages these are.
    pub(crate) fn listed(&self) -> Option<Nanos> {
        self.listed
    }

    /// A file in the page is opened.
    pub(crate) fn opened(&mut self, page: usize) {
        if let Some(requested) = self.listed {
            let new = Renewed { requested, is_coming: false, is_ahead: false, is_opened: true };
            self.pages.entry(page).or_insert(new).is_opened = true;
        }
    }

    /// Whether a file in the page was opened since it was last asked for before now. From now on
    /// none was.
    pub(crate) fn take_opened(&mut self, page: usize) -> bool {
        self.pages.get_mut(&page).is_some_and(|renewed| core::mem::take(&mut renewed.is_opened))
    }

    /// A name in the page was answered. Returns whether pages may be due ahead of it.
    pub(crate) fn hit(&mut self, page: usize, now: Nanos) -> bool {
        self.answered = self.answered.saturating_add(1);
        self.step(page, now);
        let Some(renewed) = self.pages.get_mut(&page).filter(|renewed| renewed.is_ahead) else { return false };
        renewed.is_ahead = false;
        self.confidence.hit(renewed.is_coming);
        true
    }

    /// A name is sought in a page that has expired. Returns whether the page is to be renewed, or
    /// is in flight.
    pub(crate) fn sought(&mut self, page: usize, now: Nanos, ttl: Nanos) -> bool {
        self.step(page, now);
        if let Some(renewed) = self.pages.get_mut(&page).filter(|renewed| renewed.is_coming) {
            if core::mem::take(&mut renewed.is_ahead) {
                self.confidence.hit(true);
            }
            return true;
        }
        let is_used = self.answered >= NAMES_MIN;
        self.waited = if now.since(self.waited_at) <= ttl { self.waited.saturating_add(1) } else { 1 };
        self.waited_at = now;
        if !is_used && self.waited < NAMES_MIN {
            return false;
        }
        // Those ahead that expired before a name in them was looked up were wrong.
        for renewed in self.pages.values_mut() {
            let has_expired = !renewed.is_coming && now.since(renewed.requested) > ttl;
            if has_expired && core::mem::take(&mut renewed.is_ahead) {
                self.confidence.missed();
            }
        }
        // Names in no order have no next page: each one that is waited for tells of the others,
        // and pages of the first ones expire while the last ones are waited for.
        let is_scattered = self.steps == Steps::Scattered && self.waited > 1;
        let more = if is_scattered { 1 << (self.waited - 1).min(AHEAD_MAX.ilog2()) } else { u32::from(is_used) };
        self.confidence.open(more);
        true
    }

    fn step(&mut self, page: usize, now: Nanos) {
        let Some(last) = self.last.replace(page).filter(|&last| last != page) else { return };
        if self.passed.len() == AHEAD_MAX as usize {
            self.passed.pop_front();
        }
        self.passed.push_back(now);
        let is_near = last.abs_diff(page) <= NEAR_MAX;
        self.steps = match (self.steps, last.cmp(&page)) {
            (Steps::Forward | Steps::Uncertain, Ordering::Less) if is_near => Steps::Forward,
            (Steps::Backward | Steps::Uncertain, Ordering::Greater) if is_near => Steps::Backward,
            (Steps::Forward | Steps::Backward, _) => Steps::Uncertain,
            (Steps::Scattered, _) if is_near => Steps::Uncertain,
            (Steps::Uncertain | Steps::Scattered, _) => Steps::Scattered,
        };
    }

    /// The pages to ask for: the one of a name that `waits`, if it is not in flight, and those
    /// ahead of it that are due. Pages have these `ends`.
    pub(crate) fn next(
        &mut self,
        page: usize,
        ends: &[u32],
        waits: bool,
        now: Nanos,
        ttl: Nanos,
    ) -> impl Iterator<Item = usize> + use<> {
        let (pages, listed) = (ends.len(), self.listed.unwrap_or_default());
        // A page that its reader comes to later than this would expire before it is left.
        let is_early = |at: &&Nanos| now.since(**at) <= Nanos(ttl.0 / DUE_PART);
        let passed = self.passed.iter().rev().take_while(is_early).count().saturating_sub(1);
        let (size, steps) = (self.confidence.size() as usize, self.steps);
        let size = match steps {
            Steps::Forward | Steps::Backward => size.min(passed),
            Steps::Uncertain => 0,
            Steps::Scattered => size,
        };
        let mut due = [0; AHEAD_MAX as usize + 1];
        let mut count = 0;
        for nth in 0..=size.min(pages.saturating_sub(1)) {
            let next = match steps {
                Steps::Forward | Steps::Uncertain => Some(page + nth).filter(|&next| next < pages),
                Steps::Backward => page.checked_sub(nth),
                Steps::Scattered => Some((page + nth) % pages),
            };
            let Some(next) = next else { break };
            let is_empty = next.checked_sub(1).map_or(0, |before| ends[before]) == ends[next];
            let renewed = self.pages.get(&next);
            let is_coming = renewed.is_some_and(|renewed| renewed.is_coming);
            let age = now.since(renewed.map_or(listed, |renewed| renewed.requested));
            // One that is ahead is reached before it expires, or was wrong.
            let due_after = if renewed.is_some_and(|renewed| renewed.is_ahead) { ttl.0 } else { ttl.0 / DUE_PART };
            let is_due = if nth == 0 { waits } else { age.0 > due_after };
            if is_due && !is_coming && !is_empty {
                due[count] = next;
                count += 1;
                let is_opened = renewed.is_some_and(|renewed| renewed.is_opened);
                let asked = Renewed { requested: now, is_coming: true, is_ahead: nth > 0, is_opened };
                self.pages.insert(next, asked);
            }
        }
        if count > 0 {
            self.answered = 0;
        }
        due.into_iter().take(count)
    }

    /// A page that was asked for has come, or will not. Returns when it was asked for.
    pub(crate) fn ended(&mut self, page: usize, came: bool) -> Option<Nanos> {
        let renewed = self.pages.get_mut(&page).filter(|renewed| renewed.is_coming)?;
        let requested = renewed.requested;
        renewed.is_coming = false;
        if !came {
            self.pages.remove(&page);
        }
        Some(requested)
    }
}

/// Names in expired pages until one is renewed, where none was answered: as of those until a
/// directory is listed. Lower: a program that looks up one name has a whole page listed. Higher:
/// more names cost a request each. Source: docs/decisions/0029.
const NAMES_MIN: u32 = 2;

/// Pages between two names in order, at most: a kernel is told of some names as it reads them, and
/// asks for others. Lower: such a reader is in no order. Higher: names in no order are in order by
/// chance. Source: a guess, not measured.
const NEAR_MAX: usize = 4;

/// Pages ahead of a reader at most. Lower: a reader in no order waits for more of the pages of a
/// large directory each time that they expire. Higher: more requests side by side. Source: as for
/// segments of a listing, docs/decisions/0030.
const AHEAD_MAX: u32 = 32;

/// The part of the time to live after which a page ahead of a reader is renewed: a half. Lower: a
/// page expires before its reader comes to it. Higher: pages are renewed more often. Source: as
/// for directories that are renewed, docs/decisions/0056.
const DUE_PART: u64 = 2;
