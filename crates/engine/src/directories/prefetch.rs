//! A file that is fetched before a reader opens it: whole, or its ends.

use std::sync::Arc;

use foreread_backend::Object;
use foreread_policy::{Ends, Event, Extent, Found, PAGE_BYTES};

use crate::driver::Driver;
use crate::file::File;
use crate::pages::folio::Folios;
use crate::pages::request::Held;

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
/// is in flight then, `done` is told whether it has come, when its requests are over. If of the
/// ends only a part has found room, `cut` is told of that first, and `done` is told of it alone.
pub(crate) fn prefetch(
    driver: &Arc<Driver>,
    object: &Object,
    ends: Option<Ends>,
    cut: impl FnOnce(Ends),
    done: impl FnOnce(bool) + Send + Sync + 'static,
) -> Prefetched {
    let file = File::open(driver, object);
    let opened = Arc::clone(file.opened());
    if ends.map_or_else(|| opened.found(), |ends| opened.found_ends(ends)) == Found::Resident {
        return Prefetched::Resident;
    }
    let wish = match ends {
        None => Event::Prefetch { file: opened.id },
        Some(ends) => Event::PrefetchEnds { file: opened.id, ends },
    };
    driver.enter(|shard| driver.tell(shard, wish));
    let file_pages = opened.size().div_ceil(PAGE_BYTES);
    let wished: Vec<Extent> =
        ends.map_or_else(|| vec![Extent::new(0, file_pages)], |ends| ends.extents(file_pages).collect());
    let (mut held, mut parts, mut submitted) = (Folios::new(), Vec::new(), Ends::default());
    for &Extent { start, end } in &wished {
        let (folios, until) = opened.table.up_to_hole(Extent::new(start, end));
        held.extend(folios);
        parts.push(Extent::new(start, until.min(end)));
        let pages = (until.min(end) - start) as u32;
        let is_head = start == 0 && ends.is_some_and(|ends| ends.head > 0);
        if is_head { submitted.head = pages } else { submitted.tail = pages }
    }
    if parts != wished {
        if ends.is_none() || submitted.is_empty() {
            return Prefetched::Refused;
        }
        cut(submitted);
    }
    parts.retain(|part| !part.is_empty());
    let coming: Held = Arc::new(Coming { file: Some(file), parts, done: Some(Box::new(done)) });
    driver.enter(|shard| {
        for folio in &held {
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

/// Held by the requests of a prefetch: dropped when all of them are over.
struct Coming {
    file: Option<File>,
    parts: Vec<Extent>,
    done: Option<Box<dyn FnOnce(bool) + Send + Sync>>,
}

impl Drop for Coming {
    fn drop(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        let came = self.file.take().is_some_and(|file| file.opened().found_of(parts) == Found::Resident);
        if let Some(done) = self.done.take() {
            done(came);
        }
    }
}
