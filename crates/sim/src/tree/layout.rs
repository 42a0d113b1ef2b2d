//! Trees on a disk, laid out as ext3 does.
//!
//! ```text
//!  groups of 128 MiB:   | head | inodes, 2 MiB | blocks in the order of allocation | head | ..
//!  a directory:         d f f f .. f d f f f .. f d i f f ..
//!                       d: its block, f: a block of one of its files, i: its indirect block
//! ```
//!
//! A directory goes into the group of its parent while there is room, and so do its files. Blocks
//! are allocated in order, so the blocks of a directory that grew lie among its files. From the
//! thirteenth on they are found through an indirect block.

use foreread_device::Random;

use super::index::{BLOCK_BYTES, Index, Made};
use super::plan::Plan;

/// Blocks of a group.
const GROUP_BLOCKS: u64 = 32_768;
const INODES_AT: u64 = 4;
const BLOCKS_AT: u64 = INODES_AT + INODES * INODE_BYTES / BLOCK_BYTES;
/// Inodes of a group: one for 8 KiB.
const INODES: u64 = GROUP_BLOCKS * BLOCK_BYTES / 8192;
const INODE_BYTES: u64 = 128;
/// Blocks of a file that are found without an indirect block.
pub(crate) const DIRECT: usize = 12;

/// An entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Child {
    Directory(usize),
    /// The block of its inode, its first block and how many it has.
    File {
        inode: u64,
        at: u64,
        blocks: u32,
    },
}

/// A directory. Blocks are numbered from the start of the disk.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) inode: u64,
    pub(crate) index: Index,
    pub(crate) blocks: Vec<u64>,
    pub(crate) indirect: Option<u64>,
    pub(crate) children: Vec<Child>,
    /// Bytes of an entry in a `getdents` reply.
    pub(crate) entry_out_bytes: u64,
}

/// All directories on the disk.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) dirs: Vec<Dir>,
    groups: Vec<Group>,
    random: Random,
}

#[derive(Debug, Clone, Copy)]
struct Group {
    inodes: u64,
    block: u64,
}

impl Layout {
    pub(crate) fn new(seed: u64) -> Self {
        Self { dirs: Vec::new(), groups: Vec::new(), random: Random::new(seed) }
    }

    /// Makes a tree with names of `name_bytes`; returns its root.
    pub(crate) fn tree(&mut self, plan: &Plan, name_bytes: u64, order: Made) -> usize {
        let group = self.groups.iter().rposition(|group| group.inodes > 0).map_or(0, |last| last + 1);
        self.dir(plan, name_bytes, order, group)
    }

    /// Makes a file of `blocks` behind everything else, in one piece; returns its first block.
    pub(crate) fn file(&mut self, blocks: u64) -> u64 {
        let at = self.groups.len() as u64 * GROUP_BLOCKS;
        let last = self.groups.len() as u64 + blocks.div_ceil(GROUP_BLOCKS);
        self.groups.resize(last as usize, Group { inodes: INODES, block: GROUP_BLOCKS });
        at
    }

    fn group(&mut self, group: usize) -> &mut Group {
        while self.groups.len() <= group {
            self.groups.push(Group { inodes: 0, block: BLOCKS_AT });
        }
        &mut self.groups[group]
    }

    /// The block of a new inode, in that group or a later one, and its group.
    fn inode(&mut self, mut group: usize) -> (u64, usize) {
        while self.group(group).inodes == INODES || self.group(group).block == GROUP_BLOCKS {
            group += 1;
        }
        let of = self.group(group);
        let block = INODES_AT + of.inodes * INODE_BYTES / BLOCK_BYTES;
        of.inodes += 1;
        (group as u64 * GROUP_BLOCKS + block, group)
    }

    /// The first of `blocks` new contiguous blocks.
    fn blocks(&mut self, mut group: usize, blocks: u64) -> u64 {
        while self.group(group).block + blocks > GROUP_BLOCKS {
            group += 1;
        }
        let of = self.group(group);
        let block = of.block;
        of.block += blocks;
        group as u64 * GROUP_BLOCKS + block
    }

    fn dir(&mut self, plan: &Plan, name_bytes: u64, order: Made, near: usize) -> usize {
        let entries = plan.files + plan.directories.len() as u32;
        let entry_bytes = (8 + name_bytes).next_multiple_of(4);
        let index = Index::new(entries, entry_bytes, order, &mut self.random);
        let (inode, group) = self.inode(near);
        let number = self.dirs.len();
        let entry_out_bytes = (20 + name_bytes).next_multiple_of(8);
        let children = vec![Child::Directory(number); entries as usize];
        self.dirs.push(Dir { inode, index, blocks: Vec::new(), indirect: None, children, entry_out_bytes });
        // Directories are spread evenly among the files.
        let (mut below, mut rest) = (plan.directories.iter(), u64::from(entries));
        let mut directories = plan.directories.len() as u64;
        for count in 0..entries {
            self.grow(number, count, group);
            let entry = self.dirs[number].index.made[count as usize] as usize;
            let child = if self.random.below(rest) < directories {
                directories -= 1;
                let plan = below.next().map(|plan| self.dir(plan, name_bytes, order, group));
                Child::Directory(plan.unwrap_or(number))
            } else {
                let (inode, group) = self.inode(group);
                let blocks = plan.file_bytes.div_ceil(BLOCK_BYTES);
                Child::File { inode, at: self.blocks(group, blocks), blocks: blocks as u32 }
            };
            rest -= 1;
            self.dirs[number].children[entry] = child;
        }
        self.grow(number, entries, group);
        number
    }

    /// Gives a directory the blocks that it needs for `count` entries.
    fn grow(&mut self, number: usize, count: u32, group: usize) {
        loop {
            let Dir { index, blocks, indirect, .. } = &self.dirs[number];
            if index.grown_at.get(blocks.len()).is_none_or(|&at| at > count) {
                return;
            }
            if blocks.len() == DIRECT && indirect.is_none() {
                self.dirs[number].indirect = Some(self.blocks(group, 1));
            }
            let block = self.blocks(group, 1);
            self.dirs[number].blocks.push(block);
        }
    }
}

impl Dir {
    /// The indirect block that must be read to find block `logical`.
    pub(crate) fn map(&self, logical: usize) -> Option<u64> {
        self.indirect.filter(|_| logical >= DIRECT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_grows_lies_among_its_files() {
        let mut layout = Layout::new(1);
        layout.tree(&Plan::flat(2, 1000, 8192), 17, Made::AsListed);
        let dir = &layout.dirs[1];
        assert_eq!(dir.blocks.len(), 14);
        // 73 files of two blocks between two of its blocks, once it has an index.
        assert!(dir.blocks[2..12].windows(2).all(|pair| pair[1] - pair[0] == 147), "{:?}", dir.blocks);
        assert_eq!(dir.indirect.map(|indirect| indirect + 1), Some(dir.blocks[12]));
        assert_eq!((dir.map(11), dir.map(12)), (None, dir.indirect));
    }

    #[test]
    fn no_two_things_share_a_block() {
        let mut layout = Layout::new(1);
        layout.tree(&Plan::system(3_000, 200, 16_384, 1), 12, Made::Otherwise);
        let file = layout.file(100);
        let mut blocks: Vec<u64> = (file..file + 100).collect();
        for dir in &layout.dirs {
            blocks.extend(dir.blocks.iter().chain(&dir.indirect));
            for child in &dir.children {
                if let Child::File { at, blocks: count, .. } = *child {
                    blocks.extend(at..at + u64::from(count));
                }
            }
        }
        let all = blocks.len();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), all);
    }
}
