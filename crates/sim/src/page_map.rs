//! One small value a page, for any number of pages of files numbered from 0. A lookup is two
//! indexings, no hashing.

use foreread_policy::{Extent, FileId};

/// Values of `T` by file and page; absent ones are `T::default()`.
#[derive(Debug, Default)]
pub(crate) struct PageMap<T> {
    files: Vec<Vec<Vec<T>>>,
}

/// Pages of a piece. A piece allocates up to its last page that is set, rounded up to a power of
/// two.
const PIECE_PAGES: u64 = 512;

impl<T: Copy + Default> PageMap<T> {
    pub(crate) fn get(&self, file: FileId, page: u64) -> T {
        let piece = self.files.get(file.0 as usize).and_then(|pieces| pieces.get((page / PIECE_PAGES) as usize));
        piece.and_then(|piece| piece.get((page % PIECE_PAGES) as usize).copied()).unwrap_or_default()
    }

    pub(crate) fn entry(&mut self, file: FileId, page: u64) -> &mut T {
        let (file, at) = (file.0 as usize, (page / PIECE_PAGES) as usize);
        if self.files.len() <= file {
            self.files.resize_with(file + 1, Vec::new);
        }
        let pieces = &mut self.files[file];
        if pieces.len() <= at {
            pieces.resize_with(at + 1, Vec::new);
        }
        let (piece, at) = (&mut pieces[at], (page % PIECE_PAGES) as usize);
        if piece.len() <= at {
            piece.resize((at + 1).next_power_of_two(), T::default());
        }
        &mut piece[at]
    }

    /// Every allocated value, in the order of files and pages.
    pub(crate) fn values(&self) -> impl Iterator<Item = T> {
        self.files.iter().flatten().flatten().copied()
    }

    pub(crate) fn fill(&mut self, file: FileId, extent: Extent, value: T) {
        for page in extent.start..extent.end {
            *self.entry(file, page) = value;
        }
    }
}
