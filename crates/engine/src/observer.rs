//! Looks at an engine without keeping it: for what runs beside it and ends with it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use foreread_backend::Submitter;
use foreread_policy::Nanos;
use tokio::sync::mpsc;

use crate::detail::Detail;
use crate::directories::driver::Directories;
use crate::driver::{Driver, LAST_WRITE};
use crate::slow::SlowRead;
use crate::stats::{Latencies, Stats};
use crate::watch::{Link, Wanted, Watched};

/// Looks at an engine. It does not keep it: when the last clone of the engine is gone, there is
/// nothing to see.
#[derive(Clone)]
pub struct Observer {
    driver: Weak<Driver>,
    directories: Weak<Directories>,
}

impl Observer {
    pub(crate) fn new(driver: &Arc<Driver>, directories: &Arc<Directories>) -> Self {
        Self { driver: Arc::downgrade(driver), directories: Arc::downgrade(directories) }
    }

    /// What the engine has done so far and holds now.
    pub fn stats(&self) -> Option<Stats> {
        Some(stats(&self.driver.upgrade()?, &*self.directories.upgrade()?))
    }

    /// Has what was read last written to the cache: as
    /// [`Engine::flush_cache_at_exit`](crate::Engine::flush_cache_at_exit).
    pub fn flush_cache_at_exit(&self) {
        if let Some(driver) = self.driver.upgrade() {
            driver.flush_tier(LAST_WRITE);
        }
    }

    /// How long its reads and requests took, each of them counted.
    pub fn latencies(&self) -> Option<Latencies> {
        Some(self.driver.upgrade()?.storage.stats.latencies())
    }

    /// Reads that wait for longer than [`Options::slow`](crate::Options::slow) from now on, at
    /// most ten a second; to the one that asked last. `None` once the engine is gone.
    pub fn slow_reads(&self) -> Option<mpsc::Receiver<SlowRead>> {
        Some(self.driver.upgrade()?.storage.slow.hear())
    }

    /// What it is doing just now: as [`Engine::watch`](crate::Engine::watch).
    pub fn watch(&self, wanted: &Wanted<'_>) -> Option<Watched> {
        Some(watch(&self.driver.upgrade()?, wanted))
    }

    /// How many streams of reads there are.
    pub fn streams(&self) -> Option<usize> {
        Some(self.driver.upgrade()?.enter(|shard| shard.streams()))
    }

    /// The way to the storage.
    pub fn link(&self) -> Option<Link> {
        Some(self.driver.upgrade()?.enter(|shard| shard.link()))
    }

    /// What it has done: at most `most_files` files, and what was wasted after `since_us` on the
    /// clock of [`Detail::now_us`].
    pub fn detail(&self, since_us: u64, most_files: usize) -> Option<Detail> {
        let driver = self.driver.upgrade()?;
        let (now, since) = (driver.now(), Nanos(since_us.saturating_mul(1_000)));
        let detail = driver.enter(|shard| shard.detail(now, since, most_files));
        Some(Detail { errors: driver.storage.failures.last(), ..detail })
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

pub(crate) fn stats(driver: &Arc<Driver>, directories: &Directories) -> Stats {
    let (counters, memory) = driver.enter(|shard| shard.decided());
    let backend = &driver.storage.backend;
    let names_bytes = directories.names_bytes.load(Relaxed) + backend.kept_bytes();
    let mechanism = backend.submission().map(Submitter::mechanism);
    let cache = driver.storage.tier.as_ref().map(|tier| tier.stats());
    driver.storage.stats.snapshot(counters, memory, directories.counters(), names_bytes, mechanism, cache)
}

pub(crate) fn watch(driver: &Arc<Driver>, wanted: &Wanted<'_>) -> Watched {
    let now = driver.now();
    let mut watched = driver.enter(|shard| shard.watch(now, wanted));
    watched.name_processes();
    watched
}
