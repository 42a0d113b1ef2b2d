//! Rows of workloads whose reads are submitted to the library.

pub(crate) mod cold;
pub(crate) mod contenders;
pub(crate) mod emulated;
pub(crate) mod fio;
pub(crate) mod submitter;
