//! Views.
pub(crate) mod event;
pub(crate) mod path;
