//! What the kernel gives: memory, the faults of that memory, and frames to read into.
//!
//! Regions, views and [`crate::Bare`] are built on this; nothing here knows of them, or of policy.

pub(crate) mod bell;
pub(crate) mod frames;
pub(crate) mod mapping;
pub(crate) mod uffd;
