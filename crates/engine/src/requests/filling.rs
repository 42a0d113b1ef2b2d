//! The bytes of one body on their way into folios.
//!
//! ```text
//!   bytes     |~~~~~~~~~~~~|~~~~~~~~~|~~~~~~~~~~~~~~~
//!   folios    |####|####|  resident  |####|          granted up to here: the body waits in its
//!                                         ^          connection until there is memory for more
//! ```
//!
//! Policy grants 256 KiB of a request at a time, so what is granted can always arrive. A folio is
//! handed over as soon as it is full; its reads do not wait for the rest of the request.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use foreread_backend::Frames;
use foreread_policy::PAGE_BYTES;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::pages::folio::{Folio, Folios};
use crate::pages::request::Request;
use crate::requests::owner::Owner;

/// Puts the bytes of a body into folios, in order. Bytes between the folios are resident already,
/// and are skipped.
pub(crate) struct Filling {
    folios: Peekable<smallvec::IntoIter<[Arc<Folio>; 1]>>,
    /// The folio that is being filled, its memory, and how much of that is full.
    current: Option<(Arc<Folio>, Frames, usize)>,
    /// The bytes of the object still to come.
    rest: Range<u64>,
    progress: Instant,
}

impl Filling {
    /// Fills `folios` with the bytes `rest` of the object.
    pub(crate) fn new(folios: Folios, rest: Range<u64>) -> Self {
        Self { folios: folios.into_iter().peekable(), current: None, rest, progress: Instant::now() }
    }

    /// When the last folio was full, or there was memory for the next one: the storage is waited
    /// for since then.
    pub(crate) fn progress(&self) -> Instant {
        self.progress
    }

    /// The storage is waited for since `moment`, or later.
    pub(crate) fn wait_since(&mut self, moment: Instant) {
        self.progress = self.progress.max(moment);
    }

    /// The bytes of the object still to come.
    pub(crate) fn rest(&self) -> &Range<u64> {
        &self.rest
    }

    /// Takes in one piece of the body, waiting for grants. Returns `false` if the piece has more
    /// bytes than were asked for.
    pub(crate) async fn take(&mut self, owner: &Arc<impl Owner>, mut piece: Bytes) -> bool {
        while !piece.is_empty() {
            let (folio, mut frames, at) = if let Some(current) = self.current.take() {
                current
            } else {
                let Some(folio) = self.folios.peek().map(Arc::clone) else { return false };
                let start = folio.extent.start * PAGE_BYTES;
                let past = start.saturating_sub(self.rest.start).min(piece.len() as u64);
                if past > 0 {
                    piece.advance(past as usize);
                    self.rest.start += past;
                    continue;
                }
                self.folios.next();
                if granted(owner, &folio.request, folio.extent.start).await {
                    self.progress = Instant::now();
                }
                let end = (folio.extent.end * PAGE_BYTES).min(self.rest.end);
                (folio, Frames::new((end - start) as usize), 0)
            };
            let count = piece.len().min(frames.len() - at);
            frames[at..at + count].copy_from_slice(&piece.split_to(count));
            self.rest.start += count as u64;
            if at + count == frames.len() {
                folio.fill(Ok(frames));
                self.progress = Instant::now();
            } else {
                self.current = Some((folio, frames, at + count));
            }
        }
        true
    }

    /// None of the rest will come.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.unfilled().for_each(|folio| folio.fill(Err(error.clone())));
    }

    /// Takes out the folios that are not full.
    pub(crate) fn unfilled(&mut self) -> impl Iterator<Item = Arc<Folio>> {
        self.current.take().map(|(folio, ..)| folio).into_iter().chain(self.folios.by_ref())
    }
}

/// Waits until `page` may be taken in. The connection holds back the bytes that come meanwhile.
/// Returns whether there was something to wait for.
async fn granted(owner: &Arc<impl Owner>, request: &Request, page: u64) -> bool {
    let mut waited = false;
    loop {
        let granted = request.granted();
        if page < granted {
            return waited;
        }
        waited = true;
        owner.wants(request.id());
        // The next grant may end before `page`, if the pages between are resident.
        request.outgrown(granted).await;
    }
}

/// Why nothing more will come.
pub(crate) fn shut_down() -> Error {
    Error::new(ErrorKind::Io, "the engine has been shut down").with_given_up()
}
