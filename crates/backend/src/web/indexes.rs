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
#[derive(Debug)]
pub(super) struct Indexes {
    /// Newest last.
    kept: VecDeque<Index>,
    most_bytes: usize,
}

#[derive(Debug)]
struct Index {
    prefix: String,
    names: Arc<Names>,
}

/// The names of one index page, in order: one after the other, and where each ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names {
    text: Box<str>,
    ends: Box<[u32]>,
}

impl Names {
    pub(super) fn new(names: Vec<String>) -> Self {
        let mut text = String::with_capacity(names.iter().map(String::len).sum());
        let ended = |name: String| {
            text.push_str(&name);
            // A page is shorter than that.
            u32::try_from(text.len()).unwrap_or(u32::MAX)
        };
        let ends = names.into_iter().map(ended).collect();
        Self { text: text.into_boxed_str(), ends }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[at] as usize]
    }

    /// The names from the one at `at` on.
    pub(super) fn from(&self, at: usize) -> impl Iterator<Item = &str> {
        (at..self.len()).map(|at| self.get(at))
    }

    /// Where the first name after `last` is.
    pub(super) fn after(&self, last: &str) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.get(middle) <= last {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }
}

impl Default for Indexes {
    fn default() -> Self {
        Self { kept: VecDeque::new(), most_bytes: BYTES_MAX }
    }
}

impl Indexes {
    /// The names last kept for `prefix`.
    pub(super) fn get(&self, prefix: &str) -> Option<Arc<Names>> {
        self.kept.iter().find(|index| index.prefix == prefix).map(|index| Arc::clone(&index.names))
    }

    /// Keeps the names of `prefix` instead of those that were kept for it. The oldest go.
    pub(super) fn keep(&mut self, prefix: &str, names: &Arc<Names>) {
        let same = |index: &Index| index.prefix == prefix && Arc::ptr_eq(&index.names, names);
        if self.kept.back().is_some_and(same) {
            return;
        }
        self.kept.retain(|index| index.prefix != prefix);
        self.kept.push_back(Index { prefix: prefix.to_owned(), names: Arc::clone(names) });
        self.shrink();
    }

    /// A listing of `prefix` that read `names` is over.
    pub(super) fn forget(&mut self, prefix: &str, names: &Arc<Names>) {
        self.kept.retain(|index| index.prefix != prefix || !Arc::ptr_eq(&index.names, names));
    }

    /// Keeps no more than so many bytes from now on, but for the newest.
    pub(super) fn keep_at_most(&mut self, bytes: usize) {
        self.most_bytes = bytes.min(BYTES_MAX);
        self.shrink();
    }

    /// The newest stays: the listing that reads it would otherwise read the index for each page.
    fn shrink(&mut self) {
        while self.kept.len() > 1 && self.bytes() > self.most_bytes {
            self.kept.pop_front();
        }
    }

    /// Memory that is kept, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.kept.iter().map(|index| index.names.bytes() + index.prefix.len() + size_of::<Index>()).sum()
    }
}

/// Memory for names, in bytes, however large the budget is. Lower: listings that run side by side
/// read their indexes again. Higher: more memory.
const BYTES_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_within_a_bound_and_the_newest_always() {
        let names = |count: usize| Arc::new(Names::new(vec!["n".repeat(1000); count]));
        let mut indexes = Indexes::default();
        for at in 0..100 {
            indexes.keep(&at.to_string(), &names(1000));
        }
        let kept = (0..100).filter(|at| indexes.get(&at.to_string()).is_some()).count();
        assert!((20..40).contains(&kept), "{kept}");
        indexes.keep_at_most(4 << 20);
        assert!((3 << 20..=4 << 20).contains(&indexes.bytes()), "{} bytes", indexes.bytes());
        indexes.keep("large", &names(100_000));
        assert!(indexes.get("large").is_some() && indexes.get("99").is_none());
        assert!(indexes.bytes() >= 100_000_000);
    }

    #[test]
    fn names_come_in_order_from_any_of_them() {
        let names = Names::new(["a", "b", "d"].map(String::from).to_vec());
        for (last, rest) in [("", "abd"), ("a", "bd"), ("b", "d"), ("c", "d"), ("d", "")] {
            assert_eq!(names.from(names.after(last)).collect::<String>(), rest, "after {last}");
        }
    }

    #[test]
    fn a_listing_that_is_over_forgets_its_own_names_only() {
        let names = |name: &str| Arc::new(Names::new(vec![name.to_owned()]));
        let (old, new) = (names("a"), names("b"));
        let mut indexes = Indexes::default();
        indexes.keep("p/", &old);
        indexes.keep("p/", &new);
        indexes.forget("p/", &old);
        assert_eq!(indexes.get("p/"), Some(Arc::clone(&new)));
        indexes.forget("p/", &new);
        assert_eq!(indexes.get("p/"), None);
    }
}
