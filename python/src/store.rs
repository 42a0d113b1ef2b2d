//! One store: names in it, and its objects.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreread::backend::Keys;
use foreread::backend::lock::Mutex;
use foreread::shared::Shared;
use foreread::{Error, ErrorKind, Key, Node, Object};
use futures::stream::{self, StreamExt};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::completions::Completions;
use crate::errors::raised;
use crate::file::Handle;
use crate::info::{Found, info};
use crate::outcome::run;
use crate::process::{self, Fresh, Spec};
use crate::version::Version;

/// How long the answer about a name serves an open that follows it, 1 s: as long as a listing is
/// believed. Lower: programs that ask before they open pay two requests. Higher: a file that was
/// replaced in between is opened as it was.
const RECENT: Duration = Duration::from_secs(1);

/// Answers about names that are remembered. Lower: a program that asks about many names before it
/// opens them asks twice. Higher costs memory.
const RECENT_MAX: usize = 4096;

/// Names that are looked up at a time, as many as most stores answer side by side. Lower: many
/// directories take longer. Higher: a web server may refuse some.
const LOOKED_UP_AT_ONCE: usize = 64;

/// Directories that `find` waits for at a time, in the order of their names: 4. The engine lists
/// ahead of the first. Lower: trees that end in small directories take longer. Higher: the engine
/// does not recognise a walk. Measured with 1, 4, 8, 16 and 64, 30 ms a request: 100,000 files in
/// 10,000 directories at 61,000, 64,000, 60,000, 51,000 and 42,000 a second. 40,000 in 4,420 on
/// three levels came at 9,000, 13,000, 14,000, 14,000 and 17,000 when requests were judged by one
/// level, and come at 29,000 with 4 (docs/decisions/0095; the others were not measured again).
const LISTED_AT_ONCE: usize = 4;

/// What the names of stores begin with that are there or not: buckets and containers.
const BUCKETS: [&str; 3] = ["s3://", "gs://", "az://"];

/// A bucket, a container, a web server or a file system, with what it is connected with. Connected
/// in each process that uses it, when it is first used. Equal ones share an engine.
#[pyclass(frozen, eq, hash, module = "foreread._native")]
pub(crate) struct Store {
    spec: Arc<Spec>,
    live: Fresh<Live>,
}

impl PartialEq for Store {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Hash for Store {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.spec.hash(state);
    }
}

#[derive(Clone)]
struct Live {
    engine: Shared,
    recent: Arc<Mutex<Recent>>,
    /// The bucket or container; nothing for a web server or a file system, whose root there is.
    bucket: Option<Arc<str>>,
}

/// What was learned lately.
#[derive(Default)]
struct Recent {
    /// Objects that were asked about, by path.
    objects: HashMap<String, (Object, Instant)>,
    /// When something was found in the bucket.
    bucket: Option<Instant>,
}

impl Live {
    fn remember(&self, object: Option<&Object>) {
        let (recent, now) = (&mut *self.recent.lock(), Instant::now());
        recent.bucket = Some(now);
        let Some(object) = object else { return };
        if recent.objects.len() >= RECENT_MAX {
            recent.objects.clear();
        }
        recent.objects.insert(object.key.to_string(), (object.clone(), now));
    }

    fn recall(&self, path: &str) -> Option<Object> {
        let recent = self.recent.lock();
        recent.objects.get(path).filter(|(_, at)| at.elapsed() < RECENT).map(|(object, _)| object.clone())
    }

    /// Whether there is a root. An answer from this bucket that is at most a second old says so.
    /// So does one that its root may not be listed, unless that is what was `asked` for: a client
    /// may list what is below a prefix alone.
    async fn find_root(&self, asked: bool) -> Result<(), Error> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        if self.recent.lock().bucket.is_some_and(|at| at.elapsed() < RECENT) {
            return Ok(());
        }
        match self.engine.has_entries("").await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(no_bucket(bucket)),
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !asked => return Ok(()),
            found => found?,
        };
        self.remember(None);
        Ok(())
    }

    fn is_bucket(&self, path: &str) -> bool {
        self.bucket.is_some() && path.is_empty()
    }

    /// Refuses names of which requests cannot tell: URLs resolve such parts.
    fn check(&self, path: &str) -> Result<(), Error> {
        let is_odd = path.starts_with('/') || path.split('/').any(|part| matches!(part, "." | ".."));
        if !is_odd || self.bucket.is_none() {
            return Ok(());
        }
        let text = "a name that begins with / or has a part . or .. cannot be asked for";
        Err(Error::told(ErrorKind::NotFound, text, Some(path), false))
    }

    /// The object at `path`; nothing for a directory. `read`: where the bytes that are about to be
    /// read begin and end, if it is a file.
    async fn look_up(&self, path: &str, read: Option<(u64, u64)>) -> Result<Option<Object>, Error> {
        if path.is_empty() {
            return self.find_root(true).await.map(|()| None);
        }
        self.check(path)?;
        let (prefix, name) = path.rfind('/').map_or(("", path), |at| path.split_at(at + 1));
        let node = match read {
            Some((start, end)) => self.engine.look_up_to_read(prefix, name, start..end).await,
            None => self.engine.look_up(prefix, name).await,
        };
        let object = match node.map_err(|error| named(error, path))? {
            Node::File(object) => Some(object),
            Node::Directory(_) => None,
        };
        self.remember(object.as_ref());
        Ok(object)
    }

    /// The current version of the object `path`. Unless it must be `fresh`, an answer about the
    /// name that is at most a second old says which one that is. `read`: as for `look_up`.
    async fn current(&self, path: &str, fresh: bool, read: Option<(u64, u64)>) -> Result<Object, Error> {
        self.check(path)?;
        if let Some(bucket) = self.bucket.as_deref().filter(|_| path.is_empty()) {
            self.find_root(false).await?;
            return Err(Error::told(ErrorKind::NotFound, &format!("{bucket} is no file"), None, false));
        }
        if !fresh {
            if let Some(object) = self.recall(path) {
                return Ok(object);
            }
            if let Some(object) = self.look_up(path, read).await? {
                return Ok(object);
            }
            // A directory: the storage says what it thinks of opening it.
        }
        let object = self.engine.stat(&Key::new(path)).await?;
        self.remember(Some(&object));
        Ok(object)
    }
}

impl Store {
    fn live(&self, py: Python<'_>) -> PyResult<&Live> {
        if let Some(live) = self.live.get() {
            return Ok(live);
        }
        let connect = || {
            let engine = process::engine(&self.spec)?;
            let bucket = BUCKETS.iter().any(|scheme| self.spec.store.starts_with(scheme));
            let bucket = bucket.then(|| Arc::from(self.spec.store.as_str()));
            Ok(Live { engine, recent: Arc::default(), bucket })
        };
        py.detach(|| self.live.get_or_try_make(connect)).map_err(|error: Error| raised(&error))
    }
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (
        store, *, endpoint = None, region = None, profile = None, anonymous = false, key = None, secret = None,
        token = None, share = true
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are named")]
    fn new(
        store: String,
        endpoint: Option<String>,
        region: Option<String>,
        profile: Option<String>,
        anonymous: bool,
        key: Option<String>,
        secret: Option<String>,
        token: Option<String>,
        share: bool,
    ) -> PyResult<Self> {
        let keys = match (key, secret) {
            (Some(access_key), Some(secret_key)) => Some(Keys { access_key, secret_key, token }),
            (None, None) => None,
            _ => return Err(PyValueError::new_err("`key` and `secret` go together")),
        };
        let environment = process::environment();
        let spec = Spec { store, endpoint, region, profile, anonymous, keys, share, environment };
        Ok(Self { spec: Arc::new(spec), live: Fresh::new() })
    }

    /// Connects this process, which has other processes read through it if it is the first one.
    fn connect(&self, py: Python<'_>) -> PyResult<()> {
        self.live(py).map(drop)
    }

    /// What `path` is, shown as `name`.
    #[pyo3(signature = (path, name, to = None))]
    fn info<'py>(
        &self,
        py: Python<'py>,
        path: String,
        name: String,
        to: Option<&Bound<'py, Completions>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let live = self.live(py)?;
        let asked = live.clone();
        let future = async move { asked.look_up(&path, None).await };
        run(py, &live.engine, to, future, move |py, object| Ok(info(py, &name, object.as_ref())?.into_any()))
    }

    /// The entries of the directory `path`, or the file `path` itself. Names begin with `root`.
    #[pyo3(signature = (path, root, to = None))]
    fn list<'py>(
        &self,
        py: Python<'py>,
        path: String,
        root: String,
        to: Option<&Bound<'py, Completions>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let live = self.live(py)?;
        let asked = live.clone();
        run(py, &live.engine, to, async move { list(&asked, &path, 1).await }, move |py, found| {
            dictionaries(py, &root, &found)
        })
    }

    /// All files below `path`, or the file `path` itself, or nothing. With `directories`, those as
    /// well, with `path` if it is one and no bucket; with `depth`, those at most so many
    /// directories down, 1 for the entries of `path`. Names begin with `root`.
    #[pyo3(signature = (path, root, directories = false, depth = None, to = None))]
    fn find<'py>(
        &self,
        py: Python<'py>,
        path: String,
        root: String,
        directories: bool,
        depth: Option<usize>,
        to: Option<&Bound<'py, Completions>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let live = self.live(py)?;
        let asked = live.clone();
        let future = async move {
            match list(&asked, &path, depth.unwrap_or(usize::MAX)).await {
                // That there is no bucket is of no key.
                Err(error) if error.kind() == ErrorKind::NotFound && error.key().is_some() => Ok(Vec::new()),
                Ok(mut found) if directories && !asked.is_bucket(&path) && !is_file(&path, &found) => {
                    found.push((path, None));
                    Ok(found)
                }
                found => found,
            }
        };
        run(py, &live.engine, to, future, move |py, mut found| {
            found.retain(|(_, object)| directories || object.is_some());
            dictionaries(py, &root, &found)
        })
    }

    /// Opens the object `path` at its current version. Unless it must be `fresh`, an answer about
    /// the name that is at most a second old says which one that is.
    #[pyo3(signature = (path, fresh = true, to = None))]
    fn open<'py>(
        &self,
        py: Python<'py>,
        path: String,
        fresh: bool,
        to: Option<&Bound<'py, Completions>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let live = self.live(py)?;
        let (asked, spec) = (live.clone(), Arc::clone(&self.spec));
        let future = async move { asked.current(&path, fresh, None).await };
        run(py, &live.engine, to, future, move |py, object| Ok(Bound::new(py, Handle::new(&spec, object))?.into_any()))
    }

    /// Opens several objects, as `open` does; their names are looked up together.
    /// Returns them in order. With `returns_errors` the list has exceptions where that failed;
    /// otherwise the first one is raised. `reads` tells for each where the bytes that are about to
    /// be read begin and end, if that is known: then they may be asked for before anything is
    /// known of the name.
    #[pyo3(signature = (paths, returns_errors = false, reads = None, fresh = false, to = None))]
    fn open_together<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<String>,
        returns_errors: bool,
        reads: Option<Vec<Option<(u64, u64)>>>,
        fresh: bool,
        to: Option<&Bound<'py, Completions>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let live = self.live(py)?;
        let spec = Arc::clone(&self.spec);
        let reads = reads.into_iter().flatten().chain(std::iter::repeat(None));
        let each = paths.into_iter().zip(reads).map(|(path, read)| {
            let asked = live.clone();
            async move { asked.current(&path, fresh, read).await }
        });
        let each: Vec<_> = each.collect();
        let future = async move {
            let mut each = stream::iter(each).buffered(LOOKED_UP_AT_ONCE);
            let mut all = Vec::new();
            while let Some(object) = each.next().await {
                if object.is_err() && !returns_errors {
                    return object.map(|_| all);
                }
                all.push(object);
            }
            Ok(all)
        };
        run(py, &live.engine, to, future, move |py, objects| {
            let list = PyList::empty(py);
            for object in objects {
                match object {
                    Ok(object) => list.append(Bound::new(py, Handle::new(&spec, object))?)?,
                    Err(error) => list.append(raised(&error).into_value(py))?,
                }
            }
            Ok(list.into_any())
        })
    }

    /// The object `path` at this version. Sends nothing.
    fn open_version(&self, path: &str, version: &Version) -> Handle {
        Handle::new(&self.spec, Object { key: Key::new(path), version: version.0.clone() })
    }

    /// Tells that files will be read in this order, and how many bytes of them may be fetched and
    /// not be read yet. Returns how many of the files there are.
    #[pyo3(signature = (paths, ahead = None, to = None))]
    fn expect<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<String>,
        ahead: Option<u64>,
        to: Option<&Bound<'py, Completions>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let live = self.live(py)?;
        let engine = live.engine.clone();
        let keys = paths.into_iter().map(Key::new).collect();
        let future = async move { engine.expect(keys, ahead).await };
        run(py, &live.engine, to, future, |py, count| Ok(count.into_pyobject(py)?.into_any()))
    }

    /// Takes back what `expect` was told.
    fn expect_none(&self, py: Python<'_>) {
        py.detach(|| {
            if let Some(engine) = process::known_engine(&self.spec) {
                engine.expect_none();
            }
        });
    }

    /// What was learned of names before this moment is not believed any more.
    fn forget(&self, py: Python<'_>) {
        py.detach(|| {
            if let Some(live) = self.live.get() {
                *live.recent.lock() = Recent::default();
            }
            // Another object of this store may have made it.
            if let Some(engine) = process::known_engine(&self.spec) {
                engine.forget_names();
            }
        });
    }
}

/// Splits a URL into its store and the path in it.
#[pyfunction]
pub(crate) fn place(url: &str) -> PyResult<(String, String)> {
    let place = foreread::backend::place(url).map_err(|error| raised(&error.into()))?;
    Ok((place.store, place.path))
}

/// There is no such bucket: an error of no key.
fn no_bucket(bucket: &str) -> Error {
    Error::told(ErrorKind::NotFound, &format!("the bucket {bucket} does not exist"), None, false)
}

/// The same failure. That there is no such name is told of `path`, not of what was asked for last.
fn named(error: Error, path: &str) -> Error {
    if error.kind() != ErrorKind::NotFound || error.key() == Some(path) {
        return error;
    }
    Error::told(ErrorKind::NotFound, "there is no file and no directory of this name", Some(path), false)
}

/// The entries of the directory `path`, and of the directories in it down to `depth`, from 1 on; a
/// file alone. In no order.
async fn list(live: &Live, path: &str, depth: usize) -> Result<Vec<Found>, Error> {
    let top = if path.is_empty() { String::new() } else { format!("{path}/") };
    let engine = &live.engine;
    live.check(path)?;
    let (mut found, directories, listed) = entries(engine, top).await;
    let is_missing = matches!(&listed, Err(error) if error.kind() == ErrorKind::NotFound);
    match &live.bucket {
        Some(bucket) if is_missing && path.is_empty() => return Err(no_bucket(bucket)),
        // Where there is a bucket, most storage answers with an empty listing.
        Some(_) if is_missing => live.find_root(false).await?,
        _ if listed.is_ok() => live.remember(None),
        _ => {}
    }
    if (found.is_empty() || is_missing)
        && !path.is_empty()
        && let Some(object) = live.look_up(path, None).await?
    {
        return Ok(vec![(path.to_owned(), Some(object))]);
    }
    if !is_missing {
        listed?;
    }
    // Those that are listed next are at its end: depth first, in order.
    let mut pending = Vec::new();
    let add = |pending: &mut Vec<_>, directories: Vec<String>, level: usize| {
        if level < depth {
            pending.extend(directories.into_iter().rev().map(|prefix| (prefix, level + 1)));
        }
    };
    add(&mut pending, directories, 1);
    let mut listing = stream::FuturesUnordered::new();
    loop {
        while listing.len() < LISTED_AT_ONCE {
            let Some((prefix, level)) = pending.pop() else { break };
            listing.push(async move { (entries(engine, prefix).await, level) });
        }
        let Some(((mut more, directories, listed), level)) = listing.next().await else { break };
        match listed {
            // It is gone meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            listed => listed?,
        }
        found.append(&mut more);
        add(&mut pending, directories, level);
    }
    Ok(found)
}

/// Whether a list of `path` is that of a file.
fn is_file(path: &str, found: &[Found]) -> bool {
    matches!(found, [(only, Some(_))] if only == path)
}

/// The entries of one directory, and the prefixes of its directories, with what came before an
/// error.
async fn entries(engine: &Shared, prefix: String) -> (Vec<Found>, Vec<String>, Result<(), Error>) {
    let mut nodes = Vec::new();
    let listed = engine.entries(&prefix, &mut nodes).await;
    let mut directories = Vec::new();
    let found = nodes.into_iter().map(|node| match node {
        Node::File(object) => (object.key.to_string(), Some(object)),
        Node::Directory(prefix) => {
            let name = prefix.trim_end_matches('/').to_owned();
            directories.push(prefix);
            (name, None)
        }
    });
    (found.collect(), directories, listed)
}

fn dictionaries<'py>(py: Python<'py>, root: &str, found: &[Found]) -> PyResult<Bound<'py, PyAny>> {
    let list = PyList::empty(py);
    for (path, object) in found {
        let name = format!("{root}{path}");
        let name = if path.is_empty() && name.len() > 1 { name.trim_end_matches('/') } else { &name };
        list.append(info(py, name, object.as_ref())?)?;
    }
    Ok(list.into_any())
}
