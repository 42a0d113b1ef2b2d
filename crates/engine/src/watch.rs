//! What an engine is doing just now, to be shown: its streams, and the way to the storage.
//!
//! The counters of what it has done are in `stats`. To look costs a turn at the shard and changes
//! nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foreread_policy::{Bound, LinkState, Nanos, PAGE_BYTES, Pattern, StreamState};
use serde::{Deserialize, Serialize};

use crate::detail::{FileUse, WastedRange};

/// What an engine is doing just now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Watched {
    /// The streams of reads, in the order that was wanted.
    pub streams: Vec<Stream>,
    /// Streams that are left out.
    pub more_streams: usize,
    /// Of those, how many come before the first that is there.
    pub first: usize,
    /// The storage's time that was spent so far, on all requests.
    pub served_us: u64,
    /// The way to the storage.
    pub link: Link,
    /// Where one object was asked for: what has been done with it, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileUse>,
    /// Of that object: what was read ahead and dropped unread lately, the latest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wasted: Vec<WastedRange>,
}

/// Which streams are wanted, and in which order.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Wanted<'w> {
    /// Those of this object alone.
    pub key: Option<&'w str>,
    /// Those of objects with this in their names, in capitals or not.
    pub part: &'w str,
    /// The order.
    pub order: Order,
    /// The other way round.
    pub is_reversed: bool,
    /// So many are passed over.
    pub first: usize,
    /// So many at most.
    pub most: usize,
}

impl<'w> Wanted<'w> {
    /// The `most` that were read last.
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Of the object `key` alone.
    #[must_use]
    pub fn with_key(self, key: &'w str) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Of objects with `part` in their names, in capitals or not.
    #[must_use]
    pub fn with_part(self, part: &'w str) -> Self {
        Self { part, ..self }
    }

    /// In this order, or the other way round.
    #[must_use]
    pub fn with_order(self, order: Order, is_reversed: bool) -> Self {
        Self { order, is_reversed, ..self }
    }

    /// From this one on.
    #[must_use]
    pub fn with_first(self, first: usize) -> Self {
        Self { first, ..self }
    }

    /// So many at most.
    #[must_use]
    pub fn with_most(self, most: usize) -> Self {
        Self { most, ..self }
    }
}

/// An order of streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Order {
    /// The one that was read last comes first.
    #[default]
    Idle,
    /// That with the fastest reader.
    Rate,
    /// That which may be furthest ahead.
    Window,
    /// That with the most reads that had to wait.
    Late,
    /// By the names of the objects.
    File,
}

/// A stream of reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Stream {
    /// The object.
    pub key: String,
    /// Tells it from other streams of the object.
    pub id: u64,
    /// Its size.
    pub size_bytes: u64,
    /// `forward`, `sparse`, with gaps of no common length, or `strided`: records at a constant
    /// distance.
    pub shape: Cow<'static, str>,
    /// Strided: from the start of a record to the start of the next; negative for a reader that
    /// goes backward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_bytes: Option<i64>,
    /// Strided: of a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_bytes: Option<u64>,
    /// Where it is read, or a little before: of reads of what is resident, policy is told now and
    /// then only.
    pub position_bytes: u64,
    /// Up to where all is requested; down to where, for a reader that goes backward.
    pub planned_bytes: u64,
    /// How far ahead of its reader it may be.
    pub window_bytes: u64,
    /// What that ends at: `quiet`, its reader does not wait; `trust`, what was read so far is
    /// trusted no further; `length`, earlier runs of the file ended there; `pace`, its reader
    /// takes ten seconds to come there; `memory`, its share of the budget.
    pub bound: Cow<'static, str>,
    /// Read so far.
    pub read_bytes: u64,
    /// Its reader's rate, once that is known.
    pub bytes_per_s: Option<u64>,
    /// Whether its last read had to wait.
    pub waits: bool,
    /// Reads that had to, so far.
    pub late_reads: u32,
    /// Since it was read last.
    pub idle_ms: u64,
    /// The storage's time that was spent on reading ahead for it. Begins anew for a stream that
    /// has not asked for anything for long.
    pub served_us: u64,
    /// The process that read the object last, if that is known and is seen from here; of one that
    /// has ended, its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// What that calls itself, if it is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
}

/// What is known of the way to the storage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Link {
    /// The least time to a first byte.
    pub first_byte_us: u64,
    /// Bytes a second of one request, after its first byte; 0 while it is not known.
    pub connection_bytes_per_s: u64,
    /// Bytes a second of all requests together; 0 while it is not known.
    pub bytes_per_s: u64,
    /// It may carry more than is known.
    pub is_growing: bool,
    /// Requests take clearly longer than they would alone.
    pub is_crowded: bool,
    /// How many requests it is given at a time, at most.
    pub requests_max: u64,
    /// How many it has.
    pub requests: u64,
}

impl Stream {
    /// `state` of the object `key`, at `now`.
    pub(crate) fn new(key: &str, size_bytes: u64, state: StreamState, now: Nanos) -> Self {
        let (shape, delta_bytes, record_bytes) = match state.pattern {
            Pattern::Forward => ("forward", None, None),
            Pattern::Sparse => ("sparse", None, None),
            Pattern::Strided { delta, pages } => ("strided", Some(delta * PAGE_BYTES as i64), Some(pages * PAGE_BYTES)),
        };
        let bound = match state.bound {
            Bound::Quiet => "quiet",
            Bound::Trust => "trust",
            Bound::Length => "length",
            Bound::Pace => "pace",
            Bound::Memory => "memory",
        };
        let within = |page: u64| (page * PAGE_BYTES).min(size_bytes);
        Self {
            key: key.to_owned(),
            id: state.id,
            size_bytes,
            shape: shape.into(),
            delta_bytes,
            record_bytes,
            position_bytes: within(state.position),
            planned_bytes: within(state.planned),
            window_bytes: state.window_pages * PAGE_BYTES,
            bound: bound.into(),
            read_bytes: state.read_pages * PAGE_BYTES,
            bytes_per_s: state.pages_per_s.map(|pages| pages * PAGE_BYTES),
            waits: state.waits,
            late_reads: state.late,
            idle_ms: now.since(state.last).0 / 1_000_000,
            served_us: 0,
            pid: None,
            process: None,
        }
    }
}

impl Watched {
    /// Names the processes of the threads: the system is asked for each of them once.
    pub(crate) fn name_processes(&mut self) {
        let mut known: BTreeMap<u32, Option<(u32, String)>> = BTreeMap::new();
        for stream in &mut self.streams {
            let Some(thread) = stream.pid else { continue };
            let Some((pid, name)) = known.entry(thread).or_insert_with(|| process(thread)) else { continue };
            (stream.pid, stream.process) = (Some(*pid), Some(name.clone()));
        }
    }
}

/// The process of a thread of this machine, and what it calls itself.
fn process(thread: u32) -> Option<(u32, String)> {
    let status = std::fs::read(format!("/proc/{thread}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())?;
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some((pid, String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned()))
}

impl From<LinkState> for Link {
    fn from(state: LinkState) -> Self {
        Self {
            first_byte_us: state.first_byte.0 / 1_000,
            connection_bytes_per_s: state.connection_bytes_per_s,
            bytes_per_s: state.bytes_per_s,
            is_growing: state.is_growing,
            is_crowded: state.is_crowded,
            requests_max: state.requests_max as u64,
            requests: state.requests as u64,
        }
    }
}
