//! Throttle: how many requests a second storage is given that has refused some for being too many.
//!
//! ```text
//!   Unlimited ──(5 refusals)─> Searching   rate: what it took; half as much again a window
//!       ^                         │ more than one in 20 of a later window refused
//!       │                         v
//!       └──(no refusal for ─── Known       after such a window: what it took, less a 32nd; then
//!                                           quickly up to 3/4 of the rate that was too high;
//!            a minute)                      after a used window: 1/32 more; after 8 of those in a
//!                                           row 1/16, then 1/8, then 1/4
//! ```
//!
//! What storage refuses, a client sends again. Where each request comes back by itself, after a
//! wait of its own, many readers keep many more requests under way than the storage takes, and the
//! one that is unlucky each time is never answered. So requests wait here, in one line, and the
//! storage is sent about as many as it takes. The least that tells the limit is a few refusals now
//! and then: one in 20 is taken as the price.
//!
//! A limit of connections shows in the same way: what the storage takes a second is their number
//! by the time that each is busy.
//!
//! *Invariant:* nothing waits before the fifth refusal. The rate is never below [`RATE_MIN`].
//!
//! This file has no line and no timer: drivers ask it before each request, in the order in which
//! requests came, those that were refused before all others. It does not say when a request that
//! was refused is sent again (the engine's back-off), but that none is sent a second time
//! meanwhile. Source: docs/decisions/0127; additive steps and probing that grows with time since
//! the last loss, as in TCP CUBIC (RFC 9438) and in the adaptive retry mode of the AWS SDKs.

use crate::units::Nanos;

/// The rate of requests, and the answers of the present window.
#[derive(Debug, Default)]
pub struct Throttle {
    /// In requests per 1,000 seconds; `None` where no limit is known.
    rate: Option<u64>,
    /// The rate that was too high last; a guess from below is searched quickly up to three
    /// quarters of it.
    ceiling: u64,
    /// When the next request may be sent.
    next: Nanos,
    /// The storage asked for no more requests until then.
    held_until: Nanos,
    /// The last refusal.
    refused_at: Nanos,
    /// Used windows in a row without too many refusals.
    calm: u32,
    /// The last answer.
    answered_at: Nanos,
    since: Nanos,
    accepted: u64,
    refused: u64,
}

impl Throttle {
    /// Whether a limit is known, so that each request asks for its turn.
    pub fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// The first request of the line asks for its turn: it has it, or asks again after the wait
    /// that is returned.
    pub fn take(&mut self, now: Nanos) -> Option<Nanos> {
        let rate = self.rate?;
        if self.next > now {
            return Some(Nanos(self.next.0 - now.0));
        }
        // What was not used is lost, but for what a timer that fires late costs.
        let from = self.next.0.max(now.0.saturating_sub(BURST_NS));
        self.next = Nanos(from + 1_000_000_000_000 / rate);
        None
    }

    /// Whether a second request may be sent for what is late.
    pub fn may_hedge(&self, now: Nanos) -> bool {
        self.held_until <= now && (self.rate.is_none() || self.next <= now)
    }

    /// The storage took a request.
    pub fn accepted(&mut self, now: Nanos) {
        self.begin(now);
        self.accepted += 1;
        self.end(now);
    }

    /// The storage refused a request because there are too many. It asked for none before `wish`.
    pub fn refused(&mut self, now: Nanos, wish: Option<Nanos>) {
        self.begin(now);
        self.refused += 1;
        self.refused_at = now;
        self.held_until = self.held_until.max(Nanos(now.0 + wish.unwrap_or_default().0.min(HELD_NS_MAX)));
        if self.rate.is_none() && self.refused > REFUSED_FEW && self.is_too_much() {
            self.ceiling = u64::MAX;
            self.calm = 0;
            self.next = now;
            self.rate = Some(self.taken(now).max(RATE_MIN));
        }
        self.end(now);
    }

    /// What the storage took a second, in the present window, per 1,000 seconds.
    fn taken(&self, now: Nanos) -> u64 {
        let elapsed = now.since(self.since).0.max(WINDOW_NS);
        (u128::from(self.accepted) * 1_000_000_000_000 / u128::from(elapsed)) as u64
    }

    /// An answer comes: a window begins, unless one lasts. A window in which nothing came for long
    /// shows no rate, and a limit that was not met for a minute is none.
    fn begin(&mut self, now: Nanos) {
        if now.since(self.refused_at).0 >= FORGOTTEN_NS {
            self.rate = None;
        }
        let from = if self.rate.is_none() { self.since } else { self.answered_at };
        if self.accepted + self.refused == 0 || now.since(from).0 >= WINDOW_NS_MAX {
            (self.since, self.accepted, self.refused) = (now, 0, 0);
        }
        self.answered_at = now;
    }

    /// An answer has come: the window ends, if it has lasted long enough.
    fn end(&mut self, now: Nanos) {
        let (elapsed, answers) = (now.since(self.since).0, self.accepted + self.refused);
        let needed = if self.refused == 0 { 2 } else { ANSWERS_MIN };
        if elapsed < WINDOW_NS || (answers < needed && elapsed < WINDOW_NS_MAX) {
            return;
        }
        if let Some(rate) = self.rate {
            self.rate = Some(self.next_rate(now, rate));
        }
        (self.since, self.accepted, self.refused) = (now, 0, 0);
    }

    /// Whether too many of the present window are refused.
    fn is_too_much(&self) -> bool {
        self.refused * REFUSED_ONE_IN > self.accepted + self.refused
    }

    fn next_rate(&mut self, now: Nanos, rate: u64) -> u64 {
        let taken = self.taken(now);
        if self.is_too_much() {
            self.calm = 0;
            // Until the line holds requests back, those under way are refused whatever the rate.
            if self.ceiling < u64::MAX || taken >= rate / 2 {
                let before = if self.ceiling < u64::MAX { self.ceiling - self.ceiling / 8 } else { 0 };
                self.ceiling = before.max(rate);
            }
            return (taken - taken / STEP).max(RATE_MIN);
        }
        if taken < rate / 4 * 3 {
            return rate;
        }
        self.calm += 1;
        if rate < self.ceiling / 4 * 3 {
            return (rate + rate / 2).max(taken).min(self.ceiling / 4 * 3 + 1);
        }
        rate + rate / (STEP >> (self.calm / CALM).min(3))
    }
}

/// A window lasts so long at least: 250 ms. Lower: the rates of windows differ by chance. Higher:
/// a limit is found later. Source: docs/decisions/0127.
const WINDOW_NS: u64 = 250_000_000;

/// Where answers are few, a window lasts so long at most: 2 s. Lower: rates of a few answers.
/// Higher: a slow storage's limit is followed later. Source: a guess, not measured.
const WINDOW_NS_MAX: u64 = 2_000_000_000;

/// The answers that end a window with a refusal before that. Lower: one refusal is too many.
/// Higher: a window of a slow storage lasts longer. Source: a guess: with one refusal more than
/// [`REFUSED_ONE_IN`] allows.
const ANSWERS_MIN: u64 = 20;

/// The rate is too high where more than one request in so many is refused: 5 %. Lower: more
/// requests are sent in vain. Higher: a limit that is exceeded by chance lowers the rate. Source:
/// docs/decisions/0127.
const REFUSED_ONE_IN: u64 = 20;

/// Four refusals do not show a limit yet. Lower: one object that is always refused slows the
/// others. Higher: more requests in vain before a limit is seen. Source: an object whose request
/// is sent again after 50, 100 and 200 ms.
const REFUSED_FEW: u64 = 4;

/// The rate changes by one part in so many. Lower: steps are larger, and more requests are
/// refused. Higher: a storage that takes more again is followed later. Source:
/// docs/decisions/0127.
const STEP: u64 = 32;

/// After so many windows in a row without too many refusals, steps are twice as large, three times
/// at most. Lower: more requests are refused where the limit stays. Higher: a storage that takes
/// more again is followed later. Source: a guess, not measured.
const CALM: u32 = 8;

/// The lowest rate: 10 requests a second, written per 1,000 seconds. Lower: a storage that refused
/// everything for a time is followed later. Higher: more requests in vain at a storage that takes
/// fewer. Source: a guess: less than any limit that a storage documents.
const RATE_MIN: u64 = 10_000;

/// Without a refusal for so long, the limit is forgotten: 60 s. Lower: a load that reaches the
/// limit now and then is refused each time. Higher: a single refusal slows a burst for longer.
/// Source: a guess, not measured.
const FORGOTTEN_NS: u64 = 60_000_000_000;

/// No second request is sent for so long at most, whatever the storage asks for: a minute. Lower:
/// storage that means it is sent more. Higher: one object that is not to be asked for within the
/// hour leaves the others without. Source: a guess, not measured; as for a limit that is not met.
const HELD_NS_MAX: u64 = 60_000_000_000;

/// How much of what was not used may be caught up with: 20 ms. Lower: the rate is lower than it
/// is set to, by what timers are late. Higher: more requests at once after a pause, and a storage
/// without a burst of its own refuses them. Source: a guess, not measured.
const BURST_NS: u64 = 20_000_000;

#[cfg(test)]
mod tests {
    use alloc::collections::BinaryHeap;
    use alloc::vec::Vec;
    use core::cmp::Reverse;

    use super::*;

    const MS: u64 = 1_000_000;

    /// Storage that takes `per_second` requests, with a burst of a tenth of a second.
    struct Storage {
        per_second: u64,
        used_until: u64,
    }

    impl Storage {
        fn takes(&mut self, now: u64) -> bool {
            let until = self.used_until.max(now);
            let taken = until - now <= 100 * MS;
            if taken {
                self.used_until = until + 1_000 * MS / self.per_second;
            }
            taken
        }
    }

    /// `readers` send a request each, and the next one when it is answered, `latency` later; one
    /// that is refused is sent again, before those that were not sent yet. Returns the requests
    /// that were taken, those that were refused, and the longest that a reader waited for one,
    /// over the last `seconds` of twice as many.
    fn run(readers: usize, per_second: impl Fn(u64) -> u64, latency: u64, seconds: u64) -> (u64, u64, u64) {
        let mut storage = Storage { per_second: per_second(0), used_until: 0 };
        let mut throttle = Throttle::default();
        // (when, whether it was taken, the reader)
        let mut answers = BinaryHeap::new();
        let mut line: alloc::collections::VecDeque<usize> = (0..readers).collect();
        let mut began = alloc::vec![0u64; readers];
        let (mut now, end) = (0, 2 * seconds * 1_000 * MS);
        let (mut taken, mut refused, mut longest) = (0, 0, 0);
        while now < end {
            storage.per_second = per_second(now);
            let wait = match line.front() {
                Some(&reader) => match throttle.take(Nanos(now)) {
                    None => {
                        line.pop_front();
                        let is_taken = storage.takes(now);
                        if now >= end / 2 {
                            taken += u64::from(is_taken);
                            refused += u64::from(!is_taken);
                        }
                        answers.push(Reverse((now + if is_taken { latency } else { MS }, is_taken, reader)));
                        continue;
                    }
                    Some(wait) => now + wait.0,
                },
                None => u64::MAX,
            };
            let next = answers.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            now = wait.min(next);
            if next > now {
                continue;
            }
            let Some(Reverse((_, is_taken, reader))) = answers.pop() else { break };
            if is_taken {
                throttle.accepted(Nanos(now));
                longest = longest.max(now - began[reader]);
                began[reader] = now;
                line.push_back(reader);
            } else {
                throttle.refused(Nanos(now), None);
                line.push_front(reader);
            }
        }
        (taken, refused, longest)
    }

    #[test]
    fn storage_that_takes_few_is_sent_few_more_and_no_reader_starves() {
        for (readers, per_second) in [(256, 100), (2_000, 100), (256, 1_000), (2_000, 1_000), (20_000, 1_000)] {
            for latency in [MS, 30 * MS, 300 * MS] {
                let (taken, refused, longest) = run(readers, |_| per_second, latency, 60);
                let can = per_second.min(readers as u64 * 1_000 * MS / latency) * 60;
                let what = alloc::format!("{readers} readers, {per_second}/s, {latency} ns: {taken}, {refused}");
                assert!(taken * 100 >= can * 88, "{what} of {can}");
                assert!(refused * 10 <= taken, "{what}");
                let turn = readers as u64 * 1_000 * MS / per_second;
                assert!(longest <= turn * 5 / 4 + 5_000 * MS, "{what}, {longest} ns");
            }
        }
    }

    #[test]
    fn a_limit_that_goes_up_is_followed_and_one_that_is_not_met_is_forgotten() {
        // Ten times as much from the 20th second on.
        let (taken, refused, _) = run(2_000, |now| if now < 20_000 * MS { 100 } else { 1_000 }, 30 * MS, 30);
        assert!(taken >= 30 * 850 && refused * 10 <= taken, "{taken}, {refused}");
        let mut throttle = Throttle::default();
        (0..5).for_each(|_| throttle.refused(Nanos(MS), None));
        assert!(throttle.is_limited());
        for at in 0..70_000 {
            throttle.accepted(Nanos((2 + at) * MS));
        }
        assert!(!throttle.is_limited());
    }

    #[test]
    fn what_came_before_a_pause_sets_no_rate_after_it() {
        for (pause, is_limited) in [(10_000, true), (600_000, false)] {
            let mut throttle = Throttle::default();
            for at in 0..1_000 {
                throttle.accepted(Nanos(at * MS));
            }
            (0..100).for_each(|_| throttle.refused(Nanos(1_000 * MS), None));
            throttle.refused(Nanos(1_300 * MS), None);
            let rate = throttle.rate;
            // A window of few answers, one of which is a refusal.
            throttle.refused(Nanos(1_400 * MS), None);
            throttle.accepted(Nanos(1_410 * MS));
            assert!(rate.is_some() && throttle.rate == rate, "{:?}", throttle.rate);
            throttle.accepted(Nanos((1_410 + pause) * MS));
            assert_eq!((throttle.is_limited(), throttle.rate), (is_limited, rate.filter(|_| is_limited)));
        }
    }

    #[test]
    fn a_rate_that_was_set_too_low_by_chance_is_soon_higher() {
        let mut throttle = Throttle::default();
        let (mut storage, mut sent) = (Storage { per_second: 1_000, used_until: 0 }, 0);
        for ms in 0..20_000 {
            let now = ms * MS;
            while throttle.take(Nanos(now)).is_none() && (throttle.is_limited() || sent % 4 != 3) {
                sent += 1;
                // For two seconds everything is refused.
                let is_taken = storage.takes(now) && !(5_000..7_000).contains(&ms);
                if is_taken { throttle.accepted(Nanos(now)) } else { throttle.refused(Nanos(now), None) }
            }
            // Another one that does not stand in line.
            sent += u64::from(!throttle.is_limited());
            if ms == 11_000 {
                sent = 0;
            }
        }
        assert!(sent >= 8_000, "{sent} in nine seconds");
    }

    #[test]
    fn nothing_waits_before_a_refusal_and_nothing_is_sent_twice_while_the_storage_asks_to_wait() {
        let mut throttle = Throttle::default();
        let now = Nanos(5_000 * MS);
        assert!((0..10_000).all(|_| throttle.take(now).is_none()) && throttle.may_hedge(now));
        throttle.refused(now, Some(Nanos(2_000 * MS)));
        assert!(!throttle.may_hedge(Nanos(6_900 * MS)));
        assert!(throttle.may_hedge(Nanos(7_100 * MS)));
        throttle.refused(now, Some(Nanos(u64::MAX)));
        assert!(!throttle.may_hedge(Nanos(64_900 * MS)) && throttle.may_hedge(Nanos(65_100 * MS)), "a minute");
    }

    #[test]
    fn one_object_that_is_always_refused_does_not_slow_the_others() {
        let mut throttle = Throttle::default();
        let waits: Vec<_> = (0..60_000u64)
            .map(|at| {
                let now = Nanos(at * MS);
                if at % 40 == 0 {
                    throttle.refused(now, None);
                } else {
                    throttle.accepted(now);
                }
                throttle.take(now)
            })
            .collect();
        let late = waits[20_000..].iter().filter(|wait| wait.is_some()).count();
        assert!(late < 400, "{late} of 40,000 requests waited");
    }
}
