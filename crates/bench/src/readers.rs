//! Processes that read: their plan, their start, the reads, and what they measured.

pub(crate) mod mapping;
pub(crate) mod plan;
pub(crate) mod reader;
pub(crate) mod reading;
pub(crate) mod sample;
pub(crate) mod start;
pub(crate) mod tree;
