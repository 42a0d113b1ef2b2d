//! What is known of one inode: what it stands for, in one string, and what the kernel has of it.

use std::time::SystemTime;

use foreread_engine::{Key, Object, Version};

use crate::index::Index;
use crate::number::Numbers;

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

/// What an inode stands for, without its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    /// A file whose version has no tag.
    Untagged,
    Tagged,
}

/// What is known of an inode.
#[derive(Debug)]
pub(crate) struct Record {
    /// The key or the prefix, and the version's tag after it.
    text: Box<str>,
    key_bytes: u32,
    kind: Kind,
    /// A later version is known.
    pub(crate) is_outdated: bool,
    /// The bytes of its number, but for the highest, which is 0: so they fill what would be a gap.
    number: [u8; 7],
    size: u64,
    modified: Option<SystemTime>,
    /// Look-ups that the kernel has not given back.
    pub(crate) lookups: u64,
    /// Calls that wait for the storage under the kernel's lock of this directory.
    pub(crate) waits: u16,
    /// When the storage last answered a look-up, in nanoseconds since the mount; 0 after an open
    /// has used that.
    pub(crate) answered: u64,
}

impl Record {
    pub(crate) fn directory(prefix: &str) -> Self {
        Self {
            text: prefix.into(),
            key_bytes: prefix.len() as u32,
            kind: Kind::Directory,
            is_outdated: false,
            number: [0; 7],
            size: 0,
            modified: None,
            lookups: 0,
            waits: 0,
            answered: 0,
        }
    }

    pub(crate) fn file(object: &Object) -> Self {
        let Object { key, version: Version { size, tag, modified } } = object;
        let text = [key.as_str(), tag.as_deref().unwrap_or_default()].concat().into_boxed_str();
        let key_bytes = key.as_str().len() as u32;
        let kind = if tag.is_some() { Kind::Tagged } else { Kind::Untagged };
        Self { text, key_bytes, kind, size: *size, modified: *modified, ..Self::directory("") }
    }

    pub(crate) fn key(&self) -> &str {
        &self.text[..self.key_bytes as usize]
    }

    fn tag(&self) -> Option<&str> {
        (self.kind == Kind::Tagged).then(|| &self.text[self.key_bytes as usize..])
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Whether it is this version, or a directory where there is none.
    pub(crate) fn is_of(&self, version: Option<&Version>) -> bool {
        let Some(version) = version else { return self.is_directory() };
        !self.is_directory()
            && self.size == version.size
            && self.modified == version.modified
            && self.tag() == version.tag.as_deref()
    }

    /// Whether both stand for the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.text == other.text
            && (self.key_bytes, self.kind) == (other.key_bytes, other.kind)
            && (self.size, self.modified) == (other.size, other.modified)
    }

    pub(crate) fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..7].copy_from_slice(&self.number);
        u64::from_le_bytes(bytes)
    }

    pub(crate) fn set_number(&mut self, number: u64) {
        self.number.copy_from_slice(&number.to_le_bytes()[..7]);
    }

    /// The number that comes from the hash of what it stands for.
    pub(crate) fn hashed(&self, numbers: Numbers) -> u64 {
        if self.is_directory() {
            return numbers.of_directory(self.key());
        }
        numbers.of_file(self.key(), self.tag(), self.size, self.modified)
    }

    pub(crate) fn node(&self) -> Node {
        if self.is_directory() {
            return Node::Directory(self.key().to_owned());
        }
        let version = Version { size: self.size, tag: self.tag().map(Into::into), modified: self.modified };
        Node::File(Object { key: Key::new(self.key()), version })
    }

    pub(crate) fn inode(&self) -> Inode {
        Inode { number: self.number(), is_directory: self.is_directory(), size: self.size, modified: self.modified }
    }

    /// What it takes, its places in the tables included.
    pub(crate) fn bytes(&self) -> u64 {
        // The allocator adds eight bytes, and rounds up to multiples of 16.
        let text = (self.text.len() as u64 + 8).next_multiple_of(16).max(32);
        RECORD_BYTES + text
    }
}

/// What an inode takes beside its text, in bytes: its record, with the eighth more that a growing
/// list has room for, and its slot in two tables.
const RECORD_BYTES: u64 = size_of::<Record>() as u64 * 9 / 8 + Index::SLOT_BYTES * 2;
