//! What a stream is doing, to be shown.
//!
//! ```text
//!   window  the least of   what is trusted │ where earlier runs ended │ ten seconds of its rate │
//!                          its share of memory;   a reader that does not wait has less
//!   bound   which of them that is
//! ```
//!
//! *Invariant:* to look changes nothing.
//!
//! The file does not decide anything. Source: own; the bounds are those of `window` and
//! `read::path::limits`.

use super::{Pattern, Stream};
use crate::units::{FileId, Nanos};

/// What a stream's window ends at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Its reader does not wait, so nothing further ahead is needed.
    Quiet,
    /// What has been read so far is trusted no further.
    Trust,
    /// Earlier runs of the file have ended there.
    Length,
    /// Its reader takes ten seconds to come there.
    Pace,
    /// Its share of the memory ends there.
    Memory,
}

/// A stream of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamState {
    /// The file.
    pub file: FileId,
    /// Tells it from other streams of the file.
    pub id: u64,
    /// How its reads lie.
    pub pattern: Pattern,
    /// Forward: the page after the last one read. Strided: first page of the record being read.
    pub position: u64,
    /// The page up to which (for a backward stream, down to which) all is requested.
    pub planned: u64,
    /// Pages that it may be ahead of its reader.
    pub window_pages: u64,
    /// What that ends at.
    pub bound: Bound,
    /// Pages read so far.
    pub read_pages: u64,
    /// Pages a second of its reader, once that is known.
    pub pages_per_s: Option<u64>,
    /// Its last read had to wait.
    pub waits: bool,
    /// Reads that had to, so far.
    pub late: u32,
    /// When it was read last.
    pub last: Nanos,
}

impl Stream {
    /// What it is doing, where its share of memory is `share_pages`. `None` for a run that is no
    /// stream.
    pub(crate) fn state(&self, file: FileId, share_pages: u64) -> Option<StreamState> {
        if !self.is_recognised() {
            return None;
        }
        let paced = self.within_horizon(self.ahead);
        let (window_pages, bound) = if share_pages < paced {
            (share_pages, Bound::Memory)
        } else if paced < self.ahead {
            (paced, Bound::Pace)
        } else if self.known_end.is_some() {
            (self.ahead, Bound::Length)
        } else if self.waited_at.is_some() {
            (self.ahead, Bound::Trust)
        } else {
            (self.ahead, Bound::Quiet)
        };
        Some(StreamState {
            file,
            id: self.id,
            pattern: self.pattern,
            position: self.position(),
            planned: self.planned_to(),
            window_pages,
            bound,
            read_pages: self.seen,
            pages_per_s: self.pace.rate(),
            waits: self.stalled,
            late: self.late,
            last: self.last,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Read;
    use super::*;
    use crate::files::lengths::Lengths;
    use crate::units::Extent;

    #[test]
    fn a_window_says_what_it_ends_at() {
        let file = FileId(3);
        let mut stream = Stream::new(0, Nanos(0), Extent::new(0, 32));
        assert_eq!(stream.state(file, 1_000), None, "a run");
        stream.recognise(Some(0), &Lengths::default());
        let state = stream.state(file, 1_000).expect("a stream");
        assert_eq!((state.bound, state.window_pages, state.position), (Bound::Quiet, 256, 32));
        assert_eq!(stream.state(file, 100).map(|state| (state.bound, state.window_pages)), Some((Bound::Memory, 100)));
        let read = Read::alone(Extent::new(32, 64), Some(32));
        stream.advance(Nanos(1), read, &Lengths::default());
        let state = stream.state(file, 10_000).expect("a stream");
        assert_eq!((state.bound, state.waits, state.read_pages), (Bound::Trust, true, 64));
    }
}
