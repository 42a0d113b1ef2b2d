//! A file that is fetched before a reader opens it: whole, or its ends.

use std::sync::Arc;

use foreread_backend::Object;
use foreread_policy::{Ends, Event, Extent, Found, PAGE_BYTES};

use crate::driver::Driver;
use crate::file::File;
use crate::pages::opened::Opened;
use crate::pages::pinned::Pages;
use crate::pages::request::Held;
use crate::pages::table::Lookup;

/// What has become of a wish to have a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefetched {
    /// It is in flight, and its end will be told.
    Coming,
    /// It is resident already.
    Resident,
    /// There is no room.
    Refused,
}

/// Has all of `object` fetched, or some `ends` of it, although no reader has asked for it. If it
/// is in flight then, `done` is told whether it has come, when its requests are over.
pub(crate) fn prefetch(
    driver: &Arc<Driver>,
    object: &Object,
    ends: Option<Ends>,
    done: impl FnOnce(bool) + Send + Sync + 'static,
) -> Prefetched {
    let file = File::open(driver, object);
    let opened = Arc::clone(file.opened());
    if found(&opened, ends) == Found::Resident {
        return Prefetched::Resident;
    }
    let wish = match ends {
        None => Event::Prefetch { file: opened.id },
        Some(ends) => Event::PrefetchEnds { file: opened.id, ends },
    };
    driver.enter(|shard| driver.tell(shard, wish));
    let file_pages = opened.size().div_ceil(PAGE_BYTES);
    let parts: Vec<Extent> = ends.map_or_else(|| vec![Extent::new(0, file_pages)], |e| e.extents(file_pages).collect());
    let mut held = Vec::new();
    for Extent { start, end } in parts {
        let (offset, end) = (start * PAGE_BYTES, (end * PAGE_BYTES).min(opened.size()));
        let Lookup::Present(pages) = opened.table.look_up(offset, (end - offset) as usize) else {
            return Prefetched::Refused;
        };
        held.push(pages);
    }
    let coming: Held = Arc::new(Coming { file: Some(file), ends, done: Some(Box::new(done)) });
    driver.enter(|shard| {
        for folio in held.iter().flat_map(Pages::folios) {
            if shard.counts(folio.request.id()) {
                folio.request.hold(Arc::clone(&coming));
            }
        }
    });
    Prefetched::Coming
}

/// The prefetched file was not opened: drops its unread pages.
pub(crate) fn discard(driver: &Arc<Driver>, object: &Object) {
    driver.enter(|shard| {
        if let Some(file) = shard.files.idle(object) {
            driver.tell(shard, Event::Discard { file });
        }
    });
}

/// How much of it is there, or of its `ends`.
fn found(opened: &Opened, ends: Option<Ends>) -> Found {
    ends.map_or_else(|| opened.found(), |ends| opened.found_ends(ends))
}

/// Held by the requests of a prefetch: dropped when all of them are over.
struct Coming {
    file: Option<File>,
    ends: Option<Ends>,
    done: Option<Box<dyn FnOnce(bool) + Send + Sync>>,
}

impl Drop for Coming {
    fn drop(&mut self) {
        let came = self.file.take().is_some_and(|file| found(file.opened(), self.ends) == Found::Resident);
        if let Some(done) = self.done.take() {
            done(came);
        }
    }
}
