//! Arguments that several commands take: their definition, their check, and their defaults.

pub(crate) mod cache;
pub(crate) mod device;
pub(crate) mod engine;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod path;
pub(crate) mod range;
pub(crate) mod storage;
pub(crate) mod workloads;
