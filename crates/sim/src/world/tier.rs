//! A tier in front of the storage: a device of its own with copies of pages, as the engine has in
//! a folder on a local disk.
//!
//! ```text
//!   Submit from the tier ──> its device ──> bytes, as from the storage
//!                └──(drawn to be gone)──> Event::Uncached, and the storage is asked
//!   Cache ──> it has the folio ──> Event::Cached, with the next event
//! ```
//!
//! What it is offered it has at once: writing is not modelled. It keeps all of it; what leaves a
//! full folder is decided by policy's `tier`, which is simulated by itself.

use std::collections::HashMap;

use foreread_device::Random;
use foreread_policy::{Cached, Extent, FileId};

use crate::storage::Storage;

/// What has copies of pages.
pub(crate) struct Tier {
    pub(super) storage: Storage,
    /// What it has of each file from the start, by its index.
    pub(super) warm: Vec<Vec<Extent>>,
    pub(super) has: HashMap<FileId, Cached>,
    /// How many of a million requests find that it is gone.
    pub(super) gone: u32,
    pub(super) random: Random,
}

impl Tier {
    /// A tier on `storage`, which has `warm` of each file.
    pub(crate) fn new(storage: Storage, warm: Vec<Vec<Extent>>) -> Self {
        Self { storage, warm, has: HashMap::new(), gone: 0, random: Random::new(0) }
    }

    /// Of a million requests, `gone` find that it does not have the pages any more.
    pub(crate) fn with_gone(self, gone: u32, random: Random) -> Self {
        Self { gone, random, ..self }
    }
}
