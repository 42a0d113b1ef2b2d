//! Companions of files that are opened, and of files that are fetched beside those.
//!
//! ```text
//!   pkg/       a.py  b.py  c.py  d.py          opened: cache/c.pyc
//!                           ^ comes at once
//!   pkg/cache/ a.pyc b.pyc c.pyc d.pyc         its siblings come, on their credit,
//!                ^           ^     ^
//!   pkg/       a.py  b.py        d.py          and the companions of those, on theirs
//!                ^                 ^
//! ```
//!
//! A companion by its whole name comes with the file of the first name, in any directory.
//!
//! A companion is sought in the order of the listing around the place that corresponds to that of
//! its file, since names that begin alike lie at like places.
//!
//! *Invariant:* what is fetched for files that are not opened never exceeds its credit.
//!
//! This file does not decide which files are companions (`companions`), and lists no directory:
//! what is not known has none. Source: docs/decisions/0088 and 0110.

use alloc::vec::Vec;

use super::contents::FETCHES_MAX;
use super::{DirReadahead, STEPS_MAX};
use crate::directories::companions::{Member, Rule, Toward};
use crate::directories::directory::{Fetched, Opens};
use crate::directories::event::Child;
use crate::directories::open_order::FileRef;
use crate::units::DirId;

impl DirReadahead {
    /// A file is opened: learns from it, and fetches its companions. Returns by which rule it was
    /// itself expected as one.
    pub(super) fn open_companion(&mut self, file: FileRef) -> Option<Rule> {
        let member = self.member(file)?;
        let Some((pairs, first)) = self.companions.opened(member, self.now) else {
            return self.companions.expected();
        };
        let alike = |pair: Member| {
            let toward = self.toward(pair.dir, member.dir)?;
            Some(Rule::Alike { from: pair.kind, to: member.kind, toward })
        };
        let mut rules: Vec<Rule> = Vec::new();
        for rule in pairs.into_iter().filter_map(alike) {
            // Files of one name in several directories say it once: chance makes such pairs.
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        rules.extend(first.map(|first| Rule::Named { from: first.name(), to: member.name() }));
        let expected =
            rules.into_iter().fold(None, |by, rule| if self.companions.held(rule) { Some(rule) } else { by });
        self.companions.set_expected(expected);
        for rule in self.companions.rules(member).collect::<Vec<_>>() {
            if let Some(companion) = self.companion(file, member, rule)
                && self.companions.tried(rule)
            {
                self.fetch_companion(companion, Fetched::Companion);
            }
        }
        expected
    }

    /// Fetches the companions of a file that is fetched itself.
    pub(super) fn fetch_companions(&mut self, file: FileRef) {
        let Some(member) = self.member(file) else { return };
        for rule in self.companions.rules(member).collect::<Vec<_>>() {
            if self.companions.is_followed(rule)
                && let Some(companion) = self.companion(file, member, rule)
            {
                self.fetch_companion(companion, Fetched::Along);
            }
        }
    }

    fn fetch_companion(&mut self, file @ (dir, entry): FileRef, fetched: Fetched) {
        let Some(state) = self.dirs.get(&dir).and_then(|dir| dir.get(entry)) else { return };
        let (is_small, bytes) = (state.is_small_file(), state.bytes());
        let is_ahead = state.fetched != Fetched::No || self.fetches.contains(&file);
        let is_due = state.is_short_file() && state.opens != Opens::Since && !is_ahead;
        let fits = self.fetches.len() < FETCHES_MAX && self.fetched.bytes() + bytes <= self.ahead_bytes();
        let may = self.options.readahead && !self.refused;
        if is_due && fits && may && self.companions.buys(bytes, is_small, fetched) {
            self.fetch_as(file, fetched);
        }
    }

    fn member(&self, (dir, entry): FileRef) -> Option<Member> {
        match self.dirs.get(&dir)?.get(entry)?.child {
            Child::File { kind, stem, .. } if stem != 0 => Some(Member { dir, kind, stem }),
            Child::File { .. } | Child::Directory(_) => None,
        }
    }

    /// Where `to` lies, as seen from `from`.
    fn toward(&self, from: DirId, to: DirId) -> Option<Toward> {
        if from == to {
            return Some(Toward::Here);
        }
        let (above, beside) = (self.parents.get(&from), self.parents.get(&to));
        if above.is_some_and(|&(above, _)| above == to) {
            return Some(Toward::Above);
        }
        let &(parent, at) = beside?;
        let nth = self.dirs.get(&parent)?.subdirs.partition_point(|&subdir| subdir < at);
        if parent == from {
            return Some(Toward::Below(nth));
        }
        above.is_some_and(|&(above, _)| above == parent).then_some(Toward::Beside(nth))
    }

    /// The companion of a file by a rule.
    fn companion(&self, (dir, entry): FileRef, member: Member, rule: Rule) -> Option<FileRef> {
        let nth_of = |dir: DirId, nth: usize| {
            let known = self.dirs.get(&dir)?;
            match known.get(*known.subdirs.get(nth)?)?.child {
                Child::Directory(below) => Some(below),
                Child::File { .. } => None,
            }
        };
        let above = || self.parents.get(&dir).map(|&(above, _)| above);
        let (there, name) = match rule {
            Rule::Named { to, .. } => (dir, to),
            Rule::Alike { to, toward, .. } => {
                let there = match toward {
                    Toward::Here => dir,
                    Toward::Above => above()?,
                    Toward::Below(nth) => nth_of(dir, nth)?,
                    Toward::Beside(nth) => nth_of(above()?, nth)?,
                };
                (there, (to, member.stem))
            }
        };
        let (from, to) = (self.dirs.get(&dir)?, self.dirs.get(&there)?);
        // Names lie at like places in both.
        let near = u64::from(entry) * u64::from(to.end()) / u64::from(from.end().max(1));
        let place = to.place_of(name, near as u32, STEPS_MAX, (there == dir).then_some(entry))?;
        Some((there, place))
    }
}
