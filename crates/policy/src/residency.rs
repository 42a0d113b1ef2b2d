//! Residency: what is in memory or on its way there, within one budget, and what is evicted first.
//!
//! ```text
//!             granted = charged
//!   absent ──> InFlight ──> Unread ──> Partly ──> Used ──> evicted, for any request
//!                  │           │          └─────────────────> evicted for demand only
//!                  │           └────────────────────────────> evicted for demand only: a thrash
//!                  └─ failed or cancelled ──> absent
//!
//!   InFlight -> Unread   its request completes
//!   InFlight -> Partly   a reader touches it before its request completes
//!   InFlight -> Used     a reader touches its last page, or it was fetched nearby and completes
//!   Unread -> Partly     a reader touches it
//!   Unread -> Used       a reader touches its last page, or none comes for twelve seconds
//!   Partly -> Used       a reader touches its last page, or room is needed five seconds later
//! ```
//!
//! `folio` declares these states and asserts each change of them. `budget` charges a folio when
//! its arrival is granted, and makes room; `budget::lookup` answers what is resident, in flight or
//! absent. `unread` orders the folios that wait for their readers, `replacement` those that were
//! read. `folio_map` finds a folio by file and page. `waste` shows what was dropped unread.
//!
//! *Invariants:* a page belongs to one folio at most. Nothing is charged for which no room was
//! made. Speculation evicts no folio that is unread or read in part.
//!
//! The folder does not choose what to fetch (`files`) or which request is granted next (`queue`),
//! and holds no bytes: the driver's page table does. Source: docs/decisions/0001, 0003, 0008,
//! 0010, 0016.

pub(crate) mod budget;
pub(crate) mod folio;
pub(crate) mod folio_map;
pub(crate) mod replacement;
pub(crate) mod unread;
pub(crate) mod waste;
