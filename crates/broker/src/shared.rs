//! An engine that may be in another process, and its files: what a program uses.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foreread_engine::{Engine, Error, ErrorKind, File, Key, Node, Object, Pages, Stats};
use foreread_policy::EngineUse;
use tokio::runtime::Handle;

use crate::connection::{Connection, Helping, Numbered, ReadDone, Turn, Wanted};
use crate::identity::Identity;
use crate::link::{Linked, Where, ended};
use crate::options::ShareOptions;
use crate::pages::SharedPages;
use crate::server::READ_BYTES_MAX;
use crate::wire::{Call, Reply};

/// What this process is to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// It has the engine that others read through, or will.
    Serves,
    /// It reads through the engine of another process.
    Joins,
    /// It has an engine that no other process reads through.
    Alone,
}

/// The counters of the engine, and this process's part in it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SharedStats {
    /// What the engine has done, for all processes.
    pub engine: Stats,
    /// What this process is.
    pub role: Role,
    /// Processes that read through the engine, besides the one that has it.
    pub clients: usize,
}

/// An engine that processes of a user share. Clones are the same one.
#[derive(Clone)]
pub struct Shared(Arc<Linked>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("role", &self.role()).finish_non_exhaustive()
    }
}

impl Shared {
    /// The engine of `identity`: of the process that serves it, or of this one, which `make` makes
    /// with a budget in bytes. `make` is called again when this process comes to be the one that
    /// serves.
    ///
    /// Errors: those of `make`. That no engine can be shared is none: this process has its own
    /// then.
    pub fn connect(
        identity: Identity,
        options: ShareOptions,
        make: impl Fn(u64) -> Result<Engine, Error> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Linked::connect(identity, options, Box::new(make)).map(Self)
    }

    /// What this process is to others at the moment.
    pub fn role(&self) -> Role {
        match self.0.place() {
            Where::Here(own) if own.serving.is_some() => Role::Serves,
            Where::Here(_) => Role::Alone,
            Where::There => Role::Joins,
        }
    }

    /// Describes an object. See [`Engine::stat`].
    pub async fn stat(&self, key: &Key) -> Result<Object, Error> {
        if let Where::Here(own) = self.0.place() {
            return own.engine.stat(key).await;
        }
        match self.0.call(Call::Stat(key.clone())).await? {
            Reply::Object(object) => Ok(object),
            _ => Err(unexpected()),
        }
    }

    /// What `name` in `prefix` is. See [`Engine::look_up`].
    pub async fn look_up(&self, prefix: &str, name: &str) -> Result<Node, Error> {
        if let Where::Here(own) = self.0.place() {
            return Ok(own.engine.look_up(prefix, name).await?.node);
        }
        self.look_up_there(prefix, name, None).await
    }

    /// What `name` in `prefix` is, of which the bytes `range` are about to be read. See
    /// [`Engine::look_up_to_read`].
    pub async fn look_up_to_read(&self, prefix: &str, name: &str, range: Range<u64>) -> Result<Node, Error> {
        if let Where::Here(own) = self.0.place() {
            return Ok(own.engine.look_up_to_read(prefix, name, range).await?.node);
        }
        self.look_up_there(prefix, name, Some((range.start, range.end))).await
    }

    async fn look_up_there(&self, prefix: &str, name: &str, read: Option<(u64, u64)>) -> Result<Node, Error> {
        match self.0.call(Call::LookUp { prefix: prefix.to_owned(), name: name.to_owned(), read }).await? {
            Reply::Node(node) => Ok(node),
            _ => Err(unexpected()),
        }
    }

    /// Appends the entries of the directory of all keys that begin with `prefix` (empty, or ending
    /// in `/`). With an error, those that came before it.
    ///
    /// Errors: as those of [`foreread_engine::Directory::wait`].
    pub async fn entries(&self, prefix: &str, found: &mut Vec<Node>) -> Result<(), Error> {
        let before = found.len();
        'anew: for _ in 0..LISTED_ANEW_MAX {
            found.truncate(before);
            let listing = self.0.listings.fetch_add(1, Ordering::Relaxed);
            let _ends = Listing { shared: self, listing };
            let mut place = 0;
            loop {
                let call = Call::Entries { listing, prefix: prefix.to_owned(), place };
                match self.0.call(call).await? {
                    Reply::Entries { nodes, next } => {
                        found.extend(nodes);
                        match next {
                            Some(next) => place = next,
                            None => return Ok(()),
                        }
                    }
                    // Another process serves by now.
                    Reply::Gone => continue 'anew,
                    _ => return Err(unexpected()),
                }
            }
        }
        Err(ended())
    }

    /// Whether there is an entry in the directory of all keys that begin with `prefix`. Waits for
    /// the first entries alone.
    ///
    /// Errors: as those of [`foreread_engine::Directory::wait`].
    pub async fn has_entries(&self, prefix: &str) -> Result<bool, Error> {
        if let Where::Here(own) = self.0.place() {
            return own.engine.open_directory(prefix).begun().await;
        }
        let listing = self.0.listings.fetch_add(1, Ordering::Relaxed);
        let _ends = Listing { shared: self, listing };
        let call = Call::Entries { listing, prefix: prefix.to_owned(), place: 0 };
        match self.0.call(call).await? {
            Reply::Entries { nodes, .. } => Ok(!nodes.is_empty()),
            _ => Err(unexpected()),
        }
    }

    /// Tells that files will be read in this order. See [`Engine::expect_ahead`]. Where another
    /// process comes to serve, it is told what this one has not opened yet.
    pub async fn expect(&self, keys: Vec<Key>, ahead_bytes: Option<u64>) -> Result<usize, Error> {
        if let Where::Here(own) = self.0.place() {
            return own.expect(keys, ahead_bytes).await;
        }
        if keys.iter().map(|key| key.as_str().len() + 4).sum::<usize>() > ORDER_BYTES_MAX {
            let text = format!("an order of more than {ORDER_BYTES_MAX} bytes of names");
            return Err(Error::told(ErrorKind::Invalid, &text, None, false));
        }
        let Reply::Count(count) = self.0.call(Call::Expect { keys: keys.clone(), ahead_bytes }).await? else {
            return Err(unexpected());
        };
        // Until it is answered, the call itself is handed on to a successor.
        self.0.orders.told(keys, ahead_bytes);
        self.0.watch();
        Ok(count as usize)
    }

    /// Takes back what [`Shared::expect`] was told. Orders of other processes stay.
    pub fn expect_none(&self) {
        self.0.orders.none();
        self.0.watch();
        self.tell(Call::ExpectNone);
    }

    /// What was learned of names before this moment is not believed any more, by no process. See
    /// [`Engine::forget_names`].
    pub fn forget_names(&self) {
        if let Where::Here(own) = self.0.place() {
            return own.engine.forget_names();
        }
        // What this process looks up next has to know of it.
        let _ = self.0.call_and_wait(Call::Forget);
    }

    fn tell(&self, call: Call) {
        self.0.issue(vec![Wanted::Call { call, done: Box::new(drop) }], None);
    }

    /// Opens an object, pinned to the version that `object` says. No I/O.
    pub fn open(&self, object: &Object) -> SharedFile {
        if let Where::Here(own) = self.0.place() {
            return SharedFile(Held::Own(own.engine.open(object)));
        }
        self.0.orders.opened(&object.key);
        SharedFile(Held::Far { linked: Arc::clone(&self.0), file: Arc::new(Numbered::new(object.clone())) })
    }

    /// Reads several ranges together. See [`Engine::read_together`].
    pub fn read_together<D>(&self, reads: impl IntoIterator<Item = (SharedFile, u64, usize, D)>)
    where
        D: FnOnce(Result<SharedPages, Error>) + Send + 'static,
    {
        self.read_all(reads, None);
    }

    fn read_all<D>(
        &self,
        reads: impl IntoIterator<Item = (SharedFile, u64, usize, D)>,
        helped: Option<&Arc<Connection>>,
    ) where
        D: FnOnce(Result<SharedPages, Error>) + Send + 'static,
    {
        let (mut near, mut far): (_, Vec<(Arc<Linked>, Vec<Wanted>)>) = (Vec::new(), Vec::new());
        for (file, offset, len, done) in reads {
            let linked = file.linked().cloned();
            match (file.wanted(offset, len, done), linked) {
                (Err(read), _) => near.push(read),
                (Ok(Some(wanted)), Some(linked)) => match far.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &linked))
                {
                    Some((_, all)) => all.push(wanted),
                    // Files of another store are read through that.
                    None => far.push((linked, vec![wanted])),
                },
                (Ok(_), _) => {}
            }
        }
        for (linked, wanted) in far {
            linked.issue(wanted, helped);
        }
        if near.is_empty() {
            return;
        }
        match self.0.place() {
            Where::Here(own) => own.engine.read_together(near),
            // All of them are of other stores.
            Where::There => near.into_iter().for_each(|(file, offset, len, done)| file.read(offset, len, done)),
        }
    }

    /// The counters of the engine, and this process's part.
    ///
    /// Errors: the engine has ended.
    pub fn stats(&self) -> Result<SharedStats, Error> {
        let (engine, clients) = self.0.stats()?;
        Ok(SharedStats { engine, role: self.role(), clients })
    }

    /// An engine of this process may use `part` bytes. Another process that is read through is
    /// told `equal`. Unless `is_told`, both hold only where no process is told a budget: the
    /// largest that one was told holds for all.
    ///
    /// Errors: as [`Engine::set_memory_bytes`].
    pub fn set_part(&self, is_told: bool, part: u64, equal: u64) -> Result<(), Error> {
        self.0.set_part(is_told, part, equal)
    }

    /// What it does with memory of this process; nothing where another process's engine is read
    /// through, and none was made here besides.
    pub(crate) fn usage(&self) -> Option<EngineUse> {
        let engine = self.0.engine_here()?;
        let asked = if self.role() == Role::Joins { self.0.issued() } else { 0 };
        Some(EngineUse {
            held_bytes: engine.needed_bytes(),
            budget_bytes: engine.memory_bytes(),
            work: engine.work() + asked,
        })
    }

    /// Gives back what is held in this process and no reader keeps; the budget stays.
    pub(crate) fn give_memory_back(&self) {
        if let Some(engine) = self.0.engine_here() {
            engine.give_memory_back();
        }
    }

    /// An engine in this process, for what needs its pages here: the shared one where this process
    /// serves, else one that is made for this.
    ///
    /// Errors: those of making it.
    pub fn own_engine(&self) -> Result<Engine, Error> {
        self.0.own_engine()
    }

    /// Reads through an engine of this process from now on, if it was another one's.
    pub fn leave(&self) {
        self.0.leave();
    }

    /// Whether both are clones of one.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether there are no more than so many clones, and no other process reads through it. It
    /// ends when the last clone is dropped.
    pub fn is_unused(&self, clones: usize) -> bool {
        let serves = match self.0.place() {
            Where::Here(own) => own.serving.as_ref().is_some_and(|serving| serving.clients() > 0),
            Where::There => false,
        };
        !serves && Arc::strong_count(&self.0) <= clones
    }

    /// Where futures of this engine run.
    ///
    /// Errors: no thread can be started.
    pub fn runtime(&self) -> Result<Handle, Error> {
        self.0.runtime()
    }
}

/// A listing under way: given up when it is dropped.
struct Listing<'a> {
    shared: &'a Shared,
    listing: u32,
}

impl Drop for Listing<'_> {
    fn drop(&mut self) {
        self.shared.tell(Call::EndEntries { listing: self.listing });
    }
}

/// An open object of a shared engine, pinned to one version. Clones share everything.
#[derive(Clone)]
pub struct SharedFile(Held);

#[derive(Clone)]
enum Held {
    Own(File),
    /// Opened while the engine was another process's.
    Far {
        linked: Arc<Linked>,
        file: Arc<Numbered>,
    },
}

impl std::fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedFile").field("object", self.object()).finish_non_exhaustive()
    }
}

impl SharedFile {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.object().version.size
    }

    /// The object and the version that is read.
    pub fn object(&self) -> &Object {
        match &self.0 {
            Held::Own(file) => file.object(),
            Held::Far { file, .. } => &file.object,
        }
    }

    fn linked(&self) -> Option<&Arc<Linked>> {
        match &self.0 {
            Held::Own(_) => None,
            Held::Far { linked, .. } => Some(linked),
        }
    }

    /// Whether it is read through an engine of this process: what is resident is there at once.
    pub fn is_here(&self) -> bool {
        match &self.0 {
            Held::Own(_) => true,
            Held::Far { file, .. } => file.here.get().is_some(),
        }
    }

    /// The longest piece that a read is best made of, in bytes: where another process copies,
    /// pieces let this one copy at the same time.
    pub fn piece_bytes(&self, own: usize) -> usize {
        if self.is_here() { own } else { PIECE_BYTES }
    }

    /// Reads up to `len` bytes at `offset` and calls `done` with them. See [`File::read`]; `len`
    /// is at most 1 MiB, longer reads are cut.
    pub fn read(&self, offset: u64, len: usize, done: impl FnOnce(Result<SharedPages, Error>) + Send + 'static) {
        self.read_as(offset, len, None, done);
    }

    fn read_as<D>(&self, offset: u64, len: usize, helped: Option<&Arc<Connection>>, done: D)
    where
        D: FnOnce(Result<SharedPages, Error>) + Send + 'static,
    {
        match (self.wanted(offset, len, done), &self.0) {
            (Err((file, offset, len, done)), _) => file.read(offset, len, done),
            (Ok(wanted), Held::Far { linked, .. }) => linked.issue(wanted.into_iter().collect(), helped),
            (Ok(_), Held::Own(_)) => {}
        }
    }

    /// What a read asks another process for; nothing of one that reads nothing. Of a file that is
    /// here, the read.
    #[expect(clippy::type_complexity, reason = "a read of an engine, as that takes it")]
    fn wanted<D>(
        &self,
        offset: u64,
        len: usize,
        done: D,
    ) -> Result<Option<Wanted>, (File, u64, usize, impl FnOnce(Result<Pages, Error>) + Send + 'static)>
    where
        D: FnOnce(Result<SharedPages, Error>) + Send + 'static,
    {
        let near = match &self.0 {
            Held::Own(file) => Some(file),
            Held::Far { file, .. } => file.here.get(),
        };
        if let Some(near) = near {
            return Err((near.clone(), offset, len, move |pages: Result<Pages, Error>| done(pages.map(Into::into))));
        }
        let Held::Far { file, .. } = &self.0 else { return Ok(None) };
        let len = self.size().saturating_sub(offset).min(len as u64).min(READ_BYTES_MAX as u64) as usize;
        if len == 0 {
            done(Ok(SharedPages::empty()));
            return Ok(None);
        }
        let done: ReadDone = Box::new(done);
        Ok(Some(Wanted::Read { file: Arc::clone(file), offset, len, done }))
    }

    /// A thread is about to wait for reads of this file, and helps to take their answers.
    pub fn helped(&self) -> Helped<'_> {
        let helping = match &self.0 {
            Held::Far { linked, file } if file.here.get().is_none() => {
                linked.connection().map_or_else(Helping::nowhere, |connection| connection.help())
            }
            _ => Helping::nowhere(),
        };
        Helped { file: self, helping }
    }
}

/// Reads of a thread that waits for them. Where they come from another process, the thread takes
/// them from the socket itself.
pub struct Helped<'a> {
    file: &'a SharedFile,
    helping: Helping,
}

/// What came of a turn at the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helps {
    /// Some may have come.
    Look,
    /// None came for 100 ms.
    Nothing,
    /// Another thread brings them: this one has to wait for it.
    Wait,
}

impl Helped<'_> {
    /// As [`SharedFile::read`]. The thread calls [`Helped::turn`] soon.
    pub fn read(&self, offset: u64, len: usize, done: impl FnOnce(Result<SharedPages, Error>) + Send + 'static) {
        self.file.read_as(offset, len, self.helping.connection(), done);
    }

    /// As [`Shared::read_together`]. The thread calls [`Helped::turn`] soon.
    pub fn read_together<D>(&self, shared: &Shared, reads: impl IntoIterator<Item = (SharedFile, u64, usize, D)>)
    where
        D: FnOnce(Result<SharedPages, Error>) + Send + 'static,
    {
        shared.read_all(reads, self.helping.connection());
    }

    /// Takes answers, unless `has_come` says that what is waited for is there.
    pub fn turn(&self, has_come: impl FnOnce() -> bool) -> Helps {
        match self.helping.turn(has_come) {
            Turn::Some => Helps::Look,
            Turn::None => Helps::Nothing,
            Turn::Elsewhere => Helps::Wait,
        }
    }
}

fn unexpected() -> Error {
    Error::told(ErrorKind::Io, "the process that serves has given another answer", None, true)
}

/// The longest piece of a read that is best where another process copies, 512 KiB. Lower costs
/// frames; higher, and one process waits while the other copies.
const PIECE_BYTES: usize = 512 << 10;

/// How often a listing begins anew. Each time, another process has come to serve. Lower: an error
/// where many servers end one after the other. Higher has no use.
const LISTED_ANEW_MAX: usize = 100;

/// The longest order, in bytes of names: what a frame takes.
const ORDER_BYTES_MAX: usize = 60 << 20;
