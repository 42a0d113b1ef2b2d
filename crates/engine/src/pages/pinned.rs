//! The bytes of one read: the folios that hold them, pinned.

use std::sync::Arc;

use foreread_policy::{Extent, PAGE_BYTES, Touch};

use crate::pages::folio::{Folio, Folios};

/// The bytes of one read, pinned in the page table until dropped.
#[derive(Debug, Clone)]
pub struct Pages {
    folios: Folios,
    /// Byte offset in the file.
    offset: u64,
    len: usize,
}

impl Pages {
    /// `len` bytes at `offset`, which `folios` hold.
    pub(crate) fn new(folios: Folios, offset: u64, len: usize) -> Self {
        Self { folios, offset, len }
    }

    pub(crate) fn empty() -> Self {
        Self::new(Folios::new(), 0, 0)
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the reference bits of what is read. Yields the touches that policy does not know of.
    pub(crate) fn reference(&self) -> impl Iterator<Item = (&Folio, Touch)> {
        let read = Extent::of_bytes(self.offset, self.len as u64);
        self.folios.iter().filter_map(move |f| f.reference(read).map(|touch| (&**f, touch)))
    }

    /// Whether the bytes of all folios have come.
    pub(crate) fn is_resident(&self) -> bool {
        self.folios.iter().all(|folio| folio.is_resident())
    }

    pub(crate) fn folios(&self) -> &[Arc<Folio>] {
        &self.folios
    }

    /// Takes all marks off. Returns whether there was one.
    pub(crate) fn take_marks(&self) -> bool {
        self.folios.iter().filter(|f| f.take_mark()).count() > 0
    }

    /// `len` of the bytes, those behind the first `from`; fewer where there are fewer.
    #[must_use]
    pub fn part(&self, from: usize, len: usize) -> Self {
        let from = from.min(self.len);
        let (offset, len) = (self.offset + from as u64, len.min(self.len - from));
        let wanted = Extent::of_bytes(offset, len as u64);
        let folios = self.folios.iter().filter(|folio| folio.extent.overlaps(wanted)).cloned();
        Self::new(folios.collect(), offset, len)
    }

    /// Where the first byte lies in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes, in order, in as many pieces as there are folios.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let end = self.offset + self.len as u64;
        self.folios.iter().filter_map(move |folio| {
            let at = folio.extent.start * PAGE_BYTES;
            let bytes = folio.bytes()?;
            let from = self.offset.saturating_sub(at) as usize;
            let to = ((end - at) as usize).min(bytes.len());
            bytes.get(from..to)
        })
    }

    /// The bytes as one slice, if they lie in one folio.
    pub fn as_slice(&self) -> Option<&[u8]> {
        match self.folios.len() {
            0 => Some(&[]),
            1 => self.slices().next(),
            _ => None,
        }
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
