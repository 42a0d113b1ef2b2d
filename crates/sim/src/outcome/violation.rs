//! The rules that no policy may break.

use foreread_policy::Extent;

/// A broken rule: the policy broke the contract, or readers wait for ever.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A page was requested while it was resident or in flight.
    #[error("page {page} of file {file} was submitted twice (at {at_ns} ns)")]
    SubmittedTwice {
        /// The file.
        file: u64,
        /// The page.
        page: u64,
        /// When.
        at_ns: u64,
    },
    /// Pages beyond the end of the file were requested.
    #[error("{extent:?} of file {file} ends after its {pages} pages (at {at_ns} ns)")]
    PastTheEnd {
        /// The file.
        file: u64,
        /// The requested extent.
        extent: Extent,
        /// The length of the file.
        pages: u64,
        /// When.
        at_ns: u64,
    },
    /// A request is so long that a reader of its last pages waits for others' bytes.
    #[error("{extent:?} of file {file} is one request of {} pages (at {at_ns} ns)", .extent.pages())]
    TooLong {
        /// The file.
        file: u64,
        /// The requested extent.
        extent: Extent,
        /// When.
        at_ns: u64,
    },
    /// No request fetches a page that a reader waits for.
    #[error("no request fetches page {page} of file {file}, which a reader needs (at {at_ns} ns)")]
    NotFetched {
        /// The file.
        file: u64,
        /// The page.
        page: u64,
        /// When.
        at_ns: u64,
    },
    /// A forgotten file has pages left.
    #[error("file {file} was forgotten, and pages of it are still there (at {at_ns} ns)")]
    LeftBehind {
        /// The file.
        file: u64,
        /// When.
        at_ns: u64,
    },
    /// A forgotten file is still fetched.
    #[error("file {file} was forgotten, and is still fetched (at {at_ns} ns)")]
    StillFetched {
        /// The file.
        file: u64,
        /// When.
        at_ns: u64,
    },
    /// Resident pages exceed the budget.
    #[error("{pages} pages are held, in memory for {budget} (at {at_ns} ns)")]
    OverBudget {
        /// Resident pages.
        pages: u64,
        /// The budget in pages.
        budget: u64,
        /// When.
        at_ns: u64,
    },
    /// A read waited for memory while others had many times the memory's pages.
    #[error("read {read} waited for memory while others had many times the memory (until {at_ns} ns)")]
    Starved {
        /// The read.
        read: u64,
        /// When it had memory.
        at_ns: u64,
    },
    /// Readers wait, and no event will come.
    #[error("{readers} readers wait for ever (since {at_ns} ns)")]
    Stuck {
        /// How many.
        readers: usize,
        /// When the last event was.
        at_ns: u64,
    },
}
