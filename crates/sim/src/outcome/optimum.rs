//! A lower bound of the time of any policy: one that knows all reads in advance, with the same
//! memory and device.
//!
//! The bound is the pages that must be fetched, at the rate of the device, and no earlier than the
//! last read is due. It ignores positioning, since a policy that knows everything could read a
//! disk from end to end. For one reader the pages that must be fetched are the misses of Belady's
//! MIN, which evicts the page whose next use is farthest away; for several readers, whose reads
//! may interleave in many orders, each page once.

use std::collections::{BinaryHeap, HashMap};

use foreread_device::Profile;
use foreread_policy::{Extent, PAGE_BYTES};
use foreread_workload::{Op, Reader, Workload};

/// The least time of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Least {
    /// The time, in ns.
    pub ns: u64,
    /// The reads that it covers. A run that ends before it has done all of them cannot be
    /// compared.
    pub reads: u64,
}

/// The least time of `workload` on `device`; `None` for a device without a rate, and for workloads
/// without reads or with a tier, whose disk has a rate of its own.
pub fn least(workload: &Workload, device: &Profile) -> Option<Least> {
    if workload.pattern.is_no_reads() || workload.tier.is_some() {
        return None;
    }
    let (rate, first_byte_ns, buffer_bytes) = match device {
        // The drive's buffer is memory too: what it holds is read from the medium once.
        Profile::Disk(disk) => (disk.media_rate.bytes_per_second(), 0, disk.track_bytes * disk.buffer_tracks as u64),
        Profile::Array(array) => {
            let disks = u64::from(array.disks.get());
            let media = array.disk.media_rate.bytes_per_second() * disks;
            let rate = array.link_rate.map_or(media, |link| link.bytes_per_second().min(media));
            (rate, 0, array.disk.track_bytes * array.disk.buffer_tracks as u64 * disks)
        }
        Profile::Flash(flash) => {
            let channels = u64::from(flash.channels.get()) * PAGE_BYTES * 1_000_000_000 / flash.page_ns.max(1);
            (flash.link_rate.map_or(channels, |link| link.bytes_per_second().min(channels)), flash.request_ns, 0)
        }
        Profile::ObjectStore(store) => (store.total_rate?.bytes_per_second(), store.first_byte.base_ns, 0),
        _ => return None,
    };
    let (mut last_due_ns, mut reads, mut longest) = (0, 0, 0);
    let mut pages_of = |reader: Reader<'_>| {
        let mut pages = Vec::new();
        for op in reader.operations() {
            last_due_ns = op.not_before_ns.max(last_due_ns);
            let extent = Extent::of_bytes(op.offset, u64::from(op.len));
            reads += 1;
            longest = extent.pages().max(longest);
            pages.extend((extent.start..extent.end).map(|page| (op.file, page)));
        }
        pages
    };
    let mut readers = workload.readers();
    let misses = if let (Some(reader), None) = (readers.next(), readers.next()) {
        let pages = pages_of(reader);
        // The pages of the current read need no memory.
        least_misses(&pages, (workload.mount.memory_bytes + buffer_bytes) / PAGE_BYTES + longest)
    } else {
        let mut pages: Vec<(u32, u64)> = Vec::new();
        let mut distinct = 0;
        let merge = |pages: &mut Vec<(u32, u64)>| {
            pages.sort_unstable();
            pages.dedup();
            pages.len()
        };
        for reader in workload.readers() {
            pages.extend(pages_of(reader));
            // Not for each reader, which takes the square of their number.
            if pages.len() > 2 * distinct {
                distinct = merge(&mut pages);
            }
        }
        merge(&mut pages) as u64
    };
    let transfer_ns = (u128::from(misses * PAGE_BYTES) * 1_000_000_000 / u128::from(rate.max(1))) as u64;
    Some(Least { ns: (first_byte_ns + transfer_ns).max(last_due_ns), reads })
}

/// The hit rate that no choice of what stays can exceed, 0 to 1: `reads`, one after the other in
/// this order, with memory for `memory_bytes` of pages (Belady's MIN). `None` if they are more
/// pages than this is worth.
///
/// Errors: the first of `reads`.
pub fn most_hits<E>(reads: impl IntoIterator<Item = Result<Op, E>>, memory_bytes: u64) -> Result<Option<f64>, E> {
    let mut pages = Vec::new();
    for op in reads {
        let Op { file, offset, len, .. } = op?;
        let extent = Extent::of_bytes(offset, u64::from(len));
        if pages.len() as u64 + extent.pages() > PAGES_MAX {
            return Ok(None);
        }
        pages.extend((extent.start..extent.end).map(|page| (file, page)));
    }
    let misses = least_misses(&pages, memory_bytes / PAGE_BYTES);
    Ok(Some(1.0 - misses as f64 / pages.len().max(1) as f64))
}

/// Pages whose most hits are computed at most, at a hundred bytes and a microsecond each. Lower:
/// the figure is missing for recordings of a few million reads. Higher: it takes gigabytes.
const PAGES_MAX: u64 = 20_000_000;

/// Misses of `pages`, read in this order, with memory for `capacity` pages.
fn least_misses(pages: &[(u32, u64)], capacity: u64) -> u64 {
    let mut next_use = vec![u64::MAX; pages.len()];
    let mut seen: HashMap<(u32, u64), u64> = HashMap::new();
    for (at, page) in pages.iter().enumerate().rev() {
        next_use[at] = seen.insert(*page, at as u64).unwrap_or(u64::MAX);
    }
    // Resident pages by their next use; entries of earlier uses are stale.
    let mut by_next_use: BinaryHeap<(u64, (u32, u64))> = BinaryHeap::new();
    let mut there: HashMap<(u32, u64), u64> = HashMap::new();
    let mut misses = 0;
    for (page, &next) in pages.iter().zip(&next_use) {
        if there.insert(*page, next).is_none() {
            misses += 1;
            while there.len() as u64 > capacity.max(1)
                && let Some((at, farthest)) = by_next_use.pop()
            {
                if there.get(&farthest) == Some(&at) && farthest != *page {
                    there.remove(&farthest);
                }
            }
        }
        by_next_use.push((next, *page));
    }
    misses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misses(pages: impl Iterator<Item = u64>, capacity: u64) -> u64 {
        least_misses(&pages.map(|page| (0, page)).collect::<Vec<_>>(), capacity)
    }

    #[test]
    fn each_page_is_missed_once_if_all_fit() {
        assert_eq!(misses((0..300).map(|read| read % 100), 100), 100);
    }

    #[test]
    fn the_most_hits_are_those_of_pages_that_can_stay() {
        let read = |page: u64| -> Result<Op, ()> {
            Ok(Op { file: 0, offset: page * PAGE_BYTES, len: PAGE_BYTES as u32, not_before_ns: 0 })
        };
        // Of a loop over four pages with memory for two, one stays each time: 1 of 3 hits.
        let hits = most_hits((0..40).map(|at| read(at % 4)), 2 * PAGE_BYTES).expect("reads").expect("few");
        assert!((hits - 12.5 / 40.0).abs() < 0.03, "{hits}");
        assert_eq!(most_hits([Err("torn")], 0), Err("torn"));
    }

    #[test]
    fn a_loop_misses_the_pages_that_do_not_fit() {
        // 100 pages in the first round, then in each round the pages that were evicted.
        let all = misses((0..1_000).map(|read| read % 100), 60);
        assert!((100 + 9 * 40..=100 + 9 * 41).contains(&all), "{all}");
    }

    #[test]
    fn the_published_example() {
        // Belady's own: 1 2 3 4 1 2 5 1 2 3 4 5 with three frames misses seven times.
        assert_eq!(misses([1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5].into_iter(), 3), 7);
    }
}
