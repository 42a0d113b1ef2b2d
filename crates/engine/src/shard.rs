//! Policy, and the right to change what is resident: the state behind the engine's one lock.
//!
//! ```text
//!   driver: lock ──> handle(event) ──> execute: actions, until there is none ──> unlock
//!                                        │ Submit, Grant, Join, Hedge, Cancel   requests
//!                                        │ Ready                                waiting reads
//!                                        │ Clear, Drop                          page tables
//!                                        └─> Deferred: done by the driver once the lock is free
//! ```
//!
//! The thread that holds the shard tells policy what happened and executes its actions before any
//! other thread tells it anything.
//!
//! *Invariant:* actions are executed in the order given, under the same lock as the event that
//! caused them; no read is completed and no storage is waited for while it is held.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use foreread_policy::{
    Action, Class, Counters, Event, Extent, FileId, Memory, Nanos, ReadId, ReadPath, Records, RequestId,
};
use smallvec::SmallVec;
use tokio::task::AbortHandle;

use crate::error::{Error, ErrorKind};
use crate::numbers::Numbers;
use crate::pages::files::Files;
use crate::pages::folio::Folio;
use crate::pages::opened::Opened;
use crate::pages::pinned::Pages;
use crate::pages::request::{Held, Request};
use crate::pages::table::Lookup;
use crate::pages::waiting::Missed;
use crate::planted::Panic;
use crate::records::recorder::Recorder;
use crate::records::replay::panic_text;
use crate::requests::carrier::{Carrier, InPlace};
use crate::requests::joint::Joint;

pub(crate) mod anew;
pub(crate) mod lives;
mod look;

use lives::{Lives, cannot_go_on};

/// Policy, and what its actions change.
pub(crate) struct Shard {
    policy: ReadPath,
    /// What is needed if policy panics.
    lives: Lives,
    pub(crate) files: Files,
    recorder: Option<Recorder>,
    requests: Numbers<RequestId, (Carrier, Arc<Request>)>,
    /// Room for touches and answers, to be exchanged with those that have come.
    pub(crate) answered: Vec<Event>,
    /// Policy has been told of them since the shard was locked.
    pub(crate) knows_answers: bool,
    pub(crate) deferred: Deferred,
    /// Reads that policy has been told of and that are not ready.
    lacking: Numbers<ReadId, Arc<dyn Missed>>,
    /// Requests in place that policy does not know any more since it began anew.
    outlived: Vec<Weak<InPlace>>,
    next_read: u64,
}

/// What is left to do when the shard is free.
#[derive(Default)]
pub(crate) struct Deferred {
    /// Requests to begin.
    pub(crate) begun: SmallVec<[Arc<InPlace>; TOGETHER]>,
    /// What the tier is offered.
    pub(crate) offered: Vec<(Arc<Opened>, Arc<Folio>)>,
    /// Reads to complete with these pages, once all have come.
    pub(crate) ready: SmallVec<[(Pages, Arc<dyn Missed>); TOGETHER]>,
    /// Reads that end with an error.
    pub(crate) failed: Vec<(Error, Arc<dyn Missed>)>,
    /// What requests that are over held, to be dropped.
    pub(crate) over: Vec<Held>,
    /// Folios that are in no page table any more, to be dropped.
    pub(crate) gone: SmallVec<[Arc<Folio>; TOGETHER]>,
}

impl Shard {
    pub(crate) fn new(lives: Lives, recorder: Option<Recorder>) -> Self {
        Self {
            policy: ReadPath::new(lives.options()),
            lives,
            files: Files::default(),
            recorder,
            requests: Numbers::default(),
            answered: Vec::new(),
            knows_answers: false,
            deferred: Deferred::default(),
            lacking: Numbers::default(),
            outlived: Vec::new(),
            next_read: 0,
        }
    }

    /// Tells policy of one event and executes its actions. `spawn` starts a task for a request. If
    /// that panics, policy begins anew.
    pub(crate) fn handle(&mut self, now: Nanos, event: Event, spawn: &impl Fn(Joint) -> AbortHandle) {
        // Whatever a panic leaves half done is dropped or made anew.
        let handled = catch_unwind(AssertUnwindSafe(|| self.tell(now, event, spawn)));
        if let Err(panic) = handled {
            self.begin_anew(now, &panic_text(&*panic), spawn);
        }
    }

    fn tell(&mut self, now: Nanos, event: Event, spawn: &impl Fn(Joint) -> AbortHandle) {
        self.lives.note(now, event);
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, event);
        }
        self.policy.handle(now, event);
        self.lives.planted.pass(Panic::Policy);
        while let Some(action) = self.policy.poll_action() {
            if let Some(recorder) = &mut self.recorder {
                recorder.action(action);
            }
            self.lives.planted.pass(Panic::Action);
            self.execute(action, spawn);
        }
    }

    /// The read of a program for which its kernel asks for `window` first.
    pub(crate) fn call_of(&mut self, file: FileId, window: Extent) -> Extent {
        self.policy.call_of(file, window)
    }

    /// How many more members of archives policy may be told of.
    pub(crate) fn members_max(&self) -> usize {
        self.policy.members_max()
    }

    /// Of how many more members the directories that are read may be held.
    pub(crate) fn directory_members_max(&self) -> usize {
        self.policy.directory_members_max()
    }

    /// What policy has decided so far, and what it spends its budget on.
    pub(crate) fn decided(&self) -> (Counters, Memory) {
        (self.lives.counters() + self.policy.counters(), self.policy.memory())
    }

    fn execute(&mut self, action: Action, spawn: &impl Fn(Joint) -> AbortHandle) {
        match action {
            Action::Submit { .. } => self.submit(action, spawn),
            Action::Grant { request, granted } => {
                if let Some((_, state)) = self.requests.get(&request) {
                    state.grant(granted);
                    self.start(request, spawn);
                }
            }
            Action::Hedge { request } => {
                if let Some((_, state)) = self.requests.get(&request) {
                    state.hedge();
                }
            }
            Action::Join { request, with } => self.join(request, with),
            Action::Ready { read, end } => self.ready(read, end),
            Action::Cancel { request } => self.cancel(request),
            Action::Clear { file, start } => {
                if let Some(opened) = self.files.get(file) {
                    opened.table.clear(start);
                }
            }
            Action::Mark { file, start } => {
                if let Some(opened) = self.files.get(file) {
                    opened.table.mark(start);
                }
            }
            Action::Cache { file, folio } => {
                if let Some(opened) = self.files.get(file)
                    && let Some(folio) = opened.table.folio(folio.start).filter(|folio| folio.is_resident())
                {
                    self.deferred.offered.push((Arc::clone(opened), folio));
                }
            }
            Action::Drop { file, folio } => {
                if let Some(opened) = self.files.get(file) {
                    self.deferred.gone.extend(opened.table.remove(folio.start));
                }
            }
            Action::ForgetParts { file } => {
                self.lives.parts_forgotten(file);
                if let Some(opened) = self.files.get(file) {
                    opened.tells_again();
                }
            }
            Action::Forget { file } => {
                self.lives.forgotten(file);
                self.files.forget(file);
            }
        }
    }

    fn submit(&mut self, action: Action, spawn: &impl Fn(Joint) -> AbortHandle) {
        let Action::Submit { request, file, extent, records, class, source, mark, granted, late } = action else {
            return;
        };
        let Some(opened) = self.files.get(file) else { return };
        let state = Request::new(request, extent, class == Class::Demand, granted, late);
        let new = &|f: Extent| Folio::new(f, mark.is_some_and(|m| f.contains(m)), Arc::clone(&state));
        let folios = Records::within(records, extent).flat_map(|kept| opened.table.fill_holes(kept, new)).collect();
        let joint = Joint::new(Arc::clone(opened), Arc::clone(&state), folios, source);
        let carrier = if granted > extent.start { self.launch(joint, spawn) } else { Carrier::None(joint) };
        self.lives.requested(request);
        self.requests.insert(request, (carrier, state));
    }

    /// `request`, which waits for its turn, will be asked for with another one that does.
    fn join(&mut self, request: RequestId, with: RequestId) {
        let Some((carrier, state)) = self.requests.get_mut(&request) else { return };
        state.grant(state.extent().end);
        let Carrier::None(joint) = std::mem::replace(carrier, Carrier::Joined) else { return };
        if let Some((Carrier::None(whole), _)) = self.requests.get_mut(&with) {
            whole.join(joint);
        }
    }

    /// Asks the storage for `request`, if it has not been asked yet.
    fn start(&mut self, request: RequestId, spawn: &impl Fn(Joint) -> AbortHandle) {
        let Some((carrier @ Carrier::None(_), _)) = self.requests.get_mut(&request) else { return };
        let Carrier::None(joint) = std::mem::replace(carrier, Carrier::Joined) else { return };
        let members: SmallVec<[Arc<Request>; 1]> = joint.members().into();
        let carrier = self.launch(joint, spawn);
        self.carry(&members, &carrier);
    }

    /// Has `joint` carried: in place, or else by a task.
    fn launch(&mut self, joint: Joint, spawn: &impl Fn(Joint) -> AbortHandle) -> Carrier {
        match InPlace::new(joint) {
            Ok(in_place) => {
                self.deferred.begun.push(Arc::clone(&in_place));
                Carrier::InPlace(in_place)
            }
            Err(joint) => Carrier::Task(Arc::new(spawn(joint))),
        }
    }

    /// The task that carries `request` ends if it carries nothing else. What is read in place
    /// completes, and is dropped then: until it does, its memory is the kernel's.
    fn cancel(&mut self, request: RequestId) {
        let Some((carrier, state)) = self.requests.remove(&request) else { return };
        // A read of several requests, of which another one has failed, may wait for it.
        state.give_up();
        self.deferred.over.extend(state.let_go());
        if let Carrier::Task(task) = carrier
            && let Some(task) = Arc::into_inner(task)
        {
            task.abort();
        }
    }

    /// Those of `members` that have not been given up are carried by `carrier`.
    pub(crate) fn carry(&mut self, members: &[Arc<Request>], carrier: &Carrier) {
        for member in members {
            if let Some((carried_by, _)) = self.requests.get_mut(&member.id()) {
                *carried_by = carrier.clone();
            }
        }
    }

    /// Takes the folios of requests that the storage has not been asked for: it never will be.
    pub(crate) fn give_up_waiting(&mut self) -> Vec<Arc<Folio>> {
        let waiting = self.requests.values_mut().filter_map(|(carrier, _)| match carrier {
            Carrier::None(joint) => Some(std::mem::take(&mut joint.folios)),
            Carrier::Joined | Carrier::Task(_) | Carrier::InPlace(_) => None,
        });
        waiting.flatten().collect()
    }

    /// Whether a request is neither given up nor over.
    pub(crate) fn counts(&self, request: RequestId) -> bool {
        self.requests.contains_key(&request)
    }

    /// What is read in place.
    pub(crate) fn in_place(&self) -> impl Iterator<Item = Arc<InPlace>> {
        self.requests.values().filter_map(|(carrier, _)| match carrier {
            Carrier::InPlace(in_place) => Some(Arc::clone(in_place)),
            Carrier::None(_) | Carrier::Joined | Carrier::Task(_) => None,
        })
    }

    /// Takes the requests in place that policy does not know any more, and that were submitted as
    /// long ago as this.
    pub(crate) fn take_outlived(&mut self, patience: Duration) -> Vec<Arc<InPlace>> {
        let mut silent = Vec::new();
        self.outlived.retain(|in_place| match in_place.upgrade() {
            Some(in_place) if in_place.age() >= patience => {
                silent.push(in_place);
                false
            }
            alive => alive.is_some(),
        });
        silent
    }

    /// A request is over. Returns whether it had not been given up before.
    pub(crate) fn finished(&mut self, request: RequestId) -> bool {
        let Some((_, state)) = self.requests.remove(&request) else { return false };
        self.deferred.over.extend(state.let_go());
        true
    }

    /// A number for a read that policy is told of.
    pub(crate) fn next_read(&mut self) -> ReadId {
        self.next_read += 1;
        ReadId(self.next_read)
    }

    /// Policy is about to be told of `read`. It is completed when policy says that it is ready.
    pub(crate) fn wait_for(&mut self, read: Arc<dyn Missed>) -> ReadId {
        let id = self.next_read();
        read.told(id);
        if self.lives.are_over() {
            self.deferred.failed.push((cannot_go_on(), read));
        } else {
            self.lacking.insert(id, read);
        }
        id
    }

    /// How many reads policy has been told of that are not ready.
    pub(crate) fn lacking(&self) -> usize {
        self.lacking.len()
    }

    /// There is memory for the pages of `read` before `end`.
    fn ready(&mut self, read: ReadId, end: u64) {
        let Some(looked_up) = self.lacking.get(&read).map(|read| read.look_up(end)) else { return };
        let Some(read) = self.lacking.remove(&read) else { return };
        if let Lookup::Present(pages) = looked_up {
            pages.folios().iter().for_each(|folio| folio.request.demand());
            self.deferred.ready.push((pages, read));
        } else {
            debug_assert!(false, "policy says ready, and a page is absent");
            let error = Error::new(ErrorKind::Io, "a page that should be there is not: please report this");
            self.deferred.failed.push((error, read));
        }
    }

    /// Takes the reads of `extent` of `file` that are not ready and have waited for longer than
    /// this.
    pub(crate) fn take_lacking(
        &mut self,
        file: FileId,
        extent: Extent,
        longest: Duration,
    ) -> Vec<(ReadId, Arc<dyn Missed>)> {
        let is_it = |_: &ReadId, read: &mut Arc<dyn Missed>| {
            read.file() == file && read.extent().overlaps(extent) && read.has_waited(longest)
        };
        let mut taken: Vec<_> = self.lacking.extract_if(is_it).collect();
        taken.sort_unstable_by_key(|&(read, _)| read);
        taken
    }

    /// Takes the reads that are not ready: they never will be.
    pub(crate) fn give_up_lacking(&mut self) -> Vec<Arc<dyn Missed>> {
        self.lacking.drain().map(|(_, read)| read).collect()
    }

    /// Writes out what has been recorded.
    pub(crate) fn flush_record(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
    }
}

/// Entries of each list that one turn at the shard fills without an allocation: twice as many
/// reads as the benchmark submits together. Lower costs allocations; higher costs moving an empty
/// list.
const TOGETHER: usize = 16;
