//! Disks side by side, striped, behind one link.
//!
//! ```text
//!             stripe 0     stripe 1     stripe 2     stripe 3 ...
//!             disk 0       disk 1       disk 0       disk 1            (of two)
//!  Read ──> parts, one a stripe ──> queue of each disk ──> link, one at a time ──> last: Done
//! ```
//!
//! Each disk sorts its own queue, so many requests at a time cost less positioning than one after
//! the other.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::block::{Action, BlockDevice, Event, RequestId};
use crate::link::Link;
use crate::{Rate, disk};

/// The configuration of an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Number of disks.
    pub disks: NonZeroU32,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// The configuration of each disk.
    pub disk: disk::Config,
    /// Bytes a second to the host; `None` for no limit.
    #[serde(default)]
    pub link_rate: Option<Rate>,
}

/// An array: events and actions as of a single [`disk::Disk`].
#[derive(Debug)]
pub struct Array {
    stripe_bytes: u64,
    link: Link,
    disks: Vec<disk::Disk>,
    now_ns: u64,
    /// The parts in the disks: the request of each, and its bytes.
    parts: BTreeMap<u64, (RequestId, u64)>,
    next_part: u64,
    /// Missing parts of each request.
    missing: BTreeMap<RequestId, u32>,
    actions: VecDeque<Action>,
}

impl Array {
    /// An idle array.
    pub fn new(config: Config) -> Self {
        let Config { disks, stripe_bytes, disk, link_rate } = config;
        let numbered = |number: u32| {
            let seed = disk.seed.wrapping_add(u64::from(number));
            disk::Disk::new(disk::Config { seed, ..disk.clone() })
        };
        Self {
            stripe_bytes: stripe_bytes.max(1),
            link: Link::new(link_rate),
            disks: (0..disks.get()).map(numbered).collect(),
            now_ns: 0,
            parts: BTreeMap::new(),
            next_part: 0,
            missing: BTreeMap::new(),
            actions: VecDeque::new(),
        }
    }

    /// The disk that holds `offset`, and the position there.
    fn place(&self, offset: u64) -> (usize, u64) {
        let (stripe, within) = (offset / self.stripe_bytes, offset % self.stripe_bytes);
        let disks = self.disks.len() as u64;
        ((stripe % disks) as usize, stripe / disks * self.stripe_bytes + within)
    }

    fn advance(&mut self, now_ns: u64) {
        debug_assert!(now_ns >= self.now_ns, "time went back");
        while let Some(next_ns) = self.next_deadline().filter(|&next_ns| next_ns <= now_ns) {
            while let Some((at_ns, id)) = self.link.crossed(next_ns) {
                self.crossed(id, at_ns);
            }
            for number in 0..self.disks.len() {
                self.disks[number].handle(next_ns, Event::Tick);
                while let Some(Action::Done { id: part, at_ns }) = self.disks[number].poll_action() {
                    self.part_done(part, at_ns);
                }
            }
        }
        for disk in &mut self.disks {
            disk.handle(now_ns, Event::Tick);
        }
        self.now_ns = now_ns;
    }

    fn part_done(&mut self, part: u64, at_ns: u64) {
        let Some((id, bytes)) = self.parts.remove(&part) else { return };
        self.link.carry(at_ns, id, bytes);
    }

    fn crossed(&mut self, id: RequestId, at_ns: u64) {
        let Some(parts) = self.missing.get_mut(&id) else { return };
        *parts -= 1;
        if *parts == 0 {
            self.missing.remove(&id);
            self.actions.push_back(Action::Done { id, at_ns });
        }
    }
}

impl BlockDevice for Array {
    fn handle(&mut self, now_ns: u64, event: Event) {
        self.advance(now_ns);
        match event {
            Event::Read { id, offset, bytes } | Event::Write { id, offset, bytes } => {
                let writes = matches!(event, Event::Write { .. });
                let (mut at, end, mut parts) = (offset, offset + bytes, 0);
                while at < end {
                    let until = end.min((at / self.stripe_bytes + 1) * self.stripe_bytes);
                    let (disk, place) = self.place(at);
                    let part = self.next_part;
                    self.next_part += 1;
                    self.parts.insert(part, (id, until - at));
                    let bytes = until - at;
                    let event = if writes {
                        Event::Write { id: part, offset: place, bytes }
                    } else {
                        Event::Read { id: part, offset: place, bytes }
                    };
                    self.disks[disk].handle(now_ns, event);
                    parts += 1;
                    at = until;
                }
                self.missing.insert(id, parts);
            }
            Event::Cancel { id } => {
                self.missing.remove(&id);
                self.link.forget(id);
                let of_it = self.parts.iter().filter(|(_, (of, _))| *of == id);
                let parts: Vec<u64> = of_it.map(|(&part, _)| part).collect();
                for part in parts {
                    self.parts.remove(&part);
                    for disk in &mut self.disks {
                        disk.handle(now_ns, Event::Cancel { id: part });
                    }
                }
            }
            Event::Tick => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        let disks = self.disks.iter().filter_map(disk::Disk::next_deadline);
        disks.chain(self.link.next_deadline()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Positioning;

    fn array(disks: u32, link: u64) -> Array {
        Array::new(Config {
            disks: NonZeroU32::new(disks).unwrap(),
            stripe_bytes: 64 << 10,
            disk: disk::Config {
                positioning: Positioning::Mean(9_000_000),
                media_rate: Rate::per_second(64 << 20).unwrap(),
                host_rate: Rate::per_second(300_000_000).unwrap(),
                zones: None,
                track_bytes: 512 << 10,
                buffer_tracks: 0,
                command_ns: 0,
                reads_on: false,
                reads_on_bytes: None,
                reorders: 0,
                reorders_bytes: 0,
                seed: 1,
            },
            link_rate: Rate::per_second(link),
        })
    }

    fn run(array: &mut Array) -> Vec<(u64, u64)> {
        while let Some(at_ns) = array.next_deadline() {
            array.handle(at_ns, Event::Tick);
        }
        std::iter::from_fn(|| array.poll_action()).map(|Action::Done { id, at_ns }| (id, at_ns)).collect()
    }

    #[test]
    fn requests_on_different_disks_are_served_at_the_same_time() {
        let mut one = array(1, 0);
        let mut ten = array(10, 0);
        for id in 0..10 {
            let read = Event::Read { id, offset: (id * 11 + 5) * (64 << 10), bytes: 4096 };
            one.handle(0, read);
            ten.handle(0, read);
        }
        let last = |done: Vec<(u64, u64)>| done.last().map_or(0, |&(_, at_ns)| at_ns);
        let (one, ten) = (last(run(&mut one)), last(run(&mut ten)));
        assert!(one > 3 * ten, "{one} ns on one disk, {ten} ns on ten");
    }

    #[test]
    fn a_request_across_stripes_is_done_with_its_last_part_and_crosses_the_link() {
        let mut array = array(4, 256 << 20);
        array.handle(0, Event::Read { id: 7, offset: 0, bytes: 256 << 10 });
        // Each disk's head stands at its start: 64 KiB at 64 MiB/s, then 256 KiB at 256 MiB/s.
        let [(id, at_ns)] = run(&mut array)[..] else { panic!("one request") };
        assert_eq!((id, at_ns.div_ceil(1_000)), (7, 1_954));
    }

    #[test]
    fn parts_cross_the_link_as_they_come() {
        let mut array = array(2, 64 << 20);
        array.handle(0, Event::Read { id: 7, offset: 0, bytes: 256 << 10 });
        // Two parts of each disk, and all four over a link as fast as a disk: the second pair is
        // read while the first crosses.
        let [(_, at_ns)] = run(&mut array)[..] else { panic!("one request") };
        assert_eq!(at_ns.div_ceil(1_000), 4_883, "five times 64 KiB at 64 MiB/s");
    }

    #[test]
    fn a_cancelled_request_is_not_reported() {
        let mut array = array(2, 0);
        array.handle(0, Event::Read { id: 1, offset: 1 << 20, bytes: 256 << 10 });
        array.handle(0, Event::Read { id: 2, offset: 8 << 20, bytes: 4096 });
        array.handle(1, Event::Cancel { id: 1 });
        let done: Vec<u64> = run(&mut array).into_iter().map(|(id, _)| id).collect();
        assert_eq!(done, [2]);
        assert!(array.parts.is_empty() && array.missing.is_empty());
    }
}
