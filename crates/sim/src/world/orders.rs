//! Orders: what a driver tells policy besides reads. The budget changes, other bookkeeping takes a
//! part of it, and files are expected to be opened soon, or no longer.
//!
//! The orders come before reads, drawn from a seed. A budget that was reduced holds at once, but
//! for what readers are about to be given.

use foreread_device::Random;
use foreread_policy::{Event, PAGE_BYTES};

use super::World;
use crate::outcome::violation::Violation;
use crate::policy::Reading;

/// A source of orders.
#[derive(Debug)]
pub(crate) struct Orders {
    /// Of reads, how many have an order before them, in millionths.
    pub(crate) rate: u32,
    /// The least and the most budget, in bytes.
    pub(crate) budget_bytes: (u64, u64),
    pub(crate) random: Random,
}

impl World<'_> {
    /// Draws whether an order comes before a read of the file at place `index`.
    pub(super) fn give_order(&mut self, index: usize) -> Result<(), Violation> {
        let file = self.id(index);
        let Some(orders) = &mut self.orders else { return Ok(()) };
        if !orders.random.chance(orders.rate) {
            return Ok(());
        }
        let (least, most) = orders.budget_bytes;
        let event = match orders.random.below(4) {
            0 => Event::Capacity { bytes: least + orders.random.below(most - least + 1) },
            1 => Event::Reserve { bytes: orders.random.below(least / 2) },
            2 => Event::Prefetch { file },
            _ => Event::Discard { file },
        };
        if let Event::Capacity { bytes } = event {
            self.budget = bytes / PAGE_BYTES;
            self.beyond = u64::MAX;
        }
        let is_known = self.opened[index] && !self.closed[index];
        if matches!(event, Event::Prefetch { .. } | Event::Discard { .. }) && !is_known {
            return Ok(());
        }
        self.tell(Reading::default(), event)
    }
}
