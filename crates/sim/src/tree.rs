//! Trees of directories on a disk, and programs that walk them, in virtual time.
//!
//! ```text
//!   Forest ── Plan ──> Layout: blocks ── Program: steps ──> World <──> Rule: what is read ahead
//!                        └ Index: of each directory           └─> scheduler, disk
//! ```
//!
//! The steps of a program are the same under every policy; what differs is which blocks were
//! fetched before the program comes to them. `docs/decisions/0028` says which parts of this are
//! known, and which were chosen.

mod cache;
mod index;
mod layout;
mod ours;
mod plan;
mod program;
mod rule;
mod world;

use foreread_device::Profile;
use foreread_workload::{DiskTree, Files, Pattern, Shape, Workload};

use crate::outcome::tally::{Tally, Walked};
use crate::stack::Stack;
use crate::stack::policy_name::PolicyName;
use index::{BLOCK_BYTES, Made};
use layout::Layout;
use ours::Ours;
use plan::Plan;
use rule::{Nothing, Rule, Twice};
use world::World;

/// The tree of a workload, and the programs beside the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forest {
    tree: DiskTree,
    files: Files,
}

impl Forest {
    /// `None` for a workload of reads.
    pub(crate) fn of(workload: &Workload) -> Option<Self> {
        match workload.pattern {
            Pattern::DiskTree(tree) => Some(Self { tree, files: workload.files }),
            _ => None,
        }
    }

    fn plan(self, seed: u64) -> Plan {
        let Self { tree: DiskTree { directories, shape, .. }, files: Files { count, size_bytes, .. } } = self;
        match shape {
            Shape::System => Plan::system(count + directories, directories, size_bytes, seed),
            _ if directories == 0 => Plan { directories: Vec::new(), files: count, file_bytes: size_bytes },
            _ => Plan::flat(directories as usize, count / directories, size_bytes),
        }
    }

    /// Runs all programs to their ends.
    pub(crate) fn run(self, seed: u64, device: Profile, stack: Stack) -> Tally {
        let order = if self.tree.copied { Made::AsListed } else { Made::Otherwise };
        let (plan, name_bytes) = (self.plan(seed), u64::from(self.tree.name_bytes));
        let mut layout = Layout::new(seed);
        let first = layout.tree(&plan, name_bytes, order);
        let mut programs = vec![program::find(&layout, first)];
        if let Some(bytes) = self.tree.copy_bytes {
            let second = layout.tree(&plan, name_bytes, order);
            let copied = layout.file(bytes.div_ceil(BLOCK_BYTES));
            programs.push(program::grep(&layout, second));
            programs.push(program::copy(copied, bytes.div_ceil(BLOCK_BYTES)));
        }
        let blocks = layout.dirs.iter().map(|dir| dir.blocks.len() as u64).sum();
        let mut world = World::new(&layout, device, stack.scheduler, rule(stack.policy));
        let programs = world.run(programs);
        let walked = Walked { programs, blocks, ahead: world.windows().to_vec() };
        Tally::of_tree(walked, world.requests(), world.fetched_blocks())
    }
}

/// The rule by which a policy reads directories ahead.
fn rule(policy: PolicyName) -> Box<dyn Rule> {
    match policy {
        PolicyName::Foreread | PolicyName::ForereadLru | PolicyName::ForereadFifo => Box::new(Ours::new(false)),
        PolicyName::ForereadMisled => Box::new(Ours::new(true)),
        PolicyName::Ext32007 => Box::new(Twice::new(false)),
        PolicyName::Ext32007First => Box::new(Twice::new(true)),
        _ => Box::new(Nothing),
    }
}
