//! Inodes: one for each directory and for each version of each object, as long as the kernel
//! remembers it.
//!
//! ```text
//!   look-up ──> Inode { lookups + 1 } ── forget(n): lookups - n ──> 0: gone (but the root)
//!   look-up of a later version ──> a new Inode; an open of the outdated one is ESTALE
//! ```
//!
//! A look-up that asked the storage confirms the version for the open that follows it, once,
//! however long the storage took to answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use foreread_engine::{Key, Object};
use parking_lot::Mutex;

/// What an inode stands for.
#[derive(Debug)]
pub(crate) enum Node {
    /// A prefix: empty, or ending in `/`.
    Directory(String),
    /// One version of one object.
    File(Object),
}

/// One inode.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) number: u64,
    pub(crate) node: Node,
    /// Look-ups that the kernel has not given back.
    lookups: AtomicU64,
    /// When the storage last answered a look-up; `None` after an open has used that.
    answered: Mutex<Option<Instant>>,
    /// A later version is known.
    outdated: AtomicBool,
}

impl Inode {
    /// The storage has confirmed, for a look-up that was answered at this moment, that this is the
    /// current version.
    pub(crate) fn confirm(&self, answered: Instant) {
        *self.answered.lock() = Some(answered);
    }

    /// Withdraws a confirmation: the next open has to ask.
    pub(crate) fn unconfirm(&self) {
        *self.answered.lock() = None;
    }

    /// Whether the look-up that belongs to this open has confirmed the version. True once: an open
    /// without a look-up of its own has to ask.
    pub(crate) fn take_confirmation(&self) -> bool {
        self.answered.lock().take().is_some_and(|at| at.elapsed() < CONFIRMED)
    }

    /// Whether a later version is known.
    pub(crate) fn is_outdated(&self) -> bool {
        self.outdated.load(Relaxed)
    }
}

/// All inodes of a mount.
#[derive(Debug)]
pub(crate) struct Inodes {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    by_number: HashMap<u64, Arc<Inode>>,
    directories: HashMap<String, u64>,
    /// The version last seen of each key that has an inode. A version that comes back after
    /// another one gets a new inode.
    current: HashMap<Key, u64>,
    next: u64,
}

impl Inodes {
    /// With the root, number 1, for `prefix`.
    pub(crate) fn new(prefix: &str) -> Self {
        let root = inode(ROOT, Node::Directory(prefix.to_owned()));
        let table = Table {
            by_number: HashMap::from([(ROOT, root)]),
            directories: HashMap::from([(prefix.to_owned(), ROOT)]),
            current: HashMap::new(),
            next: ROOT + 1,
        };
        Self { table: Mutex::new(table) }
    }

    /// The inode with this number.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Inode>> {
        self.table.lock().by_number.get(&number).map(Arc::clone)
    }

    /// The inode of a directory, with one look-up more.
    pub(crate) fn directory(&self, prefix: &str) -> Arc<Inode> {
        let table = &mut *self.table.lock();
        let known = table.directories.get(prefix).and_then(|n| table.by_number.get(n)).map(Arc::clone);
        let inode = known.unwrap_or_else(|| {
            let inode = table.add(Node::Directory(prefix.to_owned()));
            table.directories.insert(prefix.to_owned(), inode.number);
            inode
        });
        inode.lookups.fetch_add(1, Relaxed);
        inode
    }

    /// The inode of this version of an object, with one look-up more. Other versions of the object
    /// are outdated from now on.
    pub(crate) fn file(&self, object: &Object) -> Arc<Inode> {
        let table = &mut *self.table.lock();
        let current = table.current.get(&object.key).and_then(|number| table.by_number.get(number)).map(Arc::clone);
        let is_it = |inode: &Arc<Inode>| matches!(&inode.node, Node::File(known) if known.version == object.version);
        let inode = match current {
            Some(inode) if is_it(&inode) => inode,
            before => {
                if let Some(before) = before {
                    before.outdated.store(true, Relaxed);
                }
                let inode = table.add(Node::File(object.clone()));
                table.current.insert(object.key.clone(), inode.number);
                inode
            }
        };
        inode.lookups.fetch_add(1, Relaxed);
        inode
    }

    /// The kernel gives `count` look-ups back.
    pub(crate) fn forget(&self, number: u64, count: u64) {
        let table = &mut *self.table.lock();
        let Some(inode) = table.by_number.get(&number) else { return };
        let before = inode.lookups.fetch_sub(count.min(inode.lookups.load(Relaxed)), Relaxed);
        if before > count || number == ROOT {
            return;
        }
        let Some(inode) = table.by_number.remove(&number) else { return };
        match &inode.node {
            Node::Directory(prefix) => {
                table.directories.remove(prefix);
            }
            Node::File(object) => {
                if table.current.get(&object.key) == Some(&number) {
                    table.current.remove(&object.key);
                }
            }
        }
    }
}

impl Table {
    fn add(&mut self, node: Node) -> Arc<Inode> {
        let inode = inode(self.next, node);
        self.next += 1;
        self.by_number.insert(inode.number, Arc::clone(&inode));
        inode
    }
}

fn inode(number: u64, node: Node) -> Arc<Inode> {
    let (lookups, answered) = (AtomicU64::new(0), Mutex::new(None));
    Arc::new(Inode { number, node, lookups, answered, outdated: AtomicBool::new(false) })
}

/// The root's number, fixed by the protocol.
pub(crate) const ROOT: u64 = 1;

/// How long a confirmation holds from the look-up's answer on. The kernel sends the open as soon
/// as it has that. Lower: opens on a loaded machine ask the storage again. Higher: an open may
/// accept a version that is no longer current.
const CONFIRMED: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use foreread_engine::Version;

    use super::*;

    fn object(key: &str, tag: &str) -> Object {
        Object { key: Key::new(key), version: Version { size: 1, tag: Some(tag.into()), modified: None } }
    }

    #[test]
    fn each_version_has_its_own_number_and_the_latest_one_is_current() {
        let inodes = Inodes::new("");
        let old = inodes.file(&object("a", "1"));
        assert_eq!(inodes.file(&object("a", "1")).number, old.number);
        let new = inodes.file(&object("a", "2"));
        assert_ne!(new.number, old.number);
        assert!(old.is_outdated() && !new.is_outdated());
    }

    #[test]
    fn an_inode_lives_until_all_its_lookups_are_given_back() {
        let inodes = Inodes::new("");
        let number = inodes.file(&object("a", "1")).number;
        inodes.file(&object("a", "1"));
        inodes.forget(number, 1);
        assert!(inodes.get(number).is_some());
        inodes.forget(number, 1);
        assert!(inodes.get(number).is_none());
        inodes.forget(ROOT, 1000);
        assert!(inodes.get(ROOT).is_some());
    }

    #[test]
    fn a_confirmation_serves_one_open() {
        let inodes = Inodes::new("");
        let inode = inodes.file(&object("a", "1"));
        assert!(!inode.take_confirmation());
        inode.confirm(Instant::now());
        assert!(inode.take_confirmation());
        assert!(!inode.take_confirmation());
    }
}
