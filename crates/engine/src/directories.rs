//! Directories: what is known of them, and how they are listed.

pub(crate) mod driver;
pub(crate) mod key_space;
pub(crate) mod listing;
pub(crate) mod name;
pub(crate) mod segments;
pub(crate) mod subtree;
