//! Policy, and the right to change what is resident. Whoever holds the shard tells policy what happened and does what it says before
//! anybody else may.
//!
//! *Invariant:* actions are executed in the order given, under the same lock as the event that caused them; no reader is
//! completed and no storage is waited for while it is held.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use foreread_policy::{Action, Class, Event, Extent, FileId, Found, Nanos, ReadPath, RequestId};
use smallvec::SmallVec;
use tokio::task::AbortHandle;

use crate::engine::{Files, Identity, Inner};
use crate::file::Opened;
use crate::numbers::Numbers;
use crate::pages::table::{Folio, Lookup, Pages};
use crate::pages::waiting::Waiting;
use crate::records::log::Recorder;
use crate::requests::fetch::{Fetch, Held, InFlight, fetch};
use crate::requests::in_place::InPlace;
use crate::requests::joint::Joint;

/// A read that waits for its pages once the shard is free.
type Ready = (Pages, Arc<Waiting>);

/// What a request is carried by.
#[derive(Clone)]
pub(crate) enum Carrier {
    /// Nobody: it is not its turn.
    None(Joint),
    /// Whatever another one is carried by, as soon as that is.
    Joined,
    /// A task of the runtime, shared by all that it carries.
    Task(Arc<AbortHandle>),
    /// The storage itself.
    InPlace(Arc<InPlace>),
}

/// See the module's text.
pub(crate) struct Shard {
    pub(crate) policy: ReadPath,
    recorder: Option<Recorder>,
    files: Files,
    by_identity: HashMap<Identity, FileId>,
    /// Files that nobody has open, the longest idle first.
    idle: VecDeque<FileId>,
    next_file: u64,
    requests: Numbers<RequestId, (Carrier, Arc<Fetch>)>,
    /// Room for first touches, to be exchanged with what has come of them.
    pub(crate) referenced: Vec<Event>,
    /// They have been told since it was entered.
    pub(crate) knows_touches: bool,
    /// Requests to begin when the shard is free.
    pub(crate) begun: SmallVec<[(Arc<InPlace>, InFlight); TOGETHER]>,
    /// What requests that are over held, to be dropped when the shard is free.
    pub(crate) over: Vec<Held>,
    /// Folios that had to go: their memory is given back when the shard is free.
    pub(crate) gone: Gone,
    /// Reads to complete when the shard is free.
    pub(crate) ready: SmallVec<[Ready; TOGETHER]>,
    /// Reads for whose pages there is no memory yet, in order.
    pub(crate) starved: VecDeque<Arc<Waiting>>,
}

impl Shard {
    pub(crate) fn new(policy: ReadPath, recorder: Option<Recorder>) -> Self {
        Self {
            policy,
            recorder,
            files: Files::default(),
            by_identity: HashMap::new(),
            idle: VecDeque::new(),
            next_file: 0,
            requests: Numbers::default(),
            referenced: Vec::new(),
            knows_touches: false,
            begun: SmallVec::new(),
            over: Vec::new(),
            gone: SmallVec::new(),
            ready: SmallVec::new(),
            starved: VecDeque::new(),
        }
    }

    /// Tells policy of one event. [`Shard::execute`] comes next.
    pub(crate) fn handle(&mut self, now: Nanos, event: Event) {
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, event);
        }
        self.policy.handle(now, event);
    }

    /// Does what policy says.
    pub(crate) fn execute(&mut self, engine: &Arc<Inner>) {
        while let Some(action) = self.policy.poll_action() {
            if let Some(recorder) = &mut self.recorder {
                recorder.action(action);
            }
            match action {
                action @ Action::Submit { .. } => self.submit(engine, action),
                Action::Grant { request, granted } => {
                    if let Some((_, made)) = self.requests.get(&request) {
                        made.grant(granted);
                        self.start(engine, request);
                    }
                }
                Action::Hedge { request } => {
                    if let Some((_, made)) = self.requests.get(&request) {
                        made.hedge();
                    }
                }
                Action::Join { request, with } => self.join(request, with),
                Action::Cancel { request } => {
                    // What is read in place completes, and is dropped then: its memory is the kernel's until it does. So is what a task
                    // brings that carries others as well.
                    let Some((carrier, made)) = self.requests.remove(&request) else { continue };
                    self.over.extend(made.let_go());
                    if let Carrier::Task(task) = carrier
                        && let Some(task) = Arc::into_inner(task)
                    {
                        task.abort();
                    }
                }
                Action::Clear { file, start } => {
                    if let Some((_, opened)) = self.files.get(&file) {
                        opened.table.clear(start);
                    }
                }
                Action::Drop { file, folio } => {
                    if let Some((_, opened)) = self.files.get(&file) {
                        self.gone.extend(opened.table.remove(folio.start));
                    }
                }
            }
        }
    }

    fn submit(&mut self, engine: &Arc<Inner>, action: Action) {
        let Action::Submit { request, file, extent, class, mark, granted, late } = action else { return };
        let Some((_, opened)) = self.files.get(&file) else { return };
        let made = Fetch::new(request, extent, class == Class::Demand, granted, late);
        let new = |f: Extent| Folio::new(f, mark.is_some_and(|m| f.contains(m)), Arc::clone(&made));
        let folios = opened.table.fill_holes(extent, new);
        let joint = Joint::new(Arc::clone(opened), Arc::clone(&made), folios);
        let carrier = if granted > extent.start { self.launch(engine, joint) } else { Carrier::None(joint) };
        self.requests.insert(request, (carrier, made));
    }

    /// `request`, which waits, will be asked for with another one that does.
    fn join(&mut self, request: RequestId, with: RequestId) {
        let Some((carrier, made)) = self.requests.get_mut(&request) else { return };
        made.grant(made.extent().end);
        let Carrier::None(joint) = std::mem::replace(carrier, Carrier::Joined) else { return };
        if let Some((Carrier::None(whole), _)) = self.requests.get_mut(&with) {
            whole.join(joint);
        }
    }

    /// Asks the storage for what it has not been asked for yet.
    fn start(&mut self, engine: &Arc<Inner>, request: RequestId) {
        let Some((carrier @ Carrier::None(_), _)) = self.requests.get_mut(&request) else { return };
        let Carrier::None(joint) = std::mem::replace(carrier, Carrier::Joined) else { return };
        let made: SmallVec<[Arc<Fetch>; 1]> = joint.members().into();
        let carrier = self.launch(engine, joint);
        self.carry(&made, &carrier);
    }

    /// Has `joint` carried.
    fn launch(&mut self, engine: &Arc<Inner>, joint: Joint) -> Carrier {
        let in_flight = InFlight::new(engine);
        match InPlace::new(joint) {
            Ok(in_place) => {
                self.begun.push((Arc::clone(&in_place), in_flight));
                Carrier::InPlace(in_place)
            }
            Err(joint) => Carrier::Task(Arc::new(engine.runtime.spawn(fetch(in_flight, joint)).abort_handle())),
        }
    }

    /// Those of `made` that still count are carried by `carrier`.
    pub(crate) fn carry(&mut self, made: &[Arc<Fetch>], carrier: &Carrier) {
        for made in made {
            if let Some((carried_by, _)) = self.requests.get_mut(&made.request()) {
                *carried_by = carrier.clone();
            }
        }
    }

    /// What the storage has not been asked for, it never will be.
    pub(crate) fn give_up_waiting(&mut self) -> Vec<Arc<Folio>> {
        let waiting = self.requests.values_mut().filter_map(|(carrier, _)| match carrier {
            Carrier::None(joint) => Some(std::mem::take(&mut joint.folios)),
            Carrier::Joined | Carrier::Task(_) | Carrier::InPlace(_) => None,
        });
        waiting.flatten().collect()
    }

    /// Whether a request has not been given up, nor told of.
    pub(crate) fn counts(&self, request: RequestId) -> bool {
        self.requests.contains_key(&request)
    }

    /// The requests that are read in place.
    pub(crate) fn in_place(&self) -> impl Iterator<Item = (RequestId, Arc<InPlace>)> {
        self.requests.iter().filter_map(|(&request, (carrier, _))| match carrier {
            Carrier::InPlace(in_place) => Some((request, Arc::clone(in_place))),
            Carrier::None(_) | Carrier::Joined | Carrier::Task(_) => None,
        })
    }

    /// A request is over. Whether it still counted: a cancelled one does not.
    pub(crate) fn finished(&mut self, request: RequestId) -> bool {
        let Some((_, made)) = self.requests.remove(&request) else { return false };
        self.over.extend(made.let_go());
        true
    }

    /// Readies the reads whose pages have found memory, and asks once more for the first of the others.
    pub(crate) fn retry_starved(&mut self, engine: &Arc<Inner>) {
        let mut still = VecDeque::new();
        for (at, read) in std::mem::take(&mut self.starved).into_iter().enumerate() {
            let extent = Extent::of_bytes(read.offset, read.len as u64);
            let opened = &read.file.opened;
            let mut found = opened.table.look_up(read.offset, read.len);
            if at == 0 && matches!(found, Lookup::Absent) && self.requests.is_empty() {
                let event = Event::Read { file: opened.id, extent, found: Found::Absent, marked: false };
                self.handle(engine.now(), event);
                self.execute(engine);
                found = opened.table.look_up(read.offset, read.len);
            }
            match found {
                Lookup::Present(pages) => {
                    pages.folios().iter().for_each(|f| f.fetch.demand());
                    self.ready.push((pages, read));
                }
                Lookup::Absent => still.push_back(read),
            }
        }
        self.starved = still;
    }

    /// An identity for a new file.
    pub(crate) fn next_file(&mut self) -> FileId {
        self.next_file += 1;
        FileId(self.next_file)
    }

    /// Takes a new file in.
    pub(crate) fn add(&mut self, identity: Identity, opened: &Arc<Opened>) {
        self.by_identity.insert(identity.clone(), opened.id);
        self.files.insert(opened.id, (identity, Arc::clone(opened)));
    }

    /// The file with this identity, if it is known, no longer idle.
    pub(crate) fn revive(&mut self, identity: &Identity) -> Option<Arc<Opened>> {
        let id = *self.by_identity.get(identity)?;
        self.idle.retain(|&f| f != id);
        self.files.get(&id).map(|(_, opened)| Arc::clone(opened))
    }

    /// The file with this identity, if it is known and nobody has it open.
    pub(crate) fn idle_file(&self, identity: &Identity) -> Option<FileId> {
        let file = *self.by_identity.get(identity)?;
        let (_, opened) = self.files.get(&file)?;
        (opened.handles.load(Relaxed) == 0).then_some(file)
    }

    /// Nobody has `opened` open. The files that are to be forgotten now.
    pub(crate) fn idle(&mut self, opened: &Opened) -> Vec<FileId> {
        if !self.idle.contains(&opened.id) {
            self.idle.push_back(opened.id);
        }
        let over = self.idle.len().saturating_sub(IDLE_FILES_MAX);
        self.idle.drain(..over).collect()
    }

    /// The file is no longer known.
    pub(crate) fn forget(&mut self, file: FileId) {
        if let Some((identity, _)) = self.files.remove(&file) {
            self.by_identity.remove(&identity);
        }
    }

    /// Writes out what has been recorded.
    pub(crate) fn flush_record(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
    }
}

/// Folios that are in no page table any more.
pub(crate) type Gone = SmallVec<[Arc<Folio>; TOGETHER]>;

/// What one entry of the shard leads to, without an allocation for its list: twice as many reads as the benchmark submits together.
const TOGETHER: usize = 16;

/// Files remembered after their last close, with what is resident of them: an epoch that comes back finds its pages. Each costs
/// under a kilobyte without pages.
const IDLE_FILES_MAX: usize = 4096;
