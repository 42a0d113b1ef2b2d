//! Regions.
pub(crate) mod cost;
pub(crate) mod event;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod readahead;
pub(crate) mod replacement;
pub(crate) mod slots;
pub(crate) mod writes;
