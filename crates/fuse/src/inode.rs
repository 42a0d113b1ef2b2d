//! Inodes: one for each directory and for each version of each object, as long as the kernel
//! remembers it.
//!
//! ```text
//!   look-up ──> Inode { lookups + 1 } ── forget(n): lookups - n ──> 0: gone (but the root)
//!   look-up of a later version ──> a new Inode; an open of the outdated one is ESTALE
//!
//!   table    key, tag ── one string ──> names: one record each, by slot
//!                                       by key: the slots of the current versions
//!                                       by number: the slots of all, but for clashes
//! ```
//!
//! A number comes from what the inode stands for (`number.rs`), so it is the same at each mount,
//! and after the kernel has forgotten the inode. A version that comes back while the kernel knows
//! it is the inode that it was.
//!
//! A look-up that asked the storage confirms the version for the open that follows it, once,
//! however long the storage took to answer.
//!
//! All of it is counted, and so are open files and directories. Which inodes the kernel is asked
//! to forget is policy's ([`Names`]); [`Inodes::to_forget`] waits for it.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use foreread_engine::{Directory, File, Object, Reserved, return_free_memory};
use foreread_policy::{NameId, Names, Nanos, Next};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::index::Index;
use crate::number::{self, Numbers};
use crate::record::{Inode, Node, Record};

/// An inode that the kernel is to forget.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Forgettable {
    pub(crate) number: u64,
    pub(crate) parent: u64,
    /// Its name in the parent; empty if another inode has that name by now.
    pub(crate) name: String,
}

/// All inodes of a mount.
#[derive(Debug)]
pub(crate) struct Inodes {
    table: Mutex<Table>,
    /// There may be something to forget, or the mount has ended.
    news: Condvar,
    started: Instant,
    /// The memory of the table within the engine's budget, and what was last reported of it.
    reserved: Reserved,
    reserved_bytes: AtomicU64,
}

/// What has been opened.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Handle {
    File,
    Directory,
}

impl Handle {
    /// What it takes, in bytes.
    fn bytes(self) -> u64 {
        match self {
            Self::File => HANDLE_BYTES,
            Self::Directory => HANDLE_BYTES + Directory::BYTES,
        }
    }
}

/// The inode of what has been opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened(NameId);

/// A call that waits for the storage.
pub(crate) struct Waits<'a> {
    inodes: &'a Inodes,
    name: Option<NameId>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.inodes.table.lock().count_wait(self.name, |waits| waits.saturating_sub(1));
    }
}

#[derive(Debug)]
struct Table {
    names: Names<Record>,
    numbers: Numbers,
    hasher: RandomState,
    /// Directories, and the version last seen of each key.
    by_key: Index,
    /// Inodes whose number comes from a hash.
    by_number: Index,
    /// The budget is smaller, and what names took is to be given back once they are gone.
    shrinks: bool,
    has_ended: bool,
}

impl Inodes {
    /// With the root, number 1, for `prefix`, in a budget of so many bytes for everything.
    pub(crate) fn new(prefix: &str, budget_bytes: u64, reserved: Reserved) -> Self {
        Self::with_numbers(prefix, budget_bytes, reserved, Numbers::default())
    }

    fn with_numbers(prefix: &str, budget_bytes: u64, reserved: Reserved, numbers: Numbers) -> Self {
        let mut root = Record::directory(prefix);
        root.set_number(ROOT);
        let mut table = Table {
            names: Names::new(budget_bytes, root.bytes(), root),
            numbers,
            hasher: RandomState::new(),
            by_key: Index::default(),
            by_number: Index::default(),
            shrinks: false,
            has_ended: false,
        };
        table.enter(NameId::ROOT);
        let (table, news, started) = (Mutex::new(table), Condvar::new(), Instant::now());
        Self { table, news, started, reserved, reserved_bytes: AtomicU64::new(0) }
    }

    /// The inode with this number.
    pub(crate) fn get(&self, number: u64) -> Option<Inode> {
        self.table.lock().find(number).map(|(_, record)| record.inode())
    }

    /// What the inode with this number stands for.
    pub(crate) fn node(&self, number: u64) -> Option<Node> {
        self.table.lock().find(number).map(|(_, record)| record.node())
    }

    /// The number of the directory that this inode is in; the root is in itself.
    pub(crate) fn parent(&self, number: u64) -> u64 {
        let table = self.table.lock();
        let parent = table.find(number).and_then(|(name, _)| table.names.parent(name));
        parent.and_then(|parent| table.names.get(parent)).map_or(ROOT, Record::number)
    }

    /// What this path below the root stands for, if the kernel remembers its name.
    pub(crate) fn below_root(&self, path: &str) -> Option<Node> {
        let table = self.table.lock();
        let mut key = table.names.get(NameId::ROOT)?.key().to_owned();
        key.push_str(path);
        let file = table.current(&key).map(|(_, record)| record.node());
        file.or_else(|| table.current(&(key + "/")).map(|(_, record)| record.node()))
    }

    /// The inode of a directory in `parent`, with one look-up more.
    pub(crate) fn directory(&self, parent: u64, prefix: &str) -> Inode {
        let table = &mut *self.table.lock();
        let name = table.current(prefix).map(|(name, _)| name);
        let name = name.unwrap_or_else(|| table.add(parent, Record::directory(prefix)));
        self.looked_up(table, name)
    }

    /// The inode in `parent` of this version of an object, with one look-up more. Other versions
    /// of the object are outdated from now on.
    pub(crate) fn file(&self, parent: u64, object: &Object) -> Inode {
        let table = &mut *self.table.lock();
        let current = table.current(object.key.as_str());
        let name = match current.map(|(name, record)| (name, record.is_of(Some(&object.version)))) {
            Some((name, true)) => name,
            before => {
                if let Some((before, _)) = before {
                    table.outdate(before);
                }
                table.add(parent, Record::file(object))
            }
        };
        self.looked_up(table, name)
    }

    fn looked_up(&self, table: &mut Table, name: NameId) -> Inode {
        let inode = table.names.get_mut(name).map_or_else(
            || Record::directory("").inode(),
            |record| {
                record.lookups += 1;
                record.inode()
            },
        );
        table.names.looked_up(name);
        self.tell(table);
        inode
    }

    /// The kernel gives `count` look-ups back.
    pub(crate) fn forget(&self, number: u64, count: u64) {
        let table = &mut *self.table.lock();
        let Some(name) = table.id(number) else { return };
        let Some(record) = table.names.get_mut(name) else { return };
        record.lookups = record.lookups.saturating_sub(count);
        if record.lookups == 0 && name != NameId::ROOT {
            table.leave(name);
            table.names.remove(name);
        }
    }

    /// The storage has confirmed, for a look-up that was answered at this moment, that this is the
    /// current version.
    pub(crate) fn confirm(&self, number: u64, answered: Instant) {
        self.set_answered(number, answered.saturating_duration_since(self.started).as_nanos() as u64);
    }

    /// Withdraws a confirmation: the next open has to ask.
    pub(crate) fn unconfirm(&self, number: u64) {
        self.set_answered(number, 0);
    }

    /// Whether the look-up that belongs to this open has confirmed the version. True once: an open
    /// without a look-up of its own has to ask.
    pub(crate) fn take_confirmation(&self, number: u64) -> bool {
        let answered = Duration::from_nanos(self.set_answered(number, 0));
        !answered.is_zero() && self.started.elapsed().saturating_sub(answered) < CONFIRMED
    }

    fn set_answered(&self, number: u64, answered: u64) -> u64 {
        let table = &mut *self.table.lock();
        let record = table.id(number).and_then(|name| table.names.get_mut(name));
        record.map_or(0, |record| std::mem::replace(&mut record.answered, answered))
    }

    /// Whether a later version than that of the inode is known, or the inode is not.
    pub(crate) fn is_outdated(&self, number: u64) -> bool {
        self.table.lock().find(number).is_none_or(|(_, record)| record.is_outdated)
    }

    /// A file or directory has been opened. Returns what to close it by: the kernel may forget the
    /// inode and learn of another one with this number before.
    pub(crate) fn opened(&self, number: u64, handle: Handle) -> Opened {
        let table = &mut *self.table.lock();
        let name = table.id(number).unwrap_or(NameId::ROOT);
        table.names.opened(name, handle.bytes());
        self.tell(table);
        Opened(name)
    }

    /// It has been closed.
    pub(crate) fn closed(&self, opened: Opened, handle: Handle) {
        let table = &mut *self.table.lock();
        table.names.closed(opened.0, handle.bytes());
        self.tell(table);
    }

    /// A call that the kernel makes under its lock of this directory waits for the storage, until
    /// what this returns is dropped.
    pub(crate) fn wait_in(&self, number: u64) -> Waits<'_> {
        let table = &mut *self.table.lock();
        let name = table.id(number);
        table.count_wait(name, |waits| waits.saturating_add(1));
        Waits { inodes: self, name }
    }

    /// Whether such a call waits.
    pub(crate) fn waits_in(&self, number: u64) -> bool {
        self.table.lock().find(number).is_some_and(|(_, record)| record.waits > 0)
    }

    fn tell(&self, table: &Table) {
        if table.names.is_over() {
            self.news.notify_one();
        }
    }

    /// Tells the engine what all this takes, if that has changed by much. To be called without a
    /// lock of the engine.
    pub(crate) fn reserve(&self) {
        let (bytes, step) = {
            let names = &self.table.lock().names;
            (names.charged_bytes(), names.capacity_bytes() / RESERVE_STEPS)
        };
        if bytes.abs_diff(self.reserved_bytes.load(Relaxed)) >= step {
            self.reserve_now();
        }
    }

    /// The same, however little has changed.
    pub(crate) fn reserve_now(&self) {
        let bytes = self.table.lock().names.charged_bytes();
        self.reserved_bytes.store(bytes, Relaxed);
        self.reserved.set(bytes);
    }

    /// The engine's budget is so many bytes from now on.
    pub(crate) fn set_budget(&self, bytes: u64) {
        let table = &mut *self.table.lock();
        let before = table.names.capacity_bytes();
        table.names.set_budget(bytes);
        table.shrinks |= table.names.capacity_bytes() < before;
        self.news.notify_all();
    }

    /// Waits until the kernel is to forget inodes, and fills `batch` with up to `most` of them.
    /// Returns `false` when the mount has ended.
    pub(crate) fn to_forget(&self, batch: &mut Vec<Forgettable>, most: usize) -> bool {
        batch.clear();
        let table = &mut self.table.lock();
        while !table.has_ended {
            match table.names.next(Nanos(self.started.elapsed().as_nanos() as u64)) {
                Next::Forget(name) => {
                    batch.extend(table.forgettable(name));
                    if batch.len() >= most {
                        return true;
                    }
                }
                _ if !batch.is_empty() => return true,
                _ if table.shrinks && table.names.charged_bytes() <= table.names.capacity_bytes() => {
                    table.shrinks = false;
                    MutexGuard::unlocked(table, return_free_memory);
                }
                Next::At(at) => _ = self.news.wait_until(table, self.started + Duration::from_nanos(at.0)),
                Next::Idle => self.news.wait(table),
            }
        }
        false
    }

    /// The mount has ended.
    pub(crate) fn end(&self) {
        self.table.lock().has_ended = true;
        self.news.notify_all();
    }
}

impl Table {
    /// The name of the inode with this number.
    fn id(&self, number: u64) -> Option<NameId> {
        self.find(number).map(|(name, _)| name)
    }

    fn find(&self, number: u64) -> Option<(NameId, &Record)> {
        let slot = if number::is_by_hash(number) {
            let is_it = |slot| self.names.in_slot(slot).is_some_and(|(_, record)| record.number() == number);
            self.by_number.find(self.hasher.hash_one(number), is_it)?
        } else {
            number::slot(number)
        };
        self.names.in_slot(slot).filter(|(_, record)| record.number() == number)
    }

    /// The directory or the current version with this key.
    fn current(&self, key: &str) -> Option<(NameId, &Record)> {
        let is_it = |slot| self.names.in_slot(slot).is_some_and(|(_, record)| record.key() == key);
        self.names.in_slot(self.by_key.find(self.hasher.hash_one(key), is_it)?)
    }

    /// The inode of a directory or a version that is not current.
    fn add(&mut self, parent: u64, mut record: Record) -> NameId {
        let number = record.hashed(self.numbers);
        let clash = self.find(number);
        if let Some((name, _)) = clash.filter(|(_, known)| known.is_same(&record)) {
            self.renew(name);
            return name;
        }
        let is_by_slot = clash.is_some();
        record.set_number(number);
        let name = self.names.add(self.id(parent), record.is_directory(), record.bytes(), record);
        if let Some(record) = self.names.get_mut(name).filter(|_| is_by_slot) {
            record.set_number(number::by_slot(name));
        }
        self.enter(name);
        name
    }

    /// Enters what has been added.
    fn enter(&mut self, name: NameId) {
        let Self { names, hasher, by_key, by_number, .. } = self;
        let Some(record) = names.get(name) else { return };
        by_key.enter(hasher.hash_one(record.key()), name.slot(), key_hash(names, hasher));
        if number::is_by_hash(record.number()) {
            by_number.enter(hasher.hash_one(record.number()), name.slot(), number_hash(names, hasher));
        }
    }

    /// Takes out what is about to be removed.
    fn leave(&mut self, name: NameId) {
        let Self { names, hasher, by_key, by_number, .. } = self;
        let Some(record) = names.get(name) else { return };
        by_key.leave(hasher.hash_one(record.key()), name.slot(), key_hash(names, hasher));
        if number::is_by_hash(record.number()) {
            by_number.leave(hasher.hash_one(record.number()), name.slot(), number_hash(names, hasher));
        }
    }

    /// There is a later version than this.
    fn outdate(&mut self, name: NameId) {
        let Self { names, hasher, by_key, .. } = self;
        let Some(record) = names.get(name) else { return };
        by_key.leave(hasher.hash_one(record.key()), name.slot(), key_hash(names, hasher));
        if let Some(record) = names.get_mut(name) {
            record.is_outdated = true;
        }
    }

    /// A version that was outdated is the current one again.
    fn renew(&mut self, name: NameId) {
        let Self { names, hasher, by_key, .. } = self;
        let Some(record) = names.get_mut(name) else { return };
        record.is_outdated = false;
        let hash = hasher.hash_one(record.key());
        by_key.enter(hash, name.slot(), key_hash(names, hasher));
    }

    fn count_wait(&mut self, name: Option<NameId>, count: impl FnOnce(u16) -> u16) {
        if let Some(Record { waits, .. }) = name.and_then(|name| self.names.get_mut(name)) {
            *waits = count(*waits);
        }
    }

    fn forgettable(&self, name: NameId) -> Option<Forgettable> {
        let record = self.names.get(name)?;
        let parent = self.names.parent(name)?;
        let above = self.names.get(parent)?;
        let is_current = self.current(record.key()).is_some_and(|(current, _)| current == name);
        let own = record.key().strip_prefix(above.key()).filter(|_| is_current).unwrap_or_default();
        let name_of = own.trim_end_matches('/').to_owned();
        Some(Forgettable { number: record.number(), parent: above.number(), name: name_of })
    }
}

/// The hash of the key of what is in a slot.
fn key_hash(names: &Names<Record>, hasher: &RandomState) -> impl Fn(u32) -> u64 {
    move |slot| names.in_slot(slot).map_or(0, |(_, record)| hasher.hash_one(record.key()))
}

/// The hash of its number.
fn number_hash(names: &Names<Record>, hasher: &RandomState) -> impl Fn(u32) -> u64 {
    move |slot| names.in_slot(slot).map_or(0, |(_, record)| hasher.hash_one(record.number()))
}

/// The root's number, fixed by the protocol.
pub(crate) const ROOT: u64 = NameId::ROOT.0;

/// How long a confirmation holds from the look-up's answer on. The kernel sends the open as soon
/// as it has that. Lower: opens on a loaded machine ask the storage again. Higher: an open may
/// accept a version that is no longer current.
const CONFIRMED: Duration = Duration::from_millis(100);

/// What an open file or directory takes here, in bytes: its number, the inode and the handle, in a
/// table between 7/16 and 7/8 full.
const HANDLE_BYTES: u64 = (size_of::<(u64, (Opened, File))>() * 2 + 16) as u64;

/// Steps in which the engine is told what the share is used for. Lower: the budget is exceeded by
/// more meanwhile. Higher: the engine's locks are taken more often.
const RESERVE_STEPS: u64 = 16;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use foreread_backend::{ConnectOptions, connect};
    use foreread_engine::{Engine, Key, Options, Version};

    use super::*;

    const BUDGET: u64 = 16 << 20;

    fn object(key: &str, tag: &str) -> Object {
        Object { key: Key::new(key), version: Version { size: 1, tag: Some(tag.into()), modified: None } }
    }

    fn inodes() -> Inodes {
        of(Numbers::default())
    }

    fn of(numbers: Numbers) -> Inodes {
        let connected = connect("/", &ConnectOptions::default()).expect("a local directory");
        let engine = Engine::new(connected.backend, &Options::default().with_memory_bytes(BUDGET)).expect("an engine");
        Inodes::with_numbers("", BUDGET, engine.reserve(), numbers)
    }

    #[test]
    fn each_version_has_its_own_number_and_the_latest_one_is_current() {
        let inodes = inodes();
        let old = inodes.file(ROOT, &object("a", "1")).number;
        assert_eq!(inodes.file(ROOT, &object("a", "1")).number, old);
        let new = inodes.file(ROOT, &object("a", "2")).number;
        assert_ne!(new, old);
        assert!(inodes.is_outdated(old) && !inodes.is_outdated(new));
        assert_eq!(inodes.file(ROOT, &object("a", "1")).number, old, "it has come back");
        assert!(inodes.is_outdated(new) && !inodes.is_outdated(old));
        // What the kernel forgets was not the current one.
        inodes.forget(new, 1);
        inodes.forget(old, 1);
        assert_eq!(inodes.file(ROOT, &object("a", "1")).number, old);
        let Some(Node::File(known)) = inodes.node(old) else { panic!("a file") };
        assert_eq!(known, object("a", "1"));
    }

    #[test]
    fn an_inode_lives_until_all_its_lookups_are_given_back_and_has_its_number_again() {
        let inodes = inodes();
        let number = inodes.file(ROOT, &object("a", "1")).number;
        inodes.file(ROOT, &object("a", "1"));
        inodes.forget(number, 1);
        assert!(inodes.get(number).is_some());
        inodes.forget(number, 1);
        assert!(inodes.get(number).is_none() && inodes.is_outdated(number));
        assert_eq!(inodes.file(ROOT, &object("a", "1")).number, number);
        inodes.forget(ROOT, 1000);
        assert!(inodes.get(ROOT).is_some());
    }

    #[test]
    fn a_number_depends_on_nothing_that_was_met_before() {
        let keys = ["dir/", "dir/a/", "a", "dir/b"];
        let met = |inodes: &Inodes, key: &str| {
            if key.ends_with('/') {
                inodes.directory(ROOT, key).number
            } else {
                inodes.file(ROOT, &object(key, "1")).number
            }
        };
        let (one, other) = (inodes(), inodes());
        let told = keys.map(|key| met(&one, key));
        for (key, number) in keys.into_iter().zip(told).rev() {
            assert_eq!(met(&other, key), number);
        }
        let below = one.directory(told[0], "dir/c/").number;
        assert_eq!((one.parent(below), one.parent(told[0]), one.parent(ROOT)), (told[0], ROOT, ROOT));
    }

    /// With hashes of so few bits that most of them clash.
    #[test]
    fn inodes_whose_hashes_clash_have_numbers_of_their_own() {
        let inodes = of(Numbers::of_bits(2));
        let of_key = |nth: usize| match nth % 3 {
            0 => (format!("{nth}/"), None),
            _ => (format!("{}", nth / 2), Some(object(&format!("{}", nth / 2), &format!("{}", nth % 2)))),
        };
        let mut known: Vec<(u64, usize)> = Vec::new();
        let mut random = 1_u64;
        for _ in 0..3000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let nth = (random >> 33) as usize % 60;
            if random >> 63 == 0 || known.is_empty() {
                let number = match of_key(nth) {
                    (prefix, None) => inodes.directory(ROOT, &prefix).number,
                    (_, Some(object)) => inodes.file(ROOT, &object).number,
                };
                known.push((number, nth));
            } else {
                let (number, _) = known.swap_remove(nth % known.len());
                inodes.forget(number, 1);
            }
            for (number, nth) in &known {
                match (inodes.node(*number), of_key(*nth)) {
                    (Some(Node::Directory(prefix)), (of, None)) => assert_eq!(prefix, of),
                    (Some(Node::File(object)), (_, Some(of))) => assert_eq!(object, of),
                    (node, of) => panic!("{number} is {node:?}, and not {of:?}"),
                }
            }
        }
        assert!(known.iter().any(|(number, _)| number::is_by_hash(*number)));
        assert!(known.iter().any(|(number, _)| !number::is_by_hash(*number)));
        for (number, _) in known {
            inodes.forget(number, 1);
        }
        let table = inodes.table.lock();
        assert_eq!((table.by_key.len(), table.by_number.len(), table.names.len()), (1, 0, 1));
    }

    #[test]
    fn a_number_is_free_again_once_the_inode_that_had_it_is_forgotten() {
        let inodes = of(Numbers::of_bits(0));
        let first = inodes.file(ROOT, &object("a", "1")).number;
        let second = inodes.file(ROOT, &object("b", "1")).number;
        assert!(number::is_by_hash(first) && !number::is_by_hash(second) && second > ROOT);
        inodes.forget(first, 1);
        assert!(inodes.node(first).is_none() && inodes.node(second).is_some());
        // What the kernel knows stays what it is.
        assert_eq!(inodes.file(ROOT, &object("b", "1")).number, second);
        assert_eq!(inodes.file(ROOT, &object("c", "1")).number, first);
        inodes.forget(second, 2);
        let third = inodes.file(ROOT, &object("b", "1")).number;
        assert!(third != second && third as u32 == second as u32, "a slot is used again by another number");
        assert!(inodes.node(second).is_none());
    }

    #[test]
    fn a_confirmation_serves_one_open() {
        let inodes = inodes();
        let number = inodes.file(ROOT, &object("a", "1")).number;
        assert!(!inodes.take_confirmation(number));
        inodes.confirm(number, Instant::now());
        assert!(inodes.take_confirmation(number));
        assert!(!inodes.take_confirmation(number));
    }

    #[test]
    fn what_is_to_be_forgotten_has_its_name_unless_another_inode_has_it() {
        let inodes = Arc::new(inodes());
        let above = inodes.directory(ROOT, "dir/");
        let old = inodes.file(above.number, &object("dir/file", "1"));
        inodes.file(above.number, &object("dir/file", "2"));
        let count = BUDGET / 8 / 128;
        for nth in 0..count {
            inodes.directory(ROOT, &format!("{nth}/"));
        }
        // As many as take the share in files, which are forgotten first.
        for nth in 0..count {
            inodes.file(above.number, &object(&format!("dir/{nth}"), "1"));
        }
        let mut batch = Vec::new();
        assert!(inodes.to_forget(&mut batch, 3));
        let names: Vec<_> = batch.iter().map(|f| (f.number, f.parent, f.name.as_str())).collect();
        assert_eq!(names[0], (old.number, above.number, ""));
        assert_eq!((names[1].1, names[1].2, names[2].2), (above.number, "file", "0"));
        inodes.end();
        assert!(!inodes.to_forget(&mut batch, 3));
    }

    #[test]
    fn a_directory_is_waited_in_until_its_last_call_is_answered() {
        let inodes = inodes();
        let (first, second) = (inodes.wait_in(ROOT), inodes.wait_in(ROOT));
        drop(first);
        assert!(inodes.waits_in(ROOT));
        drop(second);
        assert!(!inodes.waits_in(ROOT));
    }

    #[test]
    fn all_that_is_counted_is_given_back() {
        let inodes = inodes();
        let charged = || inodes.table.lock().names.charged_bytes();
        let none = charged();
        let numbers: Vec<u64> =
            (0..10_000).map(|n| inodes.file(ROOT, &object(&format!("{n:08}"), "0123456789")).number).collect();
        let each = (charged() - none) / 10_000;
        assert!((128..=256).contains(&each), "{each} bytes a file");
        let opened: Vec<_> = numbers.iter().map(|number| inodes.opened(*number, Handle::File)).collect();
        for (number, opened) in numbers.into_iter().zip(opened) {
            inodes.forget(number, 1);
            inodes.closed(opened, Handle::File);
        }
        assert_eq!(charged(), none);
        let table = inodes.table.lock();
        assert_eq!((table.by_key.len(), table.by_number.len(), table.names.len()), (1, 0, 1));
        for index in [&table.by_key, &table.by_number] {
            assert!(index.bytes() <= Index::BYTES_MIN, "{} bytes for no keys", index.bytes());
        }
    }
}
