//! Collections.
pub(crate) mod hash_table;
pub(crate) mod request_map;
