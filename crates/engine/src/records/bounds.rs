//! What a log may say: what some driver can have told policy.
//!
//! ```text
//!   head    ── a budget that memory can have
//!   open    ── a length that an object can have
//!   read    ── some pages, of the file, and no more than one read is told of
//!   times   ── none that a clock does not reach
//! ```
//!
//! Policy relies on its driver: it looks at each page of a read, and at each interval of a time.
//! So a log of a few bytes could keep a replay busy for ever. This does not check that events go
//! together: a log may begin in the middle, and policy that panics at a line is an answer.

use std::collections::HashMap;

use foreread_policy::{Event, Extent, FileId, Nanos, Options, PAGE_BYTES};

use crate::pages::opened::READ_BYTES_MAX;

/// What a log has said so far, as far as it bounds what comes.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// The lengths of the files that are known, in pages.
    files: HashMap<FileId, u64>,
}

/// What is wrong with an event that no driver reports, if so.
type Checked = Result<(), &'static str>;

impl Bounds {
    /// Checks the head of a log.
    pub(crate) fn head(options: &Options) -> Checked {
        require(options.capacity_bytes <= BUDGET_BYTES_MAX, "a budget of more than 16 TiB")
    }

    /// Checks the next event.
    pub(crate) fn event(&mut self, now: Nanos, event: Event) -> Checked {
        require(now.0 <= TIME_NS_MAX, "a time of more than 30 years")?;
        match event {
            Event::Open { file, pages } => {
                require(pages <= FILE_PAGES_MAX, "a file of more than 8 EiB")?;
                self.files.insert(file, pages);
            }
            Event::Forget { file } => {
                self.files.remove(&file);
            }
            Event::Read { file, extent: Extent { start, end }, .. } => {
                require(start < end, "a read of no page")?;
                require(end - start <= READ_PAGES_MAX, "a read of more than 8 MiB")?;
                let pages = self.files.get(&file).map_or(FILE_PAGES_MAX, |&pages| pages);
                require(end <= pages, "a read past the end of its file")?;
            }
            Event::Prefetch { file } => {
                let pages = self.files.get(&file).copied().unwrap_or_default();
                require(pages <= PREFETCH_PAGES_MAX, "a prefetch of more than 64 MiB")?;
            }
            Event::PrefetchEnds { ends, .. } => {
                require(ends.bytes() <= PREFETCH_PAGES_MAX * PAGE_BYTES, "a prefetch of more than 64 MiB")?;
            }
            Event::Chunk { extent: Extent { start, end }, .. } => {
                require(start < end && end <= FILE_PAGES_MAX, "a chunk of no page, or beyond 8 EiB")?;
            }
            Event::Member { extent: Extent { start, end }, .. } => {
                require(start < end && end <= FILE_PAGES_MAX, "a member of no page, or beyond 8 EiB")?;
            }
            Event::Cached { extent: Extent { start, end }, .. }
            | Event::Uncached { extent: Extent { start, end }, .. } => {
                require(start < end && end <= FILE_PAGES_MAX, "no page, or one beyond 8 EiB, in the tier")?;
            }
            Event::Referenced { start, .. } => require(start < FILE_PAGES_MAX, "a page beyond 8 EiB")?,
            Event::Capacity { bytes } => require(bytes <= BUDGET_BYTES_MAX, "a budget of more than 16 TiB")?,
            Event::Tier { bytes } => require(bytes <= BUDGET_BYTES_MAX, "a tier of more than 16 TiB of memory")?,
            Event::Reserve { bytes } => require(bytes <= BUDGET_BYTES_MAX, "directories of more than 16 TiB")?,
            Event::Directory { bytes, .. } => require(bytes <= DIRECTORY_BYTES_MAX, "a directory of more than 4 GiB")?,
            Event::Completed { first_byte, silence, total, .. } => {
                require(
                    first_byte.max(silence) <= total && total.0 <= TIME_NS_MAX,
                    "a request that takes more than 30 years, or less than a part of it",
                )?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn require(is_so: bool, otherwise: &'static str) -> Checked {
    if is_so { Ok(()) } else { Err(otherwise) }
}

/// Pages of one read: 8 MiB that begin and end within a page.
const READ_PAGES_MAX: u64 = READ_BYTES_MAX / PAGE_BYTES + 1;

/// Pages of a file that is fetched before it is opened: many times what counts as small. Policy
/// looks at each of its blocks.
const PREFETCH_PAGES_MAX: u64 = (64 << 20) / PAGE_BYTES;

/// Pages of a file: lengths are signed numbers of 64 bits in every system.
const FILE_PAGES_MAX: u64 = (1 << 63) / PAGE_BYTES;

/// Memory for the directory of an archive, many times what one in use takes. Lower: a log of one
/// is refused. Higher: sums come nearer to what a number holds.
const DIRECTORY_BYTES_MAX: u64 = 4 << 30;

/// More memory than a machine has. Lower: a log of a large machine is refused. Higher: a replay
/// may hold more.
const BUDGET_BYTES_MAX: u64 = 16 << 40;

/// Times count from an engine's start. Lower: none. Higher: policy steps through its intervals.
const TIME_NS_MAX: u64 = 1_000_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use foreread_policy::{Ends, Found, ReadId, RequestId};

    use super::*;

    fn read(file: u64, start: u64, end: u64) -> Event {
        let extent = Extent { start, end };
        Event::Read { read: ReadId(1), file: FileId(file), extent, found: Found::Absent, marked: false }
    }

    #[test]
    fn what_a_driver_can_report_is_taken() {
        let mut bounds = Bounds::default();
        let mut checked = |event| bounds.event(Nanos(1), event);
        assert_eq!(checked(Event::Open { file: FileId(0), pages: FILE_PAGES_MAX }), Ok(()));
        assert_eq!(checked(read(0, FILE_PAGES_MAX - READ_PAGES_MAX, FILE_PAGES_MAX)), Ok(()));
        // A log of the last events begins in the middle.
        assert_eq!(checked(read(7, 0, READ_PAGES_MAX)), Ok(()));
    }

    #[test]
    fn what_no_driver_reports_is_named() {
        let mut bounds = Bounds::default();
        let mut checked = |now, event| bounds.event(Nanos(now), event);
        let open = |pages| Event::Open { file: FileId(0), pages };
        assert_eq!(checked(u64::MAX, open(1)), Err("a time of more than 30 years"));
        assert_eq!(checked(1, open(u64::MAX)), Err("a file of more than 8 EiB"));
        assert_eq!(checked(1, open(PREFETCH_PAGES_MAX + 1)), Ok(()));
        assert_eq!(checked(1, Event::Prefetch { file: FileId(0) }), Err("a prefetch of more than 64 MiB"));
        let ends = |head| Event::PrefetchEnds { file: FileId(0), ends: Ends { head, tail: 0 } };
        assert!(checked(1, ends(1 << 30)).is_err());
        assert_eq!(checked(1, ends(2_048)), Ok(()));
        assert_eq!(checked(1, Event::Discard { file: FileId(0) }), Ok(()));
        assert_eq!(checked(1, open(10_000)), Ok(()));
        assert_eq!(checked(1, Event::Prefetch { file: FileId(0) }), Ok(()));
        assert_eq!(checked(1, read(0, 5, 5)), Err("a read of no page"));
        assert_eq!(checked(1, read(0, 0, READ_PAGES_MAX + 1)), Err("a read of more than 8 MiB"));
        assert_eq!(checked(1, read(0, 9_999, 10_001)), Err("a read past the end of its file"));
        assert_eq!(checked(1, read(7, u64::MAX - 1, u64::MAX)), Err("a read past the end of its file"));
        assert_eq!(checked(1, Event::Reserve { bytes: u64::MAX }), Err("directories of more than 16 TiB"));
        let completed = |first_byte, total| Event::Completed {
            request: RequestId(0),
            first_byte: Nanos(first_byte),
            silence: Nanos(first_byte),
            total: Nanos(total),
        };
        assert!(checked(1, completed(2, 1)).is_err() && checked(1, completed(1, u64::MAX)).is_err());
        assert_eq!(checked(1, completed(1, 2)), Ok(()));
    }
}
