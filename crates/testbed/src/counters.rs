//! Counters by kind of request, and a log of the last requests.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// The kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Reading an object or a part of it.
    Get,
    /// Asking for an object's size and version.
    Head,
    /// Listing keys.
    List,
    /// Writing or deleting an object.
    Put,
    /// Anything else: buckets, wrong requests.
    Other,
}

impl Kind {
    /// The name in specs and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Put => "put",
            Self::Other => "other",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Get, Self::Head, Self::List, Self::Put, Self::Other].into_iter().find(|kind| kind.name() == name)
    }
}

/// Requests since the start or the last reset; requests to the control API do not count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// GET of objects.
    pub get: u64,
    /// HEAD of objects.
    pub head: u64,
    /// Pages of listings.
    pub list: u64,
    /// PUT and DELETE of objects.
    pub put: u64,
    /// Other requests.
    pub other: u64,
    /// Requests answered with a status from 400 on.
    pub errors: u64,
    /// Requests that a fault happened to.
    pub faults: u64,
    /// Bytes of bodies that were handed to the connection.
    pub bytes_sent: u64,
    /// The bytes of objects among them.
    pub object_bytes_sent: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Requests without a complete response.
    pub in_flight: u64,
    /// The most at once.
    pub in_flight_max: u64,
    /// The most GETs of one key at once, by key.
    pub in_flight_max_by_key: HashMap<String, u64>,
}

/// One request, as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedRequest {
    /// Its place in the order of arrival, from 0 on.
    pub sequence: u64,
    /// What kind it is.
    pub kind: Kind,
    /// The key; for a list the prefix.
    pub key: String,
    /// The requested bytes, `[start, end)`; `null` for the whole object.
    pub range: Option<(u64, u64)>,
    /// The status of the response; 0 until it is known, and for ever if there was none.
    pub status: u16,
}

/// The counters and the log of a running testbed.
#[derive(Debug)]
pub(crate) struct Accounts {
    bytes_sent: AtomicU64,
    object_bytes_sent: AtomicU64,
    books: Mutex<Books>,
    log_max: usize,
}

#[derive(Debug, Default)]
struct Books {
    /// All but the bytes.
    counters: Counters,
    gets_in_flight: HashMap<String, u64>,
    log: VecDeque<LoggedRequest>,
    next_sequence: u64,
}

/// A request that is being answered; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    accounts: Arc<Accounts>,
    sequence: u64,
    /// The key, of a GET.
    key: Option<String>,
}

impl Accounts {
    pub(crate) fn new(log_max: usize) -> Self {
        let zero = AtomicU64::default;
        Self { bytes_sent: zero(), object_bytes_sent: zero(), books: Mutex::default(), log_max }
    }

    /// A request arrived.
    pub(crate) fn enter(self: &Arc<Self>, kind: Kind, key: &str, range: Option<(u64, u64)>, fault: bool) -> Entry {
        let mut guard = self.books();
        let books = &mut *guard;
        let counters = &mut books.counters;
        match kind {
            Kind::Get => counters.get += 1,
            Kind::Head => counters.head += 1,
            Kind::List => counters.list += 1,
            Kind::Put => counters.put += 1,
            Kind::Other => counters.other += 1,
        }
        counters.faults += u64::from(fault);
        counters.in_flight += 1;
        counters.in_flight_max = counters.in_flight_max.max(counters.in_flight);
        if kind == Kind::Get {
            let now = books.gets_in_flight.entry(key.to_owned()).or_default();
            *now += 1;
            if let Some(most) = counters.in_flight_max_by_key.get_mut(key) {
                *most = (*most).max(*now);
            } else if counters.in_flight_max_by_key.len() < KEYS_MAX {
                counters.in_flight_max_by_key.insert(key.to_owned(), *now);
            }
        }
        let sequence = books.next_sequence;
        books.next_sequence += 1;
        books.log.push_back(LoggedRequest { sequence, kind, key: key.to_owned(), range, status: 0 });
        if books.log.len() > self.log_max {
            books.log.pop_front();
        }
        Entry { accounts: Arc::clone(self), sequence, key: (kind == Kind::Get).then(|| key.to_owned()) }
    }

    /// Requests without a complete response.
    pub(crate) fn in_flight(&self) -> u64 {
        self.books().counters.in_flight
    }

    pub(crate) fn connected(&self) {
        self.books().counters.connections += 1;
    }

    /// `bytes` of a body were handed over, of which `of_objects` are an object's.
    pub(crate) fn sent(&self, bytes: u64, of_objects: u64) {
        self.bytes_sent.fetch_add(bytes, Ordering::Relaxed);
        self.object_bytes_sent.fetch_add(of_objects, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters {
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            object_bytes_sent: self.object_bytes_sent.load(Ordering::Relaxed),
            ..self.books().counters.clone()
        }
    }

    pub(crate) fn log(&self) -> Vec<LoggedRequest> {
        self.books().log.iter().cloned().collect()
    }

    /// Starts from zero, but for what is in flight.
    pub(crate) fn reset(&self) {
        let mut books = self.books();
        let in_flight = books.counters.in_flight;
        books.counters = Counters { in_flight, in_flight_max: in_flight, ..Counters::default() };
        books.log.clear();
        self.bytes_sent.store(0, Ordering::Relaxed);
        self.object_bytes_sent.store(0, Ordering::Relaxed);
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// The head of the response is known; `range` is what it really covers, where the request did
    /// not say so.
    pub(crate) fn answered(&self, status: u16, range: Option<(u64, u64)>) {
        let mut books = self.accounts.books();
        books.counters.errors += u64::from(status >= 400);
        // Sequence numbers are dense, so the place in the log follows from the first.
        let first = books.log.front().map_or(0, |logged| logged.sequence);
        let place = self.sequence.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        if let Some(logged) = place.and_then(|place| books.log.get_mut(place)) {
            logged.status = status;
            logged.range = range.or(logged.range);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut books = self.accounts.books();
        books.counters.in_flight -= 1;
        if let Some(key) = &self.key
            && let Some(now) = books.gets_in_flight.get_mut(key)
        {
            *now -= 1;
            if *now == 0 {
                books.gets_in_flight.remove(key);
            }
        }
    }
}

/// How many keys have their own maximum: a walk over a million objects must not fill the memory.
const KEYS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_flight_are_counted_and_their_maximum_is_kept() {
        let accounts = Arc::new(Accounts::new(10));
        let first = accounts.enter(Kind::Get, "a", None, false);
        let second = accounts.enter(Kind::Get, "a", Some((0, 5)), true);
        let other = accounts.enter(Kind::Head, "b", None, false);
        drop(first);
        let counters = accounts.counters();
        assert_eq!((counters.get, counters.head, counters.faults), (2, 1, 1));
        assert_eq!((counters.in_flight, counters.in_flight_max), (2, 3));
        assert_eq!(counters.in_flight_max_by_key, HashMap::from([("a".to_owned(), 2)]));
        accounts.reset();
        drop((second, other));
        assert_eq!(accounts.counters(), Counters { in_flight_max: 2, ..Counters::default() });
    }

    #[test]
    fn the_log_keeps_the_last_and_learns_their_status() {
        let accounts = Arc::new(Accounts::new(2));
        let entries: Vec<Entry> = (0..3).map(|n| accounts.enter(Kind::Get, &n.to_string(), None, false)).collect();
        entries[0].answered(200, None);
        entries[2].answered(206, Some((1, 2)));
        let log = accounts.log();
        assert_eq!(log.iter().map(|logged| logged.sequence).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((log[0].status, log[1].status, log[1].range), (0, 206, Some((1, 2))));
        accounts.reset();
        entries[1].answered(500, None);
        assert!(accounts.log().is_empty());
        assert_eq!(accounts.counters().errors, 1);
    }
}
