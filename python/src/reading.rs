//! One read that a thread of Python waits for, of any length.
//!
//! ```text
//!   room, from its start:  filled | in flight, up to PIECES pieces | not asked for yet
//! ```
//!
//! The engine cuts long reads. The pieces are asked for in order, several at a time, and copied by
//! the thread that waits. A piece that comes short is asked for again from where it ended.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};

use foreread::Error;
use foreread::shared::{Helped, SharedFile, SharedPages};
use pyo3::prelude::*;

use crate::buffer::Room;
use crate::errors::{raised, stopped};
use crate::wait::receive_helping;

/// Pieces of one read in flight at a time. Lower: the link is idle between two pieces. Higher: one
/// read pins more of the budget.
const PIECES: usize = 4;

/// The longest piece, 2 MiB: an eighth of the least budget. Lower costs more calls; higher comes
/// short with a small budget.
pub(crate) const PIECE_BYTES_MAX: usize = 2 << 20;

/// A read that is resident and no longer than this is copied with the GIL held: 64 KiB take a few
/// microseconds. Higher delays other threads; lower has short reads wait for the GIL.
const GIL_HELD_BYTES_MAX: usize = 64 << 10;

type Answer = Result<SharedPages, Error>;

struct Reading<'a> {
    helped: Helped<'a>,
    piece_bytes: usize,
    /// Where the next piece begins in the file.
    next: u64,
    unasked: Room,
    in_flight: VecDeque<(u64, Room, Receiver<Answer>)>,
}

enum Step {
    Done,
    /// Nothing came for a while.
    Late,
}

/// Fills `room` from `offset` on. Returns how many bytes there are: fewer than fit only at the end
/// of the file.
pub(crate) fn read(py: Python<'_>, file: &SharedFile, offset: u64, room: Room) -> PyResult<usize> {
    let (room, _) = {
        let len = file.size().saturating_sub(offset).min(room.len() as u64) as usize;
        room.split(len)
    };
    let len = room.len();
    if len == 0 {
        return Ok(0);
    }
    let (helped, piece_bytes) = (file.helped(), file.piece_bytes(PIECE_BYTES_MAX));
    let in_flight = VecDeque::new();
    let mut reading = Reading { helped, piece_bytes, next: offset, unasked: room, in_flight };
    if len <= GIL_HELD_BYTES_MAX && file.is_here() && reading.fill_resident()? {
        return Ok(len);
    }
    loop {
        let (step, rest) = py.detach(move || (reading.step(), reading));
        reading = rest;
        match step? {
            Step::Done => return Ok(len),
            Step::Late => py.check_signals()?,
        }
    }
}

impl Reading<'_> {
    /// Asks for the first piece, and takes it if it is there. Returns whether that was all.
    fn fill_resident(&mut self) -> PyResult<bool> {
        self.ask();
        let Some((at, room, receive)) = self.in_flight.pop_front() else { return Ok(true) };
        if let Ok(answer) = receive.try_recv() {
            self.take(at, room, answer)?;
            return Ok(self.unasked.len() == 0 && self.in_flight.is_empty());
        }
        self.in_flight.push_front((at, room, receive));
        Ok(false)
    }

    /// Goes on until all is there, or nothing came for a while.
    fn step(&mut self) -> PyResult<Step> {
        loop {
            self.ask();
            let Some((at, room, receive)) = self.in_flight.pop_front() else { return Ok(Step::Done) };
            match receive_helping(&self.helped, &receive) {
                Ok(answer) => self.take(at, room, answer)?,
                Err(RecvTimeoutError::Timeout) => {
                    self.in_flight.push_front((at, room, receive));
                    return Ok(Step::Late);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(stopped()),
            }
        }
    }

    fn ask(&mut self) {
        while self.in_flight.len() < PIECES && self.unasked.len() > 0 {
            let (piece, rest) = {
                let unasked = std::mem::replace(&mut self.unasked, Room::none());
                let len = unasked.len().min(self.piece_bytes);
                unasked.split(len)
            };
            self.unasked = rest;
            let at = self.next;
            self.next += piece.len() as u64;
            let receive = self.ask_for(at, piece.len());
            self.in_flight.push_back((at, piece, receive));
        }
    }

    fn ask_for(&self, at: u64, len: usize) -> Receiver<Answer> {
        let (send, receive) = sync_channel(1);
        self.helped.read(at, len, move |answer| {
            // The reader may have been interrupted.
            let _ = send.send(answer);
        });
        receive
    }

    fn take(&mut self, at: u64, room: Room, answer: Answer) -> PyResult<()> {
        let pages = answer.map_err(|error| raised(&error))?;
        let rest = room.fill(&pages);
        if pages.is_empty() {
            return Err(stopped());
        }
        if rest.len() > 0 {
            let at = at + pages.len() as u64;
            let receive = self.ask_for(at, rest.len());
            self.in_flight.push_front((at, rest, receive));
        }
        Ok(())
    }
}
