//! A link that becomes another one while it is read from.

use foreread_device::object_store;

/// A change of an object store in mid-run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When, in ns.
    pub at_ns: u64,
    /// What it is from then on. Only latency and rates change.
    pub device: object_store::Config,
}
