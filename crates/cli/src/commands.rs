//! One file a subcommand: its arguments, its work, and its causes of failure.

pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod cat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod man;
pub(crate) mod mount;
pub(crate) mod prefetch;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod set;
pub(crate) mod simulate;
pub(crate) mod stats;
pub(crate) mod testbed;
pub(crate) mod top;
pub(crate) mod umount;
pub(crate) mod verify;
