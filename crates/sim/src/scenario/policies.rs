//! From a policy's name to the policy that reads files under it.

use foreread_policy::{Options, PAGE_BYTES, ReadPath, Replacement};

use crate::baseline::Baseline;
use crate::baseline::amp::Amp;
use crate::baseline::fixed::Fixed;
use crate::baseline::linux::Linux;
use crate::baseline::linux_2_6_20::Linux2620;
use crate::baseline::none::NoReadahead;
use crate::baseline::on_demand_2007::OnDemand2007;
use crate::policy::Policy;
use crate::stack::policy_name::PolicyName;

/// The policy called `name`, with `memory_bytes` for pages and windows of at most `max` pages, in
/// front of storage that is `rotational` or not, with a `tier` or not.
pub(super) fn policy(
    name: PolicyName,
    memory_bytes: u64,
    max: u64,
    (rotational, tier): (bool, bool),
) -> Box<dyn Policy> {
    let pages = memory_bytes / PAGE_BYTES;
    let foreread = Options {
        capacity_bytes: memory_bytes,
        readahead: true,
        replacement: Replacement::default(),
        rotational,
        fair_queue: true,
        tier,
        bypass: true,
    };
    match name {
        PolicyName::Foreread | PolicyName::ForereadMisled => Box::new(ReadPath::new(foreread)),
        PolicyName::ForereadLru => Box::new(ReadPath::new(Options { replacement: Replacement::Lru, ..foreread })),
        PolicyName::ForereadFifo => Box::new(ReadPath::new(Options { fair_queue: false, ..foreread })),
        PolicyName::ForereadOnDemand => Box::new(ReadPath::new(Options { readahead: false, ..foreread })),
        PolicyName::None
        | PolicyName::Swap8
        | PolicyName::SwapHits
        | PolicyName::SwapHitsHalved
        | PolicyName::SwapHits16
        | PolicyName::SwapHits1
        | PolicyName::SwapVma => Box::new(Baseline::new(pages, || NoReadahead)),
        PolicyName::Fixed => Box::new(Baseline::new(pages, move || Fixed { block_pages: max })),
        PolicyName::Linux2620 => Box::new(Baseline::new(pages, move || Linux2620::new(max))),
        PolicyName::OnDemand2007 => Box::new(Baseline::new(pages, move || OnDemand2007::new(max))),
        PolicyName::Linux | PolicyName::Ext32007 | PolicyName::Ext32007First => {
            Box::new(Baseline::new(pages, move || Linux::new(max)))
        }
        PolicyName::Amp => Box::new(Baseline::new(pages, move || Amp::new(max))),
    }
}
