//! Reads objects so that they are in the folder of [`Options::cache`](crate::Options::cache).
//!
//! ```text
//!   walk ──> objects, several side by side
//!              └─ what is not in the folder ──> read, at the pace at which the folder is written
//!                    └─ refused ──> the folder is full: the end
//! ```

use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use foreread_engine::{Engine, Error, File, Object};
use futures::{StreamExt, stream};

use crate::contact::Target;
use crate::walk::Walk;

/// What [`Storage::warm`](crate::Storage::warm) has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warmed {
    /// Objects that were looked at.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, bytes that are in the folder.
    pub kept_bytes: u64,
    /// Bytes that were not, and were read from the storage.
    pub read_bytes: u64,
    /// The folder has no room for more: the objects that were left were not read.
    pub is_full: bool,
}

pub(crate) async fn warm(engine: &Engine, target: Target, mut told: impl FnMut(Warmed)) -> Result<Warmed, Error> {
    let refused = || engine.stats().cache.map_or(0, |cache| cache.refused_bytes);
    let (refused_before, pace) = (refused(), Pace { engine, unwritten: AtomicU64::new(0) });
    let next = async |mut walk: Walk| walk.next().await.map(|object| (object, walk));
    let objects = match target {
        Target::Object(object) => stream::iter([Ok(object)]).left_stream(),
        Target::Prefix(prefix) => stream::unfold(Walk::new(engine.clone(), &prefix), next).right_stream(),
    };
    let mut ends = pin!(objects.map(|object| one(object, &pace)).buffer_unordered(SIDE_BY_SIDE));
    let mut warmed = Warmed::default();
    while let Some(ended) = ends.next().await {
        let one = ended?;
        warmed.objects += 1;
        warmed.bytes += one.bytes;
        warmed.kept_bytes += one.kept_bytes;
        warmed.read_bytes += one.read_bytes;
        warmed.is_full = one.kept_bytes < one.bytes && refused() > refused_before;
        told(warmed);
        if warmed.is_full {
            break;
        }
    }
    Ok(warmed)
}

/// Reads of one object what is not kept, and again what was not kept then.
async fn one(object: Result<Object, Error>, pace: &Pace<'_>) -> Result<Warmed, Error> {
    let file = pace.engine.open(&object?);
    let (mut missing, mut read_bytes) = (missing(&file), 0);
    for _ in 0..ATTEMPTS {
        for range in &missing {
            read_bytes += pace.read(&file, range.clone()).await?;
        }
        if !missing.is_empty() {
            pace.engine.flush_cache().await;
        }
        let left = self::missing(&file);
        if total(&left) == 0 || total(&left) == total(&missing) {
            missing = left;
            break;
        }
        missing = left;
    }
    let (bytes, kept_bytes) = (file.size(), file.size() - total(&missing));
    Ok(Warmed { objects: 1, bytes, kept_bytes, read_bytes, is_full: false })
}

/// The bytes of a file that are not in the folder.
fn missing(file: &File) -> Vec<Range<u64>> {
    let (mut missing, mut end) = (Vec::new(), 0);
    for kept in file.cached() {
        missing.push(end..kept.start);
        end = kept.end;
    }
    missing.push(end..file.size());
    missing.retain(|range| !range.is_empty());
    missing
}

fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Has no more read than is written to the folder.
struct Pace<'e> {
    engine: &'e Engine,
    /// Bytes that were read since the folder was last waited for.
    unwritten: AtomicU64,
}

impl Pace<'_> {
    /// Reads a range. Returns its bytes.
    async fn read(&self, file: &File, range: Range<u64>) -> Result<u64, Error> {
        let mut offset = range.start;
        while offset < range.end {
            let read = file.read_at(offset, (range.end - offset).min(PIECE_BYTES) as usize).await?.len() as u64;
            if read == 0 {
                break;
            }
            offset += read;
            if self.unwritten.fetch_add(read, Relaxed) + read >= UNWRITTEN_BYTES_MAX {
                self.unwritten.store(0, Relaxed);
                self.engine.flush_cache().await;
            }
        }
        Ok(offset - range.start)
    }
}

/// Objects that are read side by side. Lower: small objects wait for each other on a slow link.
/// Higher: the budget is shared by more streams. Source: what a link of 30 ms needs for a thousand
/// objects a second.
const SIDE_BY_SIDE: usize = 32;

/// Bytes of one read. Lower: more calls. Higher: progress is seen less often. Source: a guess.
const PIECE_BYTES: u64 = 1 << 20;

/// Bytes that are read before the folder is waited for. Lower: the disk has nothing to do
/// meanwhile. Higher: more comes than the queue of the folder holds, and is read once more.
/// Source: half of that queue.
const UNWRITTEN_BYTES_MAX: u64 = 8 << 20;

/// How often an object is read. Lower: what came too fast for the disk is not kept. Higher: a
/// folder that keeps nothing is found out later. Source: a guess.
const ATTEMPTS: u32 = 4;
