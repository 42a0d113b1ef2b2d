//! Directories.
pub(crate) mod confidence;
pub(crate) mod directory;
pub(crate) mod event;
pub(crate) mod open_after_lookup;
pub(crate) mod open_order;
pub(crate) mod path;
pub(crate) mod subtree;
pub(crate) mod walk;
