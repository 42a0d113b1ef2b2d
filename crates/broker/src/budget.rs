//! One budget for the engines of a process that reads several stores.
//!
//! Policy divides it ([`Division`]). This file looks at the engines four times a second, and does
//! with them what policy says.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use foreread_backend::lock::Mutex;
use foreread_engine::{Error, ErrorKind, MEMORY_BYTES_MIN};
use foreread_policy::{Division, Nanos};
use tracing::debug;

use crate::shared::Shared;

/// How often engines are looked at, 250 ms. Lower: a process that does nothing wakes up more
/// often. Higher: a store that is read again reads with the least so much longer.
const LOOKS_EVERY: Duration = Duration::from_millis(250);

/// The budget of a process, and its engines.
///
/// An engine that another process serves takes no memory of this one: what the other is told is an
/// equal part.
pub struct Budget(Mutex<Engines>);

impl Budget {
    /// For engines that are added later. A budget that the program has not set, `told`, is
    /// `default` bytes, and holds only where no other process is told one.
    ///
    /// Errors: no thread can be started.
    pub fn start(told: Option<u64>, default: u64) -> Result<Arc<Self>, Error> {
        let division = Division::new(told.unwrap_or(default), MEMORY_BYTES_MIN);
        let engines = Engines { is_told: told.is_some(), division, shared: Vec::new(), began: Instant::now() };
        let budget = Arc::new(Self(Mutex::new(engines)));
        let looked_at = Arc::downgrade(&budget);
        let looks = move || look(&looked_at);
        let started = std::thread::Builder::new().name("foreread-budget".into()).spawn(looks);
        started.map_err(|error| Error::told(ErrorKind::Io, &format!("cannot start a thread: {error}"), None, false))?;
        Ok(budget)
    }

    /// What an engine that is made now may use: what it is told, and what holds if it is not told.
    pub fn part_of_next(&self) -> (Option<u64>, u64) {
        let engines = self.0.lock();
        let part = engines.division.part_of_next();
        (engines.is_told.then_some(part), part)
    }

    /// This engine has a part from now on, until it is removed.
    pub fn add(&self, engine: Shared) {
        let mut engines = self.0.lock();
        engines.shared.push(engine);
        let now = engines.now();
        engines.division.add(now);
        engines.divide();
    }

    /// This engine has no part any more.
    pub fn remove(&self, engine: &Shared) {
        let mut engines = self.0.lock();
        let Some(nth) = engines.shared.iter().position(|other| other.is_same(engine)) else { return };
        engines.division.remove(nth);
        // The caller has another one.
        drop(engines.shared.remove(nth));
        engines.divide();
    }

    /// The program sets the budget.
    pub fn set(&self, bytes: u64) {
        let mut engines = self.0.lock();
        engines.is_told = true;
        engines.division.set_budget(bytes);
        engines.divide();
    }
}

/// Looks at the engines for as long as the budget is there.
fn look(budget: &Weak<Budget>) {
    loop {
        std::thread::sleep(LOOKS_EVERY);
        let Some(budget) = budget.upgrade() else { return };
        let mut engines = budget.0.lock();
        // One alone has all of it.
        if engines.shared.len() > 1 {
            engines.divide();
        }
    }
}

struct Engines {
    /// The program has set the budget.
    is_told: bool,
    division: Division,
    /// In the order of `division`.
    shared: Vec<Shared>,
    began: Instant,
}

impl Engines {
    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn divide(&mut self) {
        let uses: Vec<_> = self.shared.iter().map(Shared::usage).collect();
        let (now, equal) = (self.now(), self.division.equal_part());
        for change in self.division.divide(now, &uses) {
            let engine = &self.shared[change.engine];
            if change.gives_back {
                engine.give_memory_back();
            }
            if let Some(bytes) = change.bytes
                && let Err(error) = engine.set_part(self.is_told, bytes, equal)
            {
                debug!(%error, "a part of the budget is not used");
            }
        }
    }
}
