//! What a directory has and a listing does not: links that lead out, nowhere or in a circle,
//! pipes, sockets, devices.
//!
//! ```text
//!   a page of a listing ──> names ──> new ones ── the first, or ten times as many? ──> a warning
//!                                        └─ of the last warnings: nothing
//! ```
//!
//! Directories are listed again and again, so a name counts once. Beyond [`NAMES_MAX`] none does.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use rustix::fs::FileType;
use rustix::io::Errno;

/// Why a name is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    LinkInCircle,
    LinkOut,
    LinkNowhere,
    Special,
}

impl Why {
    /// What is neither a file nor a directory.
    pub(super) fn of(kind: FileType) -> Option<Self> {
        (!matches!(kind, FileType::RegularFile | FileType::Directory)).then_some(Self::Special)
    }

    /// What a link comes to that could not be followed.
    pub(super) fn of_link(errno: Errno) -> Self {
        match errno {
            Errno::XDEV => Self::LinkOut,
            Errno::LOOP => Self::LinkInCircle,
            _ => Self::LinkNowhere,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::LinkInCircle => "a symlink that leads in a circle",
            Self::LinkOut => "a symlink that is absolute or leads out of the directory",
            Self::LinkNowhere => "a symlink that leads nowhere",
            Self::Special => "neither a file nor a directory",
        }
    }
}

/// The names that were left out so far.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    known: HashSet<u64>,
    hasher: RandomState,
    warned: usize,
}

impl LeftOut {
    /// These were left out of a page.
    pub(super) fn note(&self, names: &[(String, Why)]) {
        if let Some((name, why, count)) = self.warning(names) {
            tracing::warn!(name, why = why.text(), names = count, "names of this directory are not shown");
        }
    }

    /// The first of `names`, and how many are known, if that is worth a warning.
    fn warning<'a>(&self, names: &'a [(String, Why)]) -> Option<(&'a str, Why, usize)> {
        let (name, why) = names.first()?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, _) in names {
            if all.known.len() < NAMES_MAX {
                let hash = all.hasher.hash_one(name);
                all.known.insert(hash);
            }
        }
        let count = all.known.len();
        if count < (all.warned * 10).max(1) {
            return None;
        }
        all.warned = count;
        Some((name, *why, count))
    }
}

/// Names that are told from others. Lower: the count of a warning ends there. Higher: more memory,
/// 16 bytes a name.
const NAMES_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_warned_of_once_and_many_by_their_count() {
        let left_out = LeftOut::default();
        let names = |range: std::ops::Range<u32>| -> Vec<_> {
            range.map(|name| (format!("d/{name}"), if name == 0 { Why::LinkOut } else { Why::Special })).collect()
        };
        assert_eq!(left_out.warning(&[]), None);
        assert_eq!(left_out.warning(&names(0..3)), Some(("d/0", Why::LinkOut, 3)));
        assert_eq!(left_out.warning(&names(0..3)), None, "the same again");
        assert_eq!(left_out.warning(&names(1..29)), None);
        assert_eq!(left_out.warning(&names(5..31)), Some(("d/5", Why::Special, 31)));
        assert_eq!(left_out.warning(&names(0..300_000)), Some(("d/0", Why::LinkOut, NAMES_MAX)));
        assert_eq!(left_out.warning(&names(0..300_001)), None);
    }
}
