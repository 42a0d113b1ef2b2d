//! The driver's side of the contract: what it reports and what it is told to do.

use crate::units::{Class, Extent, FileId, Found, Nanos, RequestId, Touch};

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A file of `pages` pages may be read from now on.
    Open {
        /// The file.
        file: FileId,
        /// Its length, the last page counted whole.
        pages: u64,
    },
    /// Nobody has the file open any more: what is in flight for it is given up, its streams end. Its pages may stay.
    Release {
        /// The file.
        file: FileId,
    },
    /// The file will never be read again: all its pages are dropped.
    Forget {
        /// The file.
        file: FileId,
    },
    /// A reader asked for `extent` (within the file, not empty) and did not simply hit.
    Read {
        /// The file.
        file: FileId,
        /// The pages asked for.
        extent: Extent,
        /// What it found there.
        found: Found,
        /// Whether it touched a marked folio. The driver has cleared the mark.
        marked: bool,
    },
    /// The whole of a file is expected to be read soon. What there is room for and is not resident is fetched.
    Prefetch {
        /// The file.
        file: FileId,
    },
    /// A file that was prefetched is not expected any more: what nobody has read of it is dropped.
    Discard {
        /// The file.
        file: FileId,
    },
    /// So much of the budget is taken by what is no page: what is known of directories.
    Reserve {
        /// How much, altogether.
        bytes: u64,
    },
    /// A reader was given bytes of the folio that starts at `start`. Told once for each kind of touch: the driver keeps a bit for each.
    Referenced {
        /// The file.
        file: FileId,
        /// First page of the folio.
        start: u64,
        /// Which touch.
        touch: Touch,
    },
    /// A request has been given all that it was granted, and more of it could arrive.
    Wants {
        /// The request.
        request: RequestId,
    },
    /// A request has had no first byte for as long as it was submitted with. Told once at most.
    Late {
        /// The request.
        request: RequestId,
    },
    /// All bytes of a request have arrived.
    Completed {
        /// The request.
        request: RequestId,
        /// From asking the storage to its first byte.
        first_byte: Nanos,
        /// From asking the storage to its last byte.
        total: Nanos,
    },
    /// The driver gave a request up. Those of its pages that nobody has read are dropped, as actions say.
    Failed {
        /// The request.
        request: RequestId,
    },
}

/// Something to do, in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Ask the storage for `extent` and put the folios of what is absent there into the page table as in flight. Its first and its last
    /// page are absent, none is in flight. What is resident between them is read past.
    Submit {
        /// The request's identity in later events.
        request: RequestId,
        /// The file.
        file: FileId,
        /// The pages to fetch.
        extent: Extent,
        /// Why.
        class: Class,
        /// The folio that holds this page gets the mark: touching it is an event even when it is resident.
        mark: Option<u64>,
        /// There is memory for the pages before this one. The driver takes in no more before it is granted. Where that is the first
        /// page it is not its turn yet: the storage is asked when the first [`Action::Grant`] comes.
        granted: u64,
        /// If its first byte has not come this long after the storage was asked, the driver says so ([`Event::Late`]).
        late: Option<Nanos>,
    },
    /// Ask the storage once more for the same, and take whichever is answered first. The other is given up.
    Hedge {
        /// The request.
        request: RequestId,
    },
    /// There is memory for the pages of a request before `granted`. May come long after it was wanted. The first one starts a request
    /// that had to wait for its turn.
    Grant {
        /// The request.
        request: RequestId,
        /// The page after the last one that may be taken in.
        granted: u64,
    },
    /// Ask the storage for a request that had to wait together with another one, of the same file: what they ask for touches. There is
    /// memory for all of both. Comes before the grant that starts `with`; further ones may touch what is joined so far, on either
    /// side. The storage is asked once for the whole, and what fails of it is made again for as long as a reader waits for some of it. Each
    /// of them is over by an event of its own, and can be given up without the others.
    Join {
        /// The request.
        request: RequestId,
        /// Whose turn it is.
        with: RequestId,
    },
    /// Give a request up: no event answers this. Its pages that nobody has read are dropped by the actions that follow.
    Cancel {
        /// The request.
        request: RequestId,
    },
    /// Clear the reference bit of the folio that starts at `start`: its next touch is told, as [`Touch::Again`].
    Clear {
        /// The file.
        file: FileId,
        /// First page of the folio.
        start: u64,
    },
    /// Take one folio out of the page table.
    Drop {
        /// The file.
        file: FileId,
        /// The folio, whole.
        folio: Extent,
    },
}

/// What has been decided so far. All counts only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that a reader waited for from the start.
    pub requests_demand: u64,
    /// Requests made ahead of any reader.
    pub requests_speculative: u64,
    /// Requests made a second time, because they were late.
    pub requests_hedged: u64,
    /// Requests that the storage was asked for together with another one, because they touched.
    pub requests_coalesced: u64,
    /// Pages submitted, of either class.
    pub pages_submitted: u64,
    /// Reads that found a page absent.
    pub misses: u64,
    /// Reads that had to wait for a page in flight.
    pub waits: u64,
    /// Reads that touched a mark.
    pub marks: u64,
    /// Pages read ahead and evicted or given up before anybody read them.
    pub pages_wasted: u64,
    /// Of those, pages evicted to make room while their stream was still being read.
    pub pages_thrashed: u64,
    /// Speculative requests that failed. Demand is not counted here.
    pub speculation_failed: u64,
    /// Requests given up because nobody needs them any more.
    pub cancelled: u64,
    /// Streams recognised: forward, and strided or backward.
    pub streams_forward: u64,
    /// Streams recognised whose reads lie a constant distance apart, backward ones included.
    pub streams_strided: u64,
}
