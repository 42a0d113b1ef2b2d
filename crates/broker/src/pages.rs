//! The bytes of one read, wherever they lie.

use std::sync::Arc;

use foreread_engine::Pages;

use crate::area::{Area, Part};

/// The bytes of one read: pages of this process's engine, or a part of the memory that is shared
/// with the process that serves. Held until dropped.
#[derive(Debug)]
pub struct SharedPages(Held);

#[derive(Debug)]
enum Held {
    None,
    Own(Pages),
    Lent(Lent),
}

/// A part of shared memory, of which the first `len` bytes are filled. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Lent {
    area: Arc<Area>,
    part: Part,
    len: usize,
}

impl Lent {
    /// A part that was taken, for a read.
    pub(crate) fn new(area: &Arc<Area>, part: Part) -> Self {
        Self { area: Arc::clone(area), part, len: 0 }
    }

    /// So many bytes of it have come.
    pub(crate) fn filled(mut self, len: usize) -> SharedPages {
        self.len = len.min(self.part.len);
        SharedPages(Held::Lent(self))
    }

    fn bytes(&self) -> &[u8] {
        self.area.bytes(Part { at: self.part.at, len: self.len })
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.area.give_back(self.part);
    }
}

impl From<Pages> for SharedPages {
    fn from(pages: Pages) -> Self {
        Self(Held::Own(pages))
    }
}

impl SharedPages {
    pub(crate) fn empty() -> Self {
        Self(Held::None)
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Held::None => 0,
            Held::Own(pages) => pages.len(),
            Held::Lent(lent) => lent.len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, in order, in some pieces.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let (own, lent) = match &self.0 {
            Held::None => (None, None),
            Held::Own(pages) => (Some(pages.slices()), None),
            Held::Lent(lent) => (None, Some(lent.bytes())),
        };
        own.into_iter().flatten().chain(lent)
    }

    /// Copies all bytes to `to`, which is as long.
    pub fn copy_to(&self, to: &mut [u8]) {
        let mut rest = to;
        for piece in self.slices() {
            let (head, tail) = rest.split_at_mut(piece.len());
            head.copy_from_slice(piece);
            rest = tail;
        }
        debug_assert!(rest.is_empty());
    }
}
