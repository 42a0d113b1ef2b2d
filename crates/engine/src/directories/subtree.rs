//! A page of a subtree's listing, split into the listings of directories that it holds completely.
//!
//! ```text
//!   after b/    b/1  b/2  b/x/1  c/1 | c/2 ..     b/ : 1 2 x/    whole: the page goes beyond it
//!                                    end of page    b/x/ : 1       whole
//!                                                   c/ : 1         cut off: left out
//! ```
//!
//! *Invariant:* the listing of a directory is what listing it alone would have returned at that
//! moment. A directory that may continue on the next page is left out.

use std::collections::BTreeMap;

use foreread_backend::{Entry, ListPage};

use crate::directories::name;

/// The listings that `page` holds completely, each by its prefix. `page` holds the objects below
/// `prefix` that come after `after`, the prefix of a directory. Directories in `asked` are
/// included even if they are empty.
pub(crate) fn whole(prefix: &str, after: &str, page: ListPage, asked: &[String]) -> BTreeMap<String, Vec<Entry>> {
    if page.entries.iter().any(|entry| entry.key().len() > KEY_BYTES_MAX) {
        return BTreeMap::new();
    }
    let is_end = page.continuation.is_none();
    let last = page.entries.last().map(|entry| entry.key().to_owned());
    let mut listings: BTreeMap<String, Vec<Entry>> = asked.iter().map(|asked| (asked.clone(), Vec::new())).collect();
    for entry in page.entries {
        let key = entry.key();
        let Some(below) = key.strip_prefix(prefix) else { continue };
        let mut above = prefix;
        for (slash, _) in below.match_indices('/') {
            let directory = &key[..=prefix.len() + slash];
            if let Some(siblings) = listings.get_mut(above)
                && siblings.last().is_none_or(|last| last.key() != directory)
            {
                siblings.push(Entry::Prefix(directory.to_owned()));
            }
            if name::of_key(above, directory).is_some() && (above == prefix || listings.contains_key(above)) {
                listings.entry(directory.to_owned()).or_default();
            }
            above = directory;
        }
        // The mark of a directory is no entry of it.
        if above.len() < key.len()
            && let Some(siblings) = listings.get_mut(above)
        {
            siblings.push(entry);
        }
    }
    listings.retain(|directory, _| {
        let beyond = |last: &String| last > directory && !last.starts_with(directory.as_str());
        directory.as_str() >= after && (is_end || last.as_ref().is_some_and(beyond))
    });
    listings
}

/// The longest key of a page that is split, in bytes: twice what S3 and GCS allow. Each directory
/// on the way to a key is a text of its own. Lower: such pages are of no use. Higher: a hostile
/// key takes memory that is quadratic in its length.
const KEY_BYTES_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use foreread_backend::{Key, Object, Version};
    use proptest::prelude::*;

    use super::*;

    fn object(key: &str) -> Entry {
        Entry::Object(Object { key: Key::new(key), version: Version { size: 1, tag: None, modified: None } })
    }

    /// The first `limit` objects below `prefix` after `after`.
    fn page(keys: &BTreeSet<String>, prefix: &str, after: &str, limit: usize) -> ListPage {
        let found = || keys.iter().filter(|key| key.starts_with(prefix) && key.as_str() > after);
        let entries = found().take(limit).map(|key| object(key)).collect();
        ListPage { entries, continuation: (found().count() > limit).then(|| String::from("more")) }
    }

    /// What a store answers for one directory.
    fn list(keys: &BTreeSet<String>, prefix: &str) -> Vec<Entry> {
        let mut entries = Vec::<Entry>::new();
        for key in keys.iter().filter(|key| key.starts_with(prefix) && key.as_str() != prefix) {
            let entry = match key[prefix.len()..].find('/') {
                Some(slash) => Entry::Prefix(key[..=prefix.len() + slash].to_owned()),
                None => object(key),
            };
            if entries.last() != Some(&entry) {
                entries.push(entry);
            }
        }
        entries
    }

    #[test]
    fn a_directory_that_the_page_cuts_off_is_left_out() {
        let keys = ["b/1", "b/2", "b/x/1", "c/1", "c/2"].map(String::from).into();
        let told = whole("", "b/", page(&keys, "", "b/", 4), &[String::from("b/"), String::from("c/")]);
        assert_eq!(told.keys().collect::<Vec<_>>(), ["b/", "b/x/"]);
        assert_eq!(told["b/"].iter().map(Entry::key).collect::<Vec<_>>(), ["b/1", "b/2", "b/x/"]);
    }

    #[test]
    fn a_directory_that_is_gone_is_empty() {
        let keys = ["b/1", "d/1"].map(String::from).into();
        let told = whole("", "b/", page(&keys, "", "b/", 4), &[String::from("b/"), String::from("c/")]);
        assert_eq!(told["c/"], []);
    }

    proptest! {
        #[test]
        fn each_listing_is_what_listing_its_directory_alone_returns(
            keys in prop::collection::btree_set("[ab/.!0]{1,7}", 1..60),
            prefix in prop_oneof!["", "a/"],
            first in "[ab]",
            limit in 1usize..20,
        ) {
            let after = format!("{prefix}{first}/");
            let asked: Vec<_> = ["a", "b"].map(|name| format!("{prefix}{name}/")).into_iter().filter(|asked| *asked >= after).collect();
            for (directory, entries) in whole(&prefix, &after, page(&keys, &prefix, &after, limit), &asked) {
                prop_assert_eq!(entries, list(&keys, &directory), "of {}", directory);
            }
        }

        /// If one page holds everything, no directory is left out.
        #[test]
        fn a_page_of_everything_holds_all_directories(keys in prop::collection::btree_set("[a-c]{1,2}(/[a-c]{1,2}){1,3}", 1..60)) {
            let told = whole("", "", page(&keys, "", "", usize::MAX), &[]);
            let directories: BTreeSet<_> =
                keys.iter().flat_map(|key| key.match_indices('/').map(|(slash, _)| key[..=slash].to_owned())).collect();
            prop_assert_eq!(told.into_keys().collect::<BTreeSet<_>>(), directories);
        }
    }

    #[test]
    fn fuzz_page_of_a_subtree() {
        let seeds: [&[u8]; 2] = [b"p/b/1\np/b/2\np/b/x/1\np/c/1", b"p/b/\np//x\np/b/../y\nq\np/c"];
        foreread_fuzz::fuzz("page of a subtree", &seeds, &["p/", "p/b/", "\n", "/", "//"], |text| {
            let text = String::from_utf8_lossy(text);
            for continuation in [None, Some(String::from("more"))] {
                let entries = text.lines().map(object).collect();
                let told = whole("p/", "p/b/", ListPage { entries, continuation }, &[String::from("p/b/")]);
                for (directory, entries) in told {
                    assert!(directory.starts_with("p/") && directory.ends_with('/'), "{directory:?}");
                    assert!(
                        entries.iter().all(|entry| entry.key().starts_with(&directory) && entry.key() != directory)
                    );
                }
            }
        });
    }
}
