//! The names of index pages, kept from one page of a listing to the next.
//!
//! ```text
//!   page 1 ── keep ──> names of the prefix ── get ──> page 2 ── .. ── last page ── forget
//!                        └─ too many, or another listing is over: the next page reads the
//!                           index again, and goes on after the same name
//! ```
//!
//! *Invariant:* which names a listing has never depends on what is kept: a page begins after a
//! name, not at a position.

use std::collections::VecDeque;
use std::sync::Arc;

/// The names on the index pages that are being listed.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    /// Newest last.
    kept: VecDeque<Index>,
}

#[derive(Debug)]
struct Index {
    prefix: String,
    names: Arc<Vec<String>>,
    bytes: usize,
}

impl Indexes {
    /// The names last kept for `prefix`.
    pub(super) fn get(&self, prefix: &str) -> Option<Arc<Vec<String>>> {
        self.kept.iter().find(|index| index.prefix == prefix).map(|index| Arc::clone(&index.names))
    }

    /// Keeps the names of `prefix` instead of those that were kept for it. The oldest go.
    pub(super) fn keep(&mut self, prefix: &str, names: &Arc<Vec<String>>) {
        let same = |index: &Index| index.prefix == prefix && Arc::ptr_eq(&index.names, names);
        if self.kept.back().is_some_and(same) {
            return;
        }
        self.kept.retain(|index| index.prefix != prefix);
        let bytes = names.iter().map(|name| name.capacity() + size_of::<String>()).sum();
        self.kept.push_back(Index { prefix: prefix.to_owned(), names: Arc::clone(names), bytes });
        // The newest stays: the listing that reads it would otherwise read the index for each
        // page.
        while self.kept.len() > 1 && self.kept.iter().map(|index| index.bytes).sum::<usize>() > BYTES_MAX {
            self.kept.pop_front();
        }
    }

    /// A listing of `prefix` that read `names` is over.
    pub(super) fn forget(&mut self, prefix: &str, names: &Arc<Vec<String>>) {
        self.kept.retain(|index| index.prefix != prefix || !Arc::ptr_eq(&index.names, names));
    }
}

/// Memory for names, in bytes. Lower: listings that run side by side read their indexes again.
/// Higher: more memory.
const BYTES_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_within_a_bound_and_the_newest_always() {
        let names = |count: usize| Arc::new(vec!["n".repeat(1000); count]);
        let mut indexes = Indexes::default();
        for at in 0..100 {
            indexes.keep(&at.to_string(), &names(1000));
        }
        let kept = (0..100).filter(|at| indexes.get(&at.to_string()).is_some()).count();
        assert!((20..40).contains(&kept), "{kept}");
        indexes.keep("large", &names(100_000));
        assert!(indexes.get("large").is_some() && indexes.get("99").is_none());
    }

    #[test]
    fn a_listing_that_is_over_forgets_its_own_names_only() {
        let (old, new) = (Arc::new(vec![String::from("a")]), Arc::new(vec![String::from("b")]));
        let mut indexes = Indexes::default();
        indexes.keep("p/", &old);
        indexes.keep("p/", &new);
        indexes.forget("p/", &old);
        assert_eq!(indexes.get("p/"), Some(Arc::clone(&new)));
        indexes.forget("p/", &new);
        assert_eq!(indexes.get("p/"), None);
    }
}
