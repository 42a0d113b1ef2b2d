//! What a worker does: an endless row of tasks, each a pattern with its steps.
//!
//! ```text
//!   seed, process ──> deck 0: every pattern once, shuffled ──> task 0 .. 11
//!                     deck 1: every pattern once, shuffled ──> task 12 .. 23
//!   seed, process, number ──> the files, offsets and lengths of that task
//! ```
//!
//! A task follows from seed, process and number alone, so a worker that was killed goes on with
//! the next task, and a run can be repeated. Half of the files are chosen by their bytes, half by
//! their number: large and small ones are both read.

use foreread_device::Random;

use crate::verify::pattern::Pattern;
use crate::verify::tree::Tree;

/// The longest read. The mount splits it into requests of 128 KiB at most.
pub(crate) const READ_BYTES_MAX: u32 = 1 << 20;
/// The unit of `O_DIRECT` and of mappings.
const PAGE_BYTES: u64 = 4096;
/// Reads of one task. Lower: too few for readahead to recognise a pattern. Higher: a worker seldom
/// changes its pattern.
const STEPS: std::ops::Range<u64> = 16..48;
/// The most streams of the interleaved pattern.
const STREAMS_MAX: u64 = 6;
/// The files that all processes open and close at once.
const RACED_FILES: u64 = 4;
/// The longest pause of a slow reader: 20 ms, with the shortest reads about 200 KB/s.
const PAUSE_US_MAX: u64 = 20_000;

/// How bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Read,
    Direct,
    Mapped,
}

/// One step of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// `len` bytes at `offset` of the file of this index: all of them, or up to its end.
    Read { file: usize, offset: u64, len: u32, how: How, pause_us: u64, reopen: bool },
    /// The names of the listing of this index.
    List { listing: usize },
}

/// Steps of one pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) pattern: Pattern,
    /// The kernel is told to drop what it holds of a file when it is opened, so the reads reach
    /// the mount.
    pub(crate) dropping: bool,
    pub(crate) steps: Vec<Step>,
}

/// Where the choices of one worker come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choices {
    pub(crate) seed: u64,
    pub(crate) process: u64,
}

impl Choices {
    /// Task `number`, over a tree with at least a file.
    pub(crate) fn task(self, number: u64, tree: &Tree) -> Task {
        let patterns = Pattern::ALL.len() as u64;
        let mut deck = Pattern::ALL;
        let mut random = self.random(number / patterns, 1);
        for last in (1..deck.len()).rev() {
            deck.swap(last, random.below(last as u64 + 1) as usize);
        }
        let pattern = deck[(number % patterns) as usize];
        let mut random = self.random(number, 2);
        let dropping = random.below(4) > 0;
        let mut drawn = Drawn { tree, random, pauses: false, how: How::Read, steps: Vec::new() };
        self.draw(pattern, &mut drawn);
        Task { pattern, dropping, steps: drawn.steps }
    }

    fn random(self, number: u64, purpose: u64) -> Random {
        [self.process, number, purpose].iter().fold(Random::new(self.seed), |mut random, part| {
            Random::new(random.next_u64() ^ part.wrapping_mul(0xbf58_476d_1ce4_e5b9))
        })
    }

    fn draw(self, pattern: Pattern, drawn: &mut Drawn<'_>) {
        let steps = STEPS.start + drawn.random.below(STEPS.end - STEPS.start);
        match pattern {
            Pattern::Sequential => drawn.onwards(steps),
            Pattern::Slow => {
                drawn.pauses = true;
                drawn.onwards(steps / 2);
            }
            Pattern::Backward => {
                let (file, size) = drawn.file();
                let record = u64::from(drawn.len());
                let mut end = size - drawn.start_in(size);
                for _ in 0..steps {
                    let offset = end.saturating_sub(record);
                    drawn.read(file, offset, (end - offset).max(1) as u32);
                    end = offset;
                    if end == 0 {
                        break;
                    }
                }
            }
            Pattern::Strided => {
                let (file, size) = drawn.file();
                let record = drawn.len() / 4 + 1;
                let stride = u64::from(record) * (2 + drawn.random.below(30));
                let start = drawn.start_in(size);
                for step in 0..steps {
                    let offset = start + step * stride;
                    if step > 0 && offset >= size {
                        break;
                    }
                    drawn.read(file, offset, record);
                }
            }
            Pattern::Interleaved => {
                let (file, size) = drawn.file();
                let streams = 2 + drawn.random.below(STREAMS_MAX - 1);
                let record = drawn.len() / 2 + 1;
                let mut places: Vec<u64> = (0..streams).map(|_| drawn.random.below(size)).collect();
                for step in 0..steps {
                    let place = &mut places[(step % streams) as usize];
                    let offset = *place;
                    *place += u64::from(record);
                    drawn.read(file, offset, record);
                }
            }
            Pattern::Random => {
                for _ in 0..steps {
                    let (file, size) = drawn.file();
                    let (offset, len) = (drawn.random.below(size), drawn.len());
                    drawn.read(file, offset, len);
                }
            }
            Pattern::Mapped => {
                drawn.how = How::Mapped;
                for _ in 0..steps {
                    let (file, size) = drawn.file();
                    let offset = drawn.random.below(size) / PAGE_BYTES * PAGE_BYTES;
                    let len = 1 + drawn.random.below(64 * PAGE_BYTES) as u32;
                    drawn.read(file, offset, len);
                }
            }
            Pattern::Direct => {
                drawn.how = How::Direct;
                let (file, size) = drawn.file();
                let (len, ordered) = (u64::from(drawn.len()).next_multiple_of(PAGE_BYTES), drawn.random.below(2) == 0);
                let mut offset = drawn.random.below(size) / PAGE_BYTES * PAGE_BYTES;
                for _ in 0..steps {
                    drawn.read(file, offset, len as u32);
                    offset = if ordered { offset + len } else { drawn.random.below(size) / PAGE_BYTES * PAGE_BYTES };
                    if offset >= size {
                        break;
                    }
                }
            }
            Pattern::Heads | Pattern::Tails => {
                let files = drawn.tree.files.len();
                let first = drawn.random.below(files as u64) as usize;
                let len = drawn.len();
                for step in 0..(steps as usize).min(files) {
                    let file = (first + step) % files;
                    let size = drawn.tree.files[file].size_bytes;
                    // A tail is asked for past the end of the file.
                    let offset = if pattern == Pattern::Heads { 0 } else { size.saturating_sub(u64::from(len)) };
                    drawn.read(file, offset, if pattern == Pattern::Heads { len } else { len + 1 });
                }
            }
            Pattern::Listing => {
                let listings = drawn.tree.listings.len() as u64;
                for _ in 0..=steps / 16 {
                    let listing = drawn.random.below(listings) as usize;
                    drawn.steps.push(Step::List { listing });
                }
            }
            Pattern::Race => {
                // The same files for all processes.
                let mut shared = Random::new(self.seed);
                let files = drawn.tree.files.len() as u64;
                let raced: Vec<usize> = (0..RACED_FILES).map(|_| shared.below(files) as usize).collect();
                for _ in 0..steps {
                    let file = raced[drawn.random.below(RACED_FILES) as usize];
                    let offset = match drawn.random.below(2) {
                        0 => 0,
                        _ => drawn.random.below(drawn.tree.files[file].size_bytes),
                    };
                    let len = 1 + drawn.random.below(4 * PAGE_BYTES) as u32;
                    drawn.steps.push(Step::Read { file, offset, len, how: How::Read, pause_us: 0, reopen: true });
                }
            }
        }
    }
}

/// The steps of a task as they are drawn.
struct Drawn<'t> {
    tree: &'t Tree,
    random: Random,
    pauses: bool,
    how: How,
    steps: Vec<Step>,
}

impl Drawn<'_> {
    /// A file and its length.
    fn file(&mut self) -> (usize, u64) {
        let file = match self.random.below(2) {
            0 => self.random.below(self.tree.files.len() as u64) as usize,
            _ => self.tree.file_at(self.random.below(self.tree.bytes())),
        };
        (file, self.tree.files[file].size_bytes)
    }

    /// A length: each power of two from 512 bytes to 512 KiB is as likely, half of them odd.
    fn len(&mut self) -> u32 {
        let power = 512 << self.random.below(11);
        let len = if self.random.below(2) == 0 { power } else { power + self.random.below(power) };
        (len as u32).min(READ_BYTES_MAX - 1)
    }

    /// A distance from the end of a file at which reads begin: 0 half of the time.
    fn start_in(&mut self, size: u64) -> u64 {
        if self.random.below(2) == 0 { 0 } else { self.random.below(size) }
    }

    fn read(&mut self, file: usize, offset: u64, len: u32) {
        let pause_us = if self.pauses { self.random.below(PAUSE_US_MAX) } else { 0 };
        self.steps.push(Step::Read { file, offset, len, how: self.how, pause_us, reopen: false });
    }

    /// Reads of one file in order, to its end.
    fn onwards(&mut self, steps: u64) {
        let (file, size) = self.file();
        let (record, mixed) = (self.len(), self.random.below(3) == 0);
        let mut offset = self.start_in(size);
        for step in 0..steps {
            if step > 0 && offset >= size {
                break;
            }
            let len = if mixed { self.len() } else { record };
            self.read(file, offset, len);
            offset += u64::from(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use super::*;
    use crate::verify::tree::Kind;

    fn tree(sizes: &[u64]) -> Tree {
        let entries = || sizes.iter().enumerate().map(|(n, &size_bytes)| (format!("{n}"), Kind::File { size_bytes }));
        let Ok(tree) = Tree::of(|_| Ok::<_, Infallible>(entries().collect()));
        tree
    }

    fn tasks(seed: u64, process: u64, tree: &Tree) -> Vec<Task> {
        (0..240).map(|number| Choices { seed, process }.task(number, tree)).collect()
    }

    #[test]
    fn a_plan_follows_from_seed_and_process() {
        let tree = tree(&[0, 1, 4096, 100_000, 50 << 20]);
        assert_eq!(tasks(7, 3, &tree), tasks(7, 3, &tree));
        assert_ne!(tasks(7, 3, &tree), tasks(7, 4, &tree));
        assert_ne!(tasks(7, 3, &tree), tasks(8, 3, &tree));
    }

    #[test]
    fn each_deck_has_every_pattern_once() {
        let tree = tree(&[1 << 20]);
        for deck in tasks(1, 0, &tree).chunks(Pattern::ALL.len()) {
            let patterns: BTreeSet<Pattern> = deck.iter().map(|task| task.pattern).collect();
            assert_eq!(patterns.len(), Pattern::ALL.len());
            assert!(deck.iter().all(|task| !task.steps.is_empty()), "{deck:?}");
        }
    }

    #[test]
    fn steps_fit_buffers_and_the_rules_of_direct_reads_and_mappings() {
        // Empty files only: no pattern may divide by their length or look for a byte.
        for tree in [tree(&[0, 0]), tree(&[1]), tree(&[0, 4096, 300_000, 1 << 40])] {
            for step in tasks(5, 1, &tree).iter().flat_map(|task| &task.steps) {
                let Step::Read { file, offset, len, how, .. } = *step else { continue };
                assert!((1..=READ_BYTES_MAX).contains(&len), "{step:?}");
                assert!(offset <= tree.files[file].size_bytes || how == How::Read, "{step:?}");
                assert!(how == How::Read || offset % PAGE_BYTES == 0, "{step:?}");
                assert!(how != How::Direct || u64::from(len) % PAGE_BYTES == 0, "{step:?}");
            }
        }
    }

    #[test]
    fn races_of_all_processes_are_for_the_same_few_files() {
        let tree = tree(&[4096; 1000]);
        let raced = |process| -> BTreeSet<usize> {
            let tasks = tasks(9, process, &tree);
            let steps = tasks.iter().filter(|task| task.pattern == Pattern::Race).flat_map(|task| task.steps.clone());
            steps.filter_map(|step| if let Step::Read { file, .. } = step { Some(file) } else { None }).collect()
        };
        assert!(raced(0).len() <= RACED_FILES as usize);
        assert_eq!(raced(0), raced(1));
    }

    #[test]
    fn at_most_half_of_the_bytes_are_in_order() {
        let tree = tree(&[64 << 20; 20]);
        let (mut bytes, mut ordered, mut before) = (0, 0, None);
        for process in 0..8 {
            for step in tasks(3, process, &tree).iter().flat_map(|task| &task.steps) {
                let Step::Read { file, offset, len, .. } = *step else { continue };
                bytes += u64::from(len);
                ordered += if before == Some((file, offset)) { u64::from(len) } else { 0 };
                before = Some((file, offset + u64::from(len)));
            }
        }
        assert!(ordered * 2 < bytes && ordered * 20 > bytes, "{ordered} of {bytes}");
    }
}
