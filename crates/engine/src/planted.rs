//! Fault injection: panics that are planted, to test that an engine survives them.
//!
//! ```text
//!   policy:1000   while policy is told of its 1,000th event
//!   task:50       in the task of a request, as the 50th piece of a body comes
//!   read:7        in the 7th read, on the thread that reads
//! ```

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A place that panics, and how often it is passed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Panic {
    /// Policy, at the event of this number, counted from 1.
    Policy(u64),
    /// The task of a request, when the piece of this number comes, counted from 1.
    Task(u64),
    /// The read of this number, counted from 1, on the thread that reads.
    Read(u64),
}

impl FromStr for Panic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not policy:NUMBER, task:NUMBER or read:NUMBER");
        let (place, number) = text.split_once(':').ok_or_else(wrong)?;
        let number = number.parse().map_err(|_| wrong())?;
        match place {
            "policy" => Ok(Self::Policy(number)),
            "task" => Ok(Self::Task(number)),
            "read" => Ok(Self::Read(number)),
            _ => Err(wrong()),
        }
    }
}

/// The panics of an engine, and how often each place was passed.
#[derive(Debug, Default)]
pub(crate) struct Planted {
    panics: Vec<Panic>,
    events: AtomicU64,
    tasks: AtomicU64,
    reads: AtomicU64,
}

impl Planted {
    pub(crate) fn new(panics: &[Panic]) -> Self {
        Self { panics: panics.to_vec(), ..Self::default() }
    }

    /// Policy is told of an event.
    pub(crate) fn event(&self) {
        self.pass(&self.events, Panic::Policy);
    }

    /// A task has received something.
    pub(crate) fn task(&self) {
        self.pass(&self.tasks, Panic::Task);
    }

    /// A thread reads.
    pub(crate) fn read(&self) {
        self.pass(&self.reads, Panic::Read);
    }

    fn pass(&self, count: &AtomicU64, place: impl Fn(u64) -> Panic) {
        if !self.panics.is_empty() {
            let here = place(count.fetch_add(1, Relaxed) + 1);
            assert!(!self.panics.contains(&here), "planted: {here:?}");
        }
    }
}
