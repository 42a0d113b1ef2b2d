//! File readahead.
pub(crate) mod hot_block;
pub(crate) mod outline;
pub(crate) mod pace;
pub(crate) mod share;
pub(crate) mod streams;
pub(crate) mod stride;
pub(crate) mod window;
