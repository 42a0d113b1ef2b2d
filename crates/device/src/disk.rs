//! A disk with one arm: it positions, then transfers, one request at a time.
//!
//! ```text
//!            queue, by position           arm                          track buffer
//!  Read ──> [ . . h . . . . ] ──next──> position? ──> transfer at the media rate ──> Done
//!                 └ head: first the       └─ not for a request that follows the last one,
//!                   requests after it,       and not for bytes in the buffer: those come
//!                   then from the start      at the host rate
//!                   (C-LOOK)
//! ```
//!
//! While the arm waits for a sector to come round, the drive buffers the sectors that pass below
//! the head: after a request the buffer holds its track from the track's start. So backward
//! reading costs one positioning a track, not one a record. A short distance forward is passed
//! over instead of jumped, if that is sooner.
//!
//! A drive may also know its rotational position ([`Positioning::Turning`]), read on while it has
//! no request, and serve the request first that it reaches first.
//!
//! A write is never served from the buffer; otherwise it costs as much as a read. Not modelled: a
//! drive that reports a write before it is done.

mod rotation;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::block::{Action, BlockDevice, Event, RequestId};
use crate::{Random, Rate};
use rotation::Rotation;

/// The configuration of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The time of positioning.
    pub positioning: Positioning,
    /// Bytes under the head a second, at the start of the disk.
    pub media_rate: Rate,
    /// How the media rate falls towards the end; `None`: it is the same everywhere.
    #[serde(default)]
    pub zones: Option<Zones>,
    /// Bytes from the drive's buffer a second.
    pub host_rate: Rate,
    /// Bytes of a track at the start of the disk: one turn of the platter.
    pub track_bytes: u64,
    /// Tracks that the buffer holds; 0 for a disk without one.
    pub buffer_tracks: usize,
    /// Additional time of a request that arrives at an idle drive, in ns.
    #[serde(default)]
    pub command_ns: u64,
    /// Whether the drive reads on after a request, up to a track, while it is idle or would only
    /// wait elsewhere.
    #[serde(default)]
    pub reads_on: bool,
    /// Most bytes to read on; `None`: a track.
    #[serde(default)]
    pub reads_on_bytes: Option<u64>,
    /// Among this many of the oldest requests, the drive serves the one that it reaches first
    /// (command queueing). 0: in the order of position.
    #[serde(default)]
    pub reorders: usize,
    /// A request is next, at any position, once this many bytes were read since it arrived.
    #[serde(default)]
    pub reorders_bytes: u64,
    /// Where randomness starts.
    pub seed: u64,
}

/// Tracks nearer to the spindle are shorter, and a turn reads fewer bytes. Within a zone all
/// tracks have one length; zones are equally long, and each is slower than the one before by the
/// same step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zones {
    /// Number of zones.
    pub count: NonZeroU64,
    /// Bytes under the head a second in the last zone.
    pub innermost_rate: Rate,
    /// Bytes of the disk.
    pub capacity_bytes: NonZeroU64,
}

/// The time of positioning, which a request pays unless it follows the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Positioning {
    /// Always the same, in nanoseconds.
    Mean(u64),
    /// A seek that grows with the square root of the distance, then half a turn on average.
    Seek {
        /// To the next track, in nanoseconds.
        nearest_ns: u64,
        /// Across the whole disk, in nanoseconds.
        farthest_ns: u64,
        /// A turn of the platter, in nanoseconds.
        turn_ns: u64,
        /// Bytes of the disk.
        capacity_bytes: u64,
    },
    /// The same seek, then a wait until the sector comes round: a sector that has just passed
    /// costs a turn. The media rate is a track a turn, without zones.
    Turning {
        /// To the next track, in nanoseconds.
        nearest_ns: u64,
        /// Across the whole disk, in nanoseconds.
        farthest_ns: u64,
        /// A turn of the platter, in nanoseconds.
        turn_ns: u64,
        /// Bytes of the disk.
        capacity_bytes: u64,
    },
}

/// A disk. Input: [`Disk::handle`]; output: [`Disk::poll_action`] until `None`, then
/// [`Disk::next_deadline`].
///
/// Costs O(log n) an event for n requests that wait.
#[derive(Debug)]
pub struct Disk {
    config: Config,
    random: Random,
    now_ns: u64,
    /// Waiting requests, by position and order of arrival.
    queue: BTreeMap<(u64, u64), Waiting>,
    /// The key of each waiting request in `queue`.
    places: BTreeMap<RequestId, (u64, u64)>,
    arrived: u64,
    serving: Option<Serving>,
    /// Where the last request or the reading on after it ended, and when; `read_on_bytes` may
    /// still be read on.
    head: u64,
    head_ns: u64,
    read_on_bytes: u64,
    /// Bytes read so far.
    read_bytes: u64,
    /// Extents in the buffer, `[start, end)` in bytes, the latest last.
    buffer: VecDeque<(u64, u64)>,
    actions: VecDeque<Action>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    id: RequestId,
    bytes: u64,
    writes: bool,
    since_ns: u64,
    /// `read_bytes` at its arrival.
    since_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Serving {
    id: RequestId,
    done_ns: u64,
    cancelled: bool,
}

impl Config {
    /// The arm and the platter, where both are known.
    fn rotation(&self) -> Option<Rotation> {
        let track_bytes = self.track_bytes.max(1);
        match self.positioning {
            Positioning::Turning { nearest_ns, farthest_ns, turn_ns, capacity_bytes } => {
                Some(Rotation { nearest_ns, farthest_ns, turn_ns, capacity_bytes, track_bytes })
            }
            _ => None,
        }
    }

    /// The media rate at `offset`.
    fn rate_at(&self, offset: u64) -> Rate {
        let Some(Zones { count, innermost_rate, capacity_bytes }) = self.zones else { return self.media_rate };
        let last = count.get() - 1;
        let zone = u128::from(offset) * u128::from(count.get()) / u128::from(capacity_bytes.get());
        let zone = zone.min(u128::from(last)) as u64;
        let (outer, inner) = (self.media_rate.bytes_per_second(), innermost_rate.bytes_per_second());
        let slower = u128::from(outer.saturating_sub(inner)) * u128::from(zone) / u128::from(last.max(1));
        Rate::per_second(outer - slower as u64).unwrap_or(self.media_rate)
    }

    /// The bytes of a track where the media has that rate.
    fn track_bytes_at(&self, rate: Rate) -> u64 {
        let outer = u128::from(self.media_rate.bytes_per_second());
        (u128::from(self.track_bytes) * u128::from(rate.bytes_per_second()) / outer).max(1) as u64
    }
}

impl Disk {
    /// An idle disk whose arm stands at its start.
    pub fn new(config: Config) -> Self {
        Self {
            random: Random::new(config.seed),
            config,
            now_ns: 0,
            queue: BTreeMap::new(),
            places: BTreeMap::new(),
            arrived: 0,
            serving: None,
            head: 0,
            head_ns: 0,
            read_on_bytes: 0,
            read_bytes: 0,
            buffer: VecDeque::new(),
            actions: VecDeque::new(),
        }
    }

    fn advance(&mut self, now_ns: u64) {
        while let Some(Serving { id, done_ns, cancelled }) = self.serving.filter(|serving| serving.done_ns <= now_ns) {
            self.now_ns = done_ns;
            self.serving = None;
            if !cancelled {
                self.actions.push_back(Action::Done { id, at_ns: done_ns });
            }
            self.start();
        }
        self.now_ns = now_ns;
    }

    /// An idle arm takes the next request.
    fn start(&mut self) {
        if self.serving.is_some() {
            return;
        }
        let Some((place, Waiting { id, bytes, since_ns, writes, .. })) = self.next() else { return };
        self.queue.remove(&place);
        self.places.remove(&id);
        self.read_bytes += bytes;
        // The command of a waiting request was processed during the one before.
        let idle = since_ns == self.now_ns;
        let command_ns = if idle { self.config.command_ns } else { 0 };
        let takes_ns = command_ns + self.serve(self.now_ns + command_ns, place.0, bytes, writes);
        self.serving = Some(Serving { id, done_ns: self.now_ns.saturating_add(takes_ns), cancelled: false });
    }

    /// The waiting request to serve next, and its key.
    fn next(&self) -> Option<((u64, u64), Waiting)> {
        let of = |place: &(u64, u64)| self.queue.get(place).map(|&waiting| (*place, waiting));
        if self.config.reorders > 0 {
            let oldest = || self.places.values().take(self.config.reorders).filter_map(of);
            let aged =
                oldest().next().filter(|(_, first)| self.read_bytes - first.since_bytes >= self.config.reorders_bytes);
            return aged.or_else(|| oldest().min_by_key(|(place, waiting)| self.reach_ns(place.0, waiting)));
        }
        let after = self.queue.range((self.head, 0)..).next();
        after.or_else(|| self.queue.first_key_value()).map(|(&place, &waiting)| (place, waiting))
    }

    /// Time until the arm is at `offset`; 0 if the buffer has the bytes.
    fn reach_ns(&self, offset: u64, waiting: &Waiting) -> u64 {
        let held = |&(start, until): &(u64, u64)| start <= offset && offset + waiting.bytes <= until;
        if !waiting.writes && self.buffer.iter().any(held) {
            return 0;
        }
        let pass_ns = offset.checked_sub(self.head).map(|skipped| self.config.media_rate.time_ns(skipped));
        let turning = self.config.rotation().map(|rotation| rotation.reach_ns(self.now_ns, self.head, offset));
        let jump_ns = turning.map_or(offset.abs_diff(self.head), |(seek_ns, wait_ns)| seek_ns + wait_ns);
        jump_ns.min(pass_ns.unwrap_or(u64::MAX))
    }

    /// Buffers the bytes that passed below the head since the last request ended.
    fn read_on(&mut self, now_ns: u64) {
        if !self.config.reads_on {
            return;
        }
        let passed = self.config.media_rate.bytes_in(now_ns.saturating_sub(self.head_ns)).min(self.read_on_bytes);
        self.keep(self.head, self.head + passed, self.config.track_bytes);
        self.read_on_bytes -= passed;
        self.head += passed;
        self.head_ns = now_ns;
    }

    /// Serves `bytes` at `offset` from `now_ns` on; returns the time that it takes.
    fn serve(&mut self, now_ns: u64, offset: u64, bytes: u64, writes: bool) -> u64 {
        let end = offset + bytes;
        self.read_on(now_ns);
        let held = self.buffer.iter().position(|&(start, until)| start <= offset && end <= until);
        if let Some(at) = held.filter(|_| !writes) {
            let used = self.buffer.remove(at);
            self.buffer.extend(used);
            return self.config.host_rate.time_ns(bytes);
        }
        if let Some(rotation) = self.config.rotation() {
            return self.turn(rotation, now_ns, offset, bytes);
        }
        // The first part is in the buffer: it was read on.
        let reads_on = self.config.reads_on && !writes;
        let offset = if reads_on && offset < self.head && self.head < end { self.head } else { offset };
        let jump_ns = self.jump_ns(offset);
        let rate = self.config.rate_at(offset);
        let track_bytes = self.config.track_bytes_at(rate);
        let kept_from = if jump_ns == 0 { self.head.min(offset) } else { offset / track_bytes * track_bytes };
        let pass_ns = offset.checked_sub(self.head).map(|skipped| rate.time_ns(skipped));
        self.head = end;
        self.keep(kept_from, end, track_bytes);
        let takes_ns = jump_ns.min(pass_ns.unwrap_or(u64::MAX)) + rate.time_ns(end - offset);
        self.head_ns = now_ns + takes_ns;
        self.read_on_bytes = if reads_on { self.config.reads_on_bytes.unwrap_or(track_bytes) } else { 0 };
        takes_ns
    }

    /// Serves a request where the rotational position is known.
    fn turn(&mut self, rotation: Rotation, now_ns: u64, offset: u64, bytes: u64) -> u64 {
        let (end, rate) = (offset + bytes, self.config.media_rate);
        // The first part is in the buffer: it was read on.
        let offset = if offset < self.head && self.head < end && self.config.reads_on { self.head } else { offset };
        let (seek_ns, wait_ns) = rotation.reach_ns(now_ns, self.head, offset);
        // Without reading on, the platter has turned since.
        let is_at_head = self.config.reads_on || self.head_ns == now_ns;
        let pass_ns =
            offset.checked_sub(self.head).filter(|_| is_at_head).map_or(u64::MAX, |skipped| rate.time_ns(skipped));
        let (reach_ns, kept_from) = if pass_ns <= seek_ns + wait_ns {
            (pass_ns, self.head)
        } else {
            // The arm leaves as late as possible.
            self.read_on(now_ns + wait_ns);
            (seek_ns + wait_ns, offset)
        };
        let takes_ns = reach_ns + rate.time_ns(end - offset);
        self.keep(kept_from, end, self.config.track_bytes);
        let reads_on_bytes = self.config.reads_on_bytes.unwrap_or(self.config.track_bytes);
        (self.head, self.head_ns, self.read_on_bytes) = (end, now_ns + takes_ns, reads_on_bytes);
        takes_ns
    }

    fn jump_ns(&mut self, offset: u64) -> u64 {
        let distance = offset.abs_diff(self.head);
        if distance == 0 {
            return 0;
        }
        match self.config.positioning {
            Positioning::Mean(ns) => ns,
            Positioning::Seek { nearest_ns, farthest_ns, turn_ns, capacity_bytes } => {
                let far = (u128::from(distance) << 32) / u128::from(capacity_bytes.max(1));
                let root_q16 = far.min(1 << 32).isqrt() as u64;
                let seek_ns = nearest_ns + ((farthest_ns.saturating_sub(nearest_ns) * root_q16) >> 16);
                seek_ns + self.random.below(turn_ns)
            }
            // Its position is known: see `turn`.
            Positioning::Turning { .. } => 0,
        }
    }

    /// Buffers `[start, end)`, cut to a track, and evicts the oldest extent.
    fn keep(&mut self, start: u64, end: u64, track_bytes: u64) {
        if self.config.buffer_tracks == 0 {
            return;
        }
        // A request across two tracks buffers both: the head passed the first.
        let most = track_bytes.max(end - start);
        // Bytes that continue an extent extend it.
        let joined = self.buffer.iter().position(|&(from, until)| from <= start && start <= until);
        let from = joined.and_then(|at| self.buffer.remove(at)).map_or(start, |(from, _)| from);
        self.buffer.push_back((from.max(end.saturating_sub(most)), end));
        if self.buffer.len() > self.config.buffer_tracks {
            self.buffer.pop_front();
        }
    }
}

impl BlockDevice for Disk {
    fn handle(&mut self, now_ns: u64, event: Event) {
        debug_assert!(now_ns >= self.now_ns, "time went back");
        self.advance(now_ns);
        match event {
            Event::Read { id, offset, bytes } | Event::Write { id, offset, bytes } => {
                let place = (offset, self.arrived);
                self.arrived += 1;
                let writes = matches!(event, Event::Write { .. });
                let waiting = Waiting { id, bytes, writes, since_ns: now_ns, since_bytes: self.read_bytes };
                self.queue.insert(place, waiting);
                self.places.insert(id, place);
            }
            Event::Cancel { id } => {
                if let Some(place) = self.places.remove(&id) {
                    self.queue.remove(&place);
                } else if let Some(serving) = self.serving.as_mut().filter(|serving| serving.id == id) {
                    serving.cancelled = true;
                }
            }
            Event::Tick => {}
        }
        self.start();
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        self.serving.map(|serving| serving.done_ns)
    }
}

#[cfg(test)]
mod tests;
