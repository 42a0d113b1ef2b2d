//! Offers the tier what readers have read.
//!
//! ```text
//!   first touch ──> policy: Action::Cache ──> offered ── full ──> later ── room ──┐
//!                                                └────────────────────────────────┴─> written
//!                                      Event::Cached, with the next event  <──────────┘
//! ```
//!
//! *Invariant:* no read waits for an offer.

use std::iter;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};

use foreread_backend::lock::Mutex;
use foreread_policy::{Backlog, Event, Extent, FOLIO_PAGES_MAX, PAGE_BYTES};
use foreread_tier::Answer;

use crate::pages::folio::Folio;
use crate::pages::opened::Opened;

/// What is on its way to the tier.
#[derive(Default)]
pub(crate) struct Offers {
    /// Folios that the tier had no room for when they were offered.
    later: Mutex<Backlog<(Arc<Opened>, Weak<Folio>)>>,
    /// Threads that are about to offer something.
    under_way: AtomicUsize,
    /// What the tier has written since policy was last told.
    written: Mutex<Vec<Event>>,
}

/// Folios that a thread is about to offer.
pub(crate) struct Offering {
    folios: Vec<(Arc<Opened>, Arc<Folio>)>,
    offers: Arc<Offers>,
}

impl Drop for Offering {
    fn drop(&mut self) {
        self.offers.under_way.fetch_sub(1, SeqCst);
    }
}

impl Offering {
    /// Offers them.
    pub(crate) fn offer(mut self) {
        for (opened, folio) in std::mem::take(&mut self.folios) {
            self.offers.take(&opened, &folio);
        }
    }
}

impl Offers {
    /// `folios` will be offered, once the shard is free.
    pub(crate) fn begin(self: &Arc<Self>, folios: Vec<(Arc<Opened>, Arc<Folio>)>) -> Option<Offering> {
        if folios.is_empty() {
            return None;
        }
        self.under_way.fetch_add(1, SeqCst);
        Some(Offering { folios, offers: Arc::clone(self) })
    }

    /// Waits until no thread is about to offer something, offers again, and returns how many
    /// folios wait for room.
    pub(crate) fn settle(self: &Arc<Self>) -> usize {
        // For as long as a thread takes from the shard to the queue of the tier.
        while self.under_way.load(SeqCst) > 0 {
            std::thread::yield_now();
        }
        self.offer_again();
        self.later.lock().len()
    }

    /// What policy is to be told of.
    pub(crate) fn take_written(&self) -> Vec<Event> {
        std::mem::take(&mut *self.written.lock())
    }

    /// Offers the tier a folio that a reader has touched, or later, if the tier has no room now.
    fn take(self: &Arc<Self>, opened: &Arc<Opened>, folio: &Arc<Folio>) {
        if !self.offer(opened, folio) && !self.later.lock().wait((Arc::clone(opened), Arc::downgrade(folio))) {
            count_lost(opened);
        }
    }

    /// Offers the tier a folio. `false` if the tier has no room for it now.
    fn offer(self: &Arc<Self>, opened: &Arc<Opened>, folio: &Arc<Folio>) -> bool {
        let Some(kept) = &opened.kept else { return true };
        let (offers, file, start) = (Arc::downgrade(self), opened.id, folio.extent.start);
        let told = move |pages: Range<u64>| {
            if let Some(offers) = offers.upgrade() {
                let extent = Extent::new(pages.start, pages.end);
                // Told with the next event: no read waits for it.
                offers.written.lock().push(Event::Cached { file, extent });
                offers.offer_again();
            }
        };
        let offered = Box::new(Offered(Arc::clone(folio)));
        kept.tier.offer(kept.object, start, offered, Box::new(told)) != Answer::Full
    }

    /// Offers folios for which the tier had no room, if they are resident still.
    fn offer_again(self: &Arc<Self>) {
        loop {
            let Some((opened, folio)) = self.later.lock().take() else { return };
            let Some(resident) = folio.upgrade() else {
                let given_up: Vec<_> = self.later.lock().lost().collect();
                iter::once(&opened).chain(given_up.iter().map(|(opened, _)| opened)).for_each(count_lost);
                continue;
            };
            if !self.offer(&opened, &resident) {
                return self.later.lock().put_back((opened, folio));
            }
        }
    }
}

/// A folio of `opened` will not be offered again.
fn count_lost(opened: &Arc<Opened>) {
    opened.kept.iter().for_each(|kept| kept.tier.dropped(FOLIO_PAGES_MAX * PAGE_BYTES));
}

/// The bytes of a folio, while the tier writes them.
struct Offered(Arc<Folio>);

impl AsRef<[u8]> for Offered {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes().unwrap_or_default()
    }
}
