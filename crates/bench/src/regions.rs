//! Regions of memory larger than their budget, beside the kernel's swap; and objects as memory,
//! beside a mount.

pub(crate) mod object;
pub(crate) mod plan;
pub(crate) mod rows;
pub(crate) mod start;
pub(crate) mod stream;
pub(crate) mod swap_file;
pub(crate) mod toucher;
