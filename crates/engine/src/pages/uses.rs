//! What has been done with a file, to be shown: bytes, waits, and the process that read it last.
//!
//! Each costs one atomic addition. What is read of the ends of a file costs a load, or an exchange
//! where it grows.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use foreread_policy::{Ends, Extent};

/// What has been done with a file so far.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    read_bytes: AtomicU64,
    fetched_bytes: AtomicU64,
    late_reads: AtomicU64,
    process: AtomicU64,
    /// What was read of it from its start on and up to its end, since it was closed last.
    ends: AtomicU64,
}

/// The same at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) read_bytes: u64,
    pub(crate) fetched_bytes: u64,
    pub(crate) late_reads: u64,
}

impl Uses {
    /// `reader` asks for bytes. A number of 32 bits is the thread of a process; 0 is one that is
    /// not seen from here.
    pub(crate) fn asked_by(&self, reader: u64) {
        // Not written each time: threads that read one file share the line.
        if (1..1 << 32).contains(&reader) && self.process.load(Relaxed) != reader {
            self.process.store(reader, Relaxed);
        }
    }

    /// A reader was given `bytes`.
    pub(crate) fn read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// A reader asks for `extent` of a file of so many pages.
    pub(crate) fn asked_for(&self, extent: Extent, file_pages: u64) {
        let mut before = self.ends.load(Relaxed);
        loop {
            // Not written each time: most reads lie within the ends that were read before.
            let after = pack(unpack(before).read(extent, file_pages));
            if after == before {
                return;
            }
            match self.ends.compare_exchange_weak(before, after, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    /// The file is closed: what was read of its ends.
    pub(crate) fn take_ends(&self) -> Ends {
        unpack(self.ends.swap(0, Relaxed))
    }

    /// A reader had to wait for them.
    pub(crate) fn late(&self) {
        self.late_reads.fetch_add(1, Relaxed);
    }

    /// `bytes` have come from the storage.
    pub(crate) fn fetched(&self, bytes: usize) {
        self.fetched_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// The thread that read last, if it is known.
    pub(crate) fn process(&self) -> Option<u32> {
        Some(self.process.load(Relaxed) as u32).filter(|&process| process > 0)
    }

    pub(crate) fn so_far(&self) -> Used {
        let (read_bytes, fetched_bytes) = (self.read_bytes.load(Relaxed), self.fetched_bytes.load(Relaxed));
        Used { read_bytes, fetched_bytes, late_reads: self.late_reads.load(Relaxed) }
    }
}

fn pack(ends: Ends) -> u64 {
    u64::from(ends.head) << 32 | u64::from(ends.tail)
}

fn unpack(ends: u64) -> Ends {
    Ends { head: (ends >> 32) as u32, tail: ends as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_one_of_32_bits() {
        let uses = Uses::default();
        for (reader, process) in [(1 << 32, None), (0, None), (77, Some(77)), ((1 << 32) + 5, Some(77)), (8, Some(8))] {
            uses.asked_by(reader);
            assert_eq!(uses.process(), process, "{reader}");
        }
    }
}
