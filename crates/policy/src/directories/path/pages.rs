//! Pages: a directory of several pages is renewed page by page, in place, for names in it.
//!
//! ```text
//!   Named, Sought   in a page that has expired ──> Renew: that page, and those ahead of it
//!   Named           in a page that was ahead ────> Renew: those ahead of it that are due
//!   Renewed  the same names ──> the page is believed again; nothing else changes
//!            others, or none ─> no more pages of this listing are renewed: it is made anew, as
//!                               one of which nothing is renewed
//! ```
//!
//! Entries keep their places and what became of them, so a reader that goes through the directory,
//! opens its files or has some ahead goes on as before.
//!
//! *Invariant:* the listing of a directory for a reader of it is always made anew as a whole.
//!
//! This file does not decide which pages come ahead (`page_renewals`). A directory that does not
//! fit is listed from where its reader is (`relisting`). Source: docs/decisions/0128.

use super::DirReadahead;
use super::lookups::NAMES_A_PAGE;
use crate::directories::event::{Child, DirAction};
use crate::units::DirId;

impl DirReadahead {
    /// Whether names in `dir` have its pages renewed one by one, each in its place
    /// ([`DirAction::Renew`]): it has several, all of which are kept. The driver then tells of
    /// names that are not there, or not believed, where they would be ([`DirEvent::Sought`]).
    ///
    /// [`DirEvent::Sought`]: crate::DirEvent::Sought
    pub fn renews_pages(&self, dir: DirId) -> bool {
        let (options, most) = (&self.options, self.directory_bytes_max());
        options.readahead
            && options.below
            && !options.ttl.is_zero()
            && self.dirs.get(&dir).is_some_and(|known| {
                known.pages.len() > 1 && known.gone == 0 && !known.is_too_long(most) && known.renewals.may_renew()
            })
    }

    /// A name at `entry` of `dir` is sought, and not believed any more. Returns whether the page
    /// that it is in is renewed; `None` if pages of `dir` are not.
    pub(super) fn renew_page(&mut self, dir: DirId, entry: u32) -> Option<bool> {
        let page = self.page_of(dir, entry)?;
        let (now, ttl) = (self.now, self.options.ttl);
        let comes = self.dirs.get_mut(&dir)?.renewals.sought(page, now, ttl);
        if comes {
            self.renew_from(dir, page, true);
        }
        Some(comes)
    }

    /// A name at `entry` of `dir` was answered.
    pub(super) fn page_hit(&mut self, dir: DirId, entry: u32) {
        let (Some(page), now) = (self.page_of(dir, entry), self.now) else { return };
        if self.dirs.get_mut(&dir).is_some_and(|known| known.renewals.hit(page, now)) {
            self.renew_from(dir, page, false);
        }
    }

    /// The page of an entry that the latest listing of `dir` has, if its pages are renewed.
    fn page_of(&self, dir: DirId, entry: u32) -> Option<usize> {
        let known = self.dirs.get(&dir).filter(|known| entry < known.listed && self.renews_pages(dir))?;
        Some(known.pages_to(entry) - 1)
    }

    fn renew_from(&mut self, dir: DirId, reached: usize, waits: bool) {
        let (now, ttl) = (self.now, self.options.ttl);
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        for page in known.renewals.next(reached, &known.pages, waits, now, ttl) {
            let from = page.checked_sub(1).map_or(0, |before| known.pages[before]);
            known.names = known.names.saturating_sub(NAMES_A_PAGE as u32);
            if waits && page == reached {
                self.counters.lists_demand += 1;
            } else {
                self.counters.lists_speculative += 1;
            }
            self.actions.push_back(DirAction::Renew { dir, from, to: known.pages[page] });
        }
    }

    /// The answer to a renewal: the `children` from the entry `from` on have the places that they
    /// had. None of them: the names are others, or the request failed.
    pub(super) fn renewed(&mut self, dir: DirId, from: u32, children: &[Child]) {
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        let page = known.pages.partition_point(|&end| end <= from);
        let came = !children.is_empty();
        // One that is not in flight is of a listing that was replaced.
        let Some(requested) = known.renewals.ended(page, came) else { return };
        if !came {
            known.renewals.differs = true;
            // Pages that were renewed are believed no longer than the others.
            known.requested = known.renewals.listed().or(known.requested);
            return;
        }
        if from < known.gone {
            return;
        }
        known.requested = known.requested.max(Some(requested));
        let is_opened = known.renewals.take_opened(page);
        let (before, after) = known.renew(from, children, is_opened);
        self.fetched.replaced(before, after);
    }
}
