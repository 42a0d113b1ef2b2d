//! The contract between a world and a policy: that of `foreread-policy`, and which reader an event
//! is about.

use foreread_policy::{Action, Event, Nanos, ReadPath};

/// The reader of an event. The read path finds streams by position and ignores it; kernels keep
/// readahead state with the open file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// The open file: readers that share a descriptor share it.
    pub descriptor: u32,
    /// The last page of the previous read through this descriptor.
    pub prev: Option<u64>,
}

/// The unit in which a world looks at pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    /// Folios of up to 32 pages, all of a read at once, as in a mount. A folio is reported as
    /// referenced when that changes its state.
    Folio,
    /// Single pages in order, as in the kernel's page cache: a read waits for each before it looks
    /// at the next. Every touch of a page is reported.
    Page,
}

/// A policy that can be simulated.
pub trait Policy {
    /// The unit in which it wants to see pages.
    fn grain(&self) -> Grain;

    /// Whether it hears each read before the pages are looked at, as `Found::Resident` without a
    /// mark.
    fn hears_every_read(&self) -> bool {
        false
    }

    /// Bytes charged to its budget; 0 for a policy without one.
    fn charged_bytes(&self) -> u64 {
        0
    }

    /// Takes an event.
    fn handle(&mut self, now: Nanos, by: Reading, event: Event);

    /// The next action; call until `None`.
    fn poll_action(&mut self) -> Option<Action>;
}

impl Policy for ReadPath {
    fn grain(&self) -> Grain {
        Grain::Folio
    }

    fn charged_bytes(&self) -> u64 {
        self.memory().charged_bytes
    }

    fn handle(&mut self, now: Nanos, _: Reading, event: Event) {
        self.handle(now, event);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.poll_action()
    }
}
