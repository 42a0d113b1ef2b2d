//! The files that are known: open ones, and those closed lately.
//!
//! ```text
//!   add ──> open ── last handle dropped ──> idle ── policy says so ──> forgotten
//!             └──────── opened again ─────────┘
//! ```
//!
//! An idle file keeps its pages, so an epoch that comes back to it finds them. Policy has it
//! forgotten once it has none.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use foreread_backend::{Key, Object, Version};
use foreread_policy::FileId;
use foreread_tier::ObjectId;

use crate::numbers::Numbers;
use crate::pages::opened::Opened;

/// An object and the version of it that is read.
type Identity = (Key, Version);

/// The files that are known.
#[derive(Debug, Default)]
pub(crate) struct Files {
    known: Numbers<FileId, Arc<Opened>>,
    /// Of each key the version that was opened last as a new one, and versions that were before
    /// it.
    by_key: HashMap<Key, FileId>,
    replaced: HashMap<Identity, FileId>,
    /// Those that have a place in the tier.
    by_object: HashMap<ObjectId, FileId>,
    /// Files that policy was told are released.
    idle: HashSet<FileId>,
    next: u64,
}

fn identity(object: &Object) -> Identity {
    (object.key.clone(), object.version.clone())
}

impl Files {
    /// A number for a new file.
    pub(crate) fn next(&mut self) -> FileId {
        self.next += 1;
        FileId(self.next)
    }

    /// Adds a new file.
    pub(crate) fn add(&mut self, opened: &Arc<Opened>) {
        if let Some(before) = self.by_key.insert(opened.object.key.clone(), opened.id)
            && let Some(before) = self.known.get(&before)
        {
            self.replaced.insert(identity(&before.object), before.id);
        }
        self.known.insert(opened.id, Arc::clone(opened));
        if let Some(kept) = &opened.kept {
            self.by_object.insert(kept.object, opened.id);
        }
    }

    pub(crate) fn get(&self, file: FileId) -> Option<&Arc<Opened>> {
        self.known.get(&file)
    }

    /// The file with this place in the tier.
    pub(crate) fn kept(&self, object: ObjectId) -> Option<FileId> {
        self.by_object.get(&object).copied()
    }

    /// Memory for the places in the tier, in bytes: entries of 24 bytes and a byte each.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.by_object.capacity() as u64 * 25 * 8 / 7
    }

    /// All files that are known.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Opened>> {
        self.known.values()
    }

    /// The files that are idle.
    pub(crate) fn all_idle(&self) -> Vec<FileId> {
        let mut idle: Vec<_> = self.idle.iter().copied().collect();
        idle.sort_unstable();
        idle
    }

    /// Whether a version of the object is known.
    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.by_key.contains_key(key)
    }

    fn find(&self, object: &Object) -> Option<FileId> {
        let last = self
            .by_key
            .get(&object.key)
            .filter(|last| self.known.get(last).is_some_and(|opened| opened.object.version == object.version));
        last.or_else(|| self.replaced.get(&identity(object))).copied()
    }

    /// This version of the object, if it is known; no longer idle. And whether it was.
    pub(crate) fn revive(&mut self, object: &Object) -> Option<(Arc<Opened>, bool)> {
        let id = self.find(object)?;
        let was_idle = self.idle.remove(&id);
        self.known.get(&id).map(|opened| (Arc::clone(opened), was_idle))
    }

    /// This version of the object, if it is known and has no handle.
    pub(crate) fn idle(&self, object: &Object) -> Option<FileId> {
        let file = self.find(object)?;
        let opened = self.known.get(&file)?;
        (opened.handles.load(Relaxed) == 0).then_some(file)
    }

    /// `opened` has no handle.
    pub(crate) fn rest(&mut self, opened: &Opened) {
        self.idle.insert(opened.id);
    }

    /// Gives back the memory that more files needed.
    pub(crate) fn shrink(&mut self) {
        self.known.shrink_to_fit();
        self.by_key.shrink_to_fit();
        self.replaced.shrink_to_fit();
        self.by_object.shrink_to_fit();
        self.idle.shrink_to_fit();
    }

    /// The file is no longer known.
    pub(crate) fn forget(&mut self, file: FileId) {
        self.idle.remove(&file);
        if let Some(opened) = self.known.remove(&file) {
            if self.by_key.get(&opened.object.key) == Some(&file) {
                self.by_key.remove(&opened.object.key);
            } else {
                self.replaced.remove(&identity(&opened.object));
            }
            if let Some(kept) = &opened.kept {
                self.by_object.remove(&kept.object);
            }
        }
    }
}
