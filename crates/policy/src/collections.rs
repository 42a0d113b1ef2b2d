//! Collections: the maps in which the mechanisms keep their state.
//!
//! - `hash_table`: a map by file and number. It cannot be iterated, so no rule depends on its
//!   order.
//! - `request_map`: a map by request, iterated in the order in which the requests were made.
//! - `intervals`: intervals of pages, and which of them a page lies in.
//! - `recency`: numbers in the order of their last use.
//!
//! *Invariant:* nothing depends on a random seed: the same calls give the same results.
//!
//! No rule of any mechanism is here. Source: a profile of random reads. Each takes a dozen
//! look-ups, and a look-up in a tree was five or six steps through memory that no cache held.

pub(crate) mod hash_table;
pub(crate) mod intervals;
pub(crate) mod recency;
pub(crate) mod request_map;
