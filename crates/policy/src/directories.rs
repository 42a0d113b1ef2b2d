//! Directory readahead: which directories are listed, and which small files are fetched, before a
//! program asks for them.
//!
//! ```text
//!   a directory  unknown ──(read, or names in it looked up)──> listed ──(ttl is over)──> stale
//!                                                                ^                         │
//!                                                                └──(read or looked up)────┘
//!   a walk       directories entered in order ──> open ──(4 more wrong than right)──> closed
//!                                                  ^                                    │
//!                                                  └─(256 opportunities later: a trial)─┘
//!   a file       small, next in order ──> fetched ──> opened: a hit
//!                                             └─────> not opened: discarded
//! ```
//!
//! - `event`: the contract. `path`: the wiring, with `lookups` (what readers do), `listings` (what
//!   is listed), `renewals` (what is listed again), `contents` (what is fetched whole), `beside`
//!   and `companions` (because of another
//!   open).
//! - `directory`: what is known of one directory.
//! - `page_renewals`: which pages of a directory of several are renewed for names in it.
//! - `relisting`: where a directory that does not fit is listed again.
//! - `walk`: a reader that goes through a tree, and where it comes to next.
//! - `next_files`: the files that it comes to.
//! - `listings_by_name`: whether it is worth a listing that files are read by name in directories
//!   that nothing has listed.
//! - `older`: listings that only readers in the middle of them keep.
//! - `strays`: files that are opened where no walk is.
//! - `open_run`: files opened in order in one directory, by readers side by side.
//! - `open_stride`: files opened at equal distances; `steps`: those distances, across directories.
//! - `open_order`: the order of opens of an earlier epoch; `told_orders`: orders that were told.
//! - `fetched_files`: those that were fetched and not opened yet.
//! - `siblings`: files that come with one that is opened, in no order; `firsts`: which file of
//!   each directory is opened first.
//! - `heads`: ends of longer files, because such ends of their siblings were read.
//! - `companions`: files that are opened in turn, and whose names begin alike, or come back in
//!   other directories.
//! - `open_after_lookup`: whether programs open the names that they look up.
//! - `subtree`: whether one request for a subtree replaces many listings.
//! - `confidence`: how much may be ahead.
//!
//! *Invariants:* a reader's own listing never waits for speculation. What is known stays within
//! its capacity (but one directory may stay that alone exceeds it), and fetched contents within
//! theirs.
//!
//! The folder holds no names and no bytes, and does not send requests: the driver does. It does
//! not evict pages of files; it tells the driver which files are no longer expected. Source:
//! docs/decisions/0029, 0030, 0034, 0035, 0055, 0056, 0057, 0063,
//! 0068, 0086, 0088, 0091, 0095, 0100, 0106, 0110, 0116, 0117, 0124 and 0128.

pub(crate) mod companions;
pub(crate) mod confidence;
pub(crate) mod directory;
pub(crate) mod event;
pub(crate) mod fetched_files;
pub(crate) mod firsts;
pub(crate) mod heads;
pub(crate) mod listings_by_name;
pub(crate) mod next_files;
pub(crate) mod older;
pub(crate) mod open_after_lookup;
pub(crate) mod open_order;
pub(crate) mod open_run;
pub(crate) mod open_stride;
pub(crate) mod page_renewals;
pub(crate) mod path;
pub(crate) mod relisting;
pub(crate) mod siblings;
pub(crate) mod steps;
pub(crate) mod strays;
pub(crate) mod subtree;
pub(crate) mod told_orders;
pub(crate) mod walk;
