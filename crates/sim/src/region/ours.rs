//! Our policy for regions as a pager: touches become its events, and its actions requests.
//!
//! An evicted page lies in the spill at the slot that policy chose; an untouched page is zeroes
//! and lies nowhere. Adjacent pages that are cleaned at one time are one request. Each fault goes
//! through a pager in user space and back.

use std::collections::{HashMap, VecDeque};

use foreread_policy::{Extent, Nanos, RegionAction, RegionEvent, RegionOptions, RegionPath, RequestId};

use super::drive::Drive;
use super::world::{Pager, Touch};

/// The state of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Away,
    Protected,
    Mapped,
}

/// The policy's side of a request to the drive.
#[derive(Debug, Clone)]
enum Request {
    Read(RequestId),
    /// Requests of policy with adjacent slots.
    Clean(Vec<(RequestId, Extent)>),
}

/// Our policy as a pager.
pub(crate) struct Ours {
    policy: RegionPath,
    at: Vec<At>,
    /// Pages that were touched, and are not zeroes.
    filled: Vec<bool>,
    /// The page that each thread waits for.
    waits: HashMap<u32, u64>,
    requests: HashMap<u64, Request>,
    /// Requests that were done at once: all pages are zeroes.
    over: VecDeque<Request>,
}

impl Ours {
    pub(crate) fn new(pages: u64, budget: u64) -> Self {
        let policy = RegionPath::new(RegionOptions { pages, budget });
        Self {
            policy,
            at: vec![At::Away; pages as usize],
            filled: vec![false; pages as usize],
            waits: HashMap::new(),
            requests: HashMap::new(),
            over: VecDeque::new(),
        }
    }

    /// Tells policy, and executes its actions.
    fn tell(&mut self, now_ns: u64, event: RegionEvent, drive: &mut Drive) {
        let mut writes: Vec<(u64, Vec<(RequestId, Extent)>)> = Vec::new();
        self.policy.handle(Nanos(now_ns), event);
        while let Some(action) = self.policy.poll_action() {
            let (pages, at) = match action {
                RegionAction::Zero { pages, protect } | RegionAction::Map { pages, protect } => {
                    self.waits.retain(|_, waits| !pages.contains(*waits));
                    (pages, if protect { At::Protected } else { At::Mapped })
                }
                RegionAction::Clean { request, pages, slot } => {
                    match writes.last_mut() {
                        Some((end, together)) if *end == slot => {
                            together.push((request, pages));
                            *end += pages.pages();
                        }
                        _ => writes.push((slot + pages.pages(), vec![(request, pages)])),
                    }
                    (pages, At::Protected)
                }
                RegionAction::Drop { pages } => (pages, At::Away),
                RegionAction::Read { request, pages, slot, .. } => {
                    let name = drive.read(now_ns, slot, pages.pages(), pages.pages());
                    self.requests.insert(name, Request::Read(request));
                    continue;
                }
                // No request fails here.
                RegionAction::Fail { .. } => continue,
            };
            self.at[pages.start as usize..pages.end as usize].fill(at);
        }
        for (end, together) in writes {
            let pages: u64 = together.iter().map(|(_, pages)| pages.pages()).sum();
            let filled: u64 = together.iter().map(|&(_, pages)| self.filled(pages)).sum();
            let over = Request::Clean(together);
            if filled == 0 {
                self.over.push_back(over);
            } else {
                self.requests.insert(drive.write(now_ns, end - pages, filled), over);
            }
        }
    }

    /// How many of `pages` are not zeroes.
    fn filled(&self, pages: Extent) -> u64 {
        (pages.start..pages.end).filter(|&page| self.filled[page as usize]).count() as u64
    }

    /// Tells policy of finished requests.
    fn go_on(&mut self, now_ns: u64, drive: &mut Drive) {
        while let Some(over) = self.over.pop_front() {
            match over {
                Request::Read(request) => {
                    self.tell(now_ns, RegionEvent::Completed { request, came: true }, drive);
                }
                Request::Clean(together) => {
                    for (request, pages) in together {
                        let zeroes: Vec<u64> =
                            (pages.start..pages.end).filter(|&page| !self.filled[page as usize]).collect();
                        for page in zeroes {
                            self.tell(now_ns, RegionEvent::Zeroes { pages: Extent::new(page, page + 1) }, drive);
                        }
                        self.tell(now_ns, RegionEvent::Cleaned { request, came: true }, drive);
                    }
                }
            }
        }
    }
}

impl Pager for Ours {
    fn touch(&mut self, now_ns: u64, thread: u32, page: u64, drive: &mut Drive) -> Touch {
        match self.at[page as usize] {
            At::Mapped => {
                self.filled[page as usize] = true;
                return Touch::There(0);
            }
            At::Protected => {
                self.at[page as usize] = At::Mapped;
                self.tell(now_ns, RegionEvent::Written { page }, drive);
            }
            At::Away if self.waits.get(&thread) == Some(&page) => return Touch::Waits,
            At::Away => {
                self.waits.insert(thread, page);
                self.tell(now_ns, RegionEvent::Fault { page, thread, write: true }, drive);
            }
        }
        self.go_on(now_ns, drive);
        if self.at[page as usize] != At::Mapped {
            return Touch::Waits;
        }
        self.filled[page as usize] = true;
        Touch::There(FAULT_NS)
    }

    fn came(&mut self, now_ns: u64, request: u64, drive: &mut Drive) {
        self.over.extend(self.requests.remove(&request));
        self.go_on(now_ns, drive);
    }
}

/// Cost of a fault through user space and back, in ns.
const FAULT_NS: u64 = 6_000;
