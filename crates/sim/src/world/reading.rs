//! How readers read: each looks at the pages of its read, tells policy what it found, and waits
//! for the missing ones.

use foreread_policy::{Event, Extent, FileId, Found, Nanos, PAGE_BYTES, ReadId, Touch};

use super::World;
use super::page::{AGAIN, FINISHED, KNOWN, MARKED, Page, THERE, TOUCHED};
use super::reader::Reader;
use crate::outcome::course::Course;
use crate::outcome::violation::Violation;
use crate::policy::{Grain, Reading};

impl World<'_> {
    /// The reader goes on until it must wait.
    pub(super) fn go_on(&mut self, number: usize) -> Result<(), Violation> {
        let reader = &mut self.readers[number];
        // A reader may be entered twice after a failed read.
        if reader.idle || reader.missing > 0 || reader.waits.is_some() {
            return Ok(());
        }
        if reader.op.is_none() && reader.serves.is_some() {
            self.serve(number);
            return Ok(());
        }
        if reader.op.is_none() {
            let alone = reader.beside && self.reading == self.beside;
            let until_ns = if alone { 0 } else { self.until_ns };
            let queued = reader.queued.pop_front();
            self.queued -= usize::from(queued.is_some());
            let next = queued.or_else(|| reader.operations.next());
            reader.op = next.filter(|op| self.now_ns.max(op.not_before_ns + reader.delay_ns) < until_ns);
            let Some(op) = reader.op else {
                reader.idle = true;
                self.reading -= 1;
                self.beside -= usize::from(reader.beside);
                if reader.own_descriptors.is_some() {
                    self.storage.close(self.now_ns, reader.by.descriptor);
                }
                return if self.together.as_mut().is_some_and(|all| all.rests(number)) {
                    self.end(number)
                } else {
                    Ok(())
                };
            };
            let due_ns = op.not_before_ns + reader.delay_ns;
            reader.began_ns = 0;
            let pause = self.tally.course.as_ref().and_then(Course::pause_ns);
            let due_ns = match pause {
                Some((from_ns, until_ns)) if (from_ns..until_ns).contains(&self.now_ns.max(due_ns)) => until_ns,
                _ => due_ns,
            };
            if due_ns > self.now_ns {
                self.enter(due_ns, number);
                return Ok(());
            }
        }
        if self.readers[number].began_ns == 0 {
            self.begin(number)?;
        }
        while self.look(number)? {
            let reader = &mut self.readers[number];
            if reader.at < reader.end {
                self.next_piece(number);
                continue;
            }
            self.complete(number);
            return Ok(());
        }
        Ok(())
    }

    /// The reader has ended, and its descriptors are closed.
    fn end(&mut self, number: usize) -> Result<(), Violation> {
        let Some(file) = self.readers[number].file.take() else { return Ok(()) };
        if self.readers.iter().any(|other| other.file == Some(file)) {
            return Ok(());
        }
        let index = file as usize;
        self.closed[index] = true;
        // A kernel goes on with what it reads ahead; a rule that does so ignores this.
        self.tell(Reading::default(), Event::Release { file: self.id(index) })
    }

    pub(super) fn begin(&mut self, number: usize) -> Result<(), Violation> {
        let now_ns = self.now_ns;
        let reader = &mut self.readers[number];
        let Some(op) = reader.op else { return Ok(()) };
        if reader.file != Some(op.file) {
            if reader.file.is_some() && reader.own_descriptors.is_some() {
                self.storage.close(now_ns, reader.by.descriptor);
            }
            reader.by.descriptor = match reader.own_descriptors.as_mut() {
                Some(next) => std::mem::replace(next, *next + 1),
                None => op.file,
            };
            reader.file = Some(op.file);
        }
        let extent = Extent::of_bytes(op.offset, u64::from(op.len));
        (reader.at, reader.end) = (extent.start, extent.end);
        // 0 means that it has not begun.
        reader.began_ns = now_ns.max(1);
        self.next_piece(number);
        let index = op.file as usize;
        self.before_read(number, index)?;
        self.give_order(index)?;
        let file = self.id(index);
        let closed = std::mem::take(&mut self.closed[index]);
        if !std::mem::replace(&mut self.opened[index], true) || closed {
            let pages = self.sizes[index].div_ceil(PAGE_BYTES);
            self.tell(Reading::default(), Event::Open { file, pages })?;
            self.tell_cached(file, index)?;
            self.tell_chunks(file)?;
        }
        if let Some(picture) = &mut self.tally.picture {
            picture.read(now_ns, file, extent);
        }
        let missed = (extent.start..extent.end).filter(|&page| !self.pages.get(file, page).is(THERE)).count();
        self.tally.asked(extent.pages(), missed as u64);
        Ok(())
    }

    pub(super) fn next_piece(&mut self, number: usize) {
        let reader = &mut self.readers[number];
        let piece_end = self.front.piece_pages.map_or(reader.end, |pages| reader.at + pages);
        reader.piece_end = piece_end.min(reader.end);
        reader.announced = false;
    }

    /// The current read is done.
    pub(super) fn complete(&mut self, number: usize) {
        let reader = &mut self.readers[number];
        let Some(op) = reader.op.take() else { return };
        self.prevs.insert(reader.by.descriptor, reader.end.saturating_sub(1));
        let pages = Extent::of_bytes(op.offset, u64::from(op.len)).pages();
        let pieces = self.front.piece_pages.map_or(1, |piece| pages.div_ceil(piece));
        let done_ns = self.now_ns + pieces * self.front.piece_ns + pages * self.front.page_ns;
        let due_ns = op.not_before_ns + reader.delay_ns;
        reader.delay_ns += reader.pattern.delay_ns(done_ns.saturating_sub(due_ns));
        let (began_ns, reader_is_program) = (reader.began_ns, reader.serves.is_none());
        if reader_is_program {
            self.tally.read(number, u64::from(op.len), due_ns, began_ns, done_ns);
        }
        self.enter(done_ns, number);
    }

    /// Looks at the pages of a piece; `false` if the reader must wait for some.
    pub(super) fn look(&mut self, number: usize) -> Result<bool, Violation> {
        let reader = &self.readers[number];
        let (Some(op), extent, by) = (reader.op, Extent::new(reader.at, reader.piece_end), reader.by) else {
            return Ok(false);
        };
        let by = Reading { prev: self.prevs.get(&by.descriptor).copied(), ..by };
        let file = self.id(op.file as usize);
        if self.policy.hears_every_read() && !std::mem::replace(&mut self.readers[number].announced, true) {
            self.tell(by, Event::Read { read: ReadId(0), file, extent, found: Found::Resident, marked: false })?;
        }
        match self.grain {
            Grain::Page => self.look_page_by_page(number, file, extent, by),
            Grain::Folio => self.look_at_once(number, file, extent, by),
        }
    }

    pub(super) fn look_page_by_page(
        &mut self,
        number: usize,
        file: FileId,
        extent: Extent,
        by: Reading,
    ) -> Result<bool, Violation> {
        for page in extent.start..extent.end {
            let rest = Extent::new(page, extent.end);
            let mut entry = self.pages.get(file, page);
            // Readahead from a marked page may evict that very page; then it is missing.
            for _ in 0..LOOKS_MAX {
                if !entry.is(KNOWN) {
                    self.tell(
                        by,
                        Event::Read { read: ReadId(0), file, extent: rest, found: Found::Absent, marked: false },
                    )?;
                } else if entry.is(MARKED) {
                    self.pages.entry(file, page).flags &= !MARKED;
                    self.tell(
                        by,
                        Event::Read { read: ReadId(0), file, extent: rest, found: Found::Resident, marked: true },
                    )?;
                } else {
                    break;
                }
                entry = self.pages.get(file, page);
            }
            if !entry.is(KNOWN) {
                return Err(Violation::NotFetched { file: file.0, page, at_ns: self.now_ns });
            }
            if !entry.is(THERE) {
                self.readers[number].at = page;
                return self.wait(number, entry, page).map(|()| false);
            }
            self.pages.entry(file, page).flags |= TOUCHED;
            self.policy.handle(
                Nanos(self.now_ns),
                by,
                Event::Referenced { file, start: page, request: entry.request(), touch: Touch::Finished },
            );
        }
        self.readers[number].at = extent.end;
        Ok(true)
    }

    pub(super) fn look_at_once(
        &mut self,
        number: usize,
        file: FileId,
        extent: Extent,
        by: Reading,
    ) -> Result<bool, Violation> {
        let (mut absent, mut in_flight, mut marked) = (false, false, false);
        let mut page = extent.start;
        while page < extent.end {
            let entry = self.pages.get(file, page);
            absent |= !entry.is(KNOWN);
            in_flight |= !entry.is(THERE);
            page += if entry.is(KNOWN) { u64::from(entry.pages - entry.back) } else { 1 };
        }
        if !absent {
            let mut page = extent.start;
            while page < extent.end {
                let entry = self.pages.get(file, page);
                let head = self.pages.entry(file, page - u64::from(entry.back));
                marked |= head.is(MARKED);
                head.flags &= !MARKED;
                page += u64::from(entry.pages - entry.back);
            }
        }
        let found = match (absent, in_flight) {
            (true, _) => Found::Absent,
            (_, true) => Found::InFlight,
            _ => Found::Resident,
        };
        if found == Found::Resident {
            // The read has its pages already, whatever policy does at the mark.
            self.reference_all(file, extent);
            self.readers[number].at = extent.end;
        }
        if found != Found::Resident || marked {
            let read = ReadId(self.next_read);
            self.next_read += 1;
            if found != Found::Resident {
                self.reads.insert(read, number);
                self.lacking += 1;
                self.readers[number].waits = Some((read, None));
                self.readers[number].until_arrived = self.arrived.saturating_add(self.patience_pages());
            }
            self.tell(by, Event::Read { read, file, extent, found, marked })?;
        }
        // A reader that has everything by now is in `woken`.
        Ok(found == Found::Resident)
    }

    /// A read has memory for its pages before `end`: its reader waits for those in flight.
    pub(super) fn ready(&mut self, read: ReadId, end: u64) -> Result<(), Violation> {
        let Some(&number) = self.reads.get(&read) else { return Ok(()) };
        self.lacking -= 1;
        if self.arrived > self.readers[number].until_arrived {
            return Err(Violation::Starved { read: read.0, at_ns: self.now_ns });
        }
        let Reader { op: Some(op), at, .. } = self.readers[number] else { return Ok(()) };
        let file = self.id(op.file as usize);
        let mut page = at;
        while page < end {
            let entry = self.pages.get(file, page);
            if !entry.is(KNOWN) {
                return Err(Violation::NotFetched { file: file.0, page, at_ns: self.now_ns });
            }
            let head = page - u64::from(entry.back);
            if !entry.is(THERE) {
                self.wait(number, entry, head)?;
            }
            page = head + u64::from(entry.pages);
        }
        let reader = &mut self.readers[number];
        // When these folios have arrived, the piece is read: no second look.
        (reader.waits, reader.at) = (Some((read, Some(at))), end);
        if reader.missing == 0 {
            self.answer(number);
        }
        Ok(())
    }

    /// The reader has all that its read waits for.
    pub(super) fn answer(&mut self, number: usize) {
        let reader = &mut self.readers[number];
        if let Some((read, Some(from))) = reader.waits.take()
            && let Some(op) = reader.op
        {
            let extent = Extent::new(from, reader.at);
            self.reference_all(self.id(op.file as usize), extent);
            self.reads.remove(&read);
            self.answered.push(Event::Answered { read });
        }
        self.woken.push_back(number);
    }

    /// The reader uses the folios of `extent`, all resident.
    fn reference_all(&mut self, file: FileId, extent: Extent) {
        let mut page = extent.start;
        while page < extent.end {
            let entry = self.pages.get(file, page);
            let (head, pages) = (page - u64::from(entry.back), u64::from(entry.pages).max(1));
            let read = extent.end.min(head + pages) - page;
            self.reference(file, head, read, extent.end >= head + pages);
            page = head + pages;
        }
    }

    /// Notes a reference to `pages` of the folio at `start`, if it changes its state.
    pub(super) fn reference(&mut self, file: FileId, start: u64, pages: u64, finished: bool) {
        let head = self.pages.entry(file, start);
        let (bit, touch) = match (head.is(FINISHED), finished) {
            (true, _) => (AGAIN, Touch::Again { pages }),
            (false, true) => (FINISHED, Touch::Finished),
            (false, false) => (TOUCHED, Touch::First),
        };
        if !head.is(bit) {
            head.flags |= bit;
            let request = head.request();
            self.answered.push(Event::Referenced { file, start, request, touch });
        }
    }

    /// Pages that may arrive for others before a read that begins now has memory: the memory so
    /// many times, and what the reads before it ask for.
    pub(super) fn patience_pages(&self) -> u64 {
        let asked = self.reads.values().filter_map(|&number| self.readers[number].op);
        let asked: u64 = asked.map(|op| Extent::of_bytes(op.offset, u64::from(op.len)).pages()).sum();
        self.budget.saturating_add(asked).saturating_mul(self.patience)
    }

    pub(super) fn wait(&mut self, number: usize, entry: Page, start: u64) -> Result<(), Violation> {
        let request = self.carrier(entry.request());
        let Some(in_flight) = self.requests.get_mut(&request) else {
            let file = self.readers[number].op.map_or(0, |op| self.ids[op.file as usize]);
            return Err(Violation::NotFetched { file, page: start, at_ns: self.now_ns });
        };
        in_flight.waiting.push((start, number, self.readers[number].epoch));
        in_flight.demand(entry);
        self.readers[number].missing += 1;
        Ok(())
    }
}

/// Looks at a page before it counts as not fetched: missing, marked, missing again.
const LOOKS_MAX: u32 = 3;
