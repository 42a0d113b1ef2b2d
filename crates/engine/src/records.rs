//! Records of what happened.

pub(crate) mod log;
pub(crate) mod tap;
