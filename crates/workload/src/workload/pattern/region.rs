//! Memory larger than its budget that threads touch, instead of files that they read.
//!
//! In virtual time only: such a workload measures what is evicted and read back, and when. The
//! size of its file is the size of the region, the memory of its mount is the budget.

use serde::Serialize;

/// How a region is touched. Each touch writes to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Region {
    /// The order of the touches.
    pub order: Order,
    /// All touches, in multiples of the region's pages; at least 1.
    pub cycles: u32,
    /// Pages that are touched from each place on, of [`Order::Rows`]; otherwise 1.
    pub row_pages: u32,
}

/// The order in which pages are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Order {
    /// From the first page to the last, again and again; each thread has its own part.
    Sequential,
    /// Any page, each time.
    Random,
    /// All pages of a row, one after the other, and then those of any other row.
    Rows,
    /// Each thread alternates between both, a quarter of the region's pages at a time; half of the
    /// threads are sequential while the others are random. The two threads of a pair share one
    /// part of the region for their sequential touches.
    Mixed,
}
