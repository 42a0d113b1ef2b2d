//! Faults and orders: requests that fail, break off or are never answered, objects that are
//! replaced, files that are closed, and what a driver tells policy besides.
//!
//! ```text
//!  attempt --> fails, breaks off, is lost --> no reader waits: dropped                 (Failed)
//!                                         --> a reader waits: retried from there on
//!                                              --> too often: readers get an error     (Failed)
//! ```
//!
//! The engine treats a request in the same way; policy hears of the outcome only. `fate.rs` draws
//! the faults, `orders.rs` the orders.

use std::cmp::Reverse;

use foreread_policy::{Event, Extent, FileId, PAGE_BYTES, RequestId, Source};
use foreread_workload::Op;

use super::World;
use super::fate::Fate;
use super::reader::Reader;
use crate::outcome::violation::Violation;
use crate::policy::Reading;

impl World<'_> {
    /// Makes an attempt at the rest of a request, unless it is drawn to fail or to be lost.
    pub(super) fn attempt(&mut self, request: RequestId) {
        let now_ns = self.now_ns;
        self.ask_tier(request);
        let Some(this) = self.requests.get_mut(&request) else { return };
        let rest = this.bytes - this.taken;
        let of_storage = this.source == Source::Storage;
        let faults = self.faults.as_mut().filter(|_| of_storage);
        let fate = faults.map_or(Fate::Answered, |faults| faults.of_attempt(rest));
        this.came = this.taken;
        this.breaks_at = None;
        match fate {
            Fate::Failed(after_ns) => return self.trouble.push(Reverse((now_ns + after_ns, request))),
            Fate::Lost => return self.trouble.push(Reverse((now_ns + PATIENCE_NS, request))),
            Fate::Broken(after) => this.breaks_at = Some(this.taken + after),
            Fate::Answered => {}
        }
        let (file, descriptor, source) = (this.file, this.descriptor, this.source);
        let (attempt, offset) = (this.ask(), this.extent.start * PAGE_BYTES + this.taken);
        let index = self.index(file);
        self.device(source).read(now_ns, attempt, descriptor, index, offset, rest);
    }

    /// Ends attempts that failed.
    pub(super) fn in_trouble(&mut self) -> Result<(), Violation> {
        while let Some(&Reverse((at_ns, request))) = self.trouble.peek() {
            if at_ns > self.now_ns {
                break;
            }
            self.trouble.pop();
            self.broke(request)?;
        }
        Ok(())
    }

    pub(super) fn broke(&mut self, request: RequestId) -> Result<(), Violation> {
        let Some(this) = self.requests.get_mut(&request) else { return Ok(()) };
        this.broken += 1;
        let (file, extent, source) = (this.file, this.extent, this.source);
        let asked = std::mem::take(&mut this.asked);
        self.give_up(source, asked);
        let Some(this) = self.requests.get_mut(&request) else { return Ok(()) };
        let goes_on = this.is_demanded() && this.broken < ATTEMPTS_MAX;
        self.begin_patience(file, extent);
        if goes_on {
            self.attempt(request);
            return Ok(());
        }
        self.settle(request)
    }

    /// Reads of `extent` have waited for an attempt that failed, or for a slow one, and not for
    /// memory: they starve only if they wait for long from now on.
    pub(super) fn begin_patience(&mut self, file: FileId, extent: Extent) {
        let until = self.arrived.saturating_add(self.patience_pages());
        for &number in self.reads.values() {
            let reader = &mut self.readers[number];
            let of_it = |op: Op| {
                let pages = Extent::of_bytes(op.offset, u64::from(op.len));
                self.ids[op.file as usize] == file.0 && pages.overlaps(extent)
            };
            if reader.op.is_some_and(of_it) {
                reader.until_arrived = until;
            }
        }
    }

    /// The current read ends with an error.
    pub(super) fn abort(&mut self, number: usize) {
        let now_ns = self.now_ns;
        let reader = &mut self.readers[number];
        reader.epoch += 1;
        reader.missing = 0;
        reader.op = None;
        if let Some((read, ready)) = reader.waits.take() {
            self.lacking -= usize::from(ready.is_none());
            self.reads.remove(&read);
            self.answered.push(Event::Answered { read });
        }
        self.enter(now_ns, number);
    }

    /// Draws whether the file is replaced or closed before a read.
    pub(super) fn before_read(&mut self, number: usize, index: usize) -> Result<(), Violation> {
        let Some(faults) = self.faults.as_mut() else { return Ok(()) };
        let replaced = faults.random.chance(faults.rates.replaced);
        let released = faults.random.chance(faults.rates.released);
        if !self.opened[index] || !(replaced || released) {
            return Ok(());
        }
        let others = |at: usize, reader: &Reader<'_>| {
            at != number && reader.began_ns > 0 && reader.op.is_some_and(|op| op.file as usize == index)
        };
        let others: Vec<usize> =
            (0..).zip(&self.readers).filter(|&(at, reader)| others(at, reader)).map(|(at, _)| at).collect();
        let file = self.id(index);
        if replaced {
            for other in others {
                self.abort(other);
            }
            self.forget(file)?;
            self.ids[index] += self.sizes.len() as u64;
            self.opened[index] = false;
        } else if others.is_empty() {
            self.tell(Reading::default(), Event::Release { file })?;
            self.closed[index] = true;
        }
        Ok(())
    }

    /// Draws whether an order comes before a read of the file at place `index`.
    pub(super) fn give_order(&mut self, index: usize) -> Result<(), Violation> {
        let file = self.id(index);
        let Some(order) = self.orders.as_mut().and_then(|orders| orders.draw(file)) else { return Ok(()) };
        match order {
            Event::Capacity { bytes } => (self.budget, self.beyond) = (bytes / PAGE_BYTES, u64::MAX),
            Event::Prefetch { .. } | Event::Discard { .. } if !self.opened[index] || self.closed[index] => {
                return Ok(());
            }
            _ => {}
        }
        self.tell(Reading::default(), order)
    }

    /// Closes and forgets every file: nothing may be fetched or resident afterwards.
    pub(super) fn close_all(&mut self) -> Result<(), Violation> {
        for index in (0..self.ids.len()).filter(|&index| self.opened[index]).collect::<Vec<_>>() {
            self.tell(Reading::default(), Event::Release { file: self.id(index) })?;
            self.forget(self.id(index))?;
        }
        Ok(())
    }

    fn forget(&mut self, file: FileId) -> Result<(), Violation> {
        self.tell(Reading::default(), Event::Forget { file })?;
        if self.known.get(&file).is_some_and(|&pages| pages > 0) {
            return Err(Violation::LeftBehind { file: file.0, at_ns: self.now_ns });
        }
        if self.requests.values().any(|this| this.file == file) {
            return Err(Violation::StillFetched { file: file.0, at_ns: self.now_ns });
        }
        Ok(())
    }

    /// The index of a file.
    pub(super) fn index(&self, file: FileId) -> usize {
        (file.0 % self.sizes.len() as u64) as usize
    }

    /// The current number of a file: each version has its own.
    pub(super) fn id(&self, index: usize) -> FileId {
        FileId(self.ids[index])
    }
}

/// How long an attempt waits for an answer, in ns. Origin: chosen here.
const PATIENCE_NS: u64 = 5_000_000_000;

/// Most attempts of a demand request. Origin: chosen here.
const ATTEMPTS_MAX: u64 = 4;
