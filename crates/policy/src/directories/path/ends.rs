//! Ends: which files come ahead with such ends as were read of their siblings.
//!
//! ```text
//!   in order      closed a, b; opened c      [d e f g]              behind it, in its direction
//!   in no order   closed a, k; opened f      . [d e] f [g h] .      on both sides, the nearest
//!                                                                   ones behind it first
//! ```
//!
//! The files are those of the reader's own directory whose names end as those of files that were
//! opened. A file that is small comes whole, by other rules (`contents`, `beside`).
//!
//! *Invariants:* what is fetched and not opened has room as all files ahead have, and is bought
//! (`heads`).
//!
//! This file does not decide how much of each file comes (`heads`). Source: docs/decisions/0124.

use alloc::vec::Vec;

use super::contents::FETCHES_MAX;
use super::{DirReadahead, STEPS_MAX};
use crate::directories::directory::{Fetched, Opens, may_have_ends};
use crate::directories::event::DirAction;
use crate::directories::heads::{HEADS_FIRST, Way};
use crate::directories::open_order::FileRef;
use crate::directories::siblings::Dense;
use crate::ends::Ends;
use crate::units::{DirId, PAGE_BYTES};

impl DirReadahead {
    /// Whether the driver is to tell what was read of a file of so many bytes when it is closed
    /// ([`DirEvent::Closed`]).
    ///
    /// [`DirEvent::Closed`]: crate::DirEvent::Closed
    pub fn reads_ends(bytes: u64) -> bool {
        may_have_ends(bytes.div_ceil(PAGE_BYTES))
    }

    /// What was fetched of a file that is not opened, if that are ends of it.
    pub fn fetched_ends(&self, dir: DirId, entry: u32) -> Option<Ends> {
        let state = self.dirs.get(&dir)?.get(entry)?;
        if state.fetched == Fetched::Ends { self.heads.ahead((dir, entry)) } else { None }
    }

    /// These ends of a file were read, and it is closed.
    pub(super) fn closed(&mut self, file @ (dir, entry): FileRef, ends: Ends) {
        let Some(known) = self.dirs.get_mut(&dir).filter(|_| self.options.readahead) else { return };
        known.closed.add(file, ends);
        let dense = Dense { opened: known.files_opened, files: known.files() };
        let first = known.entry(entry).is_some_and(|state| !core::mem::replace(&mut state.closed, true));
        if self.heads.closed(file, ends, first, dense) {
            self.actions.push_back(DirAction::Discard { dir, entry });
        }
    }

    /// Of the ends of a file that were to be fetched only these found room.
    pub(super) fn cut(&mut self, file: FileRef, ends: Ends) {
        self.refused = true;
        let before = self.heads_bytes(file);
        self.heads.cut(file, ends);
        self.fetched.replaced(before, self.heads_bytes(file));
    }

    /// A file that is not small is opened. Fetches what is read of its siblings ahead of the
    /// reader, if that is known. Returns whether it is known of this directory, or of all some is
    /// ahead in it.
    pub(super) fn fetch_heads(&mut self, (dir, entry): FileRef, way: Way) -> bool {
        let Some(known) = self.dirs.get(&dir).filter(|_| self.options.readahead) else { return false };
        let own = known.closed.expected();
        let Some(ends) = own.or_else(|| self.heads.closed.expected()) else { return false };
        let (Way { steps, in_order, stays, dense }, mut is_known) = (way, own.is_some());
        if self.refused || !in_order && !stays {
            return is_known;
        }
        self.heads.confidence.open(HEADS_FIRST);
        let dense = if in_order { 0 } else { dense.opened.saturating_sub(1) };
        let mut left = self.heads.confidence.size().max(dense);
        let after = (entry + 1..known.end()).take(if in_order && steps < 0 { 0 } else { STEPS_MAX / 2 });
        let before = (known.gone..entry).rev().take(if in_order && steps >= 0 { 0 } else { STEPS_MAX / 2 });
        let (mut wanted, mut bytes, most) = (Vec::new(), self.fetched.bytes(), self.ahead_bytes());
        for place in after.chain(before) {
            if left == 0 || self.fetches.len() + wanted.len() >= FETCHES_MAX {
                break;
            }
            let Some(state) = known.get(place).filter(|state| known.opened.have(state.kinds())) else { continue };
            let Some(pages) = state.pages_with_ends() else { continue };
            let file = (dir, place);
            if state.fetched != Fetched::No {
                let is_ahead = state.fetched == Fetched::Ends;
                left -= u32::from(is_ahead);
                is_known |= is_ahead;
            } else if state.opens == Opens::Never && !self.fetches.contains(&file) {
                // What does not fit is a second request for the reader: only the next file may be
                // cut.
                let ends = ends.within(pages, u64::MAX);
                let fits = self.heads.affords(ends) && bytes + ends.bytes() <= most;
                if !fits && bytes > 0 {
                    break;
                }
                let Some(bought) = self.heads.buy(file, ends.within(pages, most.saturating_sub(bytes)), pages) else {
                    break;
                };
                bytes += bought.bytes();
                left -= 1;
                wanted.push(file);
            }
        }
        is_known |= !wanted.is_empty();
        for file in wanted {
            self.fetch_as(file, Fetched::Ends);
        }
        is_known
    }

    /// Bytes that were fetched of a file of which ends are ahead.
    pub(super) fn heads_bytes(&self, file: FileRef) -> u64 {
        self.heads.ahead(file).map_or(0, Ends::bytes)
    }
}
