//! Which small files are fetched whole before a reader opens them.

use alloc::vec::Vec;

use super::{DirReadahead, STEPS_MAX};
use crate::directories::directory::Entry;
use crate::directories::event::{Child, DirAction};
use crate::directories::open_order::FileRef;
use crate::directories::walk::{Frame, Order, Walk};
use crate::units::{DirId, Found};

impl DirReadahead {
    /// The storage has to be asked for the name of a file. Whether it is asked for the file instead.
    pub(super) fn named_file(&mut self, file @ (dir, entry): FileRef) -> bool {
        let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) else { return false };
        if !state.is_small_file() || state.fetched {
            return false;
        }
        let follows = self.after_lookup.holds();
        state.named = true;
        self.after_lookup.named();
        let fetches = follows && !self.refused && self.fetches.len() < FETCHES_MAX && !self.fetches.contains(&file);
        if fetches {
            self.fetch(file);
        }
        fetches
    }

    pub(super) fn opened(&mut self, dir: DirId, entry: u32, found: Found) {
        self.touch(dir);
        self.refused = false;
        let expected = self.open_order.opened((dir, entry));
        let fetched = self.take_fetched((dir, entry));
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        let Some(state) = known.entry(entry) else { return };
        state.opened = true;
        let named = core::mem::take(&mut state.named);
        if named {
            self.after_lookup.opened();
        }
        self.counters.fetches_hit += u64::from(fetched && found != Found::Absent);
        // Who asked for its name first was no guess.
        let fetched = fetched && !named;
        let last = known.opened;
        let steps = last.map_or(0, |(last, run)| {
            let forward = known.next_file(last, false) == Some(entry);
            let backward = known.next_file(last, true) == Some(entry);
            match (forward, backward) {
                (true, _) => run.max(0) + 1,
                (_, true) => run.min(0) - 1,
                _ if last == entry => run,
                _ => 0,
            }
        });
        known.opened = Some((entry, steps));
        known.unordered += u32::from(steps == 0 && last.is_some_and(|(last, _)| last != entry));
        // Two in a row are an order where all others were, and chance where many were not.
        let in_order = steps.unsigned_abs() > known.unordered.min(UNORDERED_MAX);
        if expected {
            if fetched {
                if found == Found::Absent {
                    self.open_order.confidence.missed();
                } else {
                    self.open_order.confidence.hit(found == Found::InFlight);
                }
            } else if self.open_order.is_repeated() {
                self.open_order.confidence.hit(true);
            }
        }
        let mut at = self.walks.iter_mut().rposition(|walk| walk.frame(dir).is_some());
        if at.is_none() && in_order {
            self.add_walk(Walk::new(dir, 0));
            at = Some(self.walks.len() - 1);
        }
        let Some(at) = at else { return };
        let mut walk = self.walks.remove(at);
        walk.backward = steps < 0;
        if fetched {
            if found == Found::Absent { walk.contents.missed() } else { walk.contents.hit(found == Found::InFlight) }
        } else if walk.contents.is_open() && steps == 0 && !expected {
            walk.contents.missed();
        }
        if in_order {
            walk.contents.open(CONTENTS_FIRST);
        }
        if let Some(frame) = walk.frame(dir) {
            frame.next = if steps < 0 { entry } else { entry + 1 };
        }
        self.walks.push(walk);
    }

    /// A file that was fetched is not expected any more, and its entry is gone.
    pub(super) fn discarded(&mut self, file: FileRef, state: Entry) {
        self.fetched_bytes = self.fetched_bytes.saturating_sub(state.bytes());
        self.fetched.retain(|&other| other != file);
        self.actions.push_back(DirAction::Discard { dir: file.0, entry: file.1 });
    }

    /// Fetches the files that readers come to next.
    pub(super) fn fetch_ahead(&mut self) {
        let mut wanted: Vec<FileRef> = Vec::new();
        let free = FETCHES_MAX.saturating_sub(self.fetches.len());
        if free == 0 || self.refused {
            return;
        }
        if self.open_order.is_repeated() {
            let mut left = self.open_order.confidence.size();
            let mut bytes = 0;
            for (dir, entry) in self.open_order.expected().take(STEPS_MAX) {
                if left == 0 || bytes > self.options.contents_bytes / 2 || wanted.len() >= free {
                    break;
                }
                let Some(state) = self.dirs.get(&dir).and_then(|dir| dir.entries.get(entry as usize)) else { continue };
                if !state.is_small_file() {
                    continue;
                }
                left -= 1;
                bytes += state.bytes();
                if !state.fetched && !self.fetches.contains(&(dir, entry)) {
                    wanted.push((dir, entry));
                }
            }
        }
        for walk in self.walks.iter().rev().filter(|walk| walk.contents.is_open()) {
            let mut left = walk.contents.size();
            let mut bytes = 0;
            self.next_files(walk, |file, state| {
                if left == 0 || bytes > self.options.contents_bytes / 2 || wanted.len() >= free {
                    return false;
                }
                left -= 1;
                bytes += state.bytes();
                if !state.fetched && !self.fetches.contains(&file) && !wanted.contains(&file) {
                    wanted.push(file);
                }
                true
            });
        }
        for file in wanted {
            self.fetch(file);
        }
        // What was expected longest ago and did not come is not expected any more.
        while self.fetched_bytes > self.options.contents_bytes || self.fetched.len() > FETCHED_MAX {
            let Some(&file @ (dir, entry)) = self.fetched.front() else { return };
            self.take_fetched(file);
            self.actions.push_back(DirAction::Discard { dir, entry });
        }
    }

    fn fetch(&mut self, file @ (dir, entry): FileRef) {
        let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) else { return };
        state.fetched = true;
        self.fetched_bytes += state.bytes();
        self.fetched.push_back(file);
        self.counters.fetches += 1;
        self.fetches.insert(file);
        self.actions.push_back(DirAction::Fetch { dir, entry });
    }

    /// A file does not count as fetched any more. Whether it did.
    pub(super) fn take_fetched(&mut self, (dir, entry): FileRef) -> bool {
        let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) else { return false };
        let fetched = core::mem::take(&mut state.fetched);
        if fetched {
            self.fetched_bytes = self.fetched_bytes.saturating_sub(state.bytes());
            self.fetched.retain(|&file| file != (dir, entry));
        }
        fetched
    }

    /// The small files that `walk` comes to next and that were not opened, in order, until `visit` has enough.
    fn next_files(&self, walk: &Walk, mut visit: impl FnMut(FileRef, Entry) -> bool) {
        let mut steps = 0;
        let mut below: Vec<(DirId, u32)> = Vec::new();
        for (at, Frame { dir, next }) in walk.frames().enumerate() {
            if at == 0 && walk.backward {
                let entries = self.dirs.get(&dir).map_or(&[][..], |dir| &dir.entries);
                let rest = entries.iter().enumerate().take(next as usize).rev().take(STEPS_MAX);
                for (entry, &state) in rest.filter(|(_, state)| state.is_small_file() && !state.opened) {
                    if !visit((dir, entry as u32), state) {
                        return;
                    }
                }
                continue;
            }
            below.push((dir, next));
            while let Some((dir, entry)) = below.pop() {
                let Some(&state) = self.dirs.get(&dir).and_then(|dir| dir.entries.get(entry as usize)) else {
                    continue;
                };
                below.push((dir, entry + 1));
                steps += 1;
                if steps > STEPS_MAX {
                    return;
                }
                match state.child {
                    Child::Directory(id) => {
                        let listed = self.dirs.get(&id).is_some_and(|dir| dir.is_known(self.now, self.options.ttl));
                        if listed && walk.order == Order::Depth {
                            below.push((id, 0));
                        }
                    }
                    Child::File { .. } if state.is_small_file() && !state.opened => {
                        if !visit((dir, entry), state) {
                            return;
                        }
                    }
                    Child::File { .. } => {}
                }
            }
        }
    }
}

/// Files fetched ahead when the second one in order is opened.
const CONTENTS_FIRST: u32 = 4;

/// Files in flight ahead of readers.
const FETCHES_MAX: usize = 64;

/// Files fetched that nobody has opened, at most: twice as many as one reader may have ahead.
const FETCHED_MAX: usize = 256;

/// So many files in a row are an order wherever they are.
const UNORDERED_MAX: u32 = 4;
