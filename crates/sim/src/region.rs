//! Memory larger than its budget, and threads that touch it, in virtual time.
//!
//! ```text
//!   Touches: which page ──> World ── touch ──> Pager ── read, write ──> Drive
//!                              ^                 │                        │
//!                              └─ page resident ─┴──── request done ──────┘
//! ```
//!
//! The touches are the same under every pager: a kernel with one of the rules for its cluster
//! (`kernel/rule/`), or our policy. `docs/decisions/0031` says what of the kernel is modelled.

mod drive;
mod kernel;
mod ours;
mod touches;
mod world;

use foreread_device::Profile;
use foreread_policy::PAGE_BYTES;
use foreread_workload::{Pattern, Workload};

use crate::outcome::tally::{Tally, Touched};
use crate::stack::policy_name::PolicyName;
use drive::Drive;
use kernel::Kernel;
use kernel::rule::Rule;
use kernel::rule::fixed::Fixed;
use kernel::rule::hits::Hits;
use kernel::rule::vma::Vma;
use ours::Ours;
use touches::Touches;
use world::{Pager, World};

/// The region of a workload, and its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swapped {
    region: foreread_workload::Region,
    threads: u32,
    pages: u64,
    budget: u64,
}

impl Swapped {
    /// `None` for a workload without a region.
    pub(crate) fn of(workload: &Workload) -> Option<Self> {
        let Pattern::Region(region) = workload.pattern else { return None };
        let pages = workload.all_files().map(|(_, bytes)| bytes.div_ceil(PAGE_BYTES)).sum();
        Some(Self { region, threads: workload.threads, pages, budget: workload.mount.memory_bytes / PAGE_BYTES })
    }

    /// Runs all threads to their ends.
    pub(crate) fn run(self, seed: u64, device: Profile, policy: PolicyName) -> Tally {
        let Self { region, threads, pages, budget } = self;
        let rotational = device.is_rotational();
        let pager = pager(policy, pages, budget, rotational);
        let threads = Touches::all(region, threads, pages, seed);
        let mut world = World::new(pager, Drive::new(device));
        let (end_ns, waits) = world.run(threads);
        let counts = world.drive().counts();
        let touched = Touched { waits, pages_in: counts.read_pages, pages_out: counts.written_pages };
        Tally::of_region(touched, end_ns, counts.reads)
    }
}

/// The pager of a policy. A policy without a rule for regions is a kernel with clusters of eight
/// pages.
fn pager(policy: PolicyName, pages: u64, budget: u64, rotational: bool) -> Box<dyn Pager> {
    let rule: Box<dyn Rule> = match policy {
        PolicyName::Foreread
        | PolicyName::ForereadLru
        | PolicyName::ForereadFifo
        | PolicyName::ForereadOnDemand
        | PolicyName::ForereadMisled => {
            return Box::new(Ours::new(pages, budget));
        }
        PolicyName::SwapHits => Box::new(Hits::new(8, false)),
        PolicyName::SwapHits1 => Box::new(Hits::new(1, false)),
        PolicyName::SwapHits16 => Box::new(Hits::new(16, false)),
        PolicyName::SwapVma if !rotational => Box::new(Vma::new(pages, 8)),
        PolicyName::SwapVma | PolicyName::SwapHitsHalved => Box::new(Hits::new(8, true)),
        _ => Box::new(Fixed { pages: 8 }),
    };
    Box::new(Kernel::new(pages, budget, rotational, rule))
}
