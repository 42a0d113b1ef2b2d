//! The driver for trees: virtual time, programs, the page cache, a disk.
//!
//! ```text
//!   program ── step ──> a missing block ──> request ──> scheduler ──> disk
//!      │  ^                                    ^                        │
//!      │  └─────── all its blocks are there ───┼── the block is there ──┘
//!      └── opens, lists, comes to a file ──> rule
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use foreread_device::Profile;

use super::cache::Cache;
use super::layout::Layout;
use super::program::Step;
use super::rule::Rule;
use crate::stack::scheduler_name::SchedulerName;

/// A program, and its remaining steps.
struct Program {
    steps: std::vec::IntoIter<Step>,
    /// Steps that a rule put in front.
    first: VecDeque<Step>,
    waits_for: Option<Step>,
    waits: u64,
    done_ns: Option<u64>,
}

/// One simulation.
pub(crate) struct World<'w> {
    layout: &'w Layout,
    cache: Cache,
    rule: Box<dyn Rule + 'w>,
    programs: Vec<Program>,
    agenda: BinaryHeap<Reverse<(u64, u64, usize)>>,
    entered: u64,
}

impl<'w> World<'w> {
    pub(crate) fn new(
        layout: &'w Layout,
        device: Profile,
        scheduler: Option<SchedulerName>,
        rule: Box<dyn Rule + 'w>,
    ) -> Self {
        let cache = Cache::new(device, scheduler);
        Self { layout, cache, rule, programs: Vec::new(), agenda: BinaryHeap::new(), entered: 0 }
    }

    /// Runs all programs to their ends; returns when each ended and how often it waited.
    pub(crate) fn run(&mut self, programs: Vec<Vec<Step>>) -> Vec<(u64, u64)> {
        for (number, steps) in programs.into_iter().enumerate() {
            let steps = steps.into_iter();
            self.programs.push(Program { steps, first: VecDeque::new(), waits_for: None, waits: 0, done_ns: None });
            self.enter(0, number);
        }
        while self.programs.iter().any(|program| program.done_ns.is_none()) {
            let program_ns = self.agenda.peek().map(|Reverse((at_ns, ..))| *at_ns);
            let next_ns = [program_ns, self.cache.next_deadline()].into_iter().flatten().min();
            let next_ns = next_ns.expect("a program that waits has a request in flight");
            self.cache.now_ns = self.cache.now_ns.max(next_ns);
            if self.cache.deliver() {
                self.rule.came(self.layout, &mut self.cache);
                self.wake();
            }
            while let Some(&Reverse((at_ns, _, number))) = self.agenda.peek() {
                if at_ns > self.cache.now_ns {
                    break;
                }
                self.agenda.pop();
                self.go_on(number);
            }
        }
        let ran = |program: &Program| (program.done_ns.unwrap_or(0), program.waits);
        self.programs.iter().map(ran).collect()
    }

    /// Blocks that each window had to fetch.
    pub(crate) fn windows(&self) -> &[u32] {
        self.rule.windows()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.cache.requests()
    }

    pub(crate) fn fetched_blocks(&self) -> u64 {
        self.cache.fetched_blocks()
    }

    fn enter(&mut self, at_ns: u64, number: usize) {
        self.entered += 1;
        self.agenda.push(Reverse((at_ns, self.entered, number)));
    }

    /// Programs whose blocks are resident go on.
    fn wake(&mut self) {
        for number in 0..self.programs.len() {
            if let Some(Step::Need { at, blocks }) = self.programs[number].waits_for
                && self.cache.has_all(at, blocks)
            {
                self.programs[number].waits_for = None;
                self.enter(self.cache.now_ns, number);
            }
        }
    }

    fn go_on(&mut self, number: usize) {
        let context = number as u32;
        loop {
            let program = &mut self.programs[number];
            let Some(step) = program.first.pop_front().or_else(|| program.steps.next()) else {
                program.done_ns = Some(self.cache.now_ns);
                self.cache.close(context);
                return;
            };
            match step {
                Step::Need { at, blocks } => {
                    if self.cache.has_all(at, blocks) {
                        continue;
                    }
                    self.cache.fetch(context, at, blocks);
                    let program = &mut self.programs[number];
                    program.waits_for = Some(step);
                    program.waits += 1;
                    return;
                }
                Step::Ahead { at, blocks } => self.cache.fetch(context, at, blocks),
                Step::Think { ns } => return self.enter(self.cache.now_ns + ns, number),
                Step::Open { .. } | Step::Call { .. } | Step::File { .. } => {
                    self.rule.step(self.layout, &mut self.cache, context, step, &mut program.first);
                }
            }
        }
    }
}
