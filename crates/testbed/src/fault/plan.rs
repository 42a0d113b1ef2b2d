//! Which fault happens to which request: the state behind a list of faults.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foreread_device::Random;
use serde::Serialize;

use crate::{Effect, Fault, Kind};

/// The faults in force. Decisions are made in the order in which requests arrive.
#[derive(Debug, Default)]
pub(crate) struct FaultPlan {
    armed: Mutex<Vec<Armed>>,
}

#[derive(Debug)]
struct Armed {
    fault: Fault,
    random: Random,
    /// Requests that matched kind and key.
    matched: u64,
    /// Requests that it happened to.
    happened: u64,
    /// Until when the requests so far use up a rate.
    used_until: Option<Instant>,
}

/// The faults of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The object is replaced first.
    pub(crate) replace: bool,
    /// The other effect.
    pub(crate) effect: Option<Effect>,
}

/// A fault and how often it happened, for the control API.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FaultReport {
    fault: Fault,
    matched: u64,
    happened: u64,
}

impl FaultPlan {
    pub(crate) fn new(faults: Vec<Fault>) -> Self {
        let plan = Self::default();
        plan.set(faults);
        plan
    }

    /// Replaces all faults, and forgets what happened before.
    pub(crate) fn set(&self, faults: Vec<Fault>) {
        let arm =
            |fault: Fault| Armed { random: Random::new(fault.seed), fault, matched: 0, happened: 0, used_until: None };
        *self.armed() = faults.into_iter().map(arm).collect();
    }

    pub(crate) fn report(&self) -> Vec<FaultReport> {
        let report = |armed: &Armed| FaultReport {
            fault: armed.fault.clone(),
            matched: armed.matched,
            happened: armed.happened,
        };
        self.armed().iter().map(report).collect()
    }

    /// Decides about one request, which comes while so many `others` are being answered; every
    /// fault that matches it counts it, also when another one happens.
    pub(crate) fn decide(&self, kind: Kind, key: &str, others: u64) -> Decision {
        let mut decision = Decision::default();
        for armed in self.armed().iter_mut() {
            if !armed.fault.matches(kind, key) || !armed.is_due() || !armed.is_beyond(others) {
                continue;
            }
            if armed.fault.effect == Effect::Replace {
                decision.replace = true;
            } else if decision.effect.is_none() {
                decision.effect = Some(armed.fault.effect);
            } else {
                continue;
            }
            armed.happened += 1;
        }
        decision
    }

    fn armed(&self) -> MutexGuard<'_, Vec<Armed>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Armed {
    fn is_due(&mut self) -> bool {
        self.matched += 1;
        let fault = &self.fault;
        let counted = self.matched.saturating_sub(fault.after);
        // A random number is drawn for each request that counts, so that faults are independent.
        counted > 0
            && counted.is_multiple_of(fault.every)
            && (fault.per_million == 1_000_000 || self.random.chance(fault.per_million))
            && fault.count.is_none_or(|count| self.happened < count)
    }

    /// Whether a request is beyond the limit; where there is none, each is.
    fn is_beyond(&mut self, others: u64) -> bool {
        match self.fault.effect {
            Effect::Crowd { others: most, .. } => others >= most,
            Effect::Throttle { per_second, .. } => {
                let now = Instant::now();
                let until = self.used_until.map_or(now, |until| until.max(now));
                if until - now > BURST {
                    return true;
                }
                self.used_until = Some(until + Duration::from_secs(1) / per_second.get());
                false
            }
            _ => true,
        }
    }
}

/// How far requests may run ahead of a rate. Zero would refuse two requests of the same instant.
const BURST: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn happens(spec: &str, requests: usize) -> Vec<usize> {
        let plan = FaultPlan::new(vec![spec.parse().unwrap()]);
        (1..=requests).filter(|_| plan.decide(Kind::Get, "k", 0).effect.is_some()).collect::<Vec<_>>()
    }

    #[test]
    fn after_every_and_count_combine() {
        assert_eq!(happens("reset", 3), [1, 2, 3]);
        assert_eq!(happens("reset,every=3", 10), [3, 6, 9]);
        assert_eq!(happens("reset,after=4,every=2", 10), [6, 8, 10]);
        assert_eq!(happens("reset,count=2", 10), [1, 2]);
        assert_eq!(happens("reset,every=3,count=1", 10), [3]);
    }

    #[test]
    fn probability_follows_its_seed() {
        let one = happens("reset,probability=0.2,seed=1", 1000);
        assert!((150..250).contains(&one.len()), "{}", one.len());
        assert_eq!(one, happens("reset,probability=0.2,seed=1", 1000));
        assert_ne!(one, happens("reset,probability=0.2,seed=2", 1000));
        assert!(happens("reset,probability=0", 1000).is_empty());
    }

    #[test]
    fn the_first_that_is_due_happens_and_replace_goes_with_it() {
        let specs = ["replace,count=1", "status=500,every=2", "reset"];
        let plan = FaultPlan::new(specs.iter().map(|spec| spec.parse().unwrap()).collect());
        let first = plan.decide(Kind::Get, "k", 0);
        assert_eq!(first, Decision { replace: true, effect: Some(Effect::Reset) });
        let second = plan.decide(Kind::Get, "k", 0);
        assert_eq!(second.effect, Some(Effect::Status { status: 500, retry_after: None }));
        assert!(!second.replace);
        assert_eq!(plan.report()[2].happened, 1);
        assert_eq!(plan.decide(Kind::Head, "k", 0), Decision::default());
    }

    #[test]
    fn a_limit_refuses_what_exceeds_it() {
        let plan = FaultPlan::new(vec!["throttle=1".parse().unwrap()]);
        let happens = |others| plan.decide(Kind::Get, "k", others).effect.is_some();
        assert_eq!([happens(0), happens(0), happens(0)], [false, true, true], "one a second");
        plan.set(vec!["crowd=2".parse().unwrap()]);
        assert_eq!([happens(0), happens(1), happens(2)], [false, false, true]);
    }
}
