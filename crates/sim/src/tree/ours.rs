//! Our directory policy as a rule: steps of programs become its events, and its actions requests
//! for blocks.
//!
//! ```text
//!  List   inode ──> root, of a long listing ──> blocks ──> behind an indirect one ──> Listed
//!  Fetch  inode ──> contents ──> Fetched
//! ```
//!
//! A page of a listing is 32 leaves in their order, so most directories are one page. Requests
//! ahead of a program are sorted by position, and held back while the disk has enough to do.

use std::collections::{BTreeMap, VecDeque};

use foreread_policy::{Class, DirAction, DirEvent, DirId, DirOptions, DirReadahead, DirShares, Found, Nanos};

use super::cache::{Ahead, Cache};
use super::layout::{Child, Dir, Layout};
use super::program::Step;
use super::rule::{MISPLACED, Rule};

pub(crate) struct Ours {
    policy: DirReadahead,
    jobs: Vec<Job>,
    /// Leaves of each directory that policy has heard of.
    listed: BTreeMap<u32, usize>,
    /// Positions of listings ahead are computed wrong.
    misplaced: bool,
}

#[derive(Debug, Clone)]
enum What {
    List { first: usize, end: usize },
    Fetch { entry: u32 },
}

/// An action in progress.
#[derive(Debug, Clone)]
struct Job {
    dir: u32,
    context: u32,
    class: Class,
    what: What,
}

impl Ours {
    pub(crate) fn new(misplaced: bool) -> Self {
        let ttl = Nanos(u64::MAX / 2);
        let shares = DirShares { known_bytes: 1 << 30, contents_bytes: 64 << 20 };
        let options = DirOptions { shares, ttl, readahead: true, below: false };
        let policy = DirReadahead::new(options);
        Self { policy, jobs: Vec::new(), listed: BTreeMap::new(), misplaced }
    }

    /// Tells policy, and executes its actions.
    fn tell(&mut self, layout: &Layout, cache: &mut Cache, context: u32, event: DirEvent<'_>) {
        self.policy.handle(Nanos(cache.now_ns), event);
        while let Some(action) = self.policy.poll_action() {
            let job = match action {
                DirAction::List { dir, restarts, class, parallel } => {
                    let number = dir.0 as u32;
                    let leaves = layout.dirs[number as usize].index.leaves.len();
                    let known = self.listed.get(&number).copied().unwrap_or(0);
                    let first = if restarts { 0 } else { known };
                    let end = leaves.min(first + parallel as usize * PAGE_LEAVES);
                    Job { dir: number, context, class, what: What::List { first, end } }
                }
                DirAction::Fetch { dir, entry, .. } => {
                    Job { dir: dir.0 as u32, context, class: Class::Speculative, what: What::Fetch { entry } }
                }
                // Memory is not modelled here, and a disk has no listing of a subtree.
                DirAction::ListBelow { .. }
                | DirAction::ListFrom { .. }
                | DirAction::Renew { .. }
                | DirAction::Discard { .. }
                | DirAction::Trim { .. }
                | DirAction::Release { .. }
                | DirAction::Drop { .. } => continue,
            };
            self.jobs.push(job);
        }
    }

    /// Requests the next blocks of each job, and tells policy of finished jobs.
    fn go_on(&mut self, layout: &Layout, cache: &mut Cache) {
        let mut at = 0;
        while at < self.jobs.len() {
            if !self.jobs[at].clone().go_on(layout, cache, self.misplaced) {
                at += 1;
                continue;
            }
            let job = self.jobs.remove(at);
            let (dir, of) = (DirId(u64::from(job.dir)), &layout.dirs[job.dir as usize]);
            match job.what {
                What::Fetch { entry } => {
                    self.tell(layout, cache, job.context, DirEvent::Fetched { dir, entry, came: true });
                }
                What::List { first, end } => {
                    self.listed.insert(job.dir, end);
                    let entries = of.entries(first, end);
                    let children: Vec<_> = of.children[entries].iter().map(|child| child.told()).collect();
                    let last = end == of.index.leaves.len();
                    let bytes = end as u64 * 4096;
                    let event =
                        DirEvent::Listed { dir, first: first == 0, same: false, children: &children, last, bytes };
                    self.tell(layout, cache, job.context, event);
                }
            }
            // The event may have given an earlier job its blocks.
            at = 0;
        }
    }

    /// The state of the page of a directory that holds `leaf`.
    fn found(&self, layout: &Layout, cache: &Cache, number: u32, leaf: usize) -> Found {
        let dir = &layout.dirs[number as usize];
        let page = leaf / PAGE_LEAVES * PAGE_LEAVES;
        let end = dir.index.leaves.len().min(page + PAGE_LEAVES);
        let mut blocks = dir.list_blocks(page, end);
        if blocks.all(|block| cache.has(block) == Some(true)) {
            return Found::Resident;
        }
        let on_its_way = |job: &Job| {
            let ahead = job.class == Class::Speculative && self.misplaced;
            job.dir == number && !ahead && matches!(job.what, What::List { first, end } if (first..end).contains(&leaf))
        };
        if self.jobs.iter().any(on_its_way) { Found::InFlight } else { Found::Absent }
    }
}

impl Rule for Ours {
    fn step(&mut self, layout: &Layout, cache: &mut Cache, context: u32, step: Step, _: &mut VecDeque<Step>) {
        match step {
            Step::Open { dir } => {
                let found = self.found(layout, cache, dir, 0);
                self.tell(layout, cache, context, DirEvent::Read { dir: DirId(u64::from(dir)), entry: 0, found });
            }
            Step::Call { dir, entry } if entry > 0 => {
                let leaves = &layout.dirs[dir as usize].index.leaves;
                let leaf = leaves.partition_point(|(_, held)| held.end <= entry);
                if leaf < leaves.len() && leaf.is_multiple_of(PAGE_LEAVES) {
                    let found = self.found(layout, cache, dir, leaf);
                    self.tell(layout, cache, context, DirEvent::Read { dir: DirId(u64::from(dir)), entry, found });
                }
            }
            Step::File { dir, entry, at, blocks } => {
                let found = if cache.has_all(at, blocks) {
                    Found::Resident
                } else if !self.misplaced && self.jobs.iter().any(|job| job.fetches(dir, entry)) {
                    Found::InFlight
                } else {
                    Found::Absent
                };
                self.tell(layout, cache, context, DirEvent::Opened { dir: DirId(u64::from(dir)), entry, found });
            }
            _ => return,
        }
        self.go_on(layout, cache);
    }

    fn came(&mut self, layout: &Layout, cache: &mut Cache) {
        self.go_on(layout, cache);
    }
}

impl Job {
    fn fetches(&self, dir: u32, entry: u32) -> bool {
        self.dir == dir && matches!(self.what, What::Fetch { entry: of } if of == entry)
    }

    /// Requests the next blocks; whether none are missing.
    fn go_on(self, layout: &Layout, cache: &mut Cache, misplaced: bool) -> bool {
        let dir = &layout.dirs[self.dir as usize];
        let ahead = self.class == Class::Speculative;
        let wrong = misplaced && ahead;
        let kind = if matches!(self.what, What::Fetch { .. }) { Ahead::Contents } else { Ahead::Listing };
        let mut ask = |at: u64, blocks: u32| {
            let at = if wrong { at * MISPLACED } else { at };
            if ahead {
                cache.fetch_ahead(self.context, at, blocks, kind);
            } else {
                cache.fetch(self.context, at, blocks);
            }
            cache.has_all(at, blocks)
        };
        match self.what {
            What::Fetch { entry } => {
                let Child::File { inode, at, blocks } = dir.children[entry as usize] else { return true };
                let inode = ask(inode, 1);
                ask(at, blocks) && inode
            }
            What::List { first, end } => {
                if !ask(dir.inode, 1) {
                    return false;
                }
                let mut there = true;
                if dir.index.leaves.len() > PAGE_LEAVES {
                    dir.index.nodes.iter().for_each(|&node| there &= ask(dir.blocks[node as usize], 1));
                    if !there {
                        return false;
                    }
                }
                let mapped = dir.indirect.is_none_or(|indirect| ask(indirect, 1));
                for logical in dir.list_logical(first, end) {
                    let direct = dir.map(logical).is_none();
                    there &= (direct || mapped) && ask(dir.blocks[logical], 1);
                }
                there
            }
        }
    }
}

impl Dir {
    /// Blocks of some leaves, and of the nodes above them.
    fn list_logical(&self, first: usize, end: usize) -> impl Iterator<Item = usize> {
        let nodes = self.index.nodes.iter().map(|&node| node as usize);
        nodes.chain(self.index.leaves[first..end].iter().map(|&(block, _)| block as usize))
    }

    fn list_blocks(&self, first: usize, end: usize) -> impl Iterator<Item = u64> {
        self.list_logical(first, end).map(|logical| self.blocks[logical])
    }

    fn entries(&self, first: usize, end: usize) -> std::ops::Range<usize> {
        let leaves = &self.index.leaves[first..end];
        let start = leaves.first().map_or(0, |(_, held)| held.start);
        start as usize..leaves.last().map_or(start, |(_, held)| held.end) as usize
    }
}

impl Child {
    /// The same entry in the types of policy.
    fn told(self) -> foreread_policy::Child {
        match self {
            Self::Directory(number) => foreread_policy::Child::Directory(DirId(number as u64)),
            Self::File { blocks, .. } => foreread_policy::Child::File { pages: u64::from(blocks), kind: 0, stem: 0 },
        }
    }
}

/// Leaves of a page of a listing: 128 KiB.
const PAGE_LEAVES: usize = 32;
