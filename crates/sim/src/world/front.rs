//! How a read reaches the policy, and what it costs besides storage.

/// The way of a read from the program to the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Front {
    /// A read arrives in pieces of at most this many pages, one after the other; `None`: whole.
    pub(crate) piece_pages: Option<u64>,
    /// Cost of a piece, in ns.
    pub(crate) piece_ns: u64,
    /// Cost of copying a page, in ns.
    pub(crate) page_ns: u64,
}

/// Pages of the largest READ that a kernel sends to a mount: 128 KiB.
pub(crate) const MOUNT_PIECE_PAGES: u64 = 32;

/// Pages of the longest READ of a kernel with larger windows: 1 MiB, `FUSE_MAX_MAX_PAGES`.
pub(crate) const MOUNT_REQUEST_PAGES: u64 = 256;

/// Bytes that the engine reads of a local file at once, as in `foreread-backend`.
pub(crate) const PIECE_BYTES: u64 = 512 << 10;

/// Cost of one kernel request to a mount and its answer, in ns. With it a resident file is read at
/// 1.6 GB/s, as measured on two cores.
pub(crate) const MOUNT_PIECE_NS: u64 = 120_000;

/// Cost of copying a page to a program, in ns: 6 GB/s.
pub(crate) const PAGE_NS: u64 = 680;
