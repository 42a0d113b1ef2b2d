//! The driver's side of directory readahead: what it reports and what it is told to do.

use crate::units::{Class, Found};
use crate::units::{DirId, Nanos};

/// What a directory is known to hold, one after the other in the order in which it is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// A directory, by the identity that it has from now on.
    Directory(DirId),
    /// A file of so many pages, the last one counted whole.
    File {
        /// Its length.
        pages: u64,
    },
}

/// Something that happened. An entry is named by its place in the listing, from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirEvent<'a> {
    /// A reader asks for the entries of `dir` from `entry` on.
    Read {
        /// The directory.
        dir: DirId,
        /// The first entry that is asked for.
        entry: u32,
        /// Whether it is there, or on its way.
        found: Found,
    },
    /// A reader asks what a name in `dir` is.
    Named {
        /// The directory.
        dir: DirId,
        /// Which of its entries it is, by what is known, however old that is.
        entry: Option<u32>,
        /// Whether what is known of the directory tells it.
        found: Found,
    },
    /// A reader opens a file.
    Opened {
        /// Its directory.
        dir: DirId,
        /// Which of its entries.
        entry: u32,
        /// Whether its contents are there, or on their way.
        found: Found,
    },
    /// The file has been read before, or will be, after the one named so before it: an order to go by.
    Expected {
        /// Its directory.
        dir: DirId,
        /// Which of its entries.
        entry: u32,
    },
    /// The next entries of a listing have come.
    Listed {
        /// The directory.
        dir: DirId,
        /// They are the first: what was known before is replaced.
        first: bool,
        /// They are what was there before, under the same names.
        same: bool,
        /// What has come.
        children: &'a [Child],
        /// There are no more.
        last: bool,
        /// What knowing this much of it takes, in bytes, altogether.
        bytes: u64,
    },
    /// A listing could not be had.
    Failed {
        /// The directory.
        dir: DirId,
    },
    /// A directory that nobody asked for comes with others, all of it: it is told next ([`DirEvent::Listed`]).
    Along {
        /// The directory.
        dir: DirId,
        /// When the storage was asked.
        requested: Nanos,
    },
    /// What [`DirAction::ListBelow`] asked for is over: directories that were asked for and not told did not come whole, or the storage failed.
    ListedBelow {
        /// The directory.
        dir: DirId,
        /// The first entry that was asked for.
        from: u32,
    },
    /// What [`DirAction::Fetch`] asked for is over.
    Fetched {
        /// The directory of the file.
        dir: DirId,
        /// Which of its entries.
        entry: u32,
        /// It is there. Otherwise there was no room, or the storage failed.
        came: bool,
    },
}

/// Something to do, in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirAction {
    /// Ask the storage for what follows what is known of `dir`. Each answer is told ([`DirEvent::Listed`]).
    List {
        /// The directory.
        dir: DirId,
        /// Ask for its first entries: what is known is too old, or nothing is.
        restarts: bool,
        /// Whether a reader waits.
        class: Class,
        /// How many requests for different parts of it are worth having at a time, where the storage can be asked for parts.
        parallel: u32,
    },
    /// Ask the storage, once, for all that lies below the directories among some entries of `dir`, ahead of any reader. Those that come
    /// whole are told ([`DirEvent::Listed`]), and others that do, further below or behind ([`DirEvent::Along`]); at last,
    /// [`DirEvent::ListedBelow`].
    ListBelow {
        /// The directory.
        dir: DirId,
        /// The first entry.
        from: u32,
        /// The entry after the last one.
        to: u32,
    },
    /// Fetch a whole file that nobody has asked for; or only for its name ([`DirEvent::Named`]), which this answers as well.
    Fetch {
        /// Its directory.
        dir: DirId,
        /// Which of its entries.
        entry: u32,
    },
    /// The file was fetched and is not expected any more: what nobody has read of it can go.
    Discard {
        /// Its directory.
        dir: DirId,
        /// Which of its entries.
        entry: u32,
    },
    /// Nothing need be known of `dir` any more.
    Drop {
        /// The directory.
        dir: DirId,
    },
}

/// What directory readahead has decided so far. All counts only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirCounters {
    /// Listings begun or gone on with because a reader waited.
    pub lists_demand: u64,
    /// The same ahead of any reader.
    pub lists_speculative: u64,
    /// Requests for all that lies below a directory.
    pub lists_below: u64,
    /// Directories listed ahead that a reader came to.
    pub lists_hit: u64,
    /// Files fetched ahead of any reader.
    pub fetches: u64,
    /// Of those, files that a reader opened.
    pub fetches_hit: u64,
    /// Walks recognised.
    pub walks: u64,
}
