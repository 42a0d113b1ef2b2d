//! What readers do in directories, as events for policy.
//!
//! ```text
//!   open, read         Read     an entry of a listing: resident, in flight or absent
//!   look_up            Named    a name: what is known, or why not
//!   look_up_to_read    ReadByName  a name that nothing tells, if its file is read at once
//!   File opened        Opened   a small file, fetched ahead or not
//!   Engine::expect     Expected files that will be read in this order
//! ```

use std::sync::Arc;

use foreread_backend::{Key, Object};
use foreread_policy::{DirEvent, DirId, Found};
use tokio::time::Instant;

use crate::directories::chain::Chain;
use crate::directories::driver::{Directories, State};
use crate::directories::listing::Node;
use crate::directories::marks::Last;
use crate::directories::name::{self, identity_bytes};
use crate::directories::table::{Named, Unknown};
use crate::pages::opened::Opened;

impl Directories {
    /// Opens a directory for reading: a listing that is known and fresh, or one that begins now.
    pub(crate) fn open(self: &Arc<Self>, prefix: &str) -> Arc<Chain> {
        self.enter(|state| {
            let (dir, new) = self.meet(state, prefix);
            if new && let Some((parent, gone)) = state.table.gone_part_of(prefix) {
                self.seek(state, parent, gone);
            }
            let found = match state.table.chain(dir) {
                Some(chain) if state.table.is_fresh(chain.began) && !chain.listing.has_failed() => {
                    if chain.listing.has(0) { Found::Resident } else { Found::InFlight }
                }
                _ => Found::Absent,
            };
            self.tell(state, DirEvent::Read { dir, entry: 0, found });
            // Policy begins a listing for a reader that waits, always. Without one there would be
            // nothing to read.
            let chain = state.table.chain(dir).unwrap_or_else(|| self.restart(state, dir));
            chain.hold();
            chain
        })
    }

    /// A reader that had opened `chain` has closed it.
    pub(crate) fn close(self: &Arc<Self>, chain: &Arc<Chain>) {
        self.enter(|state| {
            chain.unhold();
            state.table.changed(chain);
            self.tell_older(state);
        });
    }

    /// A name in `dir` is asked for that lies among entries which are gone.
    fn seek(self: &Arc<Self>, state: &mut State, dir: DirId, (from, to): (u32, u32)) {
        self.tell(state, DirEvent::Sought { dir, from, to });
    }

    /// The number of a directory that a reader names, and whether it is new.
    fn meet(self: &Arc<Self>, state: &mut State, prefix: &str) -> (DirId, bool) {
        let (dir, new) = state.table.identify(prefix);
        if new {
            self.tell(state, DirEvent::Met { dir, bytes: identity_bytes(prefix.len()) });
        }
        (dir, new)
    }

    /// A reader that was given the entries before `place` of a listing, of which `last` is the
    /// last one, goes on with a listing of its own: the next ones are gone.
    pub(crate) fn resume(self: &Arc<Self>, chain: &Arc<Chain>, place: u32, last: Option<Last>) -> Arc<Chain> {
        self.enter(|state| {
            let rest = state.table.resume(chain, place, last);
            self.go_on(&rest, 1);
            self.tell_older(state);
            rest
        })
    }

    /// A reader of `chain` wants the entry at `place`, and what follows.
    pub(crate) fn read(self: &Arc<Self>, chain: &Arc<Chain>, place: u32) {
        self.enter(|state| {
            let found = match chain.listing.has(place) {
                true => Found::Resident,
                false if chain.is_busy() => Found::InFlight,
                false => Found::Absent,
            };
            if state.table.is_latest(chain) {
                self.tell(state, DirEvent::Read { dir: chain.dir, entry: place, found });
            }
            if !state.table.is_latest(chain) {
                // No reader begins with it: it is kept from this entry on.
                state.table.passed(chain, place);
                self.tell_older(state);
            }
            if found == Found::Absent && !chain.is_busy() && !chain.listing.is_over() {
                self.go_on(chain, 1);
            }
        });
    }

    /// What `name` in `prefix` is, as far as that is known. `again`: what was in flight for it has
    /// come, or will not.
    pub(crate) fn look_up(self: &Arc<Self>, prefix: &str, name: &str, again: bool) -> Result<Option<Named>, Unknown> {
        self.enter(|state| {
            let (dir, _) = self.meet(state, prefix);
            let (said, place) = state.table.look_up(dir, name, again);
            if again {
                return said;
            }
            let (found, entry) = match &said {
                Ok(_) => (Found::Resident, place),
                Err(Unknown::Listing(_)) => (Found::InFlight, None),
                Err(Unknown::Old(_, place)) => (Found::Absent, Some(*place)),
                Err(Unknown::Nothing | Unknown::Absent(..)) => (Found::Absent, None),
            };
            self.tell(state, DirEvent::Named { dir, entry, found });
            if let (Err(Unknown::Nothing), Some(chain)) = (&said, state.table.chain(dir)) {
                if let Some(gone) = chain.listing.gone_part(name) {
                    self.seek(state, dir, gone);
                } else if state.policy.renews_pages(dir) {
                    let mut old: Vec<u32> = Vec::new();
                    for (place, at) in chain.listing.would_be_at(name) {
                        old.extend(Some(place).filter(|_| !state.table.is_fresh(at)));
                    }
                    let is_coming = |&place: &u32| {
                        self.seek(state, dir, (place, place + 1));
                        state.is_renewing(dir, place)
                    };
                    // Where the first one does not come, it is asked for alone.
                    if !old.is_empty() && old.iter().all(is_coming) {
                        return Err(Unknown::Absent(dir, old));
                    }
                }
            }
            let said = match said {
                // Its own listing may have begun by now.
                Err(Unknown::Old(..)) => state.table.look_up(dir, name, false).0,
                said => said,
            };
            match said {
                Err(Unknown::Old(dir, place)) if state.is_coming(dir, place) => Err(Unknown::Old(dir, place)),
                // A listing that begins now answers as soon as the storage would for this name.
                Err(Unknown::Nothing | Unknown::Old(..)) => {
                    let began = state.table.chain(dir).filter(|chain| state.table.will_tell(chain));
                    Err(began.map_or(Unknown::Nothing, Unknown::Listing))
                }
                said => said,
            }
        })
    }

    /// How many bytes of the file `name` in `prefix` are read before it is known what that is;
    /// `None` if it is looked up first. The reader is about to read it.
    pub(crate) fn reads_at_once(self: &Arc<Self>, prefix: &str, name: &str) -> Option<u64> {
        self.enter(|state| {
            let (dir, _) = self.meet(state, prefix);
            let (said, place) = state.table.look_up(dir, name, false);
            let is_unknown = match said {
                Ok(_) => false,
                Err(Unknown::Nothing) => {
                    state.table.chain(dir).is_none_or(|chain| chain.listing.gone_part(name).is_none())
                }
                Err(Unknown::Listing(_) | Unknown::Absent(..)) => place.is_none(),
                Err(Unknown::Old(dir, place)) => {
                    let entry = state.table.chain(dir).and_then(|chain| chain.entry(place));
                    let is_file = matches!(entry, Some(Node::File(_)));
                    is_file && !state.is_coming(dir, place) && !state.policy.slides(dir)
                }
            };
            if !is_unknown {
                return None;
            }
            let bytes = state.policy.reads_at_once()?;
            let levels = if state.policy.wants_above(dir) { usize::MAX } else { 0 };
            // Those that are met may have others forgotten: the reader's own is the last one.
            for prefix in name::above(prefix).take(levels) {
                self.meet(state, prefix);
            }
            let (dir, _) = self.meet(state, prefix);
            let numbers = name::above(prefix).take(levels).map_while(|prefix| state.table.number(prefix));
            let above: Vec<DirId> = numbers.collect();
            self.tell(state, DirEvent::ReadByName { dir, above: &above });
            let would_be = || {
                let oldest = state.table.chain(dir)?.listing.would_be_at(name).min_by_key(|&(_, at)| at);
                oldest.map(|(place, _)| place)
            };
            if let Some(place) = place.or_else(would_be).filter(|_| state.policy.renews_pages(dir)) {
                self.seek(state, dir, (place, place + 1));
            }
            Some(bytes)
        })
    }

    /// A file that was read before it was known what it is, is `there`; or there is none, or the
    /// read has not told.
    pub(crate) fn answered_by_name(self: &Arc<Self>, there: bool) {
        self.enter(|state| self.tell(state, DirEvent::AnsweredByName { there }));
    }

    /// Whether a name in `prefix` is to be asked for as a file and as a directory at once.
    pub(crate) fn may_ask_at_once(&self, prefix: &str) -> bool {
        self.look(|state| state.table.number(prefix).is_some_and(|dir| state.policy.asks_at_once(dir)))
    }

    /// Whether `object` is known to have been the current version a moment ago.
    pub(crate) fn is_current(&self, object: &Object) -> bool {
        self.look(|state| {
            let found = state.table.find(&object.key);
            found.is_some_and(|(node, at)| node == Node::File(object.clone()) && state.table.is_fresh(at))
        })
    }

    /// What is known of names is not believed from now on.
    pub(crate) fn forget_names(self: &Arc<Self>) {
        self.enter(|state| state.table.believe_from(Instant::now()));
    }

    /// A reader opens `object`. Policy is told first which files were closed before.
    pub(crate) fn opened(self: &Arc<Self>, object: &Object, opened: &Opened) {
        let (closed, found) = (self.driver.take_closed(), opened.found());
        self.enter(|state| {
            for (key, ends) in closed {
                if let Some((dir, entry)) = state.table.place(&key) {
                    self.tell(state, DirEvent::Closed { dir, entry, ends });
                }
            }
            if let Some((dir, place)) = state.table.place(&object.key) {
                let ends = state.policy.fetched_ends(dir, place);
                let found = ends.map_or(found, |ends| opened.found_ends(ends));
                // Its fetch may be decided, and not have begun: another thread is about to.
                let is_coming = found == Found::Absent && state.fetching.contains(&(dir, place));
                let found = if is_coming { Found::InFlight } else { found };
                self.tell(state, DirEvent::Opened { dir, entry: place, found });
            }
        });
    }

    /// Where the objects are that `keys` name.
    pub(crate) fn places(&self, keys: &[Key]) -> Vec<(DirId, u32)> {
        self.look(|state| keys.iter().filter_map(|key| state.table.place(key)).collect())
    }

    /// These files will be read in this order. See [`DirEvent::Expected`].
    pub(crate) fn expect(self: &Arc<Self>, files: &[(DirId, u32)], ahead_bytes: Option<u64>, continues: bool) {
        self.enter(|state| self.tell(state, DirEvent::Expected { files, ahead_bytes, continues }));
    }

    /// What was said of files that will be read is taken back.
    pub(crate) fn expect_none(self: &Arc<Self>) {
        self.enter(|state| self.tell(state, DirEvent::Unexpected));
    }
}
