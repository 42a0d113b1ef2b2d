//! The queues with waiting requests, in the order in which they are next.
//!
//! ```text
//!                  demanded     aged        patient     each in the order of tags, and twice:
//!   short first    A  C  F      B           D  E        queues whose first request is short,
//!   long first     G                        H           and long (disks only)
//!                     urgent <──────┘ age ─────┘
//!   beside         A  F     of each file with nothing at the storage, the first demanded one
//! ```
//!
//! Every step costs O(log n) for n queues. A queue that only speculation waits in becomes urgent
//! with time; `patient` queues are kept by the time of their oldest request, too, and move when
//! the next one is asked for.
//!
//! *Invariant:* a queue with a waiting request has one place, that of its present state.
//!
//! This file does not decide which of the orders is asked for (`turn`). Source:
//! docs/decisions/0021.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::queue::fair_queue::owner::Owner;
use crate::units::{FileId, Nanos};

/// Why a queue is next, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// A demand request waits in it.
    Demanded,
    /// Its oldest request is so old that it counts as demand.
    Aged,
    /// Only speculation waits in it.
    Patient,
}

/// What the place of a queue depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) tag: u64,
    pub(super) is_demanded: bool,
    /// Its first request is long; `false` where that makes no difference.
    pub(super) is_long: bool,
    /// Since when its oldest request waits.
    pub(super) since: Nanos,
}

/// All queues in which requests wait.
#[derive(Debug, Default)]
pub(super) struct Ready {
    states: BTreeMap<Owner, (State, Urgency)>,
    /// By urgency, length of the first request, and tag.
    order: BTreeSet<(Urgency, bool, u64, Owner)>,
    /// The patient ones by age.
    ages: BTreeSet<(Nanos, Owner)>,
    /// The demanded ones by file.
    of_file: BTreeSet<(FileId, u64, Owner)>,
    /// How many requests of each file are at the storage; only files with some.
    there: BTreeMap<FileId, usize>,
    /// Of each file with none there, the first of its demanded queues.
    beside: BTreeSet<(u64, Owner)>,
}

impl Ready {
    /// The state of a queue has changed; `None`: no request waits in it.
    pub(super) fn set(&mut self, owner: Owner, state: Option<State>) {
        let before = self.states.get(&owner).copied();
        if before.map(|(state, _)| state) == state {
            return;
        }
        if let Some((before, urgency)) = before {
            self.states.remove(&owner);
            self.order.remove(&(urgency, before.is_long, before.tag, owner));
            if urgency == Urgency::Patient {
                self.ages.remove(&(before.since, owner));
            }
            if before.is_demanded {
                self.change_file(owner.file, |ready| {
                    ready.of_file.remove(&(owner.file, before.tag, owner));
                });
            }
        }
        let Some(state) = state else { return };
        // Whether it has aged meanwhile shows when the next queue is asked for.
        let urgency = if state.is_demanded { Urgency::Demanded } else { Urgency::Patient };
        self.states.insert(owner, (state, urgency));
        self.order.insert((urgency, state.is_long, state.tag, owner));
        if state.is_demanded {
            self.change_file(owner.file, |ready| {
                ready.of_file.insert((owner.file, state.tag, owner));
            });
        } else {
            self.ages.insert((state.since, owner));
        }
    }

    /// A request of `file` has come to the storage.
    pub(super) fn started(&mut self, file: FileId) {
        self.change_file(file, |ready| *ready.there.entry(file).or_default() += 1);
    }

    /// A request of `file` has left the storage.
    pub(super) fn ended(&mut self, file: FileId) {
        self.change_file(file, |ready| {
            if let Some(count) = ready.there.get_mut(&file) {
                *count -= 1;
                if *count == 0 {
                    ready.there.remove(&file);
                }
            }
        });
    }

    /// Changes what is known of a file, and keeps `beside` right.
    fn change_file(&mut self, file: FileId, change: impl FnOnce(&mut Self)) {
        let before = self.first_beside(file);
        change(self);
        let after = self.first_beside(file);
        if before != after {
            if let Some(before) = before {
                self.beside.remove(&before);
            }
            self.beside.extend(after);
        }
    }

    fn first_beside(&self, file: FileId) -> Option<(u64, Owner)> {
        if self.there.contains_key(&file) {
            return None;
        }
        let first = self.of_file.range((file, 0, Owner { file, stream: None })..).next();
        first.filter(|(of, ..)| *of == file).map(|&(_, tag, owner)| (tag, owner))
    }

    /// Queues whose oldest request waits since `before` or longer are urgent from now on.
    pub(super) fn age(&mut self, before: Nanos) {
        while let Some(&(since, owner)) = self.ages.first()
            && since <= before
        {
            self.ages.pop_first();
            if let Some((state, urgency)) = self.states.get_mut(&owner) {
                self.order.remove(&(*urgency, state.is_long, state.tag, owner));
                *urgency = Urgency::Aged;
                self.order.insert((*urgency, state.is_long, state.tag, owner));
            }
        }
    }

    /// The next queue: urgent ones first, then the least tag. `demanded`: only queues with demand.
    /// `short` and `long`: whether queues whose first request is of that length are asked for, up
    /// to that tag.
    pub(super) fn next(&self, demanded: bool, short: Option<u64>, long: Option<u64>) -> Option<Owner> {
        let first = |urgency, is_long, most: Option<u64>| {
            let least = Owner { file: FileId(0), stream: None };
            let mut from = self.order.range((urgency, is_long, 0, least)..);
            let &(of, length, tag, owner) = from.next()?;
            (of == urgency && length == is_long && tag <= most?).then_some((tag, owner))
        };
        let least = |all: &[Urgency]| {
            let both = all.iter().flat_map(|&urgency| [first(urgency, false, short), first(urgency, true, long)]);
            both.flatten().min().map(|(_, owner)| owner)
        };
        let urgent = if demanded { &[Urgency::Demanded][..] } else { &[Urgency::Demanded, Urgency::Aged] };
        least(urgent).or_else(|| if demanded { None } else { least(&[Urgency::Patient]) })
    }

    /// The demanded queue with the least tag of those whose files have nothing at the storage.
    pub(super) fn next_beside(&self) -> Option<Owner> {
        self.beside.first().map(|&(_, owner)| owner)
    }

    /// No queue is known.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.states.is_empty() && self.order.is_empty() && self.ages.is_empty() && self.there.is_empty()
    }
}
