//! How a read reaches the policy, and what it costs besides storage.

/// How reads get to the policy, and what they cost besides storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Front {
    /// A read arrives in pieces of at most this many pages, one after the other; `None` for whole.
    pub(crate) piece_pages: Option<u64>,
    /// Each piece, in ns.
    pub(crate) piece_ns: u64,
    /// Copying a page, in ns.
    pub(crate) page_ns: u64,
}

/// The largest read that a mount is asked for: 128 KiB.
pub(crate) const MOUNT_PIECE_PAGES: u64 = 32;

/// What an engine reads of a file at once, as `foreread-backend` does.
pub(crate) const PIECE_BYTES: u64 = 512 << 10;

/// What it takes to bring a kernel's request to a mount and the answer back. So a file that is resident is read at 1.6 GB/s, as it is
/// on two cores.
pub(crate) const MOUNT_PIECE_NS: u64 = 120_000;

/// Copying a page to a program: 6 GB/s.
pub(crate) const PAGE_NS: u64 = 680;
