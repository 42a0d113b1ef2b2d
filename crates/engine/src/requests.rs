//! Requests to the storage.

pub(crate) mod fetch;
pub(crate) mod in_place;
pub(crate) mod joint;
