//! A world as the storage of another: the requests of a kernel to a mount.
//!
//! ```text
//!   programs ── read ──> World { kernel's readahead, page cache }
//!                          └── Storage::Mount ──> World { read path } ── device
//!                                                 a reader stands for each request
//! ```

use foreread_policy::RequestId;
use foreread_workload::Op;

use super::World;
use super::reader::{Reader, Start};
use crate::outcome::tally::Tally;
use crate::outcome::violation::Violation;
use crate::storage::delivery::Delivery;
use crate::storage::mount::Mount;

impl Mount for World<'static> {
    /// The kernel asks for `bytes` at `offset` of the file at place `file`.
    fn request(&mut self, now_ns: u64, request: RequestId, file: usize, offset: u64, bytes: u64) {
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
    fn advance(&mut self, now_ns: u64) {
        while let Some(next_ns) = self.next_ns().filter(|&next_ns| next_ns <= now_ns) {
            let stepped = self.step(next_ns);
            self.note(stepped);
        }
    }

    /// What has come, until `None`.
    fn poll(&mut self) -> Option<Delivery> {
        self.served.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        if self.served.is_empty() { self.next_ns() } else { Some(self.now_ns) }
    }

    fn close(&mut self) -> Result<(), Violation> {
        if self.faults.is_some() { self.close_all() } else { Ok(()) }
    }

    fn told(self: Box<Self>) -> Tally {
        Self::told(*self)
    }
}

impl World<'_> {
    fn note(&mut self, result: Result<(), Violation>) {
        self.served.extend(result.err().map(Delivery::Broken));
    }

    /// The reader has all bytes of its request.
    pub(super) fn serve(&mut self, number: usize) {
        let reader = &mut self.readers[number];
        reader.idle = true;
        if let Some((request, bytes)) = reader.serves.take() {
            self.served.push_back(Delivery::Bytes(request, bytes));
            self.resting.push(number);
        }
    }
}
