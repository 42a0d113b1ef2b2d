//! Bodies of objects that were read before anything was known of them.
//!
//! ```text
//!   a name that nothing tells, and that is to be read
//!      └─ one request ── head: the version ──> the object is opened
//!                          └─ body ── kept ──> claimed by the first request of that version
//!                                        └──> dropped, with its connection, after KEPT_FOR
//! ```
//!
//! A body that is kept waits in its connection, as every body does that has no memory yet. What it
//! has not is asked for by another request.
//!
//! *Invariants:* a body is claimed once, for the version that its head told. At most one first
//! read of a key is under way, and [`KEPT_MAX`] bodies are kept. Source: docs/decisions/0095.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use foreread_backend::lock::Mutex;
use foreread_backend::{Body, Current, Key, Object};
use futures::{StreamExt, future};
use tokio::time::Instant;

/// First reads that are under way, and bodies that no request has claimed.
#[derive(Default)]
pub(crate) struct Unclaimed(Mutex<HashMap<Key, Option<First>>>);

/// A body, when it was asked for, and how long its head took.
pub(crate) struct First {
    current: Current,
    asked: Instant,
    pub(crate) took: Duration,
}

impl First {
    /// The bytes of `wanted`, as far as it has them; it has the first one.
    pub(crate) fn into_body(self, wanted: &Range<u64>) -> Body {
        let Current { range, body, .. } = self.current;
        let cut = (wanted.start - range.start, wanted.end - wanted.start);
        let cut = body.scan(cut, |(skip, left), piece| {
            let piece = piece.map(|piece| {
                let from = (*skip).min(piece.len() as u64);
                let to = (from + *left).min(piece.len() as u64);
                (*skip, *left) = (*skip - from, *left - (to - from));
                piece.slice(from as usize..to as usize)
            });
            future::ready(Some(piece))
        });
        Box::pin(cut)
    }
}

/// The right to read a key first, until it is dropped or kept.
pub(crate) struct Turn<'a> {
    unclaimed: &'a Unclaimed,
    key: &'a Key,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut bodies = self.unclaimed.0.lock();
        if matches!(bodies.get(self.key), Some(None)) {
            bodies.remove(self.key);
        }
    }
}

impl Turn<'_> {
    /// The object was asked for at `asked`, and has answered.
    pub(crate) fn keep(self, current: Current, asked: Instant) {
        let took = asked.elapsed();
        self.unclaimed.0.lock().insert(self.key.clone(), Some(First { current, asked, took }));
    }
}

impl Unclaimed {
    /// The turn to read `key` first: not while another reader does, or a body of it is kept.
    pub(crate) fn turn<'a>(&'a self, key: &'a Key) -> Option<Turn<'a>> {
        let mut bodies = self.0.lock();
        if bodies.contains_key(key) || bodies.len() >= KEPT_MAX {
            return None;
        }
        bodies.insert(key.clone(), None);
        Some(Turn { unclaimed: self, key })
    }

    /// The body of `object` that has the first byte of `wanted`.
    pub(crate) fn claim(&self, object: &Object, wanted: &Range<u64>) -> Option<First> {
        let mut bodies = self.0.lock();
        let Current { object: found, range, .. } = &bodies.get(&object.key)?.as_ref()?.current;
        let begins = range.contains(&wanted.start) && wanted.start - range.start <= SKIP_BYTES_MAX;
        if !begins || found.version != object.version {
            return None;
        }
        bodies.remove(&object.key)?
    }

    /// The body of `key` that was asked for at `asked` is not kept any longer.
    pub(crate) fn give_up(&self, key: &Key, asked: Instant) {
        let mut bodies = self.0.lock();
        if matches!(bodies.get(key), Some(Some(first)) if first.asked == asked) {
            bodies.remove(key);
        }
    }
}

/// How long a body is kept, 1 s: a read follows at once, unless its program was held up. Lower:
/// such a program's read costs a request more. Higher: connections stay taken for programs that do
/// not read after all.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(1);

/// First reads under way and bodies kept, 256: as many as a store answers side by side. Lower: of
/// many names at once some cost two requests. Higher: more connections that no read has asked for.
const KEPT_MAX: usize = 256;

/// Bytes of a body that are dropped to reach a request's first one. Lower: reads of the middle of
/// an object cost a request more. Higher: more bytes in vain.
const SKIP_BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use foreread_backend::Version;
    use futures::{FutureExt, TryStreamExt, stream};

    use super::*;

    fn object(size: u64) -> Object {
        Object { key: Key::new("k"), version: Version { size, tag: None, modified: None } }
    }

    /// A body of `range`, whose bytes tell their places, in pieces of seven.
    fn current(object: &Object, range: Range<u64>) -> Current {
        let bytes: Vec<u8> = range.clone().map(|at| at as u8).collect();
        let pieces: Vec<_> = bytes.chunks(7).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        Current { object: object.clone(), range, body: Box::pin(stream::iter(pieces)) }
    }

    #[test]
    fn a_body_is_claimed_once_and_for_its_version() {
        let (unclaimed, object, asked) = (Unclaimed::default(), object(100), Instant::now());
        unclaimed.turn(&object.key).expect("the first").keep(current(&object, 10..50), asked);
        assert!(unclaimed.turn(&object.key).is_none(), "a body is kept");
        let other = self::object(99);
        assert!(unclaimed.claim(&other, &(10..20)).is_none(), "of another version");
        assert!(unclaimed.claim(&object, &(9..20)).is_none(), "it begins later");
        assert!(unclaimed.claim(&object, &(50..51)).is_none(), "it ends before");
        let first = unclaimed.claim(&object, &(20..60)).expect("a body");
        assert!(unclaimed.claim(&object, &(20..60)).is_none(), "it is taken");
        let bytes: Vec<_> = first.into_body(&(20..60)).try_collect().now_or_never().expect("at once").expect("bytes");
        assert_eq!(bytes.concat(), (20..50).collect::<Vec<u8>>());
    }

    #[test]
    fn no_more_comes_of_a_body_than_is_wanted() {
        let object = object(100);
        for wanted in [0..1, 0..7, 3..18, 7..14, 13..15, 99..100] {
            let first = First { current: current(&object, 0..100), asked: Instant::now(), took: Duration::ZERO };
            let bytes: Vec<_> = first.into_body(&wanted).try_collect().now_or_never().expect("at once").expect("bytes");
            assert_eq!(bytes.concat(), (wanted.start as u8..wanted.end as u8).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn a_turn_ends_with_its_reader_and_a_body_with_its_time() {
        let (unclaimed, object, asked) = (Unclaimed::default(), object(100), Instant::now());
        let turn = unclaimed.turn(&object.key).expect("the first");
        assert!(unclaimed.turn(&object.key).is_none(), "another reader asks");
        drop(turn);
        unclaimed.turn(&object.key).expect("the next").keep(current(&object, 0..50), asked);
        unclaimed.give_up(&object.key, asked + Duration::from_nanos(1));
        assert!(unclaimed.claim(&object, &(0..1)).is_some(), "an older one was to be given up");
        unclaimed.turn(&object.key).expect("the next").keep(current(&object, 0..50), asked);
        unclaimed.give_up(&object.key, asked);
        assert!(unclaimed.claim(&object, &(0..1)).is_none());
    }

    #[test]
    fn first_reads_are_bounded() {
        let unclaimed = Unclaimed::default();
        let keys: Vec<_> = (0..=KEPT_MAX).map(|n| Key::new(n.to_string())).collect();
        let turns: Vec<_> = keys.iter().filter_map(|key| unclaimed.turn(key)).collect();
        assert_eq!(turns.len(), KEPT_MAX);
        drop(turns);
        assert!(unclaimed.turn(&keys[KEPT_MAX]).is_some());
    }
}
