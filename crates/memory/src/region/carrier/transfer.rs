//! What a carrier is given and what it reports: transfers, and why the pager was woken.

/// One move of bytes between memory and the spill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    /// Names the transfer in [`Woken::done`].
    pub(crate) token: u64,
    /// From memory to the spill; otherwise from the spill to memory.
    pub(crate) write: bool,
    /// Address of the memory.
    pub(crate) memory: *mut u8,
    /// Bytes.
    pub(crate) len: usize,
    /// Offset in the spill, in bytes.
    pub(crate) offset: u64,
}

/// Why the pager was woken.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    /// Pages may have been touched.
    pub(crate) touched: bool,
    /// The bell was rung, and has been silenced.
    pub(crate) rung: bool,
    /// Transfers that have ended: token, and whether all bytes were moved.
    pub(crate) done: Vec<(u64, bool)>,
}
