//! Renewals: listings that are in use are made anew before they expire.
//!
//! ```text
//!   names looked up     x     x        x
//!   a listing      |────────────|────────────|      used in both halves of its time:
//!                  requested    half   ^    expired    made anew here
//!
//!   came by one request:   a/ [b/ c/ d/ e/ f/]      one that is used in both halves has all of
//!                              ^ led  <─ by ┘          them made anew, by the same request
//! ```
//!
//! What came by one subtree request is renewed by one: by the same request, which begins with the
//! same directory. A directory that this did not bring any more is the first one of a request of
//! its own, and if it does not come whole in that way, it is renewed by itself.
//!
//! *Invariants:* a subtree request is made again at most once in half a time to live, and never
//! for a directory that did not come whole by it. What is not used is not renewed.
//!
//! A walk through directories that have expired has them listed by the same request as well.
//!
//! This file does not list directories that are unknown (`listings`, `lookups`).
//! Source: docs/decisions/0056 and 0091.

use alloc::vec::Vec;

use super::{Cause, DirReadahead};
use crate::directories::directory::{Coming, Dir};
use crate::directories::event::Child;
use crate::units::{Class, DirId, Nanos};

impl DirReadahead {
    /// A name in `dir` was looked up: the listings of `dir` and of the directories above it, which
    /// the reader has come through, are made anew if they are used in both halves of their time.
    pub(super) fn renew(&mut self, dir: DirId) {
        if !self.options.readahead || self.options.ttl.0 == 0 {
            return;
        }
        let (way, levels) = self.way_to(dir);
        // What is below a directory came by the request that this one came by, or by a later one.
        let (mut by, mut comes_along) = (None, false);
        for &at in way[..levels].iter().rev() {
            by = self.dirs.get(&at).and_then(|known| known.by).or(by);
            if self.is_used(at) && !comes_along && !by.is_some_and(|by| self.lead(by) || self.lead(at)) {
                self.renew_alone(at);
            }
            // Those below it come with it.
            comes_along |= self.dirs.get(&at).is_some_and(|known| known.coming == Coming::Along);
        }
    }

    /// The directories above `dir`, after itself, and how many they are together.
    fn way_to(&self, dir: DirId) -> ([DirId; RENEW_LEVELS], usize) {
        let (mut way, mut levels) = ([dir; RENEW_LEVELS], 1);
        while levels < RENEW_LEVELS
            && let Some(&(above, _)) = self.parents.get(&way[levels - 1])
        {
            way[levels] = above;
            levels += 1;
        }
        (way, levels)
    }

    /// A walk comes to `dir`, which is not known, or no longer: lists it by the subtree request by
    /// which it came before. Returns `false` if there is none, or it does not bring it any more.
    pub(super) fn list_as_before(&mut self, dir: DirId) -> bool {
        let (way, levels) = self.way_to(dir);
        let by = way[..levels].iter().find_map(|at| self.dirs.get(at)?.by);
        // Its own listing may be in flight, for a reader: what is below it comes after that.
        let waits = by.is_some_and(|by| by != dir && self.dirs.get(&by).is_some_and(Dir::is_coming));
        waits || by.is_some_and(|by| self.lead(by))
    }

    /// A name in `dir`, or below it, was looked up. Returns whether its listing is to be made
    /// anew.
    fn is_used(&mut self, dir: DirId) -> bool {
        let (now, ttl, most) = (self.now, self.options.ttl, self.directory_bytes_max());
        // A relisting of a directory that does not fit is not kept: it slides.
        let is_kept =
            |known: &&mut Dir| known.complete && known.pages.len() == 1 && known.gone == 0 && !known.slides(most);
        let Some(known) = self.dirs.get_mut(&dir).filter(is_kept) else { return false };
        let Some(requested) = known.requested else { return false };
        let is_early = is_early(requested, now, ttl);
        known.used_early |= is_early;
        !is_early && now.since(requested) <= ttl && known.used_early && !known.is_coming()
    }

    fn renew_alone(&mut self, dir: DirId) {
        let ahead = self.dirs.get(&dir).is_some_and(|known| known.ahead);
        self.list(dir, Class::Speculative, true);
        if let Some(known) = self.dirs.get_mut(&dir) {
            // No walk has predicted it.
            (known.ahead, known.by) = (ahead, None);
        }
    }

    /// Makes a subtree request that begins with `dir`. Returns `false` if that is not possible, or
    /// was done less than half a time to live ago.
    fn lead(&mut self, dir: DirId) -> bool {
        let (now, ttl) = (self.now, self.options.ttl);
        let Some(&(parent, from)) = self.parents.get(&dir) else { return false };
        let above = self.dirs.get(&parent).and_then(|above| above.get(from));
        let is_there = above.is_some_and(|entry| entry.child == Child::Directory(dir));
        let can = is_there && !self.has_belows_max();
        let Some(known) = self.dirs.get_mut(&dir).filter(|known| can && !known.apart) else { return false };
        if known.coming == Coming::Along {
            return true;
        }
        if known.is_coming() || known.led.is_some_and(|led| is_early(led, now, ttl)) {
            return false;
        }
        let ahead = known.ahead || !known.is_known(now, ttl);
        known.restart(now);
        (known.coming, known.ahead, known.led) = (Coming::Along, ahead, Some(now));
        self.request_below(parent, (from, from + 1), alloc::vec![dir], Cause::Renewal);
        true
    }

    /// A subtree request of `requested` for entries of `dir` from `from` on is over: notes which
    /// of them came by it.
    pub(super) fn came_by(&mut self, dir: DirId, from: u32, requested: Nanos) {
        let (now, ttl) = (self.now, self.options.ttl);
        let Some(above) = self.dirs.get(&dir) else { return };
        let Some(Child::Directory(leader)) = above.get(from).map(|entry| entry.child) else { return };
        let after = above.subdirs.partition_point(|&entry| entry < from);
        let below = |&entry: &u32| match above.get(entry).map(|entry| entry.child) {
            Some(Child::Directory(below)) => Some(below),
            _ => None,
        };
        // The answer ends before the first one that is not known now.
        let is_known = |below: &DirId| self.dirs.get(below).is_some_and(|known| known.is_known(now, ttl));
        let is_new = |below: &DirId| self.dirs.get(below).is_some_and(|known| known.requested >= Some(requested));
        let came = above.subdirs[after..].iter().filter_map(below).take_while(is_known).filter(is_new);
        for id in came.collect::<Vec<_>>() {
            if let Some(known) = self.dirs.get_mut(&id) {
                known.by = Some(leader);
            }
        }
        if let Some(known) = self.dirs.get_mut(&leader) {
            known.led = known.by.map(|_| requested);
        }
    }
}

fn is_early(requested: Nanos, now: Nanos, ttl: Nanos) -> bool {
    is_in_first_half(now.since(requested), ttl)
}

/// Whether a listing that was requested `age` ago is in the first half of its time `ttl`. Later,
/// one that comes along with another listing replaces it.
pub const fn is_in_first_half(age: Nanos, ttl: Nanos) -> bool {
    age.0 < ttl.0 - ttl.0 / RENEW_PART
}

/// Directories on the way to a name that are made anew, its own included. Lower: names deep in a
/// tree wait for the directories above them. Higher: each look-up checks more directories. Source:
/// docs/decisions/0056.
const RENEW_LEVELS: usize = 8;

/// The part of the time to live, at its end, in which a listing in use is made anew, a half.
/// Lower: listings are made anew more often. Higher: a listing may expire between two names.
/// Source: docs/decisions/0056.
const RENEW_PART: u64 = 2;
