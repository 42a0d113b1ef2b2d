//! Beside: files that are fetched because of one that is opened, where there is no order.
//!
//! ```text
//!   siblings   pkg/  a.so  b.pyi  c.so  d.pyi  e.so        of a kind that was opened in there,
//!                     ^ opened     ^             ^         nearest first
//!
//!   cousins    pkg/x/cache/ 0 1 2    pkg/y/cache/ 0 1      the first file that was opened in x
//!                           ^ first               ^        and in y has the same name, or lies at
//!              pkg/z/cache/ 0 1 2                          the same place: what has that name in
//!                           ^ fetched                      others, or else lies there
//! ```
//!
//! A program that opens files by name comes to a directory with one certain file: the module that
//! stands for a package, a manifest, a thumbnail. It waits for that one in each directory, since
//! siblings come with the second open at the earliest. Where the first file of two directories in
//! the same one (or one level further up) had the same name, or lay at the same place and was of
//! the same kind, and was opened within a second, policy guesses that it does in the next ones as
//! well. Cousins are bought with credit of their own.
//!
//! *Invariant:* siblings and cousins that are fetched and not opened never exceed their credit.
//!
//! This file does not decide how many siblings are ahead (`siblings`), nor what is read of a file
//! that is not small (`files/whole`). It does not list directories for cousins: what is not known
//! has none. Source: docs/decisions/0057 (siblings), 0086 (kinds, longer files
//! and cousins) and 0110 (cousins by their names).

use alloc::vec::Vec;

use super::contents::{FETCHES_MAX, LONG_BYTES};
use super::{DirReadahead, STEPS_MAX};
use crate::directories::directory::{Entry, Fetched, Opens};
use crate::directories::event::{Child, DirAction, Name};
use crate::directories::firsts::{First, Repeats};
use crate::directories::open_order::FileRef;
use crate::directories::siblings::Dense;
use crate::directories::strays::cost_across;
use crate::units::{DirId, Found};

impl DirReadahead {
    /// Fetches files of the directory of a file that is opened: those nearest to it, the ones
    /// behind it first, and all of itself. `stays`: the open before was of another file there.
    pub(super) fn fetch_siblings(&mut self, (dir, entry): FileRef, stays: bool, dense: Dense, found: Found) {
        if !self.options.readahead || self.refused {
            return;
        }
        let mut left = self.siblings.ahead(stays, dense, self.now);
        let Some(known) = self.dirs.get(&dir).filter(|_| left > 0) else { return };
        let is_long = known.get(entry).is_some_and(|state| state.bytes() > LONG_BYTES);
        if is_long && found == Found::Absent && self.fetches.len() < FETCHES_MAX && self.fetches.insert((dir, entry)) {
            self.counters.fetches += 1;
            self.actions.push_back(DirAction::Fetch { dir, entry, ends: None });
        }
        let has_heads = known.closed.expected().is_some();
        let (mut wanted, mut bytes, mut refused) = (Vec::new(), self.fetched.bytes(), 0);
        let after = (entry + 1..known.end()).take(STEPS_MAX / 2);
        let before = (known.gone..entry).rev().take(STEPS_MAX / 2);
        for place in after.chain(before) {
            if left == 0 || self.fetches.len() + wanted.len() >= FETCHES_MAX {
                break;
            }
            // Of longer ones no more comes than is read of them.
            let is_likely = |state: &&Entry| {
                let comes_whole = state.is_small_file() || state.is_short_file() && !has_heads;
                comes_whole && known.opened.have(state.kinds())
            };
            let Some(state) = known.get(place).filter(is_likely) else { continue };
            if state.fetched != Fetched::No {
                left -= u32::from(state.fetched == Fetched::Beside);
            } else if state.opens == Opens::Never && !self.fetches.contains(&(dir, place)) {
                bytes += state.bytes();
                if bytes > self.ahead_bytes() {
                    break;
                }
                if !self.siblings.spend(state.bytes(), state.is_small_file()) {
                    // One of the other length may still be bought.
                    bytes -= state.bytes();
                    refused += 1;
                    if refused == REFUSED_MAX || !self.siblings.has_requests() {
                        break;
                    }
                    continue;
                }
                left -= 1;
                wanted.push(place);
            }
        }
        for &place in &wanted {
            self.fetch_as((dir, place), Fetched::Beside);
        }
        for place in wanted {
            self.fetch_companions((dir, place));
        }
    }

    /// The first file in a directory is opened. Fetches its cousins in directories beside that
    /// one, and beside the one above it, if the first file of another of them was like it.
    pub(super) fn fetch_cousins(&mut self, (dir, entry): FileRef) {
        if !self.options.readahead || self.refused {
            return;
        }
        let Some(state) = self.dirs.get(&dir).and_then(|known| known.get(entry)) else { return };
        let Child::File { kind, stem, .. } = state.child else { return };
        let kinds = state.kinds();
        let Some(&(parent, at)) = self.parents.get(&dir) else { return };
        let first = First { below: None, entry, kinds, stem };
        self.first_opened(parent, at, first, (kind, stem));
        let Some(&(above, above_at)) = self.parents.get(&parent) else { return };
        let below = self.dirs.get(&parent).map(|known| known.subdirs.partition_point(|&subdir| subdir < at));
        self.first_opened(above, above_at, First { below, ..first }, (kind, stem));
    }

    /// The first file, of this name, was opened below the entry `at` of `above`.
    fn first_opened(&mut self, above: DirId, at: u32, first: First, name: Name) {
        let Some(known) = self.dirs.get_mut(&above) else { return };
        let Some(repeats) = known.firsts.opened(first, self.now) else { return };
        self.cousins.confidence.open(COUSINS_FIRST);
        let mut left = self.cousins.confidence.size();
        let Some(known) = self.dirs.get(&above) else { return };
        let is_fresh = self.is_fresh();
        let split = known.subdirs.partition_point(|&subdir| subdir <= at);
        let after = known.subdirs[split..].iter().take(COUSINS_STEPS);
        let before = known.subdirs[..split].iter().rev().take(COUSINS_STEPS);
        let directory = |of: DirId, place: u32| match self.dirs.get(&of)?.get(place)?.child {
            Child::Directory(below) => Some(below),
            Child::File { .. } => None,
        };
        let mut wanted: Vec<FileRef> = Vec::new();
        for &place in after.chain(before) {
            if left == 0 || self.fetches.len() + wanted.len() >= FETCHES_MAX {
                break;
            }
            let Some(mut cousin) = directory(above, place) else { continue };
            if let Some(below) = first.below {
                let Some(&place) = self.dirs.get(&cousin).and_then(|known| known.subdirs.get(below)) else { continue };
                let Some(deeper) = directory(cousin, place) else { continue };
                cousin = deeper;
            }
            let Some(known) = self.dirs.get(&cousin).filter(|known| is_fresh(known) && known.run.is_none()) else {
                continue;
            };
            let place = match repeats {
                Repeats::Name => known.place_of(name, first.entry, COUSINS_ENTRIES, None),
                Repeats::Place => Some(first.entry),
            };
            let Some(place) = place else { continue };
            let Some(state) = known.get(place).filter(|state| state.is_small_file()) else { continue };
            if state.kinds() != first.kinds || state.opens != Opens::Never || self.fetches.contains(&(cousin, place)) {
                continue;
            }
            if state.fetched != Fetched::No {
                left -= u32::from(state.fetched == Fetched::Cousin);
                continue;
            }
            if !self.cousins.credit.spend(cost_across(state.bytes())) {
                break;
            }
            left -= 1;
            wanted.push((cousin, place));
        }
        for &file in &wanted {
            self.fetch_as(file, Fetched::Cousin);
        }
        for file in wanted {
            self.fetch_companions(file);
        }
    }

    /// A file that was fetched is not opened.
    pub(super) fn not_opened(&mut self, file: FileRef, fetched: Fetched) {
        match fetched {
            Fetched::Ends => {
                self.heads.lost(file);
                self.heads.confidence.missed();
            }
            Fetched::Beside => self.siblings.missed(),
            Fetched::Cousin => self.cousins.confidence.missed(),
            Fetched::No | Fetched::Ahead | Fetched::Across | Fetched::Companion | Fetched::Along => {}
        }
    }
}

/// Siblings that may be too dear until no more are looked at, in files. Lower: one of the other
/// length is missed that lies a little further. Higher: an open takes longer where credit is
/// spent. Source: a guess, not measured; as many as may be in flight.
const REFUSED_MAX: u32 = 64;

/// Cousins fetched at first, in files. Lower: the reader waits more often until the number has
/// doubled. Higher: more is fetched in vain for two firsts by chance. Source: docs/decisions/0086.
const COUSINS_FIRST: u32 = 4;

/// Directories on each side that are examined for cousins. Lower: cousins are missed where many
/// directories were seen already. Higher: the first open in a directory of many takes longer.
/// Source: a guess, not measured.
const COUSINS_STEPS: usize = 64;

/// Entries of each of them among which a cousin is sought by its name. Lower: cousins are missed
/// where they lie at other places in large directories. Higher: the first open in a directory of
/// many takes longer. Source: a guess, not measured; a package has fewer.
const COUSINS_ENTRIES: usize = 64;
