//! The policy of this project as a pager: touches become events, and its actions requests.
//!
//! Where a page has no room it lies in the file at its own place. Each fault goes through a manager in user space and back.

use std::collections::HashMap;

use foreread_policy::{Nanos, RequestId, SwapAction, SwapEvent, SwapOptions, SwapPath};

use super::drive::Drive;
use super::world::{Pager, Touch};

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Away,
    Staged,
    Protected,
    Mapped,
}

/// What a request of the drive is to policy.
#[derive(Debug, Clone, Copy)]
enum Request {
    Read(RequestId),
    Clean(RequestId),
}

/// See the module's text.
pub(crate) struct Ours {
    policy: SwapPath,
    at: Vec<At>,
    requests: HashMap<u64, Request>,
}

impl Ours {
    pub(crate) fn new(pages: u64, budget: u64) -> Self {
        let policy = SwapPath::new(SwapOptions { pages, budget });
        Self { policy, at: vec![At::Away; pages as usize], requests: HashMap::new() }
    }

    /// Tells policy, and does what it decides.
    fn tell(&mut self, now_ns: u64, event: SwapEvent, drive: &mut Drive) {
        self.policy.handle(Nanos(now_ns), event);
        while let Some(action) = self.policy.poll_action() {
            let (pages, at) = match action {
                SwapAction::Zero { pages, protect } | SwapAction::Map { pages, protect } => {
                    (pages, if protect { At::Protected } else { At::Mapped })
                }
                SwapAction::Clean { request, pages } => {
                    let name = drive.write(now_ns, pages.start, pages.pages());
                    self.requests.insert(name, Request::Clean(request));
                    (pages, At::Protected)
                }
                SwapAction::Drop { pages } => (pages, At::Away),
                SwapAction::Read { request, pages, .. } => {
                    let name = drive.read(now_ns, pages.start, pages.pages(), pages.pages());
                    self.requests.insert(name, Request::Read(request));
                    continue;
                }
                // Nothing fails here.
                SwapAction::Fail { .. } => continue,
            };
            self.at[pages.start as usize..pages.end as usize].fill(at);
        }
    }
}

impl Pager for Ours {
    fn touch(&mut self, now_ns: u64, thread: u32, page: u64, drive: &mut Drive) -> Touch {
        match self.at[page as usize] {
            At::Mapped => return Touch::There(0),
            At::Protected => {
                self.at[page as usize] = At::Mapped;
                self.tell(now_ns, SwapEvent::Written { page }, drive);
            }
            At::Away | At::Staged => {
                self.tell(now_ns, SwapEvent::Fault { page, thread, write: true }, drive);
            }
        }
        if self.at[page as usize] == At::Mapped { Touch::There(FAULT_NS) } else { Touch::Waits }
    }

    fn came(&mut self, now_ns: u64, request: u64, drive: &mut Drive) {
        match self.requests.remove(&request) {
            Some(Request::Read(request)) => {
                self.tell(now_ns, SwapEvent::Completed { request, came: true }, drive);
            }
            Some(Request::Clean(request)) => {
                self.tell(now_ns, SwapEvent::Cleaned { request, came: true }, drive);
            }
            None => {}
        }
    }
}

/// What a fault takes through user space and back.
const FAULT_NS: u64 = 6_000;
