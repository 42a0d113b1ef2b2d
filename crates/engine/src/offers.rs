//! Offers the tier what readers have read.
//!
//! ```text
//!   first touch ──> policy: Action::Cache ──> offered ── full ──> later ── room ──┐
//!                                                └────────────────────────────────┴─> written
//!                                      Event::Cached, with the next event  <──────────┘
//! ```
//!
//! *Invariant:* no read waits for an offer.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};

use foreread_backend::lock::Mutex;
use foreread_policy::{Event, Extent, FOLIO_PAGES_MAX, PAGE_BYTES};
use foreread_tier::Answer;

use crate::pages::folio::Folio;
use crate::pages::opened::Opened;

/// What is on its way to the tier.
#[derive(Default)]
pub(crate) struct Offers {
    /// Folios that the tier had no room for when they were offered.
    later: Mutex<VecDeque<(Arc<Opened>, Weak<Folio>)>>,
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
            self.offers.offer(&opened, folio);
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

    /// Offers the tier a folio that a reader has touched. `false` if the tier has no room for it
    /// now: it is offered later.
    fn offer(self: &Arc<Self>, opened: &Arc<Opened>, folio: Arc<Folio>) -> bool {
        let Some(kept) = &opened.kept else { return true };
        let (offers, file, start) = (Arc::downgrade(self), opened.id, folio.extent.start);
        let again = Arc::downgrade(&folio);
        let told = move |pages: Range<u64>| {
            if let Some(offers) = offers.upgrade() {
                let extent = Extent::new(pages.start, pages.end);
                // Told with the next event: no read waits for it.
                offers.written.lock().push(Event::Cached { file, extent });
                offers.offer_again();
            }
        };
        let bytes = folio.bytes().unwrap_or_default().len() as u64;
        if kept.tier.offer(kept.object, start, Box::new(Offered(folio)), Box::new(told)) != Answer::Full {
            return true;
        }
        let mut later = self.later.lock();
        if later.len() < LATER_MAX {
            later.push_back((Arc::clone(opened), again));
        } else {
            kept.tier.dropped(bytes);
        }
        false
    }

    /// Offers folios for which the tier had no room, if they are resident still.
    fn offer_again(self: &Arc<Self>) {
        loop {
            let Some((opened, folio)) = self.later.lock().pop_front() else { return };
            match folio.upgrade() {
                Some(folio) => {
                    if !self.offer(&opened, folio) {
                        return;
                    }
                }
                None => opened.kept.iter().for_each(|kept| kept.tier.dropped(FOLIO_PAGES_MAX * PAGE_BYTES)),
            }
        }
    }
}

/// The bytes of a folio, while the tier writes them.
struct Offered(Arc<Folio>);

impl AsRef<[u8]> for Offered {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes().unwrap_or_default()
    }
}

/// Folios that wait to be offered again, at most. Lower: where the storage is faster than the disk
/// for a while, less is kept. Higher: more memory, 16 bytes each. 512 MiB of folios.
const LATER_MAX: usize = 4096;
