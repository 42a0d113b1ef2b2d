//! A world as the storage of another: what a kernel asks of a mount.
//!
//! ```text
//!   programs ── read ──> World { kernel's readahead, page cache } ── Storage::Mount ──> World { read path } ── device
//!                                                                    a reader stands for each request
//! ```

use foreread_policy::RequestId;
use foreread_workload::Op;

use super::readers::Reader;
use super::{Start, World};
use crate::storage::Delivery;
use crate::violation::Violation;

impl World<'static> {
    /// The kernel asks for `bytes` at `offset` of the file at place `file`.
    pub(crate) fn request(&mut self, now_ns: u64, request: RequestId, file: usize, offset: u64, bytes: u64) {
        let op = Op { file: file as u32, offset, len: bytes as u32, not_before_ns: 0 };
        self.now_ns = self.now_ns.max(now_ns);
        let number = self.resting.pop().unwrap_or_else(|| {
            self.readers.push(Reader::new(Start::new(Box::new(std::iter::empty()), None)));
            self.readers.len() - 1
        });
        let reader = &mut self.readers[number];
        (reader.op, reader.serves, reader.began_ns, reader.idle) = (Some(op), Some((request, bytes)), 0, false);
        let went = self.go_on(number).and_then(|()| self.wake());
        self.note(went);
    }

    /// Does what is due until `now_ns`.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        while let Some(next_ns) = self.next_ns().filter(|&next_ns| next_ns <= now_ns) {
            let stepped = self.step(next_ns);
            self.note(stepped);
        }
    }

    /// What has come, until `None`.
    pub(crate) fn poll(&mut self) -> Option<Delivery> {
        self.served.pop_front()
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        if self.served.is_empty() { self.next_ns() } else { Some(self.now_ns) }
    }

    fn note(&mut self, result: Result<(), Violation>) {
        self.served.extend(result.err().map(Delivery::Broken));
    }
}

impl World<'_> {
    /// Reader `number` has all that its request is for.
    pub(super) fn serve(&mut self, number: usize) {
        let reader = &mut self.readers[number];
        reader.idle = true;
        if let Some((request, bytes)) = reader.serves.take() {
            self.served.push_back(Delivery::Bytes(request, bytes));
            self.resting.push(number);
        }
    }
}
