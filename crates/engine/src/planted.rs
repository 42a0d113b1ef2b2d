//! Fault injection: panics that are planted, to test that an engine survives them.
//!
//! ```text
//!   policy:1000    while policy is told of its 1,000th event
//!   action:1000    before its 1,000th action is executed
//!   task:50        in the task of a request, as the 50th piece of a body comes
//!   read:7         in the 7th read, on the thread that reads
//!   answer:7       as the 7th read that waited is answered
//!   list:3         in the task of a listing, as the 3rd page comes
//!   directory:20   while policy of directories is told of its 20th event
//! ```

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A place that panics, and how often it is passed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Panic {
    /// Policy, at the event of this number, counted from 1.
    Policy(u64),
    /// The execution of policy's action of this number, counted from 1.
    Action(u64),
    /// The task of a request, when the piece of this number comes, counted from 1.
    Task(u64),
    /// The read of this number, counted from 1, on the thread that reads.
    Read(u64),
    /// The answer to a read that waited, counted from 1, on the thread that answers.
    Answer(u64),
    /// The task of a listing, when the page of this number comes, counted from 1.
    List(u64),
    /// Policy of directories, at the event of this number, counted from 1.
    Directory(u64),
}

/// The places, by name.
const PLACES: [(&str, Place); 7] = [
    ("policy", Panic::Policy),
    ("action", Panic::Action),
    ("task", Panic::Task),
    ("read", Panic::Read),
    ("answer", Panic::Answer),
    ("list", Panic::List),
    ("directory", Panic::Directory),
];

type Place = fn(u64) -> Panic;

impl FromStr for Panic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once(':').and_then(|(place, number)| {
            let (_, place) = PLACES.iter().find(|(name, _)| *name == place)?;
            Some(place(number.parse().ok()?))
        });
        parsed.ok_or_else(|| {
            let places = PLACES.map(|(name, _)| format!("{name}:NUMBER")).join(", ");
            format!("{text:?} is none of {places}")
        })
    }
}

/// The panics of an engine, and how often each place was passed.
#[derive(Debug, Default)]
pub(crate) struct Planted {
    panics: Vec<Panic>,
    passed: [AtomicU64; PLACES.len()],
}

impl Planted {
    pub(crate) fn new(panics: &[Panic]) -> Self {
        Self { panics: panics.to_vec(), ..Self::default() }
    }

    /// A thread is in this place.
    pub(crate) fn pass(&self, place: Place) {
        if self.panics.is_empty() {
            return;
        }
        let at = |panic: &Panic| std::mem::discriminant(panic) == std::mem::discriminant(&place(0));
        let Some(nth) = PLACES.iter().position(|(_, other)| at(&other(0))) else { return };
        let here = place(self.passed[nth].fetch_add(1, Relaxed) + 1);
        assert!(!self.panics.contains(&here), "planted: {here:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_name() {
        for (name, place) in PLACES {
            assert_eq!(format!("{name}:12").parse(), Ok(place(12)));
        }
        for wrong in ["", "policy", "policy:", "policy:x", "nowhere:1"] {
            assert!(wrong.parse::<Panic>().is_err_and(|told| told.contains("directory:NUMBER")), "{wrong}");
        }
    }

    #[test]
    fn a_place_panics_when_it_is_passed_for_that_time() {
        let planted = Planted::new(&[Panic::Task(2), Panic::Read(1)]);
        let panics = |place| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| planted.pass(place))).is_err();
        assert_eq!([1, 2, 3].map(|_| panics(Panic::Task)), [false, true, false]);
        assert!(panics(Panic::Read) && !panics(Panic::Answer));
    }
}
