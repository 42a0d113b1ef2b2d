//! The reads and requests of a run as dots, thinned out evenly where there are too many to draw.

use std::collections::HashMap;

use foreread_policy::{Class, Extent, FileId, PAGE_BYTES, RequestId};
use serde::Serialize;

/// A read or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dot {
    /// When it began, in ns.
    pub at_ns: u64,
    /// Which file.
    pub file: u64,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// How many bytes, in whole pages.
    pub bytes: u64,
    /// Read or request.
    pub kind: Kind,
    /// For a request ahead of its reader: bytes from the end of the file's last read to the
    /// request's end.
    pub ahead_bytes: u64,
    /// For a request: bytes that no read used.
    pub wasted_bytes: u64,
}

/// What a dot stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// A program read.
    Read,
    /// A demand request.
    Demand,
    /// A speculative request.
    Ahead,
}

fn dot(at_ns: u64, file: FileId, extent: Extent, kind: Kind) -> Dot {
    let (offset, bytes) = (extent.start * PAGE_BYTES, extent.pages() * PAGE_BYTES);
    Dot { at_ns, file: file.0, offset, bytes, kind, ahead_bytes: 0, wasted_bytes: 0 }
}

/// Reads and requests of one run.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    reads: Thinned,
    requests: Thinned,
    /// The index of each request's dot.
    places: HashMap<RequestId, usize>,
    /// The page after the last read of each file.
    read_to: HashMap<FileId, u64>,
}

impl Picture {
    /// Reads, in order.
    pub fn reads(&self) -> &[Dot] {
        &self.reads.kept
    }

    /// Requests, in order.
    pub fn requests(&self) -> &[Dot] {
        &self.requests.kept
    }

    pub(crate) fn read(&mut self, at_ns: u64, file: FileId, extent: Extent) {
        self.read_to.insert(file, extent.end);
        self.reads.push(dot(at_ns, file, extent, Kind::Read));
    }

    pub(crate) fn submitted(&mut self, at_ns: u64, request: RequestId, file: FileId, extent: Extent, class: Class) {
        let read_to = self.read_to.get(&file).copied().unwrap_or(0);
        let dot = match class {
            Class::Demand => dot(at_ns, file, extent, Kind::Demand),
            Class::Speculative => {
                let ahead_bytes = extent.end.abs_diff(read_to) * PAGE_BYTES;
                Dot { ahead_bytes, ..dot(at_ns, file, extent, Kind::Ahead) }
            }
        };
        if let Some(place) = self.requests.push(dot) {
            self.places.insert(request, place);
        }
        if self.requests.halved() {
            // Every other dot was dropped, and the rest moved up.
            self.places.retain(|_, place| place.is_multiple_of(2));
            self.places.values_mut().for_each(|place| *place /= 2);
        }
    }

    /// Pages of a request were dropped unread.
    pub(crate) fn wasted(&mut self, request: RequestId, pages: u64) {
        if let Some(dot) = self.places.get(&request).and_then(|&place| self.requests.kept.get_mut(place)) {
            dot.wasted_bytes += pages * PAGE_BYTES;
        }
    }
}

/// Keeps one dot in `one_in`, so that there are never more than [`DOTS_MAX`].
#[derive(Debug, Clone)]
struct Thinned {
    kept: Vec<Dot>,
    one_in: u64,
    seen: u64,
    halved: bool,
}

impl Default for Thinned {
    fn default() -> Self {
        Self { kept: Vec::new(), one_in: 1, seen: 0, halved: false }
    }
}

impl Thinned {
    /// The index of the dot, if it was kept.
    fn push(&mut self, dot: Dot) -> Option<usize> {
        let keep = self.seen.is_multiple_of(self.one_in);
        self.seen += 1;
        if !keep {
            return None;
        }
        self.kept.push(dot);
        let place = self.kept.len() - 1;
        if self.kept.len() > DOTS_MAX {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.one_in *= 2;
            self.halved = true;
        }
        Some(place)
    }

    /// Whether the last push dropped every other dot.
    fn halved(&mut self) -> bool {
        std::mem::take(&mut self.halved)
    }
}

/// Most dots of a picture. Lower: coarser pictures; higher: dots that cannot be told apart.
const DOTS_MAX: usize = 6_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_thinned_out_evenly_and_keep_their_waste() {
        let mut picture = Picture::default();
        for n in 0..40_000u64 {
            picture.submitted(n, RequestId(n), FileId(0), Extent::new(n, n + 1), Class::Speculative);
        }
        let kept: Vec<u64> = picture.requests().iter().map(|dot| dot.at_ns).collect();
        assert!(kept.len() > DOTS_MAX / 2 && kept.len() <= DOTS_MAX, "{}", kept.len());
        assert!(kept.windows(2).all(|pair| pair[1] - pair[0] == kept[1]), "every {}th", kept[1]);
        picture.wasted(RequestId(kept[100]), 7);
        assert_eq!(picture.requests()[100].wasted_bytes, 7 * PAGE_BYTES);
    }
}
