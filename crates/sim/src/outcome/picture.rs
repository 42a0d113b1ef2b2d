//! What is kept of a run for its pictures: reads and requests, thinned out evenly where there are too many to draw.

use std::collections::HashMap;

use foreread_policy::{Class, Extent, FileId, PAGE_BYTES, RequestId};
use serde::Serialize;

/// A read or a request, as a dot.
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
    /// What it is.
    pub kind: Kind,
    /// Of a request ahead of its reader: bytes from where the file was read last to its end.
    pub ahead_bytes: u64,
    /// Of a request: bytes that nobody read.
    pub wasted_bytes: u64,
}

/// What a dot stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// A program read.
    Read,
    /// A request that a reader waited for.
    Demand,
    /// A request ahead of its reader.
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
    /// Where the dots of requests are.
    places: HashMap<RequestId, usize>,
    /// Where each file was read last: the page after it.
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
            // Every other dot is gone, and the rest have moved up.
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

/// One in so many, so that there are never more than [`DOTS_MAX`].
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
    /// Where the dot was put, if it was kept.
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

    /// Whether every other dot has just been thrown out.
    fn halved(&mut self) -> bool {
        std::mem::take(&mut self.halved)
    }
}

/// More dots than these are not told apart.
const DOTS_MAX: usize = 6_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_thinned_out_evenly_and_keep_what_is_known_of_them() {
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
