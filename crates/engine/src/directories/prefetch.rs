//! A file that is fetched whole before a reader opens it.

use std::sync::Arc;

use foreread_backend::Object;
use foreread_policy::{Event, Found};

use crate::driver::Driver;
use crate::file::File;
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

/// Has all of `object` fetched, although no reader has asked for it. If it is in flight then,
/// `done` is told whether it has come, when its requests are over.
pub(crate) fn prefetch(
    driver: &Arc<Driver>,
    object: &Object,
    done: impl FnOnce(bool) + Send + Sync + 'static,
) -> Prefetched {
    let file = File::open(driver, object);
    let opened = Arc::clone(file.opened());
    if opened.found() == Found::Resident {
        return Prefetched::Resident;
    }
    driver.enter(|shard| driver.tell(shard, Event::Prefetch { file: opened.id }));
    let Lookup::Present(pages) = opened.table.look_up(0, opened.size() as usize) else { return Prefetched::Refused };
    let coming: Held = Arc::new(Coming { file: Some(file), done: Some(Box::new(done)) });
    driver.enter(|shard| {
        for folio in pages.folios() {
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
    done: Option<Box<dyn FnOnce(bool) + Send + Sync>>,
}

impl Drop for Coming {
    fn drop(&mut self) {
        let came = self.file.take().is_some_and(|file| file.opened().found() == Found::Resident);
        if let Some(done) = self.done.take() {
            done(came);
        }
    }
}
