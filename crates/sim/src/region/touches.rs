//! The pages that a thread touches, in order.

use foreread_device::Random;
use foreread_workload::{Order, Region};

/// The touches of one thread.
#[derive(Debug, Clone)]
pub(crate) struct Touches {
    order: Order,
    /// The pages of the region.
    pages: u64,
    /// The part of its sequential touches, `[start, end)`; `next` is the next page there.
    part: (u64, u64),
    next: u64,
    /// Of rows: the pages of each, and the page after those of the current one.
    row: u64,
    row_end: u64,
    /// Of mixed touches: whether the random phase comes first.
    random_first: bool,
    random: Random,
    done: u64,
    all: u64,
}

impl Touches {
    /// The touches of all threads.
    pub(crate) fn all(region: Region, threads: u32, pages: u64, seed: u64) -> Vec<Self> {
        let Region { order, cycles, row_pages, .. } = region;
        let threads = u64::from(threads);
        let mut source = Random::new(seed);
        let touches = |thread: u64| {
            // Of mixed touches, half of the threads are sequential at a time: so many parts.
            let (parts, part) =
                if order == Order::Mixed { (threads.div_ceil(2), thread / 2) } else { (threads, thread) };
            let (start, end) = (pages * part / parts, pages * (part + 1) / parts);
            Self {
                order,
                pages,
                part: (start, end),
                next: start,
                row: u64::from(row_pages).min(pages),
                row_end: start,
                random_first: thread % 2 == 1,
                random: Random::new(source.next_u64()),
                done: 0,
                all: pages * u64::from(cycles) / threads,
            }
        };
        (0..threads).map(touches).collect()
    }
}

impl Iterator for Touches {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.done == self.all {
            return None;
        }
        let random = match self.order {
            Order::Random => true,
            Order::Mixed => (self.done / (self.pages / PHASES).max(1)) % 2 == u64::from(!self.random_first),
            _ => false,
        };
        self.done += 1;
        if self.order == Order::Rows {
            if self.next == self.row_end {
                self.next = self.random.below(self.pages / self.row) * self.row;
                self.row_end = self.next + self.row;
            }
            self.next += 1;
            return Some(self.next - 1);
        }
        if random {
            return Some(self.random.below(self.pages));
        }
        let page = self.next;
        self.next = if page + 1 == self.part.1 { self.part.0 } else { page + 1 };
        Some(page)
    }
}

/// Phases in which a thread touches as many pages as the region has.
const PHASES: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn all(order: Order, threads: u32) -> Vec<Vec<u64>> {
        Touches::all(region(order), threads, 1_000, 7).into_iter().map(Iterator::collect).collect()
    }

    fn region(order: Order) -> Region {
        let name = match order {
            Order::Sequential => "region-sequential",
            Order::Random => "region-random",
            Order::Rows => "region-rows",
            _ => "region-mixed",
        };
        match foreread_workload::catalogue::find(name).unwrap().pattern {
            foreread_workload::Pattern::Region(region) => region,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_loop_touches_every_page_equally_often() {
        let touches = all(Order::Sequential, 1).remove(0);
        assert_eq!(touches.len(), 5_000);
        assert!(touches.iter().enumerate().all(|(at, &page)| page == at as u64 % 1_000));
    }

    #[test]
    fn all_pages_of_a_row_are_touched_in_order() {
        let touches = all(Order::Rows, 2);
        let rows = touches.iter().flat_map(|touches| touches.chunks_exact(4));
        assert!(rows.clone().all(|row| row[0] % 4 == 0 && row.windows(2).all(|two| two[1] == two[0] + 1)));
        assert!(rows.map(|row| row[0]).collect::<std::collections::BTreeSet<_>>().len() > 200);
    }

    #[test]
    fn half_of_the_threads_are_sequential_at_a_time() {
        let touches = all(Order::Mixed, 4);
        for phase in 0..5 {
            let in_order = |touches: &&Vec<u64>| {
                touches[phase * 250..(phase + 1) * 250].windows(2).all(|two| two[1] == two[0] + 1 || two[1] % 500 == 0)
            };
            assert_eq!(touches.iter().filter(in_order).count(), 2, "phase {phase}");
        }
        assert_eq!(touches.iter().map(Vec::len).sum::<usize>(), 5_000);
    }
}
