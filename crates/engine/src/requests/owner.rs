//! The one that a request tells what happens to it.
//!
//! ```text
//!   fetch, InPlace ── wants, late, over, completed ──> Owner: the driver ──> shard ──> policy
//! ```
//!
//! A trait, so that what executes requests does not depend on the driver, which starts them. It is
//! a type parameter of the functions that use it: one implementation, no dynamic dispatch.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use foreread_policy::{Nanos, RequestId};
use tokio::runtime::Handle;

use crate::error::Error;
use crate::pages::folio::Folios;
use crate::requests::carrier::InPlace;
use crate::requests::joint::{End, Joint};
use crate::requests::storage::Storage;

/// Told what happens to requests. Never called with the shard held, but for `broken`.
pub(crate) trait Owner: Send + Sync + Sized + 'static {
    /// The storage that is asked.
    fn storage(&self) -> &Storage;

    /// The runtime of its tasks, which has its clock.
    fn runtime(&self) -> &Handle;

    /// `request` has been given all that it was granted, and more of it could arrive.
    fn wants(self: &Arc<Self>, request: RequestId);

    /// Nothing has come of `request` for `silence`, and something should. It is hedged if it is to
    /// be made once more.
    fn late(self: &Arc<Self>, request: RequestId, silence: Nanos);

    /// `joint` is over: all of it has come.
    fn over(self: &Arc<Self>, joint: &Joint, end: End);

    /// `joint` is over: readers waited for it, and patience has ended.
    fn failed(self: &Arc<Self>, joint: &Joint, end: End, error: &Error);

    /// `joint` has failed. It is over, and counted as failed speculation, unless a reader waits
    /// for pages of it that have not come. Returns whether it is over.
    fn over_unless_demanded(self: &Arc<Self>, joint: &Joint, end: End) -> bool;

    /// The storage has answered `in_place`, `took` after it was submitted. Does not wait for the
    /// shard. `last` of the requests that the storage tells of together.
    fn completed(self: &Arc<Self>, in_place: Arc<InPlace>, took: Nanos, last: bool);

    /// A request has ended without a word. May be called with the shard held, and does not wait
    /// for it.
    fn broken(self: &Arc<Self>, broken: Broken);

    /// `joint` cannot be read in place, or the tier does not have it: a task carries it, unless
    /// nothing needs it any more.
    fn carry_by_task(in_flight: InFlight<Self>, joint: &Joint);
}

/// A request that has ended without a word: its task has panicked, was aborted, or never began; or
/// the storage has dropped a read in place.
pub(crate) struct Broken {
    pub(crate) joint: Joint,
    /// The folios whose bytes will not come.
    pub(crate) unfilled: Folios,
    pub(crate) panicked: bool,
}

/// Counts a request as in flight until it is over, however it ends: also if its task is cancelled
/// before it runs.
pub(crate) struct InFlight<O: Owner>(Arc<O>);

impl<O: Owner> InFlight<O> {
    pub(crate) fn new(owner: &Arc<O>) -> Self {
        owner.storage().stats.in_flight.fetch_add(1, Relaxed);
        Self(Arc::clone(owner))
    }

    pub(crate) fn owner(&self) -> &Arc<O> {
        &self.0
    }
}

impl<O: Owner> Drop for InFlight<O> {
    fn drop(&mut self) {
        self.0.storage().stats.in_flight.fetch_sub(1, Relaxed);
    }
}
