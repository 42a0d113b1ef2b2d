//! Residency.
pub(crate) mod budget;
pub(crate) mod folio;
pub(crate) mod folio_map;
pub(crate) mod replacement;
