//! One thing that is not right, as a worker writes it (a line of JSON) and as the report shows it.

use serde::{Deserialize, Serialize};

use crate::verify::pattern::Pattern;

/// What is not right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// Bytes, a length or a name that the source does not have there.
    Wrong,
    /// A system call failed.
    Error,
    /// A call took longer than the bound.
    Slow,
    /// A call did not return.
    Stuck,
}

/// The call that a worker makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Operation {
    /// None: it compares, pauses, or has ended.
    #[default]
    None,
    /// `open`, with `fstat`.
    Open,
    /// `pread`.
    Read,
    /// `pread` of a descriptor with `O_DIRECT`.
    Direct,
    /// A copy out of a mapping.
    Map,
    /// `readdir`, with `stat` of some entries.
    List,
    /// Anything at the source.
    Source,
}

impl Operation {
    pub(crate) const ALL: [Self; 7] =
        [Self::None, Self::Open, Self::Read, Self::Direct, Self::Map, Self::List, Self::Source];

    /// Its name, one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Open => "open",
            Self::Read => "read",
            Self::Direct => "direct read",
            Self::Map => "mapped read",
            Self::List => "listing",
            Self::Source => "read of the source",
        }
    }
}

/// One thing that is not right. What does not apply is absent from its JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// What is not right.
    pub kind: Kind,
    /// The worker, from 0.
    pub process: u32,
    /// The number of the worker's task.
    pub task: u64,
    /// The task's pattern.
    pub pattern: Pattern,
    /// The call.
    pub operation: Operation,
    /// The file or directory, below the top; empty: the top.
    pub path: String,
    /// Where the call begins, in bytes.
    pub offset: u64,
    /// The bytes that it asks for.
    pub len: u64,
    /// What happened, in words.
    pub message: String,
    /// The number of the error.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub errno: Option<i32>,
    /// The offset in the file of the first byte that is wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub differs_at: Option<u64>,
    /// How many bytes are wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub differing_bytes: Option<u64>,
    /// A hash of the bytes that the source has, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected_hash: Option<String>,
    /// A hash of the bytes that were read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub got_hash: Option<String>,
    /// How long the call took, or has been waiting, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waited_ms: Option<u64>,
    /// The process of a stuck call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pid: Option<u32>,
}
