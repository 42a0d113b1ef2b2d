//! One store: names in it, and its objects.

use std::collections::HashMap;
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

/// A bucket, a container, a web server or a file system, with what it is connected with. Connected
/// in each process that uses it, when it is first used.
#[pyclass(frozen, module = "foreread._native")]
pub(crate) struct Store {
    spec: Arc<Spec>,
    live: Fresh<Live>,
}

struct Live {
    engine: Shared,
    recent: Arc<Recent>,
}

/// Objects that were asked about lately, by path.
#[derive(Default)]
struct Recent(Mutex<HashMap<String, (Object, Instant)>>);

impl Recent {
    fn remember(&self, object: Option<&Object>) {
        let Some(object) = object else { return };
        let mut recent = self.0.lock();
        if recent.len() >= RECENT_MAX {
            recent.clear();
        }
        recent.insert(object.key.to_string(), (object.clone(), Instant::now()));
    }

    fn recall(&self, path: &str) -> Option<Object> {
        let recent = self.0.lock();
        recent.get(path).filter(|(_, at)| at.elapsed() < RECENT).map(|(object, _)| object.clone())
    }
}

impl Store {
    fn live(&self, py: Python<'_>) -> PyResult<&Live> {
        if let Some(live) = self.live.get() {
            return Ok(live);
        }
        let connect = || Ok(Live { engine: process::engine(&self.spec)?, recent: Arc::default() });
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
        let (engine, recent) = (live.engine.clone(), Arc::clone(&live.recent));
        let future = async move {
            let object = look_up(&engine, &path).await?;
            recent.remember(object.as_ref());
            Ok(object)
        };
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
        let engine = live.engine.clone();
        run(py, &live.engine, to, async move { list(&engine, &path, 1).await }, move |py, found| {
            dictionaries(py, &root, &found)
        })
    }

    /// All files below `path`, or the file `path` itself, or nothing. With `directories`, those as
    /// well; with `depth`, those at most so many directories down, 1 for the entries of `path`.
    /// Names begin with `root`.
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
        let engine = live.engine.clone();
        let future = async move {
            let found = match list(&engine, &path, depth.unwrap_or(usize::MAX)).await {
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                found => found?,
            };
            Ok(found)
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
        let (future, spec) = (current(live, path, fresh, None), Arc::clone(&self.spec));
        run(py, &live.engine, to, future, move |py, object| Ok(Bound::new(py, Handle::new(&spec, object))?.into_any()))
    }

    /// Opens several objects, as `open` without `fresh` does; their names are looked up together.
    /// Returns them in order. With `returns_errors` the list has exceptions where that failed;
    /// otherwise the first one is raised. `reads` tells for each where the bytes that are about to
    /// be read begin and end, if that is known: then they may be asked for before anything is
    /// known of the name.
    #[pyo3(signature = (paths, returns_errors = false, reads = None, to = None))]
    fn open_together<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<String>,
        returns_errors: bool,
        reads: Option<Vec<Option<(u64, u64)>>>,
        to: Option<&Bound<'py, Completions>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let live = self.live(py)?;
        let spec = Arc::clone(&self.spec);
        let reads = reads.into_iter().flatten().chain(std::iter::repeat(None));
        let each: Vec<_> = paths.into_iter().zip(reads).map(|(path, read)| current(live, path, false, read)).collect();
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
                live.recent.0.lock().clear();
            }
            // Another object of this store may have made it.
            if let Some(engine) = process::known_engine(&self.spec) {
                engine.forget_names();
            }
        });
    }
}

/// The current version of the object `path`. Unless it must be `fresh`, an answer about the name
/// that is at most a second old says which one that is. `read`: where the bytes that are about to
/// be read begin and end.
fn current(
    live: &Live,
    path: String,
    fresh: bool,
    read: Option<(u64, u64)>,
) -> impl Future<Output = Result<Object, Error>> + Send + 'static {
    let known = live.recent.recall(&path).filter(|_| !fresh);
    let (engine, recent) = (live.engine.clone(), Arc::clone(&live.recent));
    async move {
        match known {
            Some(object) => Ok(object),
            None if fresh => engine.stat(&Key::new(path)).await,
            None => {
                let object = look_up_to(&engine, &path, read).await?;
                recent.remember(object.as_ref());
                // A directory: the storage says what it thinks of opening it.
                match object {
                    Some(object) => Ok(object),
                    None => engine.stat(&Key::new(path)).await,
                }
            }
        }
    }
}

/// Splits a URL into its store and the path in it.
#[pyfunction]
pub(crate) fn place(url: &str) -> PyResult<(String, String)> {
    let place = foreread::backend::place(url).map_err(|error| raised(&error.into()))?;
    Ok((place.store, place.path))
}

/// The object at `path`; nothing for a directory.
async fn look_up(engine: &Shared, path: &str) -> Result<Option<Object>, Error> {
    look_up_to(engine, path, None).await
}

/// The same; `read`: where the bytes that are about to be read begin and end, if it is a file.
async fn look_up_to(engine: &Shared, path: &str, read: Option<(u64, u64)>) -> Result<Option<Object>, Error> {
    if path.is_empty() {
        return Ok(None);
    }
    let (prefix, name) = path.rfind('/').map_or(("", path), |at| path.split_at(at + 1));
    let node = match read {
        Some((start, end)) => engine.look_up_to_read(prefix, name, start..end).await?,
        None => engine.look_up(prefix, name).await?,
    };
    match node {
        Node::File(object) => Ok(Some(object)),
        Node::Directory(_) => Ok(None),
    }
}

/// The entries of the directory `path`, and of the directories in it down to `depth`, from 1 on; a
/// file alone. In no order.
async fn list(engine: &Shared, path: &str, depth: usize) -> Result<Vec<Found>, Error> {
    let top = if path.is_empty() { String::new() } else { format!("{path}/") };
    let (mut found, directories, listed) = entries(engine, top).await;
    let is_missing = matches!(&listed, Err(error) if error.kind() == ErrorKind::NotFound);
    if (found.is_empty() || is_missing)
        && let Some(object) = look_up(engine, path).await?
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
        list.append(info(py, &format!("{root}{path}"), object.as_ref())?)?;
    }
    Ok(list.into_any())
}
