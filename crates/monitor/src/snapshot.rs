//! What the page is told of an engine at a moment.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use foreread_engine::{Detail, Observer, Stats, Wanted, Watched};
use serde::Serialize;

/// An engine at a moment.
#[derive(Debug, Serialize)]
pub(crate) struct Snapshot {
    /// Since 1970.
    pub(crate) at_ms: u64,
    pub(crate) stats: Stats,
    #[serde(flatten)]
    pub(crate) watched: Watched,
    #[serde(flatten)]
    pub(crate) detail: Detail,
}

/// Numbers in place of the names of objects: the same one for the same name.
#[derive(Debug, Default)]
pub(crate) struct Numbers(Mutex<BTreeMap<String, u64>>);

impl Numbers {
    pub(crate) fn hide(&self, name: &mut String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX && !known.contains_key(name) {
            known.clear();
        }
        let next = known.len() as u64 + 1;
        let number = *known.entry(std::mem::take(name)).or_insert(next);
        *name = format!("file {number}");
    }
}

/// Looks at the engine. `None` once it is gone. With `numbers`, no name of an object is in it, nor
/// one of a process. What was wasted is told of after `since_us`, as [`Detail::now_us`] counts.
pub(crate) fn take(observer: &Observer, numbers: Option<&Numbers>, since_us: u64) -> Option<Snapshot> {
    let stats = observer.stats()?;
    let mut watched = observer.watch(&Wanted::new(STREAMS_MAX))?;
    let mut detail = observer.detail(since_us, FILES_MAX)?;
    if let Some(numbers) = numbers {
        for stream in &mut watched.streams {
            numbers.hide(&mut stream.key);
            (stream.pid, stream.process) = (None, None);
        }
        detail.files.iter_mut().for_each(|file| numbers.hide(&mut file.key));
        detail.wasted.iter_mut().for_each(|wasted| numbers.hide(&mut wasted.key));
        for error in &mut detail.errors {
            error.key.iter_mut().for_each(|key| numbers.hide(key));
            // It has the key, and what the storage said of it.
            error.text = None;
        }
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Snapshot { at_ms: since.as_millis() as u64, stats, watched, detail })
}

/// Streams that are told of at most. Lower: of many readers, fewer are seen. Higher: more bytes a
/// second, 300 each. Source: a guess: more than a person looks through.
const STREAMS_MAX: usize = 64;

/// Files that are told of at most. Lower: of many, fewer are seen. Higher: more bytes a second,
/// 150 each. Source: a guess: as many as fit on a page.
const FILES_MAX: usize = 32;

/// Names that have numbers at most; then the numbers begin anew. Lower: a name has another number
/// sooner. Higher: more memory. Source: a guess: 400 KB.
const KNOWN_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_the_names_are_bounded() {
        let numbers = Numbers::default();
        let hidden = |name: &str| {
            let mut name = name.to_owned();
            numbers.hide(&mut name);
            name
        };
        assert_eq!([hidden("secret/a"), hidden("b"), hidden("secret/a")], ["file 1", "file 2", "file 1"]);
        (0..2 * KNOWN_MAX).for_each(|nth| _ = hidden(&nth.to_string()));
        assert!(numbers.0.lock().expect("no panic").len() <= KNOWN_MAX);
    }
}
