//! Pages of listings that are asked for again, and what policy is told of them.
//!
//! ```text
//!   Renew ──> a task: list after the entry before the page ──> Listing::renew ──> Renewed
//!     └─ renewing: names in the page wait until policy has been told
//! ```
//!
//! *Invariant:* policy is told of each once, whatever becomes of it.

use std::sync::Arc;

use foreread_policy::{Child, DirEvent, DirId};
use tokio::time::Instant;

use crate::directories::brought::Brought;
use crate::directories::chain::Chain;
use crate::directories::driver::{Directories, State};
use crate::directories::listing::TakenChild;
use crate::planted::Panic;

impl Directories {
    /// Asks for the entries `[from, to)` of `dir` again.
    pub(super) fn renew(self: &Arc<Self>, state: &mut State, dir: DirId, from: u32, to: u32) {
        let Some(chain) = state.table.chain(dir) else { return };
        state.renewing.begin(dir, chain.number, from, to);
        let (directories, renewed) = (Arc::clone(self), Arc::clone(&chain));
        let bringing = self.bringing(Brought::Again { chain, from });
        self.driver.runtime.spawn(async move {
            directories.bring_again(&renewed, from, to).await;
            bringing.end();
        });
    }

    async fn bring_again(self: &Arc<Self>, chain: &Arc<Chain>, from: u32, to: u32) {
        let requested = Instant::now();
        let mut children = Vec::new();
        if let Some((cursor, last)) = chain.listing.cursor_at(from) {
            match self.driver.storage.list(chain.listing.prefix(), &cursor).await {
                Ok(page) => {
                    self.driver.storage.planted.pass(Panic::List);
                    children = chain.listing.renew((from, to), last.as_ref(), page, requested);
                }
                // The next name has it listed as a whole, and that error is told.
                Err(error) => tracing::debug!(%error, "a page of a listing did not come again"),
            }
        }
        self.enter(|state| self.told_again(state, chain, from, &children));
    }

    /// Tells policy what came of a page of `chain` that was asked for again.
    pub(super) fn told_again(self: &Arc<Self>, state: &mut State, chain: &Arc<Chain>, from: u32, page: &[TakenChild]) {
        state.renewing.end(chain.dir, chain.number, from);
        state.settled = true;
        if !state.table.is_latest(chain) {
            return;
        }
        let children: Vec<Child> = page.iter().map(|child| state.table.child(child)).collect();
        self.tell(state, DirEvent::Renewed { dir: chain.dir, from, children: &children });
    }
}
