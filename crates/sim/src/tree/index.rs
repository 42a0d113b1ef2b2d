//! A directory of a file system that indexes names by a hash (htree): which block holds each
//! entry.
//!
//! ```text
//!  block 0: root ──> [node ──>] leaves by hash
//!  a full leaf gives its upper half to a new block at the end of the directory
//!
//!  listing: leaf after leaf by hash, so it does not follow the order of blocks, unless entries
//!  were made in the order of their hashes, as in a copied tree: then each leaf stays half full
//! ```
//!
//! A directory of one block has no index. Origin: Daniel Phillips, *A directory index for ext2*
//! (2001), and the format that came of it.

use std::ops::Range;

use foreread_device::Random;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// Most leaves of the root or of a node below it: 8 bytes each, less a head.
const NODE_MAX: usize = 508;

/// The order in which a directory's entries were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// By hash: the directory was copied.
    AsListed,
    /// In any other order.
    Otherwise,
}

/// The blocks of a directory's entries. Blocks are numbered from the start of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    /// How many entries existed when each block was added.
    pub(crate) grown_at: Vec<u32>,
    /// The root, and nodes below it.
    pub(crate) nodes: Vec<u32>,
    /// In the order of the listing: a block, and its range of entries.
    pub(crate) leaves: Vec<(u32, Range<u32>)>,
    /// The order in which entries were made, each by its place in the listing.
    pub(crate) made: Vec<u32>,
}

impl Index {
    /// A directory of `entries`, each of `entry_bytes`.
    pub(crate) fn new(entries: u32, entry_bytes: u64, order: Made, random: &mut Random) -> Self {
        let mut made: Vec<u32> = (0..entries).collect();
        if order == Made::Otherwise {
            for at in (1..made.len()).rev() {
                made.swap(at, random.below(at as u64 + 1) as usize);
            }
        }
        let room = (BLOCK_BYTES / entry_bytes) as usize;
        // By hash: the first entry of the leaf, its block, its entries.
        let mut leaves: Vec<(u32, u32, Vec<u32>)> = vec![(0, 0, Vec::new())];
        let (mut grown_at, mut nodes) = (vec![0], Vec::new());
        for (count, &entry) in (0..).zip(&made) {
            let at = leaves.partition_point(|&(first, ..)| first <= entry) - 1;
            if leaves[at].2.len() == room {
                if nodes.is_empty() {
                    // The first block becomes the root, and its entries move to a new block.
                    nodes.push(0);
                    leaves[at].1 = 1;
                    grown_at.push(count);
                }
                let block = grown_at.len() as u32;
                grown_at.push(count);
                let upper = leaves[at].2.split_off(room / 2);
                leaves.insert(at + 1, (upper[0], block, upper));
                let wanted = if leaves.len() > NODE_MAX { 1 + leaves.len().div_ceil(NODE_MAX) } else { 1 };
                while nodes.len() < wanted {
                    nodes.push(grown_at.len() as u32);
                    grown_at.push(count);
                }
            }
            let at = leaves.partition_point(|&(first, ..)| first <= entry) - 1;
            let held = &mut leaves[at].2;
            let place = held.partition_point(|&other| other < entry);
            held.insert(place, entry);
        }
        let mut next = 0;
        let leaves = leaves.into_iter().map(|(_, block, held)| {
            let first = next;
            next += held.len() as u32;
            (block, first..next)
        });
        Self { leaves: leaves.collect(), grown_at, nodes, made }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_directory_has_as_many_blocks_as_the_published_one() {
        let index = Index::new(110_000, 16, Made::Otherwise, &mut Random::new(1));
        // 541 pages, a tenth more or less.
        assert!((487..=595).contains(&index.grown_at.len()), "{}", index.grown_at.len());
        assert_eq!(index.leaves.last().unwrap().1.end, 110_000);
        let in_order = index.leaves.windows(2).filter(|pair| pair[0].0 < pair[1].0).count();
        assert!((200..340).contains(&in_order), "{in_order} of 540 blocks follow the one before");
    }

    #[test]
    fn a_copy_is_half_full_and_in_order() {
        let index = Index::new(1000, 28, Made::AsListed, &mut Random::new(1));
        let blocks: Vec<u32> = index.leaves.iter().map(|leaf| leaf.0).collect();
        assert!(blocks.is_sorted() && blocks.len() == 13, "{blocks:?}");
        assert_eq!(index.nodes, [0]);
    }

    #[test]
    fn a_small_directory_has_no_index() {
        let index = Index::new(100, 28, Made::Otherwise, &mut Random::new(1));
        assert_eq!((index.grown_at.len(), index.nodes.len(), index.leaves.len()), (1, 0, 1));
    }
}
