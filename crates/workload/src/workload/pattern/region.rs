//! Memory larger than there is room for, that threads touch, instead of files that they read.
//!
//! In virtual time only: what is swapped out and in, and when, is what such a workload is about. The bytes of the region are those of its file,
//! the room is the memory of its mount.

use serde::Serialize;

/// How a region is touched. Each touch writes to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Region {
    /// In which order.
    pub order: Order,
    /// How many touches there are in all, in multiples of the region's pages; at least 1.
    pub cycles: u32,
}

/// The order in which pages are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Order {
    /// From the first page to the last, again and again; of several threads each has a part of its own.
    Sequential,
    /// Any page, each time.
    Random,
    /// Each thread does both in turn, a quarter of the region's pages at a time; half of the threads do the one while the others do the
    /// other. Sequential touches of two threads at a time go through a half of the region each.
    Mixed,
}
