//! Rules of directory readahead: what is read ahead of a program in a tree.

use std::collections::{HashMap, VecDeque};

use super::cache::Cache;
use super::layout::Layout;
use super::program::Step;

/// Hears what programs do, and reads ahead.
pub(crate) trait Rule {
    /// A program opens a directory, lists entries, or comes to a file. Steps that it must do
    /// before go into `first`.
    fn step(&mut self, layout: &Layout, cache: &mut Cache, context: u32, step: Step, first: &mut VecDeque<Step>);

    /// Requested blocks have arrived.
    fn came(&mut self, _: &Layout, _cache: &mut Cache) {}

    /// Blocks that each window had to fetch, in the order of the windows.
    fn windows(&self) -> &[u32] {
        &[]
    }
}

/// No readahead.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Rule for Nothing {
    fn step(&mut self, _: &Layout, _: &mut Cache, _: u32, _: Step, _: &mut VecDeque<Step>) {}
}

/// Readahead of 128 KiB at twice the rate of the reader.
///
/// Every call moves a cursor by two blocks. At each multiple of 32 blocks, the next 32 blocks of
/// the directory are requested one by one, each after its position was looked up.
///
/// Origin: Wu Fengguang, *ext3 readdir readahead* (2007).
#[derive(Debug, Default)]
pub(crate) struct Twice {
    /// The cursor of each open directory.
    cursors: HashMap<(u32, u32), u32>,
    /// The position of a window is computed eight times too large, and the blocks there are read.
    misplaced: bool,
    windows: Vec<u32>,
}

impl Twice {
    pub(crate) fn new(misplaced: bool) -> Self {
        Self { misplaced, ..Self::default() }
    }
}

impl Rule for Twice {
    fn step(&mut self, layout: &Layout, cache: &mut Cache, context: u32, step: Step, first: &mut VecDeque<Step>) {
        let Step::Call { dir: number, entry } = step else { return };
        let dir = &layout.dirs[number as usize];
        let cursor = self.cursors.entry((context, number)).and_modify(|cursor| *cursor += 2).or_insert(0);
        if entry == 0 {
            *cursor = 0;
        }
        let from = *cursor as usize;
        if !from.is_multiple_of(WINDOW) || from >= dir.blocks.len() {
            return;
        }
        if self.misplaced {
            first.push_back(Step::Ahead { at: dir.blocks[from] * MISPLACED, blocks: WINDOW as u32 });
            return;
        }
        let mut missing = 0;
        for logical in from..dir.blocks.len().min(from + WINDOW) {
            let at = dir.blocks[logical];
            missing += u32::from(cache.has(at).is_none());
            let map = dir.map(logical).filter(|&map| cache.has(map) != Some(true));
            let waits = first.iter().any(|step| matches!(step, Step::Need { .. }));
            if let Some(map) = map.filter(|_| !waits) {
                first.push_back(Step::Need { at: map, blocks: 1 });
            }
            first.push_back(Step::Ahead { at, blocks: 1 });
        }
        self.windows.push(missing);
    }

    fn windows(&self) -> &[u32] {
        &self.windows
    }
}

/// Factor of the wrong position: the sectors of a block.
pub(crate) const MISPLACED: u64 = 8;

/// Blocks of a window.
const WINDOW: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::profile;
    use crate::tree::index::Made;
    use crate::tree::plan::Plan;

    #[test]
    fn every_sixteenth_call_requests_a_window() {
        let mut layout = Layout::new(1);
        let root = layout.tree(&Plan { directories: Vec::new(), files: 20_000, file_bytes: 0 }, 6, Made::Otherwise);
        let blocks = layout.dirs[root].blocks.len();
        let mut cache = Cache::new(profile::find("hdd-w2").unwrap(), None);
        let mut rule = Twice::new(false);
        let mut with_a_window = Vec::new();
        for call in 0..100 {
            let mut first = VecDeque::new();
            rule.step(&layout, &mut cache, 0, Step::Call { dir: root as u32, entry: call * 128 }, &mut first);
            let ahead = first.iter().filter(|step| matches!(step, Step::Ahead { .. })).count();
            if ahead > 0 {
                with_a_window.push((call as usize, ahead));
            }
            // The indirect block of the thirteenth block must be read first.
            assert_eq!(first.iter().any(|step| matches!(step, Step::Need { .. })), ahead > 0);
        }
        let wanted: Vec<_> = (0..blocks.div_ceil(32)).map(|n| (n * 16, 32.min(blocks - n * 32))).collect();
        assert_eq!(with_a_window, wanted);
    }
}
