//! What a mount says of itself, and what has changed between two looks.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use foreread_engine::{Stats, Stream, Watched};

/// One look at a mount.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    at: Instant,
    pub(super) stats: Stats,
    pub(super) watched: Watched,
    /// The part of the storage's time that each of its streams had since the look before; nothing
    /// for one that was not looked at then, or where none is known.
    pub(super) shares: Vec<Option<f64>>,
}

impl Sample {
    /// What the mount said at `at`. What this command does not know of another version is left
    /// out.
    pub(super) fn new(at: Instant, stats: &str, watched: &str) -> Self {
        let stats = serde_json::from_str(stats).unwrap_or_default();
        let watched = serde_json::from_str(watched).unwrap_or_default();
        Self { at, stats, watched, shares: Vec::new() }
    }

    /// The same, after `before`.
    fn after(mut self, before: &Self) -> Self {
        let name = |stream: &Stream| (stream.key.clone(), stream.id);
        let had: BTreeMap<_, _> = before.watched.streams.iter().map(|s| (name(s), s.served_us)).collect();
        let whole = self.watched.served_us.saturating_sub(before.watched.served_us) as f64;
        let share = |stream: &Stream| {
            let had = *had.get(&name(stream))?;
            // One that was forgotten begins at nothing again.
            let since = stream.served_us.checked_sub(had).unwrap_or(stream.served_us) as f64;
            (whole > 0.0).then(|| (since / whole).min(1.0))
        };
        self.shares = self.watched.streams.iter().map(share).collect();
        self
    }
}

/// The last looks.
#[derive(Debug)]
pub(super) struct History {
    /// The latest is last.
    samples: VecDeque<Sample>,
    began: Instant,
}

/// What has changed since the look before, for each second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    /// Bytes given to programs.
    pub(super) read_bytes: f64,
    pub(super) reads: f64,
    /// The part of the reads that found all in memory, and that waited; `None` without a read.
    pub(super) hits: Option<f64>,
    /// Bytes from the storage, and requests.
    pub(super) fetched_bytes: f64,
    pub(super) requests: f64,
    /// Bytes from the folder of the cache.
    pub(super) cache_bytes: f64,
}

impl History {
    pub(super) fn new(first: Sample) -> Self {
        Self { began: first.at, samples: VecDeque::from([first]) }
    }

    pub(super) fn add(&mut self, sample: Sample) {
        let sample = sample.after(self.latest());
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Other streams of the latest look: the user has asked for them.
    pub(super) fn replace(&mut self, sample: Sample) {
        if let Some(before) = self.samples.len().checked_sub(2) {
            let sample = Sample { at: self.latest().at, stats: self.latest().stats.clone(), ..sample };
            let sample = sample.after(&self.samples[before]);
            let last = self.samples.len() - 1;
            self.samples[last] = sample;
        } else {
            self.samples[0].watched = sample.watched;
        }
    }

    /// The latest.
    pub(super) fn latest(&self) -> &Sample {
        &self.samples[self.samples.len() - 1]
    }

    /// From the first look to the latest.
    pub(super) fn shown_for(&self) -> Duration {
        self.latest().at - self.began
    }

    /// Since the look before the latest; nothing after the first one.
    pub(super) fn rates(&self) -> Rates {
        let before = self.samples.len().checked_sub(2).map(|at| &self.samples[at]);
        before.map_or_else(Rates::default, |before| between(before, self.latest()))
    }

    /// Bytes a second to programs, the latest last.
    pub(super) fn read_rates(&self) -> Vec<u64> {
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        pairs.map(|(before, after)| between(before, after).read_bytes as u64).collect()
    }
}

fn between(before: &Sample, after: &Sample) -> Rates {
    let seconds = (after.at - before.at).as_secs_f64().max(1e-3);
    let (old, new) = (&before.stats, &after.stats);
    let since = |field: fn(&Stats) -> u64| field(new).saturating_sub(field(old)) as f64;
    let cache = |stats: &Stats| stats.cache.as_ref().map_or(0, |cache| cache.read_bytes);
    let (reads, hits) = (since(|stats| stats.reads), since(|stats| stats.hits));
    Rates {
        read_bytes: since(|stats| stats.read_bytes) / seconds,
        reads: reads / seconds,
        hits: (reads > 0.0).then_some(hits / reads),
        fetched_bytes: since(|stats| stats.fetched_bytes) / seconds,
        requests: since(|stats| stats.requests) / seconds,
        cache_bytes: cache(new).saturating_sub(cache(old)) as f64 / seconds,
    }
}

/// Looks that are kept: what the line of throughput shows on a wide terminal.
const SAMPLES_MAX: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_for_a_second_and_of_the_last_two_looks() {
        let at = Instant::now();
        let look = |seconds: u64, read: u64, reads: u64, hits: u64| {
            let stats = format!(r#"{{"read_bytes":{read},"reads":{reads},"hits":{hits},"news":7}}"#);
            Sample::new(at + Duration::from_secs(seconds), &stats, r#"{"streams":[],"link":{}}"#)
        };
        let mut history = History::new(look(0, 500, 1, 1));
        assert_eq!((history.rates(), history.read_rates()), (Rates::default(), vec![]));
        history.add(look(2, 1_500, 11, 6));
        let rates = history.rates();
        assert_eq!((rates.read_bytes, rates.reads, rates.hits), (500.0, 5.0, Some(0.5)));
        history.add(look(3, 1_500, 11, 6));
        assert_eq!((history.rates().hits, history.read_rates()), (None, vec![500, 0]));
        assert_eq!(history.shown_for(), Duration::from_secs(3));
    }

    #[test]
    fn a_mount_that_was_started_anew_has_no_negative_rates() {
        let at = Instant::now();
        let look = |seconds, read| {
            Sample::new(at + Duration::from_secs(seconds), &format!(r#"{{"read_bytes":{read}}}"#), "{}")
        };
        let mut history = History::new(look(0, 9_000));
        history.add(look(1, 10));
        assert!(history.rates().read_bytes.abs() < f64::EPSILON);
    }
}
