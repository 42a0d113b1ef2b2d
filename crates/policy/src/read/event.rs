//! The contract of the read path: what a driver reports and what it is told to do.
//!
//! ```text
//!   Submit ──> granted 0 pages: waits for its turn ──(Grant, or Join to one that is granted)──┐
//!      └─────> granted some: started <────────────────────────────────────────────────────────┘
//!                 │ Wants ──> Grant: more pages may arrive
//!                 │ Late ──> Hedge: ask a second time
//!                 └──> Completed, or Failed (Drop of its untouched folios), or Cancel
//!
//!   Read, not all resident ──> waits ──> Ready: it has memory for all its pages ──> Answered
//! ```
//!
//! *Invariants:* a request ends once: by Completed or Failed from the driver, or by Cancel from
//! policy. Grants of a request only grow. Drop names whole folios. A read that waits is told once
//! and answered once; between Ready and Answered no folio of it is dropped, and no request that it
//! waits for is cancelled, unless the request fails or the file is released.
//!
//! The events carry no bytes, names or versions: the driver maps identities to objects. Source:
//! docs/decisions/0001 (no question to the driver), 0003 (grants), 0017 (Late), 0021 (a first
//! grant starts a request), 0023 (Join).

use crate::ends::Ends;
use crate::units::{Class, Extent, FileId, Found, Nanos, ReadId, Records, RequestId, Source, Touch};

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A file of `pages` pages may be read from now on.
    Open {
        /// The file.
        file: FileId,
        /// Its length; a last page that is not full counts as one.
        pages: u64,
    },
    /// No program has the file open any more. Its requests are cancelled, at once or soon, and its
    /// streams end if it is not opened again. Its pages may stay.
    Release {
        /// The file.
        file: FileId,
    },
    /// The file will never be read again: all its pages are dropped.
    Forget {
        /// The file.
        file: FileId,
    },
    /// A reader asked for `extent` (within the file, not empty), and it was not a plain hit.
    /// Unless all its pages are resident, the read waits until [`Action::Ready`] answers it.
    Read {
        /// The read.
        read: ReadId,
        /// The file.
        file: FileId,
        /// The pages asked for.
        extent: Extent,
        /// What the read found there.
        found: Found,
        /// Whether the read touched a marked folio. The driver has cleared the mark.
        marked: bool,
    },
    /// The whole file is expected to be read soon. Its absent pages are fetched as far as there is
    /// room for speculation, also with [`Options::readahead`](crate::Options::readahead) off. A
    /// file of more than 256 KiB and up to 4 MiB has to be bought with credit, too.
    Prefetch {
        /// The file.
        file: FileId,
    },
    /// These ends of the file are expected to be read soon, and perhaps no more of it. Fetched as
    /// a [`Event::Prefetch`] is, without credit.
    PrefetchEnds {
        /// The file.
        file: FileId,
        /// Which pages.
        ends: Ends,
    },
    /// The open that a prefetch was made for is no longer expected: prefetched folios that have
    /// arrived and were not touched are dropped.
    Discard {
        /// The file.
        file: FileId,
    },
    /// The file is likely to have a directory that says where its parts lie, as its name tells: a
    /// reader of its start may look at what it is, and read the directory next.
    Parts {
        /// The file.
        file: FileId,
    },
    /// The driver holds so many bytes of the directory of the file, which is open: it has not come
    /// to its end, or is not told to its end. None if the file is closed.
    Directory {
        /// The file.
        file: FileId,
        /// The sum, which replaces the one before.
        bytes: u64,
    },
    /// The file is an archive, and says itself where a member lies. Told for each member, in the
    /// order in which they lie.
    Member {
        /// The file.
        file: FileId,
        /// The pages that hold bytes of the member.
        extent: Extent,
    },
    /// The file says itself where the values of one column of a group of rows lie. Told for each
    /// chunk, in the order in which they lie.
    Chunk {
        /// The file.
        file: FileId,
        /// The pages that hold bytes of the chunk.
        extent: Extent,
        /// The number of the group.
        group: u32,
        /// The number of the column, the same in each group.
        column: u32,
    },
    /// The tier has these pages of a file, and can be asked for them.
    Cached {
        /// The file.
        file: FileId,
        /// The pages.
        extent: Extent,
    },
    /// The tier does not have these pages any more, as far as it had them.
    Uncached {
        /// The file.
        file: FileId,
        /// The pages.
        extent: Extent,
    },
    /// The budget has changed. What does not fit any more goes at once, but for what a reader is
    /// about to be given.
    Capacity {
        /// The budget in bytes, from now on.
        bytes: u64,
    },
    /// Bytes of the budget that something other than pages takes: what is known of directories.
    Reserve {
        /// The sum, which replaces the one before.
        bytes: u64,
    },
    /// Bytes of the budget that the tier takes: its index, and what it is about to write.
    Tier {
        /// The sum, which replaces the one before.
        bytes: u64,
    },
    /// A reader was given bytes of the folio that starts at `start`. Reported once for each kind
    /// of touch: the driver keeps a bit for each. May be reported when that folio is gone, and
    /// another one begins there, or before its request is over.
    Referenced {
        /// The file.
        file: FileId,
        /// First page of the folio.
        start: u64,
        /// The request that brought it, which tells it from others that begin there.
        request: RequestId,
        /// Which touch.
        touch: Touch,
    },
    /// A read that waited was answered, with bytes or with an error, or no reader waits for it any
    /// more. The touches of its folios were reported before.
    Answered {
        /// The read.
        read: ReadId,
    },
    /// A request has received every page that it was granted, and more of it could arrive.
    Wants {
        /// The request.
        request: RequestId,
    },
    /// A request has been silent for as long as its [`Action::Submit`] said: no first byte, or no
    /// more after some. Reported again whenever the same silence has lasted twice as long.
    Late {
        /// The request.
        request: RequestId,
        /// How long.
        silence: Nanos,
    },
    /// All bytes of a request have arrived.
    Completed {
        /// The request.
        request: RequestId,
        /// From asking the storage to its first byte.
        first_byte: Nanos,
        /// The longest that the storage was silent: before the first byte, or after some.
        silence: Nanos,
        /// From asking the storage to its last byte.
        total: Nanos,
    },
    /// The driver gave a request up. The folios of it that no reader has touched are dropped by
    /// the actions that follow.
    Failed {
        /// The request.
        request: RequestId,
    },
}

/// Something to do, in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Ask the storage for `extent`, and enter the folios of its absent pages into the page table
    /// as in flight: of those in `records`, if there are any. Its first and its last page are
    /// absent, and none of these pages is in flight. Resident pages between them are fetched again
    /// and ignored, as are the pages between records, which other requests may bring. It is at
    /// most [`REQUEST_PAGES_MAX`](crate::REQUEST_PAGES_MAX) long.
    Submit {
        /// The request's identity in later events.
        request: RequestId,
        /// The file.
        file: FileId,
        /// The pages to fetch.
        extent: Extent,
        /// The pages to keep of them, if not all.
        records: Option<Records>,
        /// Why.
        class: Class,
        /// Where from. What the tier is asked for is granted as a whole or not at all. If it does
        /// not have it after all, the driver asks the storage.
        source: Source,
        /// The folio that holds this page gets the mark: a touch of it is an event even when it is
        /// resident.
        mark: Option<u64>,
        /// The pages before this one have memory. The driver takes in no more before a grant. If
        /// it is the first page, the request waits for its turn: the driver asks the storage at
        /// the first [`Action::Grant`].
        granted: u64,
        /// The driver reports [`Event::Late`] when the storage has been silent for so long.
        late: Option<Nanos>,
    },
    /// Ask the storage a second time for what has not come, and take the answer that comes first.
    /// The other request is abandoned.
    Hedge {
        /// The request.
        request: RequestId,
    },
    /// The pages of a request before `granted` have memory. May come long after the request wanted
    /// it. The first grant starts a request that waits for its turn.
    Grant {
        /// The request.
        request: RequestId,
        /// The page after the last one that may be taken in.
        granted: u64,
    },
    /// Ask the storage for a waiting request together with another one of the same file that it is
    /// adjacent to: `with`, the lead request, which waits as well. All pages of both have memory.
    /// The grant that starts `with` comes later; before it, more requests may join that are
    /// adjacent, on either side, to those joined so far.
    ///
    /// The driver asks the storage once for the whole run. If a part of the run fails, the driver
    /// asks for it again as long as a reader waits for some of it. Each request ends by its own
    /// event and can be cancelled alone.
    Join {
        /// The request.
        request: RequestId,
        /// The lead request.
        with: RequestId,
    },
    /// The pages of a read before `end` have memory: each is resident, or in flight in a request
    /// that is granted it. The driver answers the read with them as soon as all have come, or with
    /// the error of one that fails; then it reports [`Event::Answered`]. Until then they stay.
    Ready {
        /// The read.
        read: ReadId,
        /// The page after the last one that it is answered with: the end of the read, or less if
        /// the budget holds no more at once.
        end: u64,
    },
    /// Abandon a request: no event answers this. The folios of it that no reader has touched are
    /// dropped by the actions that follow.
    Cancel {
        /// The request.
        request: RequestId,
    },
    /// Mark the folio that starts at `start`: the next touch of it is an event even when it is
    /// resident.
    Mark {
        /// The file.
        file: FileId,
        /// First page of the folio.
        start: u64,
    },
    /// Clear the reference bit of the folio that starts at `start`: its next touch is reported as
    /// [`Touch::Again`].
    Clear {
        /// The file.
        file: FileId,
        /// First page of the folio.
        start: u64,
    },
    /// A reader has touched a folio that came from the storage: the tier is offered its bytes.
    Cache {
        /// The file.
        file: FileId,
        /// The folio, whole.
        folio: Extent,
    },
    /// Remove one folio from the page table.
    Drop {
        /// The file.
        file: FileId,
        /// The folio, whole.
        folio: Extent,
    },
    /// What a file that was released has told of its parts is held no more: others needed the
    /// room. When its directory is read again, it is to be told again.
    ForgetParts {
        /// The file.
        file: FileId,
    },
    /// Nothing is held any more of a file that was released: its number is not used again. A later
    /// open is one of a new file.
    Forget {
        /// The file.
        file: FileId,
    },
}

/// What policy has decided so far. Each count only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Requests that a reader waited for from the start.
    pub requests_demand: u64,
    /// Requests that no reader waited for when they were made.
    pub requests_speculative: u64,
    /// Requests that the tier was asked for, of both classes.
    pub requests_tier: u64,
    /// Requests hedged because nothing came of them.
    pub requests_hedged: u64,
    /// Requests that joined an adjacent lead request.
    pub requests_coalesced: u64,
    /// Pages submitted, of both classes.
    pub pages_submitted: u64,
    /// Reads that found a page absent.
    pub misses: u64,
    /// Reads that had no absent page, and waited for one in flight.
    pub waits: u64,
    /// Reads that touched a mark.
    pub marks: u64,
    /// Pages read ahead, and evicted or abandoned before a reader touched their folio.
    pub pages_wasted: u64,
    /// Of those, pages read ahead for a stream and evicted to make room.
    pub pages_thrashed: u64,
    /// Speculative requests that failed. Failed demand requests are not counted.
    pub speculation_failed: u64,
    /// Requests cancelled: their file was released, or a demand request needed their memory.
    pub cancelled: u64,
    /// Forward streams recognised, guesses from context included.
    pub streams_forward: u64,
    /// Strided streams recognised: reads at a constant distance, backward ones included.
    pub streams_strided: u64,
    /// Sparse streams recognised: small reads that go forward with gaps between them.
    pub streams_sparse: u64,
}

impl core::ops::Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests_demand: self.requests_demand + other.requests_demand,
            requests_speculative: self.requests_speculative + other.requests_speculative,
            requests_tier: self.requests_tier + other.requests_tier,
            requests_hedged: self.requests_hedged + other.requests_hedged,
            requests_coalesced: self.requests_coalesced + other.requests_coalesced,
            pages_submitted: self.pages_submitted + other.pages_submitted,
            misses: self.misses + other.misses,
            waits: self.waits + other.waits,
            marks: self.marks + other.marks,
            pages_wasted: self.pages_wasted + other.pages_wasted,
            pages_thrashed: self.pages_thrashed + other.pages_thrashed,
            speculation_failed: self.speculation_failed + other.speculation_failed,
            cancelled: self.cancelled + other.cancelled,
            streams_forward: self.streams_forward + other.streams_forward,
            streams_strided: self.streams_strided + other.streams_strided,
            streams_sparse: self.streams_sparse + other.streams_sparse,
        }
    }
}
