//! From a URL to an engine in one call.
//!
//! ```text
//!   s3://bucket/photos/2024 ── connect ──> the bucket's backend, and an engine in front of it
//!                                 │
//!                                 └──> path "photos/2024": "a.jpg" is the key "photos/2024/a.jpg"
//! ```
//!
//! Connecting sends nothing: a bucket that is missing or a key that is wrong shows at the first
//! request, or in [`Storage::locate`], which asks for that alone.

use std::path::PathBuf;
use std::sync::Arc;

use foreread_backend::ConnectOptions;
use foreread_engine::{Engine, Error, File, Key, Object, Options};

use crate::contact::{self, ContactError, Target};
use crate::walk::Walk;
use crate::warm::{self, Warmed};

/// What a URL names, read through an engine of its own. Clones share the engine.
///
/// Paths are relative to the URL: of `s3://bucket/photos` the path `a.jpg` is the key
/// `photos/a.jpg`, and the empty path is the object `photos` itself. For full keys there is the
/// [`Engine`].
#[derive(Debug, Clone)]
pub struct Storage {
    engine: Engine,
    /// Below the backend's root: empty, or a key; with a slash at the end where the URL had one.
    path: Arc<str>,
}

impl Storage {
    /// Connects to what `url` names, with default [`Options`] and the credentials that the
    /// environment has.
    ///
    /// | URL | storage | feature |
    /// |---|---|---|
    /// | `s3://BUCKET[/PATH]` | Amazon S3 and what speaks like it | `s3` |
    /// | `gs://BUCKET[/PATH]` | Google Cloud Storage | `gcs` |
    /// | `az://CONTAINER[/PATH]` | Azure Blob Storage | `azblob` |
    /// | `http://HOST/PATH`, `https://` | a web server | `http` |
    /// | `file:///PATH`, or a path | a directory, or a file | always there |
    ///
    /// Sends nothing. Starts the engine's threads, so fork before, not after.
    ///
    /// ```
    /// # use foreread_testbed::{Config, ObjectSpec, Testbed};
    /// # let objects = vec![ObjectSpec::new("a/b.bin", 1 << 20)];
    /// # let testbed = Testbed::start(Config { objects, ..Config::default() })?;
    /// # let url = format!("{}/http/a", testbed.endpoint());
    /// let storage = foreread::Storage::connect(&url)?;
    /// let file = storage.block_on(storage.open("b.bin"))?;
    /// assert_eq!(file.size(), 1 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Errors: as [`StorageBuilder::connect`].
    pub fn connect(url: &str) -> Result<Self, Error> {
        Self::builder(url).connect()
    }

    /// Starts to connect to what `url` names, with more than the environment says.
    ///
    /// ```
    /// # use foreread_testbed::{Config, ObjectSpec, Testbed};
    /// # let objects = vec![ObjectSpec::new("data/part-0", 3 << 20)];
    /// # let testbed = Testbed::start(Config { objects, anonymous: true, ..Config::default() })?;
    /// # let endpoint = testbed.endpoint();
    /// let storage = foreread::Storage::builder("s3://testbed/data")
    ///     .endpoint(endpoint)
    ///     .anonymous(true)
    ///     .memory_bytes(64 << 20)
    ///     .connect()?;
    /// assert_eq!(storage.block_on(storage.stat("part-0"))?.version.size, 3 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(url: impl Into<String>) -> StorageBuilder {
        StorageBuilder { url: url.into(), storage: ConnectOptions::default(), options: Options::default() }
    }

    /// Storage of another kind: an engine in front of a [`Backend`](crate::backend::Backend) of
    /// your own, and a path below its root.
    pub fn of(engine: Engine, path: &str) -> Self {
        Self { engine, path: path.trim_start_matches('/').into() }
    }

    /// The engine: full keys, submissions, directories, counters.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The path of the URL below the bucket: empty, or a key or a prefix.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The full key of `path`. The key of the empty path is the URL's own.
    pub fn key(&self, path: &str) -> Key {
        match path {
            "" => Key::new(&*self.path),
            path => Key::new(self.prefix_of(path)),
        }
    }

    /// The full prefix of the directory `path`: empty, or ending in `/`.
    pub fn prefix(&self, path: &str) -> String {
        let mut prefix = self.prefix_of(path);
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        prefix
    }

    fn prefix_of(&self, path: &str) -> String {
        match (self.path.trim_end_matches('/'), path) {
            ("", path) => path.to_owned(),
            (own, "") => own.to_owned(),
            (own, path) => format!("{own}/{path}"),
        }
    }

    /// Finds out, within seconds, whether the storage answers and whether the URL names an object
    /// or a prefix.
    ///
    /// ```
    /// # use foreread_testbed::{Config, ObjectSpec, Testbed};
    /// # let objects = vec![ObjectSpec::new("a/b.bin", 1 << 20)];
    /// # let testbed = Testbed::start(Config { objects, anonymous: true, ..Config::default() })?;
    /// # let endpoint = testbed.endpoint();
    /// # let builder = |url: &str| {
    /// #     foreread::Storage::builder(url).endpoint(endpoint.clone()).anonymous(true)
    /// # };
    /// use foreread::{ContactError, Target};
    ///
    /// let storage = builder("s3://testbed/a").connect()?;
    /// assert_eq!(storage.block_on(storage.locate())?, Target::Prefix("a/".to_owned()));
    /// let storage = builder("s3://testbed/nothing").connect()?;
    /// let located = storage.block_on(storage.locate());
    /// assert!(matches!(located, Err(ContactError::NothingThere { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn locate(&self) -> Result<Target, ContactError> {
        let backend = Arc::clone(self.engine.backend());
        self.engine.on_runtime(contact::locate(&*backend, &self.path)).await
    }

    /// Describes the object `path`: one request.
    ///
    /// Errors: [`crate::ErrorKind::NotFound`]; others as the storage has them, after retries
    /// within [`crate::Patience`].
    pub async fn stat(&self, path: &str) -> Result<Object, Error> {
        self.engine.stat(&self.key(path)).await
    }

    /// Opens the object `path`, pinned to its current version: one request. Reads of the file are
    /// read ahead.
    ///
    /// ```
    /// # use foreread_testbed::{Config, ObjectSpec, Testbed, content};
    /// # let objects = vec![ObjectSpec::new("a/b.bin", 1 << 20)];
    /// # let testbed = Testbed::start(Config { objects, ..Config::default() })?;
    /// # let url = format!("{}/http/a/b.bin", testbed.endpoint());
    /// let storage = foreread::Storage::connect(&url)?;
    /// let bytes = storage.block_on(async {
    ///     // The empty path is the object that the URL names.
    ///     let file = storage.open("").await?;
    ///     file.read_at(4096, 100).await
    /// })?;
    /// assert_eq!(bytes.len(), 100);
    /// # content::verify("a/b.bin", 1, 4096, &bytes).expect("the object's bytes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Errors: as [`Storage::stat`].
    pub async fn open(&self, path: &str) -> Result<File, Error> {
        Ok(self.engine.open(&self.stat(path).await?))
    }

    /// All objects below the directory `path`, depth first. Directories are listed ahead of the
    /// walk.
    ///
    /// ```
    /// # use foreread_testbed::{Config, ObjectSpec, Testbed};
    /// # let objects = ["a/1", "a/b/2", "c/3"].map(|key| ObjectSpec::new(key, 10)).to_vec();
    /// # let testbed = Testbed::start(Config { objects, anonymous: true, ..Config::default() })?;
    /// # let builder = foreread::Storage::builder("s3://testbed").endpoint(testbed.endpoint());
    /// # let storage = builder.anonymous(true).connect()?;
    /// let mut walk = storage.walk("a");
    /// let mut keys = Vec::new();
    /// while let Some(object) = storage.block_on(walk.next()) {
    ///     keys.push(object?.key.to_string());
    /// }
    /// assert_eq!(keys, ["a/1", "a/b/2"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn walk(&self, path: &str) -> Walk {
        Walk::new(self.engine.clone(), &self.prefix(path))
    }

    /// Reads what `target` names and is not in the folder of [`Options::cache`], so that it is
    /// local from then on. Not faster than the folder is written. `told` gets what was done so
    /// far, after each object.
    ///
    /// ```
    /// # use foreread_testbed::{Config, ObjectSpec, Testbed};
    /// # let objects = ["a/1", "a/2"].map(|key| ObjectSpec::new(key, 1 << 20)).to_vec();
    /// # let testbed = Testbed::start(Config { objects, anonymous: true, ..Config::default() })?;
    /// # let endpoint = testbed.endpoint();
    /// # let folder = tempfile::tempdir()?;
    /// use foreread::{Cache, Options, Storage};
    ///
    /// let options = Options::default().with_cache(Some(Cache::new(folder.path())));
    /// let builder = Storage::builder("s3://testbed/a").endpoint(endpoint).anonymous(true);
    /// let storage = builder.options(options).connect()?;
    /// let target = storage.block_on(storage.locate())?;
    /// let warmed = storage.block_on(storage.warm(target, |so_far| println!("{so_far:?}")))?;
    /// assert_eq!((warmed.objects, warmed.kept_bytes, warmed.is_full), (2, 2 << 20, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Errors: those of the first listing or read that fails. Without [`Options::cache`] nothing
    /// is kept.
    pub async fn warm(&self, target: Target, told: impl FnMut(Warmed)) -> Result<Warmed, Error> {
        warm::warm(&self.engine, target, told).await
    }

    /// Waits on this thread for `future`: for programs without `async`. See [`Engine::block_on`].
    ///
    /// # Panics
    ///
    /// On a thread of a tokio runtime: there the future is awaited.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.engine.block_on(future)
    }
}

/// How to connect. See [`Storage::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct StorageBuilder {
    url: String,
    storage: ConnectOptions,
    options: Options,
}

impl StorageBuilder {
    /// The server to talk to instead of the cloud's own, such as `http://127.0.0.1:9000`.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.storage = self.storage.with_endpoint(endpoint);
        self
    }

    /// The region of the bucket. Otherwise `AWS_REGION`, `AWS_DEFAULT_REGION` or the profile's.
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.storage = self.storage.with_region(region);
        self
    }

    /// The profile in the AWS configuration files to take credentials and region from.
    pub fn profile(mut self, profile: impl Into<String>) -> Self {
        self.storage = self.storage.with_profile(profile);
        self
    }

    /// Whether requests go unsigned, for public buckets. They are signed by default.
    pub fn anonymous(mut self, anonymous: bool) -> Self {
        self.storage = self.storage.with_anonymous(anonymous);
        self
    }

    /// All of that at once.
    pub fn storage(mut self, storage: ConnectOptions) -> Self {
        self.storage = storage;
        self
    }

    /// The budget for everything that the engine holds: at least 16 MiB, 256 MiB by default.
    pub fn memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.options = self.options.with_memory_bytes(memory_bytes);
        self
    }

    /// Writes every event and action to a file, for [`crate::replay`].
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.options = self.options.with_record(path);
        self
    }

    /// The engine's options, all at once.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The URL, and what it is connected with.
    #[cfg(feature = "share")]
    pub(crate) fn parts(&self) -> (&str, &ConnectOptions) {
        (&self.url, &self.storage)
    }

    /// Connects. Sends nothing; starts the engine's threads.
    ///
    /// Errors: [`crate::ErrorKind::NotFound`] for a local path that is not there;
    /// [`crate::ErrorKind::Unsupported`], naming the feature, for a scheme whose feature was left
    /// out; [`crate::ErrorKind::Invalid`] for a URL, a profile or a budget that cannot be used;
    /// [`crate::ErrorKind::Io`] when threads or the record cannot be made.
    pub fn connect(self) -> Result<Storage, Error> {
        let connected = foreread_backend::connect(&self.url, &self.storage)?;
        let mut path = connected.path;
        if self.url.ends_with('/') && !path.is_empty() {
            path.push('/');
        }
        Ok(Storage { engine: Engine::new(connected.backend, &self.options)?, path: path.into() })
    }
}
