//! What the simulator asks of a policy: the contract of `foreread-policy`, and who reads.

use foreread_policy::{Action, Event, Nanos, ReadPath};

/// Whose event it is. The read path of this project finds streams by position and asks for none of this; kernels keep what they
/// know about a reader with its open file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// The open file: readers that share a descriptor share it.
    pub descriptor: u32,
    /// The last page of the read before.
    pub prev: Option<u64>,
}

/// The pieces in which pages are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    /// Folios of up to 32 pages, all of a read at once: a mount. A folio is reported as referenced when that changes its state.
    Folio,
    /// Single pages one after the other, each waited for before the next is looked at: the kernel's own page cache. Every
    /// touch of a page is reported.
    Page,
}

/// A policy that can be simulated.
pub trait Policy {
    /// The pieces in which it wants to see pages.
    fn grain(&self) -> Grain;

    /// Whether it is told of each read before its pages are looked at, as `Found::Resident` without a mark.
    fn hears_every_read(&self) -> bool {
        false
    }

    /// Takes what happened.
    fn handle(&mut self, now: Nanos, by: Reading, event: Event);

    /// What to do next, until `None`.
    fn poll_action(&mut self) -> Option<Action>;

    /// When to be called even if nothing happens.
    fn next_deadline(&self) -> Option<Nanos> {
        None
    }
}

impl Policy for ReadPath {
    fn grain(&self) -> Grain {
        Grain::Folio
    }

    fn handle(&mut self, now: Nanos, _: Reading, event: Event) {
        self.handle(now, event);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.poll_action()
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.next_deadline()
    }
}
