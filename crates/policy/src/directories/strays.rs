//! Strays: files that are opened where no walk is, and what it may cost to take them for one.
//!
//! ```text
//!   a/ 1   b/ 1   c/ 1   d/ 1        the furthest place, and how many opens in turn came from one
//!     x ───> x ───> x                directory into the next
//! ```
//!
//! This file does not decide what makes a walk (`path/crossings`). Source: docs/decisions/0063.

use crate::directories::walk::Frame;

/// Opens where no walk is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strays {
    /// The furthest place that they came to.
    pub(crate) place: Frame,
    /// How many came from one directory into the next.
    pub(crate) crossings: u32,
    /// How many in turn were behind that place.
    pub(crate) behind: u32,
}

/// What a file of so many bytes costs that is fetched across directories.
pub(crate) fn cost_across(bytes: u64) -> u64 {
    bytes.max(REQUEST_BYTES)
}

/// What a file costs at least, in bytes: it is a request, however short. Lower: a program whose
/// opens go on by chance has many short files fetched in vain. Higher: in trees of short files
/// less is ahead. Source: docs/decisions/0063.
const REQUEST_BYTES: u64 = 16 << 10;

/// Credit of a mount at its start for files across directories, in bytes. Lower: the first
/// directories cost more round trips. Higher: more is fetched in vain for programs whose opens go
/// on into the next directory by chance. Source: docs/decisions/0063; sixteen short files.
pub(crate) const CREDIT_FIRST: u64 = 256 << 10;
