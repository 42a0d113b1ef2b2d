//! Collections that the mechanisms keep their state in: no rule of any mechanism is here.
//!
//! `hash_table` is a map by file and number that iterates in no order that a rule could see.
//! `request_map` is a map by request, in the order in which the requests were made.

pub(crate) mod hash_table;
pub(crate) mod request_map;
