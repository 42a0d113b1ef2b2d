//! The smallest budget that regions and views work with.

use foreread_policy::PAGE_BYTES;

/// Bytes: the smallest budget of a region or a view.
///
/// One instruction of one thread may touch several pages, and all of them have to be in memory at
/// the same time. Lower, and threads could evict each other's pages without ever going on. Higher
/// only costs memory.
pub const BUDGET_BYTES_MIN: usize = 512 << 10;

/// Bytes of room in a spill file beside those of the pages that a program uses at the same time,
/// where it asks for room itself ([`crate::Region::set_room`]).
///
/// Pages of zeroes are mapped ahead of a touch, also some that are not used then, and each takes a
/// place in the file while it leaves. Lower, and pages that leave together wait for places more
/// often; below a cluster, which is 1 MiB, a touch could be refused. Higher costs room.
pub const ROOM_BESIDE_BYTES: usize = 4 << 20;

/// Pages of a budget of `bytes`, rounded down; `None` below [`BUDGET_BYTES_MIN`].
pub(crate) fn budget_pages(bytes: usize) -> Option<u64> {
    (bytes >= BUDGET_BYTES_MIN).then_some(bytes as u64 / PAGE_BYTES)
}
