//! A block device with files on it: where their bytes lie, and who says which request is next.
//!
//! ```text
//!  read (file, offset) ──> pieces, one an extent ──> scheduler, if there is one ──> device ──> the last piece is there ──> poll
//! ```

use std::collections::{BTreeMap, VecDeque};

use foreread_device::block::{Action, BlockDevice, Event};
use foreread_policy::{PAGE_BYTES, RequestId};

use crate::scheduler::{Request, Scheduler};

/// A block device, and which bytes of it each file has.
#[derive(Debug)]
pub(crate) struct Blocks {
    device: Box<dyn BlockDevice>,
    scheduler: Option<Box<dyn Scheduler>>,
    layout: Layout,
    /// Of what request each piece is that is on its way.
    pieces: BTreeMap<u64, RequestId>,
    next_piece: u64,
    /// Of each request, the pieces that are missing and all its bytes.
    missing: BTreeMap<RequestId, (u32, u64)>,
    done: VecDeque<(RequestId, u64)>,
}

/// Where files lie on a disk.
#[derive(Debug)]
enum Layout {
    /// One after the other; the start of each.
    Whole(Vec<u64>),
    /// They grew at the same time: each has so many bytes in turn.
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

    /// Where `offset` of `file` is, and how many of the `bytes` from there on follow it.
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
    pub(crate) fn new(
        device: Box<dyn BlockDevice>,
        sizes: &[u64],
        extent_bytes: Option<u64>,
        scheduler: Option<Box<dyn Scheduler>>,
    ) -> Self {
        Self {
            device,
            scheduler,
            layout: Layout::of(sizes, extent_bytes),
            pieces: BTreeMap::new(),
            next_piece: 0,
            missing: BTreeMap::new(),
            done: VecDeque::new(),
        }
    }

    pub(crate) fn read(&mut self, now_ns: u64, request: RequestId, context: u32, file: usize, offset: u64, bytes: u64) {
        let (mut at, end, mut pieces) = (offset, offset + bytes, 0);
        while at < end {
            let (place, length) = self.layout.place(file, at, end - at);
            let id = self.next_piece;
            self.next_piece += 1;
            self.pieces.insert(id, request);
            pieces += 1;
            at += length;
            match &mut self.scheduler {
                Some(scheduler) => scheduler.add(now_ns, Request { id, context, offset: place, bytes: length }),
                None => self.device.handle(now_ns, Event::Read { id, offset: place, bytes: length }),
            }
        }
        self.missing.insert(request, (pieces, bytes));
        self.give_out(now_ns);
    }

    /// What the device has done already is delivered all the same.
    pub(crate) fn cancel(&mut self, now_ns: u64, request: RequestId) {
        if self.missing.remove(&request).is_none() {
            return;
        }
        let pieces: Vec<u64> = self.pieces.iter().filter(|&(_, of)| *of == request).map(|(&id, _)| id).collect();
        for id in pieces {
            self.pieces.remove(&id);
            let waited = self.scheduler.as_mut().is_some_and(|scheduler| scheduler.cancel(now_ns, id));
            if !waited {
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
            if let Some(scheduler) = &mut self.scheduler {
                scheduler.completed(at_ns, id);
            }
            let Some(request) = self.pieces.remove(&id) else { continue };
            let Some((pieces, bytes)) = self.missing.get_mut(&request) else { continue };
            *pieces -= 1;
            if *pieces == 0 {
                self.done.push_back((request, *bytes));
                self.missing.remove(&request);
            }
        }
    }

    /// What the scheduler wants to be next goes to the device.
    fn give_out(&mut self, now_ns: u64) {
        while let Some(Request { id, offset, bytes, .. }) = self.scheduler.as_mut().and_then(|all| all.next(now_ns)) {
            self.device.handle(now_ns, Event::Read { id, offset, bytes });
        }
    }

    /// A request that is done, and its bytes.
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
