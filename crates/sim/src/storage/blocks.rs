//! A block device with files on it: places the bytes of files, and lets a scheduler choose the
//! next request.
//!
//! ```text
//!  read ──> a piece ──> parts, one an extent ──> scheduler, if any ─> device ─> last part ─> poll
//!             ^                                                                            │
//!             └──────────────── the next piece, when all of it was taken ──────────────────┘
//! ```

use std::collections::{BTreeMap, VecDeque};

use foreread_device::block::{Action, BlockDevice, Event};
use foreread_policy::{PAGE_BYTES, RequestId};

use super::scheduler::{Request, Scheduler, named};
use crate::stack::scheduler_name::SchedulerName;

/// How requests reach a block device.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// Longer requests are read this many bytes at a time; `None`: whole.
    pub(crate) piece_bytes: Option<u64>,
    /// Files grew together and got this many bytes in turn; `None`: each file is in one piece.
    pub(crate) extent_bytes: Option<u64>,
    /// The scheduler in front of it.
    pub(crate) scheduler: Option<SchedulerName>,
}

/// A block device, and the layout of the files on it.
#[derive(Debug)]
pub(crate) struct Blocks {
    device: Box<dyn BlockDevice>,
    scheduler: Option<Box<dyn Scheduler>>,
    layout: Layout,
    /// Largest piece; `None`: a whole request.
    piece_bytes: Option<u64>,
    going: BTreeMap<RequestId, Going>,
    /// The request of each part in flight.
    parts: BTreeMap<u64, RequestId>,
    next_part: u64,
    done: VecDeque<(RequestId, u64)>,
}

/// A request with a piece in flight, or one that waits to be taken.
#[derive(Debug, Clone, Copy)]
struct Going {
    context: u32,
    file: usize,
    /// Where the next piece begins; `rest` counts the bytes from there on.
    offset: u64,
    rest: u64,
    /// Bytes of the last piece that were not taken; `missing` counts its parts in flight.
    piece: u64,
    missing: u32,
}

/// Positions of files on a disk.
#[derive(Debug)]
enum Layout {
    /// Each in one piece; the start of each.
    Whole(Vec<u64>),
    /// They grew together: each has this many bytes in turn.
    Extents { bytes: u64, files: u64 },
}

impl Layout {
    fn of(sizes: &[u64], extent_bytes: Option<u64>) -> Self {
        if let Some(bytes) = extent_bytes {
            return Self::Extents { bytes: bytes.next_multiple_of(PAGE_BYTES), files: sizes.len() as u64 };
        }
        let starts = sizes.iter().scan(0, |next, size| {
            let start = *next;
            *next += size.next_multiple_of(PAGE_BYTES);
            Some(start)
        });
        Self::Whole(starts.collect())
    }

    /// The position of `offset` of `file`, and how many of the `bytes` are contiguous from there.
    fn place(&self, file: usize, offset: u64, bytes: u64) -> (u64, u64) {
        match *self {
            Self::Whole(ref starts) => (starts[file] + offset, bytes),
            Self::Extents { bytes: each, files } => {
                let (turn, within) = (offset / each, offset % each);
                ((turn * files + file as u64) * each + within, bytes.min(each - within))
            }
        }
    }
}

impl Blocks {
    pub(crate) fn new(device: Box<dyn BlockDevice>, sizes: &[u64], asked: Asked) -> Self {
        Self {
            device,
            scheduler: asked.scheduler.map(named::scheduler),
            layout: Layout::of(sizes, asked.extent_bytes),
            piece_bytes: asked.piece_bytes,
            going: BTreeMap::new(),
            parts: BTreeMap::new(),
            next_part: 0,
            done: VecDeque::new(),
        }
    }

    pub(crate) fn read(&mut self, now_ns: u64, request: RequestId, context: u32, file: usize, offset: u64, bytes: u64) {
        self.going.insert(request, Going { context, file, offset, rest: bytes, piece: 0, missing: 0 });
        self.go_on(now_ns, request);
    }

    /// Requests the next piece.
    fn go_on(&mut self, now_ns: u64, request: RequestId) {
        let Some(&Going { context, file, offset, rest, .. }) = self.going.get(&request) else { return };
        let bytes = rest.min(self.piece_bytes.unwrap_or(u64::MAX));
        let (mut at, end, mut missing) = (offset, offset + bytes, 0);
        while at < end {
            let (place, length) = self.layout.place(file, at, end - at);
            let id = self.next_part;
            self.next_part += 1;
            self.parts.insert(id, request);
            missing += 1;
            at += length;
            match &mut self.scheduler {
                Some(scheduler) => scheduler.add(now_ns, Request { id, context, offset: place, bytes: length }),
                None => self.device.handle(now_ns, Event::Read { id, offset: place, bytes: length }),
            }
        }
        self.going.insert(request, Going { context, file, offset: end, rest: rest - bytes, piece: bytes, missing });
        self.give_out(now_ns);
    }

    /// The driver has taken in `bytes` of the last piece; after all of it the next piece is
    /// requested.
    pub(crate) fn taken(&mut self, now_ns: u64, request: RequestId, bytes: u64) {
        let Some(going) = self.going.get_mut(&request) else { return };
        going.piece = going.piece.saturating_sub(bytes);
        if going.piece == 0 && going.rest > 0 {
            self.go_on(now_ns, request);
        } else if going.piece == 0 {
            self.going.remove(&request);
        }
    }

    /// Parts that the device has done already are still delivered.
    pub(crate) fn cancel(&mut self, now_ns: u64, request: RequestId) {
        if self.going.remove(&request).is_none() {
            return;
        }
        let parts: Vec<u64> = self.parts.iter().filter(|&(_, of)| *of == request).map(|(&id, _)| id).collect();
        for id in parts {
            self.parts.remove(&id);
            let kept = self.scheduler.as_mut().is_some_and(|scheduler| scheduler.cancel(now_ns, id));
            if !kept {
                self.device.handle(now_ns, Event::Cancel { id });
            }
        }
        self.give_out(now_ns);
    }

    pub(crate) fn close(&mut self, now_ns: u64, context: u32) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.closed(now_ns, context);
            self.give_out(now_ns);
        }
    }

    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.device.handle(now_ns, Event::Tick);
        self.take_done();
        self.give_out(now_ns);
    }

    fn take_done(&mut self) {
        while let Some(Action::Done { id, at_ns }) = self.device.poll_action() {
            let ids = match &mut self.scheduler {
                Some(scheduler) => scheduler.completed(at_ns, id),
                None => vec![id],
            };
            for id in ids {
                self.part_done(id);
            }
        }
    }

    fn part_done(&mut self, id: u64) {
        let Some(request) = self.parts.remove(&id) else { return };
        let Some(going) = self.going.get_mut(&request) else { return };
        going.missing -= 1;
        if going.missing == 0 {
            self.done.push_back((request, going.piece));
        }
    }

    /// Moves requests from the scheduler to the device.
    fn give_out(&mut self, now_ns: u64) {
        while let Some(Request { id, offset, bytes, .. }) = self.scheduler.as_mut().and_then(|all| all.next(now_ns)) {
            self.device.handle(now_ns, Event::Read { id, offset, bytes });
        }
    }

    /// A request with a piece done, and the bytes of the piece.
    pub(crate) fn poll(&mut self) -> Option<(RequestId, u64)> {
        self.take_done();
        self.done.pop_front()
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let scheduler_ns = self.scheduler.as_ref().and_then(|scheduler| scheduler.next_deadline());
        [self.device.next_deadline(), scheduler_ns].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_grew_together_have_extents_in_turn() {
        let layout = Layout::of(&[1 << 20, 1 << 20], Some(64 << 10));
        assert_eq!(layout.place(0, 0, 4096), (0, 4096));
        assert_eq!(layout.place(1, 0, 4096), (64 << 10, 4096));
        assert_eq!(layout.place(0, 64 << 10, 1 << 20), (128 << 10, 64 << 10));
        assert_eq!(layout.place(1, (128 << 10) - 4096, 8192), ((256 << 10) - 4096, 4096));
        let whole = Layout::of(&[1 << 20, 1 << 20], None);
        assert_eq!(whole.place(1, 0, 1 << 20), (1 << 20, 1 << 20));
    }
}
