//! The thread that writes: it owns the active segment.
//!
//! ```text
//!   offer ── kept already ──> told
//!     └─ its absent pages ──> records ──> active segment ── in the index ──> told
//!                                          │ full
//!                                          v
//!          lock the folder: room? ── no ──> policy: one leaves, its hot blocks are carried over
//!                             └─ take a number, create the next
//! ```
//!
//! *Invariants:* the bytes of all segment files stay within the limit. An error of the file system
//! pauses writing for ten seconds and reaches no caller.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreread_policy::TierBlock;

use crate::folder::{Lock, try_lock};
use crate::format::{self, BLOCK_PAGES, FOOTER, HEADER, INDEX_RECORD, PAGE, RECORD_HEADER, Record};
use crate::queue::Offer;
use crate::segment;
use crate::shared::{Known, Shared, count};

pub(crate) struct Writer {
    shared: Arc<Shared>,
    active: Option<Active>,
    has_warned: bool,
}

/// The segment that is written to.
struct Active {
    number: u64,
    /// Locked as long as it is open.
    file: File,
    /// Where the next record goes.
    end: u64,
    records: Vec<Record>,
    /// It took the place of another: what is written to it is not room that was free.
    is_replacement: bool,
}

/// A record that is written again, with its content.
type Carried = (Record, Vec<u8>);

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, active: None, has_warned: false }
    }

    /// Writes what is offered until the queue ends, and then seals the segment.
    pub(crate) fn run(mut self) {
        while let Some((offer, bytes)) = self.shared.queue.take() {
            // `told` may panic, and so may the bytes of a caller.
            if catch_unwind(AssertUnwindSafe(|| self.take(offer))).is_err() {
                tracing::error!("an offer to the cache panicked");
            }
            self.shared.queue.finish(bytes);
        }
        if let Err(error) = self.seal() {
            tracing::debug!(%error, "the last segment of the cache is not sealed");
        }
    }

    fn take(&mut self, offer: Offer) {
        let Offer { object, first_page, bytes, told } = offer;
        let content = (*bytes).as_ref();
        if self.shared.queue.is_paused() {
            return count(&self.shared.counters.dropped_bytes, content.len() as u64);
        }
        let absent = self.absent(object, first_page, content.len());
        let written = absent.iter().try_for_each(|record| {
            let from = (record.first_page - first_page) as usize * PAGE;
            self.append(*record, &content[from..from + record.bytes as usize], false)
        });
        match written {
            Ok(()) => {
                self.has_warned = false;
                told(first_page..first_page + content.len().div_ceil(PAGE) as u64);
            }
            Err(error) => {
                count(&self.shared.counters.dropped_bytes, content.len() as u64);
                self.failed(&error);
            }
        }
    }

    /// The records to write for an offer: what is not kept, block by block.
    fn absent(&self, object: crate::ObjectId, first_page: u64, len: usize) -> Vec<Record> {
        let mut state = self.shared.state.lock();
        let mut records: Vec<Record> = Vec::new();
        for at in 0..len.div_ceil(PAGE) {
            let (page, bytes) = (first_page + at as u64, PAGE.min(len - at * PAGE));
            if state.index.find(object, page, bytes).is_some() {
                continue;
            }
            match records.last_mut() {
                Some(last) if last.first_page + last.pages() == page && page % BLOCK_PAGES != 0 => {
                    last.bytes += bytes as u32;
                }
                _ => records.push(Record { object, first_page: page, bytes: bytes as u32, offset: 0 }),
            }
        }
        records
    }

    /// Appends a record to the active segment, or to a new one.
    fn append(&mut self, record: Record, content: &[u8], is_carried: bool) -> io::Result<()> {
        if let Some(number) = self.active.as_ref().filter(|active| self.is_gone(active)).map(|active| active.number) {
            self.shared.forget(&BTreeSet::from([number]), true);
            self.active = None;
        }
        let fits = |active: &Active| {
            let index = (active.records.len() + 1) * INDEX_RECORD + FOOTER;
            active.end + record.file_bytes() + index as u64 <= self.shared.segment_bytes
        };
        if !self.active.as_ref().is_some_and(fits) {
            self.seal()?;
            self.begin()?;
        }
        let Some(active) = self.active.as_mut() else { return Err(ErrorKind::StorageFull.into()) };
        let record = Record { offset: active.end as u32, ..record };
        let mut bytes = Vec::with_capacity(record.file_bytes() as usize);
        format::append_record(&mut bytes, active.number, &record, content);
        active.file.write_all_at(&bytes, active.end)?;
        active.end += bytes.len() as u64;
        active.records.push(record);
        let (number, counters) = (active.number, &self.shared.counters);
        count(&counters.written_bytes, bytes.len() as u64);
        count(if is_carried { &counters.carried_bytes } else { &counters.admitted_bytes }, u64::from(record.bytes));
        let mut state = self.shared.state.lock();
        if !active.is_replacement {
            state.room = state.room.saturating_sub(bytes.len() as u64);
        }
        // If it was cleared meanwhile, nothing is lost but these bytes.
        if state.segments.contains_key(&number) {
            state.index.insert(number, &record);
            state.policy.written(number, record.block(), record.bits(), is_carried);
        }
        let is_large = state.index_bytes() > self.shared.options.index_bytes_max;
        let oldest = state.segments.iter().find(|(_, known)| known.is_sealed).map(|(&number, _)| number);
        drop(state);
        if let Some(oldest) = oldest.filter(|_| is_large) {
            let lock = self.shared.folder.lock()?;
            self.evict(&lock, oldest)?;
        }
        Ok(())
    }

    /// Whether the cache was cleared, or its folder removed, under a segment.
    fn is_gone(&self, active: &Active) -> bool {
        let has_name = rustix::fs::fstat(&active.file).is_ok_and(|stat| stat.st_nlink > 0);
        !has_name || !self.shared.state.lock().segments.contains_key(&active.number)
    }

    /// Seals the active segment.
    fn seal(&mut self) -> io::Result<()> {
        let Some(active) = self.active.take() else { return Ok(()) };
        {
            let mut state = self.shared.state.lock();
            let Some(known) = state.segments.get_mut(&active.number) else { return Ok(()) };
            known.is_sealed = true;
            state.policy.sealed_segment(active.number);
        }
        let bytes = segment::seal(&active.file, active.number, &active.records)?;
        count(&self.shared.counters.written_bytes, bytes);
        // What was written back already leaves the kernel's page cache; the rest is begun.
        _ = rustix::fs::fadvise(&active.file, 0, None, rustix::fs::Advice::DontNeed);
        Ok(())
    }

    /// Creates the next segment.
    fn begin(&mut self) -> io::Result<()> {
        let lock = self.shared.folder.lock()?;
        let (carried, is_replacement, last) = self.make_room(&lock)?;
        let number = lock.next_number(last)?;
        let path = self.shared.folder.segment(number);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        if !try_lock(&file) {
            return Err(ErrorKind::ResourceBusy.into());
        }
        file.write_all_at(&format::header(number, self.shared.segment_bytes), 0)?;
        count(&self.shared.counters.written_bytes, HEADER);
        self.shared.state.lock().segments.insert(number, Known { is_sealed: false });
        drop(lock);
        self.active = Some(Active { number, file, end: HEADER, records: Vec::new(), is_replacement });
        carried.into_iter().try_for_each(|(record, content)| self.append(record, &content, true))
    }

    /// Makes room for a segment. Returns what is carried over, whether one had to leave, and the
    /// highest number.
    fn make_room(&self, lock: &Lock) -> io::Result<(Vec<Carried>, bool, u64)> {
        let shared = &self.shared;
        let (mut carried, mut last, mut is_replacement) = (Vec::new(), 0, false);
        loop {
            let (used, numbers) = shared.used_bytes()?;
            last = numbers.last().copied().unwrap_or(0).max(last);
            let lacks_bytes = used + shared.segment_bytes > shared.options.bytes;
            let free = shared.folder.free_bytes()?.saturating_sub(shared.options.min_free_bytes);
            // One that leaves is room for one, whatever else fills the disk.
            let lacks_free = free < shared.segment_bytes && !is_replacement;
            if !lacks_bytes && !lacks_free {
                let more = shared.options.bytes.saturating_sub(used).min(free);
                // With the segment that is about to begin.
                let room = if is_replacement { 0 } else { shared.whole_segments(more) };
                shared.state.lock().room = room;
                return Ok((carried, is_replacement, last));
            }
            let Some(victim) = self.victim(&numbers) else { return Err(ErrorKind::StorageFull.into()) };
            carried.extend(self.evict(lock, victim)?);
            is_replacement = true;
        }
    }

    fn victim(&self, numbers: &[u64]) -> Option<u64> {
        let state = self.shared.state.lock();
        let skipped = state.skipped.first().copied();
        let unknown: Vec<u64> = numbers.iter().copied().filter(|number| !state.segments.contains_key(number)).collect();
        let chosen = skipped.or_else(|| state.policy.victim());
        drop(state);
        // One that is not loaded yet, and that no process writes to.
        let is_left = |number: &u64| File::open(self.shared.folder.segment(*number)).is_ok_and(|file| try_lock(&file));
        chosen.or_else(|| unknown.into_iter().find(is_left))
    }

    /// Removes a segment. Returns the records of it that are carried over.
    fn evict(&self, _folder: &Lock, number: u64) -> io::Result<Vec<Carried>> {
        let shared = &self.shared;
        let file = File::open(shared.folder.segment(number)).ok();
        let records = file.as_ref().and_then(|file| segment::sealed(file, number).ok().flatten());
        // Without its index block, the whole index is looked through.
        let is_unknown = records.is_none();
        let mut carried = Vec::new();
        let mut state = shared.state.lock();
        let (mut left, mut blocks) = (Vec::new(), Vec::new());
        for record in records.unwrap_or_default() {
            let Some(entry) = state.index.remove(number, &record) else { continue };
            blocks.push(TierBlock { block: record.block(), pages: record.bits(), hits: u32::from(entry.hits) });
            left.push(record);
        }
        let chosen = state.policy.leave(number, &blocks);
        state.policy.gone(number);
        drop(state);
        for at in chosen {
            carried.extend(file.as_ref().and_then(|file| read(file, &left[at])).map(|content| (left[at], content)));
        }
        let evicted = shared.folder.remove(number)?;
        count(&shared.counters.evicted_bytes, evicted);
        shared.forget(&BTreeSet::from([number]), is_unknown);
        Ok(carried)
    }

    /// Pauses after an error.
    fn failed(&mut self, error: &io::Error) {
        count(&self.shared.counters.write_errors, 1);
        self.shared.queue.pause(Instant::now() + PAUSE);
        if !self.has_warned {
            self.has_warned = true;
            let folder = self.shared.folder.path().display();
            tracing::warn!(%error, %folder, "the cache cannot be written; reads go on, writing is tried again");
        }
    }
}

/// The content of a record, if all of it is right.
pub(crate) fn read(file: &File, record: &Record) -> Option<Vec<u8>> {
    let mut bytes = vec![0; record.file_bytes() as usize];
    file.read_exact_at(&mut bytes, u64::from(record.offset)).ok()?;
    let mut content = Vec::with_capacity(record.bytes as usize);
    for (page, bytes) in (record.first_page..).zip(bytes[RECORD_HEADER..].chunks(format::CHECK + PAGE)) {
        let (check, bytes) = bytes.split_at(format::CHECK);
        if format::page_check(record.object, page, bytes) != format::u64_at(check, 0) {
            return None;
        }
        content.extend(bytes);
    }
    Some(content)
}

/// How long writing pauses after an error. Lower: a full disk is asked again and again. Higher:
/// room is noticed later. Source: a guess; ten seconds of reads are read again.
const PAUSE: Duration = Duration::from_secs(10);
