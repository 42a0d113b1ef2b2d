//! Residency: what is in memory or on its way there, within one budget, and what is evicted first.
//!
//! ```text
//!             granted = charged
//!   absent ──> InFlight ──> Unread ──> Partly ──> Used ──> evicted
//!                  │           │          └─────────────────> evicted for demand only
//!                  │           └────────────────────────────> evicted for demand only: a thrash
//!                  └─ failed or cancelled ──> absent
//!
//!   InFlight -> Unread   its request completes
//!   InFlight -> Partly   a reader touches it, as far as it has come
//!   InFlight -> Used     a reader touches its last page, or it was fetched nearby and completes
//!   Unread -> Partly     a reader touches it
//!   Unread -> Used       a reader touches its last page
//!   Partly -> Used       a reader touches its last page, or none comes back for five seconds
//! ```
//!
//! `folio` declares these states and asserts each change of them. `budget` charges a folio when
//! its arrival is granted, and makes room. `replacement` orders the folios that were read.
//! `folio_map` finds a folio by file and page.

pub(crate) mod budget;
pub(crate) mod folio;
pub(crate) mod folio_map;
pub(crate) mod replacement;
