//! One small value a page, for any number of pages of files that are numbered from 0: no hashing on the way of a hit.

use foreread_policy::{Extent, FileId};

/// Values of `T` by file and page; absent ones are `T::default()`.
#[derive(Debug, Default)]
pub(crate) struct PageMap<T> {
    files: Vec<Vec<Option<Box<[T]>>>>,
}

/// Pages in a piece, which is allocated when one of them is set.
const PIECE_PAGES: u64 = 512;

impl<T: Copy + Default> PageMap<T> {
    pub(crate) fn get(&self, file: FileId, page: u64) -> T {
        let piece = self.files.get(file.0 as usize).and_then(|pieces| pieces.get((page / PIECE_PAGES) as usize));
        piece.and_then(Option::as_ref).map_or_else(T::default, |piece| piece[(page % PIECE_PAGES) as usize])
    }

    pub(crate) fn entry(&mut self, file: FileId, page: u64) -> &mut T {
        let (file, at) = (file.0 as usize, (page / PIECE_PAGES) as usize);
        if self.files.len() <= file {
            self.files.resize_with(file + 1, Vec::new);
        }
        let pieces = &mut self.files[file];
        if pieces.len() <= at {
            pieces.resize_with(at + 1, || None);
        }
        let piece = pieces[at].get_or_insert_with(|| vec![T::default(); PIECE_PAGES as usize].into_boxed_slice());
        &mut piece[(page % PIECE_PAGES) as usize]
    }

    pub(crate) fn fill(&mut self, file: FileId, extent: Extent, value: T) {
        for page in extent.start..extent.end {
            *self.entry(file, page) = value;
        }
    }
}
