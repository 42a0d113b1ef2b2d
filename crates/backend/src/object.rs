//! Objects: their keys, versions and listings.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// The full key of an object below the backend's root: exact UTF-8 bytes. No leading `/` is added
/// or removed.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// A key of exactly this text.
    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    /// The key's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The content of an object: two equal versions of one key have the same bytes.
///
/// `tag` is the strong validator where the storage has one: a strong `ETag`, a generation, or
/// device, inode, mtime and ctime of a local file. Without a tag, size and modification time have
/// to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    /// Length in bytes.
    pub size: u64,
    /// The strong validator, as the storage spells it.
    pub tag: Option<Arc<str>>,
    /// Modification time.
    pub modified: Option<SystemTime>,
}

/// One object as the storage describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: Key,
    /// The version at the time of the description.
    pub version: Version,
}

/// One child of a listed prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An object, with its version as far as the listing tells it.
    Object(Object),
    /// A common prefix, ending in `/`.
    Prefix(String),
}

impl Entry {
    /// Its full key.
    pub fn key(&self) -> &str {
        match self {
            Self::Object(object) => object.key.as_str(),
            Self::Prefix(prefix) => prefix,
        }
    }
}

/// One page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListPage {
    /// The children on this page, with full keys.
    pub entries: Vec<Entry>,
    /// Passed to the next call; `None` on the last page.
    pub continuation: Option<String>,
}
