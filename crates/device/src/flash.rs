//! Flash: several channels, each of which serves one request at a time; their data crosses one
//! link.
//!
//! ```text
//!   Read ──> [ . . . . ] ──next──> channel: request + pages ──┐
//!             in order             channel: request + pages ──┼──> link: bytes / rate ──> Done
//!                                  channel: request + pages ──┘    one after the other
//! ```
//!
//! With one channel this is an old SATA drive whose time grows with each page; with many it is
//! `NVMe`, which reaches its rate only with a deep queue.
//!
//! Writes wait in the same queue and have their own costs. Not modelled: erasing, and which page
//! lies on which chip.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::Rate;
use crate::block::{Action, BlockDevice, Event, RequestId};
use crate::link::Link;

/// The configuration of a drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Requests served at a time.
    pub channels: NonZeroU32,
    /// Time of a request of any size, in ns.
    pub request_ns: u64,
    /// Additional time of each page of 4 KiB, in ns.
    pub page_ns: u64,
    /// Time of a write; `None`: as of a read.
    #[serde(default)]
    pub write_request_ns: Option<u64>,
    /// Additional time of each written page; `None`: as of a read.
    #[serde(default)]
    pub write_page_ns: Option<u64>,
    /// Bytes a second to the host; `None` for no limit.
    #[serde(default)]
    pub link_rate: Option<Rate>,
}

/// A drive. Input: [`Flash::handle`]; output: [`Flash::poll_action`] until `None`, then
/// [`Flash::next_deadline`].
///
/// Costs O(log n) an event for n requests.
#[derive(Debug)]
pub struct Flash {
    config: Config,
    now_ns: u64,
    /// Waiting requests: the time that each takes, and its bytes.
    waiting: VecDeque<(RequestId, u64, u64)>,
    /// Requests in the channels: when each is read, and its bytes. Ties in the order of names.
    reading: BinaryHeap<Reverse<(u64, RequestId, u64)>>,
    link: Link,
    cancelled: BTreeSet<RequestId>,
    actions: VecDeque<Action>,
}

impl Flash {
    /// An idle drive.
    pub fn new(config: Config) -> Self {
        Self {
            link: Link::new(config.link_rate),
            config,
            now_ns: 0,
            waiting: VecDeque::new(),
            reading: BinaryHeap::new(),
            cancelled: BTreeSet::new(),
            actions: VecDeque::new(),
        }
    }

    fn advance(&mut self, now_ns: u64) {
        while let Some(next_ns) = self.next_deadline().filter(|&next_ns| next_ns <= now_ns) {
            self.now_ns = next_ns;
            while let Some((at_ns, id)) = self.link.crossed(next_ns) {
                if !self.cancelled.remove(&id) {
                    self.actions.push_back(Action::Done { id, at_ns });
                }
            }
            while let Some(&Reverse((at_ns, id, bytes))) = self.reading.peek() {
                if at_ns > next_ns {
                    break;
                }
                self.reading.pop();
                self.link.carry(at_ns, id, bytes);
            }
            self.start();
        }
        self.now_ns = now_ns;
    }

    /// Idle channels take waiting requests.
    fn start(&mut self) {
        while self.reading.len() < self.config.channels.get() as usize
            && let Some((id, takes_ns, bytes)) = self.waiting.pop_front()
        {
            self.reading.push(Reverse((self.now_ns + takes_ns, id, bytes)));
        }
    }
}

impl BlockDevice for Flash {
    fn handle(&mut self, now_ns: u64, event: Event) {
        debug_assert!(now_ns >= self.now_ns, "time went back");
        self.advance(now_ns);
        match event {
            Event::Read { id, bytes, .. } => {
                let takes_ns = self.config.request_ns + bytes.div_ceil(4096) * self.config.page_ns;
                self.waiting.push_back((id, takes_ns, bytes));
            }
            Event::Write { id, bytes, .. } => {
                let page_ns = self.config.write_page_ns.unwrap_or(self.config.page_ns);
                let request_ns = self.config.write_request_ns.unwrap_or(self.config.request_ns);
                self.waiting.push_back((id, request_ns + bytes.div_ceil(4096) * page_ns, bytes));
            }
            Event::Cancel { id } => {
                let before = self.waiting.len();
                self.waiting.retain(|&(waiting, ..)| waiting != id);
                let on_its_way =
                    self.reading.iter().any(|Reverse((_, reading, _))| *reading == id) || self.link.carries(id);
                if self.waiting.len() == before && on_its_way {
                    self.cancelled.insert(id);
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
        let read_ns = self.reading.peek().map(|Reverse((at_ns, ..))| *at_ns);
        read_ns.into_iter().chain(self.link.next_deadline()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flash(channels: u32, link: u64) -> Flash {
        Flash::new(Config {
            channels: NonZeroU32::new(channels).unwrap(),
            request_ns: 500_000,
            page_ns: 177_000,
            write_request_ns: None,
            write_page_ns: Some(100_000),
            link_rate: Rate::per_second(link),
        })
    }

    fn run(flash: &mut Flash) -> Vec<(u64, u64)> {
        while let Some(at_ns) = flash.next_deadline() {
            flash.handle(at_ns, Event::Tick);
        }
        std::iter::from_fn(|| flash.poll_action()).map(|Action::Done { id, at_ns }| (id, at_ns)).collect()
    }

    #[test]
    fn one_channel_serves_one_request_at_a_time() {
        let mut flash = flash(1, 0);
        flash.handle(0, Event::Read { id: 1, offset: 0, bytes: 4096 });
        flash.handle(0, Event::Read { id: 2, offset: 0, bytes: 8 * 4096 });
        assert_eq!(run(&mut flash), [(1, 677_000), (2, 677_000 + 1_916_000)]);
    }

    #[test]
    fn a_write_waits_in_the_same_queue_and_has_its_own_cost() {
        let mut flash = flash(1, 0);
        flash.handle(0, Event::Write { id: 1, offset: 0, bytes: 2 * 4096 });
        flash.handle(0, Event::Read { id: 2, offset: 0, bytes: 4096 });
        assert_eq!(run(&mut flash), [(1, 700_000), (2, 700_000 + 677_000)]);
    }

    #[test]
    fn many_channels_are_bounded_by_the_link() {
        let mut flash = flash(4, 4096 * 1000);
        for id in 0..4 {
            flash.handle(0, Event::Read { id, offset: 0, bytes: 4096 });
        }
        let done = run(&mut flash);
        assert_eq!(done, [(0, 1_677_000), (1, 2_677_000), (2, 3_677_000), (3, 4_677_000)]);
    }

    #[test]
    fn a_cancelled_request_is_not_reported() {
        let mut flash = flash(1, 0);
        for id in 0..3 {
            flash.handle(0, Event::Read { id, offset: 0, bytes: 4096 });
        }
        flash.handle(1, Event::Cancel { id: 0 });
        flash.handle(1, Event::Cancel { id: 1 });
        assert_eq!(run(&mut flash), [(2, 2 * 677_000)], "a request in a channel takes its time all the same");
        assert!(flash.cancelled.is_empty());
    }
}
