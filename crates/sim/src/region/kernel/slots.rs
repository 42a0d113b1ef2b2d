//! Slots of a swap device, and the order in which they are given out.
//!
//! ```text
//!  |x x x . x . . . | . . . . . . . . | x x . .    one after the other from the first run of 256
//!                     ^ next                        free slots; without one, the next free slot
//! ```
//!
//! Where seeks are expensive, runs are searched from the start of the device, so that used slots
//! lie close together; otherwise from the last run on, so that the device wears evenly.

/// The slots of a device.
#[derive(Debug)]
pub(crate) struct Slots {
    /// The page of each slot.
    owners: Vec<u32>,
    used: u64,
    next: usize,
    /// Slots left of the current run.
    left: usize,
    from_start: bool,
}

impl Slots {
    /// A device of `count` slots; the first holds its header.
    pub(crate) fn new(count: u64, rotational: bool) -> Self {
        Self { owners: vec![FREE; count as usize], used: 0, next: 1, left: 0, from_start: rotational }
    }

    /// The page in a slot.
    pub(crate) fn owner(&self, slot: u64) -> Option<u64> {
        self.owners.get(slot as usize).copied().filter(|&owner| owner != FREE).map(u64::from)
    }

    /// Whether more than half of the slots are taken.
    pub(crate) fn is_half_full(&self) -> bool {
        self.used * 2 > self.owners.len() as u64
    }

    /// A slot for a page; `None` if all are taken.
    pub(crate) fn take(&mut self, page: u64) -> Option<u64> {
        if self.used + 1 >= self.owners.len() as u64 {
            return None;
        }
        if self.left == 0 {
            self.next = self.run().unwrap_or(self.next);
            self.left = RUN;
        }
        self.left -= 1;
        let free = |slot: &usize| self.owners[*slot] == FREE;
        let slot = (self.next..self.owners.len()).find(free).or_else(|| (1..self.next).find(free))?;
        self.owners[slot] = page as u32;
        self.used += 1;
        self.next = slot + 1;
        Some(slot as u64)
    }

    /// Frees a slot.
    pub(crate) fn free(&mut self, slot: u64) {
        self.owners[slot as usize] = FREE;
        self.used -= 1;
    }

    /// The first slot of a free run.
    fn run(&self) -> Option<usize> {
        let from = if self.from_start { 1 } else { self.next.min(self.owners.len()) };
        let first = |range: std::ops::Range<usize>| {
            let mut free = 0;
            for slot in range {
                free = if self.owners[slot] == FREE { free + 1 } else { 0 };
                if free == RUN {
                    return Some(slot + 1 - RUN);
                }
            }
            None
        };
        first(from..self.owners.len()).or_else(|| first(1..from))
    }
}

const FREE: u32 = u32::MAX;

/// Slots of a run. Origin: `SWAPFILE_CLUSTER` of Linux.
const RUN: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_searched_from_the_start_where_seeks_are_expensive() {
        for (rotational, wanted) in [(true, 1), (false, 513)] {
            let mut slots = Slots::new(2_048, rotational);
            for page in 0..512 {
                assert_eq!(slots.take(page), Some(page + 1));
            }
            (1..=256).for_each(|slot| slots.free(slot));
            assert_eq!(slots.take(9), Some(wanted), "rotational: {rotational}");
            assert_eq!(slots.owner(wanted), Some(9));
        }
    }

    #[test]
    fn without_a_run_the_next_free_slot_is_taken() {
        let mut slots = Slots::new(300, true);
        for page in 0..298 {
            assert_eq!(slots.take(page), Some(page + 1));
        }
        slots.free(40);
        slots.free(50);
        assert_eq!([1, 2, 3].map(|page| slots.take(page)), [Some(299), Some(40), Some(50)]);
        assert_eq!(slots.take(4), None, "the first slot is no page's");
    }
}
