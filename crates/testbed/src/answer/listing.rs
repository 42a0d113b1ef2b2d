//! One page of a listing: keys and common prefixes, in order, from a token on.

use std::sync::Arc;

use crate::Effect;
use crate::objects::{Next, Object, Objects};

/// The parameters of a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query<'a> {
    pub(crate) prefix: &'a str,
    /// Keys that have it after the prefix are rolled up; empty for none.
    pub(crate) delimiter: &'a str,
    pub(crate) start: Start,
    pub(crate) entries_max: usize,
}

/// Where a page starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Start {
    #[default]
    First,
    /// After this key, which may be any text.
    AfterKey(String),
    /// After everything that starts with this: a common prefix that has been listed.
    AfterPrefix(String),
    /// This many empty pages later, where a fault leads.
    Nowhere(u64),
}

/// A page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) prefixes: Vec<String>,
    /// Where the next page starts; `None` if this is the last one.
    pub(crate) next: Option<Start>,
}

impl Page {
    pub(crate) fn read(objects: &Objects, query: &Query<'_>) -> Self {
        let mut page = Self::default();
        if query.entries_max == 0 {
            return page;
        }
        let from = match &query.start {
            Start::First | Start::Nowhere(_) => "",
            Start::AfterKey(after) | Start::AfterPrefix(after) => after,
        };
        let mut last = None;
        objects.walk(query.prefix, from, |object| {
            match &query.start {
                Start::AfterKey(after) if object.key == *after => return Some(Next::Key),
                Start::AfterPrefix(after) if object.key.starts_with(after) => return Some(Next::After(after.clone())),
                _ => {}
            }
            if page.objects.len() + page.prefixes.len() == query.entries_max {
                page.next = last.take();
                return None;
            }
            let rest = &object.key[query.prefix.len()..];
            let end = if query.delimiter.is_empty() { None } else { rest.find(query.delimiter) };
            if let Some(end) = end {
                let prefix = &object.key[..query.prefix.len() + end + query.delimiter.len()];
                page.prefixes.push(prefix.to_owned());
                last = Some(Start::AfterPrefix(prefix.to_owned()));
                Some(Next::After(prefix.to_owned()))
            } else {
                page.objects.push(Arc::clone(object));
                last = Some(Start::AfterKey(object.key.clone()));
                Some(Next::Key)
            }
        });
        page
    }
}

impl Start {
    /// The page after this one under a fault. A client that checks its token does not request it.
    pub(crate) fn misled(&self, effect: Effect) -> Option<Self> {
        match (effect, self) {
            (Effect::RepeatToken, start) => Some(start.clone()),
            (Effect::Endless, Self::Nowhere(pages)) => Some(Self::Nowhere(pages + 1)),
            (Effect::Endless, _) => Some(Self::Nowhere(1)),
            _ => None,
        }
    }

    /// An opaque token, so that clients do not make one of a key.
    pub(crate) fn to_token(&self) -> String {
        let pages;
        let (tag, text) = match self {
            Self::Nowhere(count) => {
                pages = count.to_string();
                ('n', pages.as_str())
            }
            Self::First => ('f', ""),
            Self::AfterKey(key) => ('k', key.as_str()),
            Self::AfterPrefix(prefix) => ('p', prefix.as_str()),
        };
        text.bytes().fold(tag.to_string(), |token, byte| token + &format!("{byte:02x}"))
    }

    pub(crate) fn from_token(token: &str) -> Option<Self> {
        let (tag, hex) = token.split_at_checked(1)?;
        let byte = |pair: &[u8]| match pair {
            [_, _] => u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok(),
            _ => None,
        };
        let bytes = hex.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
        let text = String::from_utf8(bytes).ok()?;
        match tag {
            "f" => Some(Self::First),
            "n" => Some(Self::Nowhere(text.parse().ok()?)),
            "k" => Some(Self::AfterKey(text)),
            "p" => Some(Self::AfterPrefix(text)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ObjectSpec;

    fn entries(page: &Page) -> Vec<String> {
        let mut entries: Vec<String> = page.objects.iter().map(|object| object.key.clone()).collect();
        entries.extend(page.prefixes.iter().cloned());
        entries.sort();
        entries
    }

    #[test]
    fn a_delimiter_rolls_up() {
        let specs = ["a/1", "a/2", "b", "c/d/e", "c/f"].map(|key| ObjectSpec::new(key, 0));
        let objects = Objects::new(&specs, None).unwrap();
        let query = Query { delimiter: "/", entries_max: 10, ..Query::default() };
        let page = Page::read(&objects, &query);
        assert_eq!(page.prefixes, ["a/", "c/"]);
        assert_eq!(page.objects.len(), 1);
        assert_eq!(page.next, None);
        let page = Page::read(&objects, &Query { prefix: "c/", ..query });
        assert_eq!(entries(&page), ["c/d/", "c/f"]);
    }

    #[test]
    fn a_start_after_a_prefix_still_lists_it() {
        let objects = Objects::new(&["a/1", "a/2", "b"].map(|key| ObjectSpec::new(key, 0)), None).unwrap();
        let start = Start::AfterKey("a/1".to_owned());
        let page = Page::read(&objects, &Query { delimiter: "/", entries_max: 10, start, ..Query::default() });
        assert_eq!(entries(&page), ["a/", "b"]);
    }

    #[test]
    fn a_token_is_not_just_any_text() {
        for token in ["", "a", "k0", "kzz", "kff", "é"] {
            assert_eq!(Start::from_token(token), None, "{token}");
        }
    }

    proptest! {
        #[test]
        fn pages_add_up_to_the_whole(
            keys in prop::collection::btree_set("[ab/é]{1,5}", 0..40),
            prefix in "[ab/]{0,2}",
            delimiter in "/?",
            entries_max in 1usize..5,
        ) {
            let specs: Vec<ObjectSpec> = keys.iter().map(|key| ObjectSpec::new(key.as_str(), 0)).collect();
            let objects = Objects::new(&specs, None).unwrap();
            let mut expected: Vec<String> = keys
                .iter()
                .filter(|key| key.starts_with(&prefix))
                .map(|key| match key[prefix.len()..].find('/').filter(|_| !delimiter.is_empty()) {
                    Some(end) => key[..=prefix.len() + end].to_owned(),
                    None => key.clone(),
                })
                .collect();
            expected.sort();
            expected.dedup();
            let mut found = Vec::new();
            let mut start = Start::First;
            loop {
                let query = Query { prefix: &prefix, delimiter: &delimiter, start, entries_max };
                let page = Page::read(&objects, &query);
                let entries = entries(&page);
                prop_assert!(entries.len() <= entries_max);
                found.extend(entries);
                match page.next {
                    Some(next) => start = Start::from_token(&next.to_token()).unwrap(),
                    None => break,
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
