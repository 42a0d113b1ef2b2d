//! The thread that writes: it owns the active segment.
//!
//! ```text
//!   offer ── kept already ──> told
//!     └─ its absent pages ──> records ──> active segment ── press ──> in the index, told
//!                                          │ full
//!                                          v
//!          lock the folder: room? ── no ──> policy: one leaves, its hot blocks are carried over
//!                             └─ take a number, create the next
//! ```
//!
//! *Invariants:* the bytes of all segment files stay within the limit. An error of the file system
//! pauses writing for ten seconds and reaches no caller.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreread_local::Frames;
use foreread_policy::TierBlock;

use crate::active::{Active, BUFFER_BYTES};
use crate::folder::{Lock, try_lock};
use crate::press::{Press, Printed};
use crate::queue::{Offer, Queue, Told};
use crate::record::{BLOCK_PAGES, PAGE, Record};
use crate::segment;
use crate::shared::{Known, Shared, count};
use crate::watcher;

pub(crate) struct Writer {
    shared: Arc<Shared>,
    active: Option<Active>,
    /// For each record of the active segment that is not in its file, whether it is carried over.
    carried: Vec<bool>,
    /// Offers whose records are not in the file: what to call then, and with which pages. Those
    /// whose records are at the press.
    told: Vec<(Told, Range<u64>)>,
    told_next: Vec<(Told, Range<u64>)>,
    /// Started with the first write.
    press: Option<Press>,
    is_printing: bool,
    /// The buffer that is not filled, unless it is at the press.
    spare: Option<Frames>,
    has_warned: bool,
}

/// A record that is written again, with its content.
type Carried = (Record, Vec<u8>);

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            active: None,
            carried: Vec::new(),
            told: Vec::new(),
            told_next: Vec::new(),
            press: None,
            is_printing: false,
            spare: None,
            has_warned: false,
        }
    }

    /// Writes what is offered until the queue ends, and then seals the segment.
    pub(crate) fn run(mut self) {
        loop {
            let next = self.shared.queue.next().or_else(|| {
                // What waits in memory is written before this thread waits for more.
                self.survive(|writer| writer.write().and_then(|()| writer.settle()));
                self.shared.queue.take()
            });
            let Some((offer, bytes)) = next else { break };
            let shared = Arc::clone(&self.shared);
            let mut finishing = Finishing { queue: &shared.queue, offers: 1 };
            self.survive(|writer| writer.take(offer, &mut finishing.offers));
            drop(finishing);
            shared.queue.release(bytes);
        }
        self.survive(Self::seal);
    }

    /// Runs `f`. If the file system fails, or what a caller gave panics, writing pauses.
    fn survive(&mut self, f: impl FnOnce(&mut Self) -> io::Result<()>) {
        // `told` may panic, and so may the bytes of a caller.
        let ran = catch_unwind(AssertUnwindSafe(|| f(self)));
        let error = match ran {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => io::Error::other("an offer panicked"),
        };
        let lost = self.abandon();
        self.failed(&error);
        // What waits for these offers finds the failure counted.
        self.shared.queue.finish(lost);
    }

    /// Leaves the active segment as it is. What gathered for it is not told of; what is in the
    /// file, if it has a name, is found by the next look at the folder. Returns how many offers
    /// that is the end of.
    fn abandon(&mut self) -> u64 {
        if self.is_printing {
            // Whether it succeeds or not.
            _ = self.printed();
        }
        if let Some(active) = self.active.take() {
            self.shared.forget(&BTreeSet::from([active.number]), true);
        }
        self.carried.clear();
        self.told.drain(..).chain(self.told_next.drain(..)).count() as u64
    }

    /// Takes an offer. `finished` is 0 from then on if a later write is its end.
    fn take(&mut self, offer: Offer, finished: &mut u64) -> io::Result<()> {
        let Offer { object, first_page, bytes, told } = offer;
        let content = (*bytes).as_ref();
        let appended = if self.shared.queue.is_paused() {
            Err(None)
        } else {
            self.absent(object, first_page, content.len()).iter().try_for_each(|record| {
                let from = (record.first_page - first_page) as usize * PAGE;
                self.append(*record, &content[from..from + record.bytes as usize], false).map_err(Some)
            })
        };
        match appended {
            Ok(()) => {
                // Told of with the next write, which has all of its records.
                *finished = 0;
                self.told.push((told, first_page..first_page + content.len().div_ceil(PAGE) as u64));
                Ok(())
            }
            Err(error) => {
                count(&self.shared.counters.dropped_bytes, content.len() as u64);
                error.map_or(Ok(()), Err)
            }
        }
    }

    /// The records to write for an offer: what is not kept and does not wait to be written, block
    /// by block.
    fn absent(&self, object: crate::ObjectId, first_page: u64, len: usize) -> Vec<Record> {
        let mut state = self.shared.state.lock();
        let mut records: Vec<Record> = Vec::new();
        for at in 0..len.div_ceil(PAGE) {
            let (page, bytes) = (first_page + at as u64, PAGE.min(len - at * PAGE));
            let is_gathered = || self.active.as_ref().is_some_and(|active| active.has(object, page, bytes));
            if state.index.find(object, page, bytes).is_some() || is_gathered() {
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
        if self.active.as_ref().is_some_and(|active| self.is_gone(active)) {
            let lost = self.abandon();
            self.shared.queue.finish(lost);
        }
        let segment_bytes = self.shared.segment_bytes;
        if !self.active.as_ref().is_some_and(|active| active.has_room(&record, segment_bytes)) {
            self.seal()?;
            self.begin()?;
        }
        if self.active.as_ref().is_some_and(|active| active.is_full(&record)) {
            self.write()?;
        }
        let Some(active) = self.active.as_mut() else { return Err(ErrorKind::StorageFull.into()) };
        active.put(record, content);
        self.carried.push(is_carried);
        Ok(())
    }

    /// Has what has gathered written, once what is at the press is.
    fn write(&mut self) -> io::Result<()> {
        self.settle()?;
        self.make_index_room()?;
        self.told_next = std::mem::take(&mut self.told);
        let Some(active) = self.active.as_mut().filter(|active| active.unwritten() > 0) else {
            self.tell_written();
            return Ok(());
        };
        let press = match &self.press {
            Some(press) => press,
            None => self.press.insert(Press::start(Arc::clone(&self.shared.reading))?),
        };
        let spare = self.spare.take().unwrap_or_else(|| Frames::new(BUFFER_BYTES));
        press.print(active.sheet(spare))?;
        self.is_printing = true;
        Ok(())
    }

    /// Waits for the press.
    fn printed(&mut self) -> io::Result<bool> {
        self.is_printing = false;
        let Some(press) = &self.press else { return Ok(true) };
        let Printed { buffer, was_direct, result } = press.wait()?;
        self.spare = Some(buffer);
        result.map(|()| was_direct)
    }

    /// Waits for what is at the press, and tells of it.
    fn settle(&mut self) -> io::Result<()> {
        if !self.is_printing {
            return Ok(());
        }
        let was_direct = self.printed()?;
        let mut came = Vec::new();
        if let Some(active) = self.active.as_mut() {
            let (number, is_replacement) = (active.number, active.is_replacement);
            let (records, longer) = active.printed(was_direct);
            let counters = &self.shared.counters;
            count(&counters.written_bytes, longer);
            let mut state = self.shared.state.lock();
            if !is_replacement {
                state.room = state.room.saturating_sub(longer);
            }
            // If it was cleared meanwhile, nothing is lost but these bytes.
            let is_known = state.segments.contains_key(&number);
            for (record, is_carried) in records.iter().zip(self.carried.drain(..records.len())) {
                let bytes = if is_carried { &counters.carried_bytes } else { &counters.admitted_bytes };
                count(bytes, u64::from(record.bytes));
                if is_known {
                    state.index.insert(number, record);
                    state.policy.written(number, record.block(), record.bits(), is_carried);
                    came.extend(is_carried.then(|| record.piece()));
                }
            }
        }
        self.has_warned = false;
        self.shared.tell(&came, true);
        self.tell_written();
        Ok(())
    }

    /// Tells of offers whose records are in the file.
    fn tell_written(&mut self) {
        let told = std::mem::take(&mut self.told_next);
        let finishing = Finishing { queue: &self.shared.queue, offers: told.len() as u64 };
        for (told, pages) in told {
            told(pages);
        }
        drop(finishing);
    }

    /// Makes room in the index for what has gathered: segments that were not read for long are
    /// known by their objects alone, and the oldest leave if that does not do.
    fn make_index_room(&self) -> io::Result<()> {
        let shared = &self.shared;
        let more = self.active.as_ref().map_or(0, Active::index_bytes);
        loop {
            let oldest = {
                let state = shared.state.lock();
                if state.has_room(more, &shared.options) {
                    return Ok(());
                }
                state.segments.iter().find(|(_, known)| known.is_sealed).map(|(&number, _)| number)
            };
            if watcher::cool_one(shared, &[])? {
                continue;
            }
            // The active segment alone is more than there is room for.
            let Some(oldest) = oldest else { return Ok(()) };
            let lock = shared.folder.lock()?;
            self.evict(&lock, oldest)?;
        }
    }

    /// Whether the cache was cleared, or its folder removed, under a segment.
    fn is_gone(&self, active: &Active) -> bool {
        active.has_no_name() || !self.shared.state.lock().segments.contains_key(&active.number)
    }

    /// Writes what has gathered, and seals the active segment.
    fn seal(&mut self) -> io::Result<()> {
        self.write()?;
        self.settle()?;
        let Some(active) = self.active.take() else { return Ok(()) };
        {
            let mut state = self.shared.state.lock();
            let Some(known) = state.segments.get_mut(&active.number) else { return Ok(()) };
            known.is_sealed = true;
            state.policy.sealed_segment(active.number);
        }
        count(&self.shared.counters.written_bytes, active.seal()?);
        Ok(())
    }

    /// Creates the next segment.
    fn begin(&mut self) -> io::Result<()> {
        let lock = self.shared.folder.lock()?;
        let (carried, is_replacement, last) = self.make_room(&lock)?;
        let number = lock.next_number(last)?;
        let path = self.shared.folder.segment(number);
        let guard = self.shared.folder.new_guard()?;
        let mut active = Active::create(&path, number, self.shared.segment_bytes, guard)?;
        active.is_replacement = is_replacement;
        self.shared.state.lock().segments.insert(number, Known { is_sealed: false, read: 0 });
        drop(lock);
        self.active = Some(active);
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
            let Some(victim) = self.victim(&numbers) else { return Err(self.no_room()) };
            carried.extend(self.evict(lock, victim)?);
            is_replacement = true;
        }
    }

    /// Why not even one segment can be begun.
    fn no_room(&self) -> io::Error {
        let (options, segment) = (&self.shared.options, self.shared.segment_bytes);
        let free = self.shared.folder.free_bytes().unwrap_or_default();
        let text = format!(
            "a file of {segment} bytes has no room: {} bytes are the limit, {free} are free, and {} are to stay free",
            options.bytes, options.min_free_bytes
        );
        io::Error::new(ErrorKind::StorageFull, text)
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
        let is_cold = state.cold.has(number);
        state.cold.remove(number, records.as_deref());
        for record in records.unwrap_or_default() {
            let hits = match state.index.remove(number, &record) {
                Some(entry) => entry.hits(),
                None if is_cold => 0,
                None => continue,
            };
            blocks.push(TierBlock { block: record.block(), pages: record.bits(), hits });
            left.push(record);
        }
        let chosen = state.policy.leave(number, &blocks);
        state.policy.gone(number);
        drop(state);
        shared.tell(&left.iter().map(Record::piece).collect::<Vec<_>>(), false);
        for at in chosen {
            let content = file.as_ref().and_then(|file| self.content(file, number, &left[at]));
            carried.extend(content.map(|content| (left[at], content)));
        }
        let evicted = shared.folder.remove(number)?;
        count(&shared.counters.evicted_bytes, evicted);
        shared.forget(&BTreeSet::from([number]), is_unknown);
        Ok(carried)
    }

    /// The content of a record, if all of it is right.
    fn content(&self, file: &File, number: u64, record: &Record) -> Option<Vec<u8>> {
        let guard = self.shared.folder.guard_of(file, number).ok()?;
        let mut content = Vec::with_capacity(record.bytes as usize);
        segment::pages(file, &guard, record, |page| content.extend(page.unwrap_or_default())).ok()?;
        (content.len() == record.bytes as usize).then_some(content)
    }

    /// Pauses after an error.
    fn failed(&mut self, error: &io::Error) {
        count(&self.shared.counters.write_errors, 1);
        self.shared.queue.pause(Instant::now() + PAUSE);
        if !self.has_warned {
            self.has_warned = true;
            let folder = self.shared.folder.path().display();
            tracing::warn!(%error, %folder, "the cache cannot be written; reads go on, writing is tried again (--cache-size, --cache-min-free)");
        }
    }
}

/// Offers that are finished when this is dropped, however the thread leaves.
struct Finishing<'q> {
    queue: &'q Queue,
    offers: u64,
}

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.queue.finish(self.offers);
    }
}

/// How long writing pauses after an error. Lower: a full disk is asked again and again. Higher:
/// room is noticed later. Source: a guess; ten seconds of reads are read again.
const PAUSE: Duration = Duration::from_secs(10);
