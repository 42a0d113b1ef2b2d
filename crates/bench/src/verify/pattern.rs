//! The patterns in which a worker reads. Each is one that has a mechanism of its own in front of
//! it: in policy, in the kernel, or in the mount.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A pattern of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Pattern {
    /// From a place to the end, in records of one or of mixed sizes.
    Sequential,
    /// Records from a place to the start.
    Backward,
    /// A record, a gap, a record, and so on.
    Strided,
    /// Several sequential streams in one file, in turn.
    Interleaved,
    /// Any offset, any length, any file.
    Random,
    /// Small windows of a mapped file.
    Mapped,
    /// `O_DIRECT`: past the kernel's page cache.
    Direct,
    /// The first bytes of many files, in the order of their names.
    Heads,
    /// The last bytes of many files, past their ends too.
    Tails,
    /// Names, kinds and lengths of a directory's entries.
    Listing,
    /// Open, read a little, close, again: few files, which all processes share.
    Race,
    /// A sequential reader that waits between reads.
    Slow,
}

impl Pattern {
    /// Every pattern.
    pub const ALL: [Self; 12] = [
        Self::Sequential,
        Self::Backward,
        Self::Strided,
        Self::Interleaved,
        Self::Random,
        Self::Mapped,
        Self::Direct,
        Self::Heads,
        Self::Tails,
        Self::Listing,
        Self::Race,
        Self::Slow,
    ];

    /// Its name, one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Backward => "backward",
            Self::Strided => "strided",
            Self::Interleaved => "interleaved",
            Self::Random => "random",
            Self::Mapped => "mapped",
            Self::Direct => "direct",
            Self::Heads => "heads",
            Self::Tails => "tails",
            Self::Listing => "listing",
            Self::Race => "race",
            Self::Slow => "slow",
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
