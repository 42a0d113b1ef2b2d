//! Local-speed reads from slow storage: object stores, web servers and disks, read ahead within
//! one memory budget.
//!
//! foreread recognises how a program reads (forward, backward, strided, several streams in one
//! file, a walk through a tree) and requests what comes next before the program asks. Reads of one
//! process, of all its threads and files, share one budget, one fair queue and one set of
//! connections.
//!
//! # Quick start
//!
//! One call opens storage by its URL. Credentials, region, proxies and certificates come from
//! where the storage's own tools take them.
//!
//! ```no_run
//! # async fn read() -> Result<(), foreread::Error> {
//! let storage = foreread::Storage::connect("s3://bucket/photos")?;
//! let file = storage.open("2024/a.jpg").await?;
//! let bytes = file.read_at(0, 1 << 20).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Without `async` the same futures are waited for on the calling thread, and [`Reader`] is a file
//! as `std::io` knows it:
//!
//! ```
//! # use foreread_testbed::{Config, ObjectSpec, Testbed, content};
//! # let objects = vec![ObjectSpec::new("hello.bin", 1 << 20)];
//! # let testbed = Testbed::start(Config { objects, ..Config::default() })?;
//! # let url = format!("{}/http/", testbed.endpoint());
//! use std::io::Read;
//!
//! let storage = foreread::Storage::connect(&url)?;
//! let file = storage.block_on(storage.open("hello.bin"))?;
//! let mut bytes = Vec::new();
//! foreread::Reader::new(file).read_to_end(&mut bytes)?;
//! # content::verify("hello.bin", 1, 0, &bytes).expect("the object's bytes");
//! # assert_eq!(bytes.len(), 1 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What to use
//!
//! | to | use | needs a tokio runtime |
//! |---|---|---|
//! | connect to a URL | [`Storage::connect`], [`Storage::builder`] | no |
//! | learn early whether the storage answers | [`Storage::locate`] | no |
//! | read, with `async` | [`Storage::open`], [`File::read_at`] | no: under any executor |
//! | read, without | [`Storage::block_on`], [`Reader`] | no, and not on a thread of one |
//! | read without a copy | [`File::read`], [`Pages`] | no |
//! | have many operations in flight | [`Engine::submissions`] | no |
//! | list | [`Storage::walk`], [`Engine::open_directory`] | no |
//! | keep what was read on a local disk | [`Options::with_cache`], [`Storage::warm`] | no |
//! | look names up | [`Engine::look_up`] | no |
//! | read files in a known order | [`Engine::expect`] | no |
//! | use more memory than there is | `memory::Region` (feature `memory`) | no |
//! | see an object as a slice | `memory::View` (feature `memory`) | no |
//! | share an engine with other processes | `StorageBuilder::share` (feature `share`) | no |
//! | mount it | `mount::mount` (feature `mount`) | no |
//! | read storage of another kind | [`backend::Backend`], [`Storage::of`] | as the backend says |
//! | run a record of an engine again | [`replay`] | no |
//!
//! Only [`contact`]'s functions, which call a backend without an engine, need the context of a
//! tokio runtime.
//!
//! # Many operations in flight
//!
//! One thread submits reads, opens, stats and listings, and takes each as it completes:
//!
//! ```
//! # use foreread_testbed::{Config, ObjectSpec, Testbed};
//! # let objects = vec![ObjectSpec::new("a", 1 << 20)];
//! # let testbed = Testbed::start(Config { objects, ..Config::default() })?;
//! # let storage = foreread::Storage::connect(&format!("{}/http/a", testbed.endpoint()))?;
//! use std::time::Duration;
//!
//! use foreread::{Operation, Outcome};
//!
//! let file = storage.block_on(storage.open(""))?;
//! let submissions = storage.engine().submissions(64);
//! for offset in [900_000, 0, 500_000] {
//!     let read = Operation::Read { file: file.clone(), offset, len: 4096 };
//!     submissions.submit(read, None).expect("room for 64");
//! }
//! for _ in 0..3 {
//!     let completion = submissions.wait(Duration::from_mins(1)).expect("an answer");
//!     let Outcome::Read(pages) = completion.outcome? else { unreachable!("only reads") };
//!     assert_eq!(pages.len(), 4096);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Directories
//!
//! Names are looked up in listings that are read ahead, and files that will be read in a known
//! order are fetched before they are opened:
//!
//! ```
//! # use foreread_testbed::{Config, ObjectSpec, Testbed};
//! # let objects = ["a/1", "a/2", "a/b/3"].map(|key| ObjectSpec::new(key, 10)).to_vec();
//! # let testbed = Testbed::start(Config { objects, anonymous: true, ..Config::default() })?;
//! # let builder = foreread::Storage::builder("s3://testbed").endpoint(testbed.endpoint());
//! # let storage = builder.anonymous(true).connect()?;
//! use foreread::{Key, Node};
//!
//! let engine = storage.engine();
//! let named = engine.block_on(engine.look_up("a/", "b"))?;
//! assert_eq!(named.node, Node::Directory("a/b/".to_owned()));
//!
//! let order = vec![Key::new("a/2"), Key::new("a/1")];
//! assert_eq!(engine.block_on(engine.expect(order))?, 2, "both are there");
//!
//! let directory = engine.open_directory("a/");
//! assert!(engine.block_on(directory.wait(2))?, "a third entry");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `s3` | `s3://` | yes |
//! | `gcs` | `gs://` | yes |
//! | `azblob` | `az://` | yes |
//! | `http` | `http://`, `https://` | yes |
//! | `memory` | `memory`: regions larger than their budget, objects as memory | yes |
//! | `share` | `shared`: one engine for the processes of a user | yes |
//! | `mount` | `mount`: FUSE mounts | no |
//!
//! Without any of them directories are read. A URL whose feature was left out is refused with an
//! error that names it.
//!
//! # What is cached
//!
//! An engine keeps what it has read, and what it has read ahead, in its own memory: at most
//! [`Options::memory_bytes`], book-keeping included. Reads that come back to the same bytes are
//! answered from there while they fit. Nothing is written to disk, but for a record, a region's
//! spill file and the folder of [`Options::with_cache`], where content stays across restarts.
//!
//! A [`File`] is pinned to the version of the object that it was opened with. When the object is
//! replaced, its reads fail with [`ErrorKind::Changed`]; two versions are never mixed. What a
//! listing says is believed for [`Options::metadata_ttl`], a second by default; [`Engine::stat`]
//! always asks the storage.
//!
//! # Threads
//!
//! [`Engine::new`] (and so [`Storage::connect`]) starts at most four threads that carry requests,
//! one that takes completions of local reads, and a few that wait for disks where `io_uring` is
//! not to be had. A process that forks does so before. Everything here is `Send` and `Sync`, and a
//! clone shares the engine. The threads end when the last clone is dropped; what is in flight then
//! fails.
//!
//! The closure given to [`File::read`] runs on the caller's thread if the bytes are resident, else
//! on one of the engine's: it must not wait there.
//!
//! # Errors
//!
//! [`Error`] says what can be done ([`Error::kind`]), about which object ([`Error::key`]), and
//! whether another attempt may help ([`Error::is_retryable`]). Its
//! [`source`](std::error::Error::source) is the storage's own error. The engine has retried within
//! [`Patience`] what may pass; a failed request that no read waits for is never reported. It
//! converts into [`std::io::Error`].
//!
//! # Compatibility
//!
//! What will grow is `#[non_exhaustive]`: [`Options`], [`Patience`],
//! [`ConnectOptions`](backend::ConnectOptions) and `MountOptions` are made from their defaults
//! with `with_...`; counters ([`Stats`], [`Latency`]) and [`Capabilities`](backend::Capabilities)
//! are only read, or made from their defaults; [`Operation`], [`Outcome`], [`Completion`] and all
//! errors are matched with a last arm. [`Object`], [`Version`], [`Entry`], [`ListPage`] and
//! [`Node`] are exhaustive on purpose: a backend makes them, and they name what an object is.

#![forbid(unsafe_code)]

pub mod contact;
mod reader;
#[cfg(feature = "share")]
mod share;
mod storage;
mod walk;
mod warm;

pub use contact::{ContactError, Target};
pub use foreread_engine::{
    Busy, Cache, CacheStats, Call, Completion, Directory, Engine, Entry, Error, ErrorKind, File, Key, Latency,
    ListPage, MEMORY_BYTES_MIN, May, Mechanism, NAME_BYTES_MAX, Named, Node, Object, Operation, Options, Outcome,
    Pages, Panic, Patience, Recorded, RecordedFile, RecordedRead, ReplayError, Replayed, Stats, Submissions, Ticket,
    Version, replay,
};
pub use reader::Reader;
pub use storage::{Storage, StorageBuilder};
pub use walk::Walk;
pub use warm::Warmed;

/// The features that this build has, by name: see [Features](crate#features).
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "azblob")]
    "azblob",
    #[cfg(feature = "gcs")]
    "gcs",
    #[cfg(feature = "http")]
    "http",
    #[cfg(feature = "memory")]
    "memory",
    #[cfg(feature = "mount")]
    "mount",
    #[cfg(feature = "s3")]
    "s3",
    #[cfg(feature = "share")]
    "share",
];

/// Storage itself, one attempt a call, without an engine: to implement a kind of storage, or to
/// use one directly.
pub mod backend {
    pub use foreread_backend::*;
}

/// Memory larger than its budget, and objects as memory.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use foreread::memory::{Error, Region};
///
/// // 16 MiB, of which at most 1 MiB is in memory.
/// let mut region = match Region::anonymous(16 << 20).budget(1 << 20).create() {
///     Ok(region) => region,
///     // The text says how to allow it.
///     Err(Error::Forbidden { .. } | Error::Unsupported) => return Ok(()),
///     Err(error) => return Err(error.into()),
/// };
/// for page in region.chunks_mut(4096) {
///     page[0] = 1;
/// }
/// assert_eq!(region.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 4096);
/// # Ok(())
/// # }
/// ```
///
/// An object as a slice, read through the engine of its file:
///
/// ```
/// # use foreread_testbed::{Config, ObjectSpec, Testbed, content};
/// # let objects = vec![ObjectSpec::new("a", 1 << 20)];
/// # let testbed = Testbed::start(Config { objects, ..Config::default() })?;
/// # let storage = foreread::Storage::connect(&format!("{}/http/a", testbed.endpoint()))?;
/// use foreread::memory::{Error, Region};
///
/// let file = storage.block_on(storage.open(""))?;
/// // SAFETY: the storage has strong validators, so the bytes of a version never change.
/// match unsafe { Region::map(file) }.create() {
///     Ok(view) => assert_eq!(view.len(), 1 << 20),
///     Err(Error::Forbidden { .. } | Error::Unsupported) => {}
///     Err(error) => return Err(error.into()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "memory")]
pub mod memory {
    pub use foreread_memory::{
        Advice, Allocator, AllocatorBuilder, AllocatorStats, BUDGET_BYTES_MIN, Error, Gauges, ROOM_BESIDE_BYTES,
        Region, RegionBuilder, RegionCounters, Spill, Stats, View, ViewBuilder, ViewStats,
    };
}

/// One engine for the processes of a user that read the same storage: the first one serves it, the
/// others read through shared memory. See `StorageBuilder::share`.
#[cfg(feature = "share")]
pub mod shared {
    pub use foreread_broker::{
        Budget, Helped, Helps, Identity, Role, ShareOptions, Shared, SharedFile, SharedPages, SharedStats,
    };
}

/// FUSE mounts: what an engine reads, as a file system for other programs.
///
/// ```no_run
/// use foreread::mount::{MountOptions, mount};
///
/// let storage = foreread::Storage::connect("s3://bucket/photos")?;
/// let options = MountOptions::default().with_source("s3://bucket/photos");
/// let (engine, prefix) = (storage.engine().clone(), storage.prefix(""));
/// let mounted = mount(engine, &prefix, "/mnt/photos".as_ref(), &options)?;
/// mounted.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "mount")]
pub mod mount {
    pub use foreread_fuse::{
        Error, MountOptions, Mounted, Unmounter, expect_files, mount, query_recorded, query_stats, query_watched,
        serve, start_recording, unmount,
    };
}
