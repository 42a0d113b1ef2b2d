//! The throughput that a cell allows, whatever the policy.
//!
//! ```text
//!   link       B
//!   readers    ahead can be read:  n x the rate at which one reader copies
//!              it cannot:          n x record / (L + record / b + the time to copy it)
//!   memory     M' / (L + record / b)         M' = M x record / (record + its bookkeeping)
//!   connections  as many as are useful: B / b of them fill the link, so n x b is no limit
//!
//!   feasible = the least of them
//! ```
//!
//! A reader that reads in order is served from memory, so its own speed is that of a copy. One
//! that jumps has one record under way at a time. Memory holds a record from its request to its
//! end: by Little's law M' bytes in flight, each for L + record / b, pass at that rate. The record
//! counts and not the part: how large a part is, is the policy's choice.

use foreread_policy::PAGE_BYTES;
use serde::Serialize;

use super::cell::Cell;
use crate::world::front::PAGE_NS;

/// The limits of a cell, in bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Feasible {
    /// Of the link.
    pub link: f64,
    /// Of the readers.
    pub readers: f64,
    /// Of the budget.
    pub memory: f64,
}

impl Feasible {
    /// The limits of `cell`.
    pub fn of(cell: &Cell) -> Self {
        let record = cell.order.record_bytes();
        let round_trip_ns = cell.round_trip_ns();
        let copy_ns = record / PAGE_BYTES * PAGE_NS;
        let read_ns = if cell.order.is_random() { round_trip_ns + copy_ns } else { copy_ns };
        let per_second = |bytes: f64, ns: u64| bytes * 1e9 / ns as f64;
        let chargeable = cell.budget_bytes as f64 * record as f64 / (record + BOOKKEEPING_BYTES) as f64;
        Self {
            link: cell.total_rate as f64,
            readers: per_second(f64::from(cell.readers) * record as f64, read_ns),
            memory: per_second(chargeable, round_trip_ns),
        }
    }

    /// What is feasible: the least of the limits, in bytes a second.
    pub fn rate(&self) -> f64 {
        self.link.min(self.readers).min(self.memory)
    }

    /// The name of the least limit.
    pub fn limit(&self) -> &'static str {
        match self.rate() {
            rate if rate >= self.link => "link",
            rate if rate >= self.readers => "readers",
            _ => "memory",
        }
    }
}

/// Bytes of bookkeeping beside each folio that a budget is charged with, as `foreread-policy`
/// does.
const BOOKKEEPING_BYTES: u64 = 512;
