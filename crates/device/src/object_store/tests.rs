//! Promises of the model, in virtual time.

use proptest::prelude::*;

use super::*;
use crate::latency::Spread;

const MS: u64 = 1_000_000;

/// A driver that is never late: it steps from deadline to deadline and takes every grant at once.
struct Driver {
    store: ObjectStore,
    now_ns: u64,
    log: Vec<Action>,
    prompt: bool,
}

impl Driver {
    fn new(config: Config) -> Self {
        Self { store: ObjectStore::new(config), now_ns: 0, log: Vec::new(), prompt: true }
    }

    fn request(&mut self, id: RequestId, bytes: u64) {
        self.event(Event::Request { id, bytes, slowdown: 1 });
    }

    fn event(&mut self, event: Event) {
        self.store.handle(self.now_ns, event);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(action) = self.store.poll_action() {
            self.log.push(action);
            if let (Action::Body { id, bytes, .. }, true) = (action, self.prompt) {
                self.store.handle(self.now_ns, Event::Taken { id, bytes });
            }
        }
    }

    fn run_until(&mut self, end_ns: u64) {
        while let Some(deadline) = self.store.next_deadline().filter(|&deadline| deadline <= end_ns) {
            self.now_ns = self.now_ns.max(deadline);
            self.event(Event::Tick);
        }
        self.now_ns = end_ns;
    }

    fn bodies(&self) -> Vec<(u64, RequestId, u64)> {
        let body = |action: &Action| match *action {
            Action::Body { id, bytes, at_ns } => Some((at_ns, id, bytes)),
            _ => None,
        };
        self.log.iter().filter_map(body).collect()
    }
}

fn config(first_byte_ms: u64, connection_rate: u64, total_rate: u64) -> Config {
    Config {
        first_byte: FirstByte::fixed(first_byte_ms * MS),
        connection_rate: Rate::per_second(connection_rate),
        total_rate: Rate::per_second(total_rate),
        ..Config::default()
    }
}

/// The most bytes granted within any interval of at most `interval_ns` (both ends included).
fn most_within(bodies: &[(u64, RequestId, u64)], interval_ns: u64) -> u64 {
    let (mut first, mut sum, mut most) = (0, 0, 0);
    for &(at_ns, _, bytes) in bodies {
        sum += bytes;
        while bodies[first].0 + interval_ns < at_ns {
            sum -= bodies[first].2;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

#[test]
fn one_request_takes_latency_plus_size_over_rate() {
    let mut driver = Driver::new(config(30, 80_000_000, 0));
    driver.request(1, 8 << 20);
    driver.run_until(10_000 * MS);
    assert_eq!(driver.log[0], Action::Head { id: 1, at_ns: 30 * MS });
    let bodies = driver.bodies();
    assert_eq!(bodies.len(), 128);
    assert_eq!(bodies[127].0, 30 * MS + 104_857_600);
    assert_eq!(driver.store.requests(), 0);
    assert_eq!(driver.store.next_deadline(), None);
}

#[test]
fn an_empty_response_has_a_head_only() {
    let mut driver = Driver::new(config(5, 1000, 1000));
    driver.request(1, 0);
    driver.run_until(100 * MS);
    assert_eq!(driver.log, [Action::Head { id: 1, at_ns: 5 * MS }]);
}

#[test]
fn an_unlimited_store_grants_at_once_but_only_its_window() {
    let mut driver = Driver::new(config(0, 0, 0));
    driver.prompt = false;
    driver.request(1, 100 << 20);
    let granted: u64 = driver.bodies().iter().map(|body| body.2).sum();
    assert_eq!(granted, WINDOW_QUANTA * QUANTUM_BYTES_MAX);
    assert_eq!(driver.store.next_deadline(), None);
    driver.event(Event::Taken { id: 1, bytes: 3 * QUANTUM_BYTES_MAX });
    let granted: u64 = driver.bodies().iter().map(|body| body.2).sum();
    assert_eq!(granted, (WINDOW_QUANTA + 3) * QUANTUM_BYTES_MAX);
}

#[test]
fn a_late_driver_gets_the_same_times() {
    let config = config(30, 80_000_000, 100_000_000);
    let mut punctual = Driver::new(config.clone());
    let mut late = Driver::new(config);
    for driver in [&mut punctual, &mut late] {
        driver.request(1, 500_000);
        driver.request(2, 500_000);
    }
    punctual.run_until(1000 * MS);
    late.now_ns = 1000 * MS;
    late.event(Event::Tick);
    assert_eq!(punctual.log, late.log);
}

#[test]
fn a_reader_that_stops_gets_no_credit() {
    let mut driver = Driver::new(config(0, 1_000_000, 0));
    driver.prompt = false;
    driver.request(1, 10 << 20);
    driver.run_until(5000 * MS);
    let window = WINDOW_QUANTA * driver.store.quantum_bytes();
    assert_eq!(driver.bodies().iter().map(|body| body.2).sum::<u64>(), window);
    let before = driver.log.len();
    driver.event(Event::Taken { id: 1, bytes: window });
    driver.run_until(5010 * MS);
    let after: u64 = driver.bodies()[before - 1..].iter().map(|body| body.2).sum();
    assert!(after <= 10_000, "{after} bytes in 10 ms at 1 MB/s");
}

#[test]
fn a_fast_peer_takes_what_a_slow_reader_leaves() {
    let mut driver = Driver::new(config(0, 0, 100_000_000));
    driver.prompt = false;
    driver.request(1, 100 << 20);
    driver.run_until(100 * MS);
    driver.prompt = true;
    driver.request(2, 100 << 20);
    driver.run_until(200 * MS);
    let second: u64 = driver.bodies().iter().filter(|body| body.1 == 2).map(|body| body.2).sum();
    assert!(second.abs_diff(10_000_000) <= QUANTUM_BYTES_MAX, "{second}");
}

#[test]
fn a_cancelled_request_gets_nothing_more() {
    let mut driver = Driver::new(config(10, 1_000_000, 1_000_000));
    driver.request(1, 1 << 20);
    driver.request(2, 1 << 20);
    driver.run_until(50 * MS);
    driver.event(Event::Cancel { id: 1 });
    let before = driver.log.len();
    driver.run_until(3000 * MS);
    assert!(driver.bodies()[before..].iter().all(|body| body.1 == 2));
    assert_eq!(driver.store.requests(), 0);
}

#[test]
fn heads_starts_and_ends_are_urgent_and_the_rest_is_not() {
    for total_rate in [0, 80_000_000] {
        let mut driver = Driver::new(config(30, 80_000_000, total_rate));
        driver.request(1, 10 * QUANTUM_BYTES_MAX);
        assert_eq!(driver.store.next_urgent(), Some(30 * MS));
        driver.run_until(30 * MS);
        assert_eq!(driver.store.next_urgent(), Some(30 * MS + 819_200));
        driver.run_until(32 * MS);
        assert_eq!(driver.store.next_urgent(), None, "there is more to come");
        assert!(driver.store.next_deadline().is_some());
        driver.run_until(30 * MS + 7_500_000);
        assert_eq!(driver.store.next_urgent(), Some(30 * MS + 8_192_000));
        driver.event(Event::Cancel { id: 1 });
        driver.run_until(100 * MS);
        assert_eq!(driver.store.next_urgent(), None);
    }
}

#[test]
fn a_cancelled_last_quantum_at_the_link_is_not_urgent() {
    let mut driver = Driver::new(config(0, 0, 1_000_000));
    driver.request(1, QUANTUM_BYTES_MIN);
    driver.request(2, QUANTUM_BYTES_MIN);
    assert_eq!(driver.store.next_urgent(), Some(4_096_000));
    driver.event(Event::Cancel { id: 2 });
    assert_eq!(driver.store.next_urgent(), None);
}

#[test]
fn the_slowdown_multiplies_the_latency_only() {
    let mut driver = Driver::new(config(10, 1_000_000, 0));
    driver.event(Event::Request { id: 1, bytes: 1000, slowdown: 7 });
    driver.run_until(1000 * MS);
    assert_eq!(driver.log[0], Action::Head { id: 1, at_ns: 70 * MS });
    assert_eq!(driver.bodies(), [(71 * MS, 1, 1000)]);
}

#[test]
fn a_store_with_a_concurrency_serves_that_many_requests_and_the_others_wait() {
    let mut driver = Driver::new(Config { concurrency: NonZeroU32::new(2), ..config(10, 1_000_000_000, 0) });
    for id in 0..6 {
        driver.request(id, 4096);
    }
    driver.event(Event::Cancel { id: 2 });
    assert_eq!(driver.store.requests(), 5);
    driver.run_until(100 * MS);
    let heads: Vec<_> = driver
        .log
        .iter()
        .filter_map(|action| match *action {
            Action::Head { id, at_ns } => Some((id, at_ns / (10 * MS))),
            _ => None,
        })
        .collect();
    assert_eq!(heads, [(0, 1), (1, 1), (3, 2), (4, 2), (5, 3)], "two at a time, in the order in which they came");
    assert_eq!(driver.store.requests(), 0);
}

#[test]
fn requests_above_their_rate_are_refused_and_told_when_to_come_back() {
    let mut driver = Driver::new(Config { request_rate: NonZeroU32::new(100), ..Config::default() });
    for id in 0..20 {
        driver.request(id, 0);
    }
    let refused = driver.log.iter().filter(|action| matches!(action, Action::Refuse { .. })).count();
    assert_eq!(refused, 9, "a burst of 100 ms is 11 requests at 100/s");
    let Some(Action::Refuse { retry_after_ns, .. }) = driver.log.last().copied() else { panic!("{:?}", driver.log) };
    driver.run_until(retry_after_ns);
    driver.request(99, 0);
    assert!(driver.log.contains(&Action::Head { id: 99, at_ns: retry_after_ns }));
}

#[test]
fn a_slow_device_delivers_in_small_quanta() {
    assert_eq!(ObjectStore::new(config(0, 80_000_000, 0)).quantum_bytes(), QUANTUM_BYTES_MAX);
    assert_eq!(ObjectStore::new(config(0, 80_000_000, 10_000_000)).quantum_bytes(), 20_000);
    assert_eq!(ObjectStore::new(config(0, 1, 0)).quantum_bytes(), QUANTUM_BYTES_MIN);
}

proptest! {
    #[test]
    fn no_rate_is_exceeded_and_every_byte_is_granted_once(
        arrivals in prop::collection::vec((0u64..50 * MS, 0u64..2_000_000), 1..20),
        connection_rate in prop::sample::select(vec![0u64, 3_000_000, 80_000_000]),
        total_rate in prop::sample::select(vec![0u64, 7_000_000, 100_000_000]),
        seed: u64,
    ) {
        let mut config = config(3, connection_rate, total_rate);
        config.first_byte.spread = Spread::Uniform(20 * MS);
        config.seed = seed;
        let mut driver = Driver::new(config.clone());
        let mut again = Driver::new(config);
        let mut arrivals = arrivals;
        arrivals.sort_unstable();
        for driver in [&mut driver, &mut again] {
            for (id, &(at_ns, bytes)) in arrivals.iter().enumerate() {
                driver.run_until(at_ns);
                driver.request(id as u64, bytes);
            }
            driver.run_until(1_000_000 * MS);
        }
        prop_assert_eq!(&driver.log, &again.log, "the same seed gives the same actions");

        let quantum = driver.store.quantum_bytes();
        let bodies = driver.bodies();
        prop_assert!(bodies.is_sorted_by_key(|body| body.0));
        prop_assert!(bodies.iter().all(|body| body.2 <= quantum && body.2 > 0));
        for interval_ns in [0, MS, 10 * MS, 100 * MS, 1000 * MS] {
            if let Some(rate) = Rate::per_second(total_rate) {
                prop_assert!(most_within(&bodies, interval_ns) <= rate.bytes_in(interval_ns) + quantum);
            }
            for id in 0..arrivals.len() as u64 {
                let own: Vec<_> = bodies.iter().copied().filter(|body| body.1 == id).collect();
                if let Some(rate) = Rate::per_second(connection_rate) {
                    prop_assert!(most_within(&own, interval_ns) <= rate.bytes_in(interval_ns) + quantum);
                }
            }
        }
        for (id, &(at_ns, bytes)) in arrivals.iter().enumerate() {
            let id = id as u64;
            let own: Vec<_> = bodies.iter().filter(|body| body.1 == id).collect();
            prop_assert_eq!(own.iter().map(|body| body.2).sum::<u64>(), bytes);
            let head = driver.log.iter().find_map(|action| match action {
                Action::Head { id: head, at_ns } if *head == id => Some(*at_ns),
                _ => None,
            });
            let head_ns = head.expect("every request has a head");
            prop_assert!(head_ns >= at_ns + 3 * MS && head_ns <= at_ns + 23 * MS);
            prop_assert!(own.iter().all(|body| body.0 >= head_ns));
        }
        prop_assert_eq!(driver.store.requests(), 0);
    }

    #[test]
    fn competing_requests_share_the_link_fairly(count in 2u64..20, total_rate in 1_000_000u64..1_000_000_000) {
        let mut driver = Driver::new(config(1, 0, total_rate));
        for id in 0..count {
            driver.request(id, 1 << 40);
        }
        driver.run_until(2000 * MS);
        let mut granted = vec![0u64; count as usize];
        for (_, id, bytes) in driver.bodies() {
            granted[id as usize] += bytes;
        }
        let (least, most) = (granted.iter().min().unwrap(), granted.iter().max().unwrap());
        prop_assert!(most - least <= driver.store.quantum_bytes(), "{granted:?}");
    }

    #[test]
    fn the_link_is_never_idle_while_someone_could_use_it(count in 2u64..20) {
        // Each pipe carries more than its share of the link, so the link is the limit.
        let total_rate = 100_000_000;
        let mut driver = Driver::new(config(0, total_rate * 3 / 2 / count, total_rate));
        for id in 0..count {
            driver.request(id, 1 << 40);
        }
        driver.run_until(2000 * MS);
        let granted: u64 = driver.bodies().iter().map(|body| body.2).sum();
        let carried = 2 * total_rate;
        let start_up = (count + 1) * driver.store.quantum_bytes();
        prop_assert!(granted + start_up >= carried, "{granted} of {carried}");
    }
}
