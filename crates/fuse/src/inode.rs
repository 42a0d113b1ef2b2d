//! Inodes: one for each directory and for each version of each object, as long as the kernel
//! remembers it.
//!
//! ```text
//!   look-up ──> Inode { lookups + 1 } ── forget(n): lookups - n ──> 0: gone (but the root)
//!   look-up of a later version ──> a new Inode; an open of the outdated one is ESTALE
//!
//!   table    key, tag ── one string ──> names: one record each, by number
//!                                       by key: the slots of the current versions
//! ```
//!
//! A look-up that asked the storage confirms the version for the open that follows it, once,
//! however long the storage took to answer.
//!
//! All of it is counted, and so are open files and directories. Which inodes the kernel is asked
//! to forget is policy's ([`Names`]); [`Inodes::to_forget`] waits for it.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use foreread_engine::{Directory, File, Key, Object, Reserved, Version, return_free_memory};
use foreread_policy::{NameId, Names, Nanos, Next};
use hashbrown::HashTable;
use parking_lot::{Condvar, Mutex, MutexGuard};

/// What an inode stands for.
#[derive(Debug)]
pub(crate) enum Node {
    /// A prefix: empty, or ending in `/`.
    Directory(String),
    /// One version of one object.
    File(Object),
}

/// What the kernel is told of an inode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inode {
    pub(crate) number: u64,
    pub(crate) is_directory: bool,
    /// In bytes; 0 of a directory.
    pub(crate) size: u64,
    pub(crate) modified: Option<SystemTime>,
}

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

/// A call that waits for the storage.
pub(crate) struct Waits<'a> {
    inodes: &'a Inodes,
    number: u64,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.inodes.count_wait(self.number, |waits| waits.saturating_sub(1));
    }
}

#[derive(Debug)]
struct Table {
    names: Names<Record>,
    by_key: ByKey,
    /// The budget is smaller, and what names took is to be given back once they are gone.
    shrinks: bool,
    has_ended: bool,
}

/// The slots of directories, and of the version last seen of each key. A version that comes back
/// after another one gets a new inode. In parts, so that no more than one of them is moved at a
/// time as they grow and shrink.
#[derive(Debug)]
struct ByKey {
    hasher: RandomState,
    parts: Vec<Part>,
}

#[derive(Debug, Default)]
struct Part {
    slots: HashTable<u32>,
    /// The most that it has had since it was last shrunk.
    most: usize,
}

/// What is known of an inode.
#[derive(Debug)]
struct Record {
    /// The key or the prefix, and the version's tag after it.
    text: Box<str>,
    key_bytes: u32,
    has_tag: bool,
    is_directory: bool,
    /// A later version is known.
    is_outdated: bool,
    size: u64,
    modified: Option<SystemTime>,
    /// Look-ups that the kernel has not given back.
    lookups: u64,
    /// Calls that wait for the storage under the kernel's lock of this directory.
    waits: u32,
    /// When the storage last answered a look-up, in nanoseconds since the mount; 0 after an open
    /// has used that.
    answered: u64,
}

impl Inodes {
    /// With the root, number 1, for `prefix`, in a budget of so many bytes for everything.
    pub(crate) fn new(prefix: &str, budget_bytes: u64, reserved: Reserved) -> Self {
        let root = Record::directory(prefix);
        let names = Names::new(budget_bytes, root.bytes(), root);
        let mut table = Table { names, by_key: ByKey::default(), shrinks: false, has_ended: false };
        table.by_key.enter(prefix, NameId::ROOT.slot(), &table.names);
        let (table, news, started) = (Mutex::new(table), Condvar::new(), Instant::now());
        Self { table, news, started, reserved, reserved_bytes: AtomicU64::new(0) }
    }

    /// The inode with this number.
    pub(crate) fn get(&self, number: u64) -> Option<Inode> {
        self.table.lock().find(number).map(|record| record.inode(number))
    }

    /// What the inode with this number stands for.
    pub(crate) fn node(&self, number: u64) -> Option<Node> {
        self.table.lock().find(number).map(Record::node)
    }

    /// What this path below the root stands for, if the kernel remembers its name.
    pub(crate) fn below_root(&self, path: &str) -> Option<Node> {
        let table = self.table.lock();
        let mut key = table.find(NameId::ROOT.0)?.key().to_owned();
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
        let name = match current.map(|(name, record)| (name, record.is_version(&object.version))) {
            Some((name, true)) => name,
            before => {
                if let Some((before, _)) = before {
                    table.by_key.leave(object.key.as_str(), before.slot(), &table.names);
                    if let Some(record) = table.names.get_mut(before) {
                        record.is_outdated = true;
                    }
                }
                table.add(parent, Record::file(object))
            }
        };
        self.looked_up(table, name)
    }

    fn looked_up(&self, table: &mut Table, name: NameId) -> Inode {
        let inode = table.names.get_mut(name).map_or_else(
            || Record::directory("").inode(name.0),
            |record| {
                record.lookups += 1;
                record.inode(name.0)
            },
        );
        table.names.looked_up(name);
        self.tell(table);
        inode
    }

    /// The kernel gives `count` look-ups back.
    pub(crate) fn forget(&self, number: u64, count: u64) {
        let table = &mut *self.table.lock();
        let Some(record) = table.names.get_mut(NameId(number)) else { return };
        record.lookups = record.lookups.saturating_sub(count);
        if record.lookups > 0 || NameId(number) == NameId::ROOT {
            return;
        }
        if let Some(record) = table.names.remove(NameId(number)) {
            table.by_key.leave(record.key(), NameId(number).slot(), &table.names);
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
        let record = table.names.get_mut(NameId(number));
        record.map_or(0, |record| std::mem::replace(&mut record.answered, answered))
    }

    /// Whether a later version than that of the inode is known, or the inode is not.
    pub(crate) fn is_outdated(&self, number: u64) -> bool {
        self.table.lock().find(number).is_none_or(|record| record.is_outdated)
    }

    /// A file or directory has been opened.
    pub(crate) fn opened(&self, number: u64, handle: Handle) {
        let table = &mut *self.table.lock();
        table.names.opened(NameId(number), handle.bytes());
        self.tell(table);
    }

    /// It has been closed.
    pub(crate) fn closed(&self, number: u64, handle: Handle) {
        let table = &mut *self.table.lock();
        table.names.closed(NameId(number), handle.bytes());
        self.tell(table);
    }

    /// A call that the kernel makes under its lock of this directory waits for the storage, until
    /// what this returns is dropped.
    pub(crate) fn wait_in(&self, number: u64) -> Waits<'_> {
        self.count_wait(number, |waits| waits + 1);
        Waits { inodes: self, number }
    }

    /// Whether such a call waits.
    pub(crate) fn waits_in(&self, number: u64) -> bool {
        self.table.lock().find(number).is_some_and(|record| record.waits > 0)
    }

    fn count_wait(&self, number: u64, count: impl FnOnce(u32) -> u32) {
        let table = &mut *self.table.lock();
        if let Some(Record { waits, .. }) = table.names.get_mut(NameId(number)) {
            *waits = count(*waits);
        }
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
    fn find(&self, number: u64) -> Option<&Record> {
        self.names.get(NameId(number))
    }

    /// The directory or the current version with this key.
    fn current(&self, key: &str) -> Option<(NameId, &Record)> {
        self.by_key.find(key, &self.names)
    }

    fn add(&mut self, parent: u64, record: Record) -> NameId {
        let name = self.names.add(Some(NameId(parent)), record.is_directory, record.bytes(), record);
        let Self { names, by_key, .. } = self;
        if let Some(record) = names.get(name) {
            by_key.enter(record.key(), name.slot(), names);
        }
        name
    }

    fn forgettable(&self, name: NameId) -> Option<Forgettable> {
        let record = self.find(name.0)?;
        let parent = self.names.parent(name)?;
        let above = self.find(parent.0)?;
        let is_current = self.current(record.key()).is_some_and(|(current, _)| current == name);
        let own = record.key().strip_prefix(above.key()).filter(|_| is_current).unwrap_or_default();
        Some(Forgettable { number: name.0, parent: parent.0, name: own.trim_end_matches('/').to_owned() })
    }
}

impl Default for ByKey {
    fn default() -> Self {
        Self { hasher: RandomState::new(), parts: (0..PARTS).map(|_| Part::default()).collect() }
    }
}

impl ByKey {
    /// The part that a key is in; the table uses other bits of the hash.
    fn part(hash: u64) -> usize {
        (hash >> 32) as usize % PARTS
    }

    fn find<'n>(&self, key: &str, names: &'n Names<Record>) -> Option<(NameId, &'n Record)> {
        let hash = self.hasher.hash_one(key);
        let is_it = |slot: &u32| names.in_slot(*slot).is_some_and(|(_, record)| record.key() == key);
        names.in_slot(*self.parts[Self::part(hash)].slots.find(hash, is_it)?)
    }

    fn enter(&mut self, key: &str, slot: u32, names: &Names<Record>) {
        let Self { hasher, parts } = self;
        let of = |slot: &u32| names.in_slot(*slot).map_or(0, |(_, record)| hasher.hash_one(record.key()));
        let hash = hasher.hash_one(key);
        let Part { slots, most } = &mut parts[Self::part(hash)];
        slots.insert_unique(hash, slot, of);
        *most = slots.len().max(*most);
    }

    /// What is in `slot` is no longer the current one with this key, if it was.
    fn leave(&mut self, key: &str, slot: u32, names: &Names<Record>) {
        let Self { hasher, parts } = self;
        let hash = hasher.hash_one(key);
        let Part { slots, most } = &mut parts[Self::part(hash)];
        let Ok(entry) = slots.find_entry(hash, |other| *other == slot) else { return };
        entry.remove();
        if *most > SHRINK_MIN && slots.len() < *most / SHRINK_AT {
            let of = |slot: &u32| names.in_slot(*slot).map_or(0, |(_, record)| hasher.hash_one(record.key()));
            slots.shrink_to(slots.len() * 9 / 8, of);
            *most = slots.len();
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.slots.len()).sum()
    }
}

impl Record {
    fn directory(prefix: &str) -> Self {
        Self {
            text: prefix.into(),
            key_bytes: prefix.len() as u32,
            has_tag: false,
            is_directory: true,
            is_outdated: false,
            size: 0,
            modified: None,
            lookups: 0,
            waits: 0,
            answered: 0,
        }
    }

    fn file(object: &Object) -> Self {
        let Object { key, version: Version { size, tag, modified } } = object;
        let text = [key.as_str(), tag.as_deref().unwrap_or_default()].concat().into_boxed_str();
        let (has_tag, key_bytes) = (tag.is_some(), key.as_str().len() as u32);
        Self { text, key_bytes, has_tag, size: *size, modified: *modified, is_directory: false, ..Self::directory("") }
    }

    fn key(&self) -> &str {
        &self.text[..self.key_bytes as usize]
    }

    fn tag(&self) -> Option<&str> {
        self.has_tag.then(|| &self.text[self.key_bytes as usize..])
    }

    fn is_version(&self, version: &Version) -> bool {
        !self.is_directory
            && self.size == version.size
            && self.modified == version.modified
            && self.tag() == version.tag.as_deref()
    }

    fn node(&self) -> Node {
        if self.is_directory {
            return Node::Directory(self.key().to_owned());
        }
        let version = Version { size: self.size, tag: self.tag().map(Into::into), modified: self.modified };
        Node::File(Object { key: Key::new(self.key()), version })
    }

    fn inode(&self, number: u64) -> Inode {
        Inode { number, is_directory: self.is_directory, size: self.size, modified: self.modified }
    }

    /// What it takes, its places in the tables included.
    fn bytes(&self) -> u64 {
        // The allocator adds eight bytes, and rounds up to multiples of 16.
        let text = (self.text.len() as u64 + 8).next_multiple_of(16).max(32);
        RECORD_BYTES + text
    }
}

/// The root's number, fixed by the protocol.
pub(crate) const ROOT: u64 = NameId::ROOT.0;

/// How long a confirmation holds from the look-up's answer on. The kernel sends the open as soon
/// as it has that. Lower: opens on a loaded machine ask the storage again. Higher: an open may
/// accept a version that is no longer current.
const CONFIRMED: Duration = Duration::from_millis(100);

/// What an inode takes beside its text, in bytes: its record, with the eighth more that a growing
/// list has room for, and its place in a table by key that is between 7/16 and 7/8 full.
const RECORD_BYTES: u64 = size_of::<Record>() as u64 * 9 / 8 + (size_of::<u32>() as u64 + 1) * 2;

/// Parts of the table by key. Lower: more entries are moved at a time, while look-ups wait.
/// Higher: more memory for a mount with few inodes.
const PARTS: usize = 64;

/// Entries that a part must have had before it shrinks. Lower: small parts are moved more often.
/// Higher: more memory stays after many inodes.
const SHRINK_MIN: usize = 32;

/// Divisor of the most entries that a part has had: so many are left when it shrinks, a half.
/// Lower: it may have to grow again soon. Higher: more memory stays.
const SHRINK_AT: usize = 2;

/// What an open file or directory takes here, in bytes: the number and the handle, in a table
/// between 7/16 and 7/8 full.
const HANDLE_BYTES: u64 = (size_of::<(u64, File)>() * 2 + 16) as u64;

/// Steps in which the engine is told what the share is used for. Lower: the budget is exceeded by
/// more meanwhile. Higher: the engine's locks are taken more often.
const RESERVE_STEPS: u64 = 16;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use foreread_backend::{ConnectOptions, connect};
    use foreread_engine::{Engine, Options};

    use super::*;

    const BUDGET: u64 = 16 << 20;

    fn object(key: &str, tag: &str) -> Object {
        Object { key: Key::new(key), version: Version { size: 1, tag: Some(tag.into()), modified: None } }
    }

    fn inodes() -> Inodes {
        let connected = connect("/", &ConnectOptions::default()).expect("a local directory");
        let engine = Engine::new(connected.backend, &Options::default().with_memory_bytes(BUDGET)).expect("an engine");
        Inodes::new("", BUDGET, engine.reserve())
    }

    #[test]
    fn each_version_has_its_own_number_and_the_latest_one_is_current() {
        let inodes = inodes();
        let old = inodes.file(ROOT, &object("a", "1")).number;
        assert_eq!(inodes.file(ROOT, &object("a", "1")).number, old);
        let new = inodes.file(ROOT, &object("a", "2")).number;
        assert_ne!(new, old);
        assert!(inodes.is_outdated(old) && !inodes.is_outdated(new));
        let back = inodes.file(ROOT, &object("a", "1")).number;
        assert!(back != old && inodes.is_outdated(new));
        // What the kernel forgets was not the current one.
        inodes.forget(new, 1);
        assert_eq!(inodes.file(ROOT, &object("a", "1")).number, back);
        let Some(Node::File(known)) = inodes.node(back) else { panic!("a file") };
        assert_eq!(known, object("a", "1"));
    }

    #[test]
    fn an_inode_lives_until_all_its_lookups_are_given_back() {
        let inodes = inodes();
        let number = inodes.file(ROOT, &object("a", "1")).number;
        inodes.file(ROOT, &object("a", "1"));
        inodes.forget(number, 1);
        assert!(inodes.get(number).is_some());
        inodes.forget(number, 1);
        assert!(inodes.get(number).is_none() && inodes.is_outdated(number));
        assert_ne!(inodes.file(ROOT, &object("a", "1")).number, number, "a number is not used again");
        inodes.forget(ROOT, 1000);
        assert!(inodes.get(ROOT).is_some());
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
        for number in &numbers {
            inodes.opened(*number, Handle::File);
        }
        for number in numbers {
            inodes.forget(number, 1);
            inodes.closed(number, Handle::File);
        }
        assert_eq!(charged(), none);
        let table = inodes.table.lock();
        assert_eq!((table.by_key.len(), table.names.len()), (1, 1));
        let bytes: usize = table.by_key.parts.iter().map(|part| part.slots.allocation_size()).sum();
        assert!(bytes <= PARTS * 16 * SHRINK_MIN, "{bytes} bytes for no keys");
    }
}
