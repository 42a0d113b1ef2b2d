//! Listings by name: whether it is worth a listing that files are read by name in one directory
//! after the other, none of which is listed.
//!
//! ```text
//!   listed ──(time to live)──> judged: four files for each of them, fetched in order and opened?
//!                                yes: right      no: wrong ──(4 more than right)──> none for long
//! ```
//!
//! A read by name waits for no listing. What a listing brings is the files that come next in
//! order. To a program that opens one file here and one there it brings nothing, and it costs as
//! much as a dozen reads of files where requests are paid for.
//!
//! This file does not say which directories are listed (`path/lookups`). Source:
//! docs/decisions/0106.

use crate::directories::confidence::Confidence;
use crate::units::Nanos;

/// What such listings have brought.
#[derive(Debug)]
pub(crate) struct ListingsByName {
    confidence: Confidence,
    /// When the first of those was asked for that are not judged.
    since: Option<Nanos>,
    listings: u32,
    /// Files opened since then that were fetched as the next ones in order.
    hits: u32,
}

impl Default for ListingsByName {
    fn default() -> Self {
        Self { confidence: Confidence::closed(1), since: None, listings: 0, hits: 0 }
    }
}

impl ListingsByName {
    /// Whether one may be asked for.
    pub(crate) fn are_due(&mut self, now: Nanos, ttl: Nanos) -> bool {
        if self.since.is_some_and(|since| now.since(since) > ttl.min(JUDGED_AFTER)) {
            if self.hits >= self.listings.saturating_mul(HITS_MIN) {
                self.confidence.hit(false);
            } else {
                self.confidence.missed();
            }
            (self.since, self.listings, self.hits) = (None, 0, 0);
        }
        self.confidence.open(1);
        self.confidence.is_open() && self.listings < UNPAID_MAX.saturating_add(self.hits / HITS_MIN)
    }

    /// One is asked for.
    pub(crate) fn listed(&mut self, now: Nanos) {
        self.since.get_or_insert(now);
        self.listings += 1;
    }

    /// A file is opened that was fetched as the next one in order.
    pub(crate) fn hit(&mut self) {
        if self.since.is_some() {
            self.hits = self.hits.saturating_add(1);
        }
    }
}

/// How long after listings they are judged, where what they tell is believed for longer, 10 s.
/// Lower: those for a slow reader are taken for wrong. Higher: a program that comes to follow an
/// order has nothing listed for as long. Source: docs/decisions/0106 (a guess, not measured).
const JUDGED_AFTER: Nanos = Nanos::from_millis(10_000);

/// Files fetched in order and opened for each listing, so that it was right: 4. Lower: a program
/// at random, which opens some of them by chance, has directories listed for ever. Higher: where
/// each directory has few files, no listing is ahead. Source: docs/decisions/0106.
const HITS_MIN: u32 = 4;

/// Listings within one time to live before files that they bring are opened, 8. Lower: a reader
/// in a deep tree waits for more files at its start. Higher: a program at random has more listed
/// until its listings end. Source: docs/decisions/0106; chunks on three levels take seven.
const UNPAID_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Nanos = Nanos::from_millis(1000);

    /// Opportunities of `count`, a second and a half apart, that led to a listing, if each brings
    /// so many hits.
    fn listed(count: u64, hits: u32) -> usize {
        let mut listings = ListingsByName::default();
        let due = (0..count).map(|nth| Nanos::from_millis(1500 * nth)).filter(|&now| {
            let is_due = listings.are_due(now, TTL);
            if is_due {
                listings.listed(now);
                (0..hits).for_each(|_| listings.hit());
            }
            is_due
        });
        due.count()
    }

    #[test]
    fn listings_that_bring_nothing_end() {
        assert_eq!(listed(100, 4), 100);
        assert_eq!(listed(100, 3), 4);
        assert_eq!(listed(4 + 257, 0), 5, "one on trial");
    }

    #[test]
    fn files_fetched_in_order_before_a_listing_are_not_its_own() {
        let mut listings = ListingsByName::default();
        (0..1_000).for_each(|_| listings.hit());
        let mut all = 0;
        while listings.are_due(Nanos(0), TTL) {
            listings.listed(Nanos(0));
            all += 1;
        }
        assert_eq!(all, UNPAID_MAX);
    }

    #[test]
    fn those_of_one_time_to_live_are_judged_together() {
        let mut listings = ListingsByName::default();
        let mut all = 0;
        for nth in 0..100 {
            // Nothing can have come of the first fifty.
            let now = Nanos::from_millis(1500 * u64::saturating_sub(nth, 50));
            if listings.are_due(now, TTL) {
                listings.listed(now);
                all += 1;
            }
        }
        assert_eq!(all, UNPAID_MAX + 3);
    }
}
