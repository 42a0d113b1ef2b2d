//! The rules that no policy may break, whatever happens.

use foreread_policy::Extent;

/// A policy that broke the contract, or readers that nobody will ever wake.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A page was asked for while it was there or on its way.
    #[error("page {page} of file {file} was submitted twice (at {at_ns} ns)")]
    SubmittedTwice {
        /// The file.
        file: u64,
        /// The page.
        page: u64,
        /// When.
        at_ns: u64,
    },
    /// Pages beyond the end of the file were asked for.
    #[error("{extent:?} of file {file} ends after its {pages} pages (at {at_ns} ns)")]
    PastTheEnd {
        /// The file.
        file: u64,
        /// What was asked for.
        extent: Extent,
        /// The length of the file.
        pages: u64,
        /// When.
        at_ns: u64,
    },
    /// A page that a reader waits for is not coming.
    #[error("nobody fetches page {page} of file {file}, which a reader needs (at {at_ns} ns)")]
    NotFetched {
        /// The file.
        file: u64,
        /// The page.
        page: u64,
        /// When.
        at_ns: u64,
    },
    /// A file that is never read again has left pages behind.
    #[error("file {file} was forgotten, and pages of it are still there (at {at_ns} ns)")]
    LeftBehind {
        /// The file.
        file: u64,
        /// When.
        at_ns: u64,
    },
    /// A file that nobody has open is still fetched.
    #[error("file {file} was closed, and is still fetched (at {at_ns} ns)")]
    StillFetched {
        /// The file.
        file: u64,
        /// When.
        at_ns: u64,
    },
    /// More is held than there is memory for.
    #[error("{pages} pages are held, in memory for {budget} (at {at_ns} ns)")]
    OverBudget {
        /// Pages that have arrived and are not dropped.
        pages: u64,
        /// Pages that there is memory for.
        budget: u64,
        /// When.
        at_ns: u64,
    },
    /// Readers wait and nothing will happen any more.
    #[error("{readers} readers wait for ever (since {at_ns} ns)")]
    Stuck {
        /// How many.
        readers: usize,
        /// When the last event was.
        at_ns: u64,
    },
}
