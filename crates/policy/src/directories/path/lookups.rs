//! What readers do with directories: list them, enter them, look names up.

use super::DirReadahead;
use crate::directories::walk::{Frame, Walk};
use crate::units::{Class, DirId, Found};

impl DirReadahead {
    pub(super) fn read(&mut self, dir: DirId, entry: u32, found: Found) {
        self.touch(dir);
        let known = self.dirs.entry(dir).or_default();
        let is_first = entry == 0;
        let ahead = core::mem::take(&mut known.ahead);
        if is_first && found == Found::Absent {
            // What was known is too old, or was never there.
            self.list(dir, Class::Demand, true);
        }
        self.counters.lists_hit += u64::from(ahead && found != Found::Absent);
        let known = self.dirs.entry(dir).or_default();
        known.pages_read = known.pages_read.max(known.pages_to(entry));
        self.go_on(dir, found != Found::Resident);
        if is_first && let Some(&(parent, at)) = self.parents.get(&dir) {
            self.entered(dir, parent, at, ahead, found);
        }
    }

    /// A reader enters `dir`, which is entry `at` of `parent`.
    fn entered(&mut self, dir: DirId, parent: DirId, at: u32, ahead: bool, found: Found) {
        self.touch(parent);
        let dirs = &self.dirs;
        let has_unread = |frame: Frame| {
            dirs.get(&frame.dir).is_some_and(|dir| dir.subdirs.last().is_some_and(|&last| last >= frame.next))
        };
        let walk = self.walks.iter_mut().position(|walk| walk.enter(dir, parent, at, has_unread));
        let Some(above) = self.dirs.get_mut(&parent) else { return };
        if above.entered == Some(at) && !ahead {
            // It was there before.
            return;
        }
        let place = |entry: u32| above.subdirs.partition_point(|&subdir| subdir < entry);
        let in_order = match above.entered {
            None => place(at) == 0,
            Some(before) => place(before).abs_diff(place(at)) == 1,
        };
        above.entered = Some(at);
        let was_read = above.was_read || above.pages_read > 0;
        if let Some(walk) = walk {
            let mut walk = self.walks.remove(walk);
            if found != Found::Resident {
                walk.idle = 0;
            }
            if ahead {
                if found == Found::Absent {
                    walk.listings.missed();
                } else {
                    walk.listings.hit(found == Found::InFlight);
                }
            } else if !in_order && walk.listings.is_open() {
                walk.listings.missed();
            }
            if in_order && was_read {
                walk.listings.open(LISTINGS_FIRST);
            }
            self.walks.push(walk);
        } else if in_order && was_read {
            let mut walk = Walk::new(parent, at + 1);
            walk.enter(dir, parent, at, |_| false);
            walk.listings.open(LISTINGS_FIRST);
            self.add_walk(walk);
        }
    }

    pub(super) fn add_walk(&mut self, walk: Walk) {
        self.counters.walks += 1;
        if self.walks.len() == WALKS_MAX {
            self.walks.remove(0);
        }
        self.walks.push(walk);
    }

    pub(super) fn named(&mut self, dir: DirId, entry: Option<u32>, found: Found) {
        self.touch(dir);
        let (now, ttl) = (self.now, self.options.ttl);
        let known = self.dirs.entry(dir).or_default();
        if found != Found::Absent {
            known.answered += 1;
            return;
        }
        known.names += 1;
        if !self.options.readahead || ttl.is_zero() {
            return;
        }
        if let Some(entry) = entry
            && self.named_file((dir, entry))
        {
            return;
        }
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        // A page answers for a thousand names. Where it has answered for some, it will again.
        let answers = known.complete && known.pages.len() == 1 && known.answered >= NAMES_MIN;
        if known.is_known(now, ttl) {
            if known.names >= NAMES_MIN {
                self.go_on(dir, true);
            }
        } else if answers || known.names >= NAMES_MIN {
            self.list(dir, Class::Demand, true);
        }
    }
}

/// Directories listed ahead when a walk begins.
const LISTINGS_FIRST: u32 = 8;

/// Names looked up in a directory of which nothing is known, from which on it is listed.
const NAMES_MIN: u32 = 2;

/// Readers that are followed.
const WALKS_MAX: usize = 16;
