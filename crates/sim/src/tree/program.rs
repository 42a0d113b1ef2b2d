//! The steps of programs in a tree: the same under every policy.
//!
//! ```text
//!   find   list a directory ──> each entry, until no directory is left: inode ──> directory: find
//!   grep   the same, but every entry, and each file is read
//!   cp     one file, with the readahead of a kernel
//! ```
//!
//! Both read all names of a directory before they look at the first (find 4.2, grep 2.5), and know
//! its number of subdirectories from its link count.

use super::index::BLOCK_BYTES;
use super::layout::{Child, Dir, Layout};

/// A step. Blocks are numbered from the start of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A directory is opened.
    Open { dir: u32 },
    /// A `getdents` call for the entries from this one on.
    Call { dir: u32, entry: u32 },
    /// The program waits until these blocks are resident.
    Need { at: u64, blocks: u32 },
    /// The program requests blocks, and does not wait.
    Ahead { at: u64, blocks: u32 },
    /// The program opens the file with these blocks.
    File { dir: u32, entry: u32, at: u64, blocks: u32 },
    /// The program computes.
    Think { ns: u64 },
}

/// `find` over a tree.
pub(crate) fn find(layout: &Layout, root: usize) -> Vec<Step> {
    let mut steps = vec![need(layout.dirs[root].inode)];
    walk(layout, root, false, &mut steps);
    steps
}

/// `grep -r` over a tree.
pub(crate) fn grep(layout: &Layout, root: usize) -> Vec<Step> {
    let mut steps = vec![need(layout.dirs[root].inode)];
    walk(layout, root, true, &mut steps);
    steps
}

/// `cp` of a file of `blocks` at `at` to nowhere.
pub(crate) fn copy(at: u64, blocks: u64) -> Vec<Step> {
    let window = |number: u64| {
        let first = number * COPY_BLOCKS;
        (first < blocks).then(|| (at + first, COPY_BLOCKS.min(blocks - first) as u32))
    };
    let mut steps = Vec::new();
    let mut number = 0;
    steps.extend(window(0).map(|(at, blocks)| Step::Ahead { at, blocks }));
    while let Some((at, blocks)) = window(number) {
        number += 1;
        // The mark is at the start of a window: the next window is requested when the reader comes
        // to it.
        steps.push(Step::Need { at, blocks: 1 });
        steps.extend(window(number).map(|(at, blocks)| Step::Ahead { at, blocks }));
        steps.push(Step::Need { at, blocks });
        steps.push(Step::Think { ns: u64::from(blocks) * COPY_NS });
    }
    steps
}

fn need(at: u64) -> Step {
    Step::Need { at, blocks: 1 }
}

fn walk(layout: &Layout, number: usize, reads: bool, steps: &mut Vec<Step>) {
    let dir = &layout.dirs[number];
    list(dir, number as u32, steps);
    let is_dir = |child: &&Child| matches!(child, Child::Directory(_));
    let mut left = dir.children.iter().filter(is_dir).count();
    for (entry, &child) in (0..).zip(&dir.children) {
        match child {
            Child::Directory(below) => {
                left -= 1;
                steps.push(need(layout.dirs[below].inode));
                walk(layout, below, reads, steps);
            }
            Child::File { inode, at, blocks } => {
                if reads || left > 0 {
                    steps.push(need(inode));
                }
                if reads {
                    steps.push(Step::File { dir: number as u32, entry, at, blocks });
                    steps.push(Step::Need { at, blocks });
                    steps.push(Step::Think { ns: GREP_NS });
                }
            }
        }
    }
}

/// A directory read from its first entry to its last.
fn list(dir: &Dir, number: u32, steps: &mut Vec<Step>) {
    let a_call = (CALL_BYTES / dir.entry_out_bytes) as u32;
    let entries = dir.children.len() as u32;
    let mut leaves = dir.index.leaves.iter();
    let mut read = 0;
    steps.push(Step::Open { dir: number });
    // The last call finds no more entries.
    for first in (0..entries).step_by(a_call as usize).chain([entries]) {
        steps.push(Step::Call { dir: number, entry: first });
        if first == 0 {
            dir.index.nodes.iter().for_each(|&node| block(dir, node, steps));
        }
        while read < entries.min(first + a_call) {
            let Some((leaf, held)) = leaves.next() else { break };
            block(dir, *leaf, steps);
            read = held.end;
        }
        steps.push(Step::Think { ns: u64::from(a_call.min(entries - first)) * FIND_NS });
    }
}

/// A block of a directory, after the indirect block that maps it.
fn block(dir: &Dir, logical: u32, steps: &mut Vec<Step>) {
    steps.extend(dir.map(logical as usize).map(need));
    steps.push(need(dir.blocks[logical as usize]));
}

/// Bytes of the buffer of a `getdents` call: a page, as of 2007.
const CALL_BYTES: u64 = 4096;

/// CPU time of one listed entry, in ns. Origin: 0.16 s for 100,000 entries.
const FIND_NS: u64 = 1_600;

/// CPU time of one searched file, in ns. Origin: 5.7 s for 100,000 files.
const GREP_NS: u64 = 57_000;

/// CPU time of one copied page, in ns. Origin: 0.55 s for 700 MB.
const COPY_NS: u64 = 3_200;

/// Blocks of a window of the copied file: 512 KiB. Origin: the published copy waited 1,246 times,
/// once for 560 KB.
const COPY_BLOCKS: u64 = (512 << 10) / BLOCK_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::index::Made;
    use crate::tree::plan::Plan;

    fn needed(steps: &[Step]) -> Vec<u64> {
        steps.iter().filter_map(|step| if let Step::Need { at, .. } = step { Some(*at) } else { None }).collect()
    }

    #[test]
    fn find_looks_at_no_file_after_the_last_directory() {
        let mut layout = Layout::new(1);
        let root = layout.tree(&Plan::flat(1, 50, 8192), 12, Made::AsListed);
        let dirs = &layout.dirs;
        assert_eq!(needed(&find(&layout, root)), [dirs[0].inode, dirs[0].blocks[0], dirs[1].inode, dirs[1].blocks[0]]);
        let calls = find(&layout, root).iter().filter(|step| matches!(step, Step::Call { dir: 1, .. })).count();
        assert_eq!(calls, 2, "50 entries of 32 bytes, and the call that finds no more");
    }

    #[test]
    fn grep_reads_all_of_every_file() {
        let mut layout = Layout::new(1);
        let root = layout.tree(&Plan::flat(2, 50, 8192), 12, Made::AsListed);
        let steps = grep(&layout, root);
        let read = steps.iter().map(|step| if let Step::Need { blocks: 2, .. } = step { 2 } else { 0 }).sum::<u32>();
        assert_eq!(read, 200);
    }

    #[test]
    fn a_copy_requests_the_next_window_at_the_start_of_each() {
        let steps = copy(1000, 2 * COPY_BLOCKS + 5);
        assert_eq!(steps[..2], [Step::Ahead { at: 1000, blocks: 128 }, Step::Need { at: 1000, blocks: 1 }]);
        assert_eq!(steps[2], Step::Ahead { at: 1128, blocks: 128 });
        assert_eq!(steps.last(), Some(&Step::Think { ns: 5 * COPY_NS }));
        assert!(steps.contains(&Step::Ahead { at: 1256, blocks: 5 }));
    }
}
