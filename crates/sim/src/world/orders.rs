//! Orders: what a driver tells policy besides reads, drawn from a seed. The budget changes, other
//! bookkeeping takes a part of it, and files are expected to be opened soon, or no longer.
//!
//! This file does not tell policy (`faults`). A budget that was reduced holds at once, but for
//! what readers are about to be given.

use foreread_device::Random;
use foreread_policy::{Event, FileId};

/// A source of orders.
#[derive(Debug)]
pub(crate) struct Orders {
    /// Of reads, how many have an order before them, in millionths.
    pub(crate) rate: u32,
    /// The least and the most budget, in bytes.
    pub(crate) budget_bytes: (u64, u64),
    pub(crate) random: Random,
}

impl Orders {
    /// Draws whether an order comes before a read of `file`.
    pub(super) fn draw(&mut self, file: FileId) -> Option<Event> {
        if !self.random.chance(self.rate) {
            return None;
        }
        let (least, most) = self.budget_bytes;
        Some(match self.random.below(4) {
            0 => Event::Capacity { bytes: least + self.random.below(most - least + 1) },
            1 => Event::Reserve { bytes: self.random.below(least / 2) },
            2 => Event::Prefetch { file },
            _ => Event::Discard { file },
        })
    }
}
