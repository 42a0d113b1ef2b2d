//! A tier in front of the storage: a device of its own with copies of pages, as the engine has in
//! a folder on a local disk.
//!
//! ```text
//!   Submit from the tier ──> it has all of it ──> its device ──> bytes, as from the storage
//!                └──(it has left, or is drawn to be gone)──> Event::Uncached, and the storage
//!   Cache ──> kept ──> Event::Cached, with the next event
//! ```
//!
//! Without a size it keeps all that it is offered. With one, policy's `tier` decides what is
//! written and what leaves. Policy is not told of what left, as in the engine: it is found missing
//! when it is asked for. What is written is there at once: it takes neither time of the disk nor
//! memory of the budget.

use std::collections::HashMap;

use foreread_device::Random;
use foreread_policy::{Cached, Extent, FOLIO_PAGES_MAX, FileId, PAGE_BYTES, TierCounts, TierModel};

use crate::storage::Storage;

/// What has copies of pages.
pub(crate) struct Tier {
    pub(super) storage: Storage,
    kept: Kept,
    /// How many of a million requests find that it is gone.
    gone: u32,
    random: Random,
}

/// Which pages it has.
enum Kept {
    /// All that it is offered.
    All {
        /// What it has of each file from the start, by its index.
        warm: Vec<Vec<Extent>>,
        has: HashMap<FileId, Cached>,
    },
    /// What policy decides.
    Chosen(Box<TierModel>),
}

impl Tier {
    /// A tier on `storage`, which has `warm` of each file.
    pub(crate) fn new(storage: Storage, warm: Vec<Vec<Extent>>) -> Self {
        Self { storage, kept: Kept::All { warm, has: HashMap::new() }, gone: 0, random: Random::new(0) }
    }

    /// The same, which keeps no more than `bytes`.
    pub(crate) fn with_size(self, bytes: u64) -> Self {
        let Kept::All { warm, .. } = self.kept else { return self };
        let mut model = TierModel::new(bytes / PAGE_BYTES, segment_bytes(bytes) / PAGE_BYTES);
        let files = (0..).map(FileId).zip(warm);
        model.fill(files.flat_map(|(file, warm)| warm.into_iter().flat_map(move |extent| blocks(file, extent))));
        Self { kept: Kept::Chosen(Box::new(model)), ..self }
    }

    /// Of a million requests, `gone` find that it does not have the pages any more.
    pub(crate) fn with_gone(self, gone: u32, random: Random) -> Self {
        Self { gone, random, ..self }
    }

    /// What it has of `file`, the one at place `index`, when that is opened.
    pub(super) fn ranges(&mut self, file: FileId, index: usize) -> Vec<Extent> {
        match &mut self.kept {
            Kept::All { warm, has } => {
                let is_first_version = file.0 == index as u64;
                let has = has.entry(file).or_insert_with(|| {
                    let mut has = Cached::default();
                    let warm = warm.get(index).filter(|_| is_first_version);
                    warm.into_iter().flatten().for_each(|&extent| has.insert(extent));
                    has
                });
                has.ranges().collect()
            }
            Kept::Chosen(model) => {
                let mut has = Cached::default();
                let first = file.0 << BLOCK_BITS;
                for (block, pages) in model.kept_within(first..=first | ((1 << BLOCK_BITS) - 1)) {
                    let start = (block - first) * FOLIO_PAGES_MAX;
                    let each = (0..FOLIO_PAGES_MAX).filter(|at| pages >> at & 1 == 1);
                    each.for_each(|at| has.insert(Extent::new(start + at, start + at + 1)));
                }
                has.ranges().collect()
            }
        }
    }

    /// It is offered a folio. Whether it has that since.
    pub(super) fn offer(&mut self, file: FileId, folio: Extent) -> bool {
        match &mut self.kept {
            Kept::All { has, .. } => {
                has.entry(file).or_default().insert(folio);
                true
            }
            Kept::Chosen(model) => blocks(file, folio).all(|(block, pages)| model.offer(block, pages)),
        }
    }

    /// It is asked for `extent`. Whether it has all of it; if not, it may have some still.
    pub(super) fn read(&mut self, file: FileId, extent: Extent) -> bool {
        if self.random.chance(self.gone) {
            if let Kept::All { has, .. } = &mut self.kept {
                has.entry(file).or_default().remove(extent);
            }
            return false;
        }
        match &mut self.kept {
            Kept::All { .. } => true,
            // Each folio is a read of its own, and counts as used though another one is missing.
            Kept::Chosen(model) => {
                blocks(file, extent).fold(true, |all, (block, pages)| model.read(block, pages) && all)
            }
        }
    }

    /// What it has done, if it has a size.
    pub(super) fn counts(&self) -> Option<TierCounts> {
        match &self.kept {
            Kept::All { .. } => None,
            Kept::Chosen(model) => Some(model.counts()),
        }
    }
}

/// The blocks of an extent, each with the bits of its pages.
fn blocks(file: FileId, extent: Extent) -> impl Iterator<Item = (u64, u32)> {
    extent.folios().map(move |folio| {
        let block = folio.start / FOLIO_PAGES_MAX;
        let bits = (u32::MAX >> (FOLIO_PAGES_MAX - folio.pages())) << (folio.start % FOLIO_PAGES_MAX);
        (file.0 << BLOCK_BITS | block, bits)
    })
}

/// Bytes of a segment of a tier that holds `bytes`. Source: `crates/tier/src/options.rs`.
fn segment_bytes(bytes: u64) -> u64 {
    (bytes / 32).clamp(1 << 20, 64 << 20) >> 20 << 20
}

/// Bits of the number of a block within its file. Lower: blocks of a file of 2^40 of them count as
/// those of the next file. Higher: files beyond the sixteen millionth share their blocks. Source:
/// arithmetic.
const BLOCK_BITS: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::blocks::Asked;
    use crate::storage::profile;

    #[test]
    fn what_has_left_is_found_missing_when_it_is_asked_for() {
        let disk = Storage::new(profile::find("nvme").expect("a built-in disk"), &[1 << 30], Asked::default());
        let warm = vec![Extent::new(0, 8192)];
        let mut tier = Tier::new(disk, vec![warm]).with_size(32 << 20);
        let (file, far) = (FileId(0), Extent::new(20_000, 20_032));
        assert_eq!(tier.ranges(file, 0), [Extent::new(0, 8192)]);
        assert!(tier.read(file, Extent::new(8000, 8192)) && !tier.read(file, Extent::new(8000, 8193)));
        assert!(!tier.offer(file, far) && !tier.offer(file, far), "it is full, and this is not known");
        // What is offered again and again has the place of what was never read.
        for _ in 0..50 {
            (0..40).for_each(|at| _ = tier.offer(file, Extent::new(far.start + 32 * at, far.end + 32 * at)));
        }
        assert!(tier.read(file, far) && !tier.read(file, Extent::new(0, 8192)));
        assert!(tier.read(file, Extent::new(8000, 8192)), "what was read stays");
        let counts = tier.counts().expect("it has a size");
        assert!(counts.left > 0 && counts.admitted < counts.offered);
    }
}
