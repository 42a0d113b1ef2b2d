//! What was fetched of a file, for the files like it that are read next (`alike`).
//!
//! An archive may have a million members, and a program may open it for each that it reads. So
//! what is looked at is what was read, and not all that there is.
//!
//! The file does not know which of it was read in vain (`read::path::columns`). Source:
//! docs/decisions/0103, 0130.

use alloc::vec::Vec;

use super::Layout;
use super::chunk::{Chunk, chunks_of};

impl Layout {
    /// The chunks of one group that were fetched for readers of it, in any order, and whether
    /// several groups were read.
    pub(crate) fn fetched(&self) -> Option<(Vec<Chunk>, bool)> {
        let run = self.runs.iter().max_by_key(|run| run.groups.len())?;
        // The latest may not have been read to its end.
        let &(group, _) = run.groups.iter().rev().nth(1).or(run.groups.back())?;
        let columns = run.columns_of(group).into_iter().flatten().chain(&run.columns).copied();
        let mut places = self.places_of(group, columns.collect());
        let is_of_group = |&at: &usize| self.chunks.get(at).is_some_and(|chunk| chunk.group == group);
        places.extend(run.rows.iter().flat_map(|&(from, to)| from..=to).filter(is_of_group));
        places.sort_unstable();
        places.dedup();
        Some((places.into_iter().map(|at| self.chunks[at]).collect(), run.groups.len() > 1))
    }

    /// The places of these `columns` of a group, in any order. Those of an archive have the order
    /// of its chunks: what it has beside them is not looked at.
    pub(super) fn places_of(&self, group: u32, mut columns: Vec<u32>) -> Vec<usize> {
        if self.is_archive() {
            let is_there = |&at: &usize| self.chunks.get(at).is_some_and(|chunk| chunk.group == group);
            return columns.into_iter().map(|column| column as usize).filter(is_there).collect();
        }
        columns.sort_unstable();
        let first = self.chunks.partition_point(|chunk| chunk.group < group);
        let own = chunks_of(&self.chunks, group).iter().enumerate();
        own.filter(|(_, chunk)| columns.binary_search(&chunk.column).is_ok()).map(|(nth, _)| first + nth).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Extent, Nanos};

    /// The same, of all chunks that there are.
    fn of_all(layout: &Layout) -> Vec<Chunk> {
        let run = &layout.runs[0];
        let was_fetched = |&(at, chunk): &(usize, &Chunk)| {
            let is_of_row = run.rows.iter().any(|&(from, to)| (from..=to).contains(&at));
            is_of_row || run.has_read(*chunk) || run.columns.binary_search(&chunk.column).is_ok()
        };
        layout.chunks.iter().enumerate().filter(was_fetched).map(|(_, &chunk)| chunk).collect()
    }

    #[test]
    fn what_was_fetched_of_an_archive_is_found_as_that_of_a_group_is() {
        for is_archive in [true, false] {
            for starts in [&[2_000, 120, 160, 200, 240][..], &[4_000, 80, 2_040], &[0, 40, 80, 120]] {
                let mut layout = Layout::default();
                for nth in 0..200 {
                    let extent = Extent::new(nth * 40, nth * 40 + 40);
                    if is_archive {
                        layout.push_member(extent);
                    } else {
                        layout.push(Chunk { extent, group: 0, column: nth as u32 });
                    }
                }
                for (nth, &start) in starts.iter().enumerate() {
                    layout.observe(Nanos(nth as u64), Extent::new(start, start + 40), true, true);
                }
                let fetched = layout.fetched().map(|(fetched, _)| fetched).unwrap_or_default();
                assert!(fetched.len() >= starts.len(), "{starts:?}");
                assert_eq!(fetched, of_all(&layout), "{starts:?}");
            }
        }
    }
}
