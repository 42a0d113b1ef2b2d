//! Looks at what policy knows, to show it.
//!
//! *Invariant:* nothing changes. What is passed over costs no allocation: the shard is held.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use foreread_policy::{Nanos, PAGE_BYTES, StreamState, Wasted};

use super::Shard;
use crate::detail::{Detail, FileUse, WastedRange};
use crate::pages::opened::Opened;
use crate::pages::uses::Used;
use crate::watch::{Link, Order, Stream, Wanted, Watched};

/// A stream and its file.
type Known<'s> = (StreamState, &'s Opened);

impl Shard {
    /// What is being read just now, of what is `wanted`.
    pub(crate) fn watch(&self, now: Nanos, wanted: &Wanted<'_>) -> Watched {
        let part = wanted.part.to_lowercase();
        let of = |state: StreamState| {
            let opened: &Opened = self.files.get(state.file)?;
            let own = opened.object.key.as_str();
            let is_wanted =
                wanted.key.is_none_or(|key| key == own) && (part.is_empty() || own.to_lowercase().contains(&part));
            is_wanted.then_some((state, opened))
        };
        let mut known: Vec<Known<'_>> = self.policy.streams().filter_map(of).collect();
        let all = known.len();
        let first = wanted.first.min(all);
        let end = first.saturating_add(wanted.most).min(all);
        let order = |one: &Known<'_>, other: &Known<'_>| {
            let (one, other) = if wanted.is_reversed { (other, one) } else { (one, other) };
            order(wanted.order, one, other)
        };
        if end == 0 {
            known.clear();
        } else if end < all {
            known.select_nth_unstable_by(end - 1, order);
            known.truncate(end);
        }
        known.sort_unstable_by(order);
        let shown = known.into_iter().skip(first);
        let streams: Vec<Stream> = shown
            .map(|(state, opened)| Stream {
                served_us: self.policy.served_ns(state.file, state.id) / 1_000,
                pid: opened.uses.process(),
                ..Stream::new(opened.object.key.as_str(), opened.size(), state, now)
            })
            .collect();
        let service = self.policy.service();
        let served_us = (service.demand_ns + service.readahead_ns) / 1_000;
        let file = wanted.key.and_then(|key| self.file(key));
        let in_vain = wanted.key.map(|key| self.wasted(now, Nanos(0), Some(key), WASTED_OF_FILE_MAX).0);
        Watched {
            more_streams: all - streams.len(),
            streams,
            first,
            served_us,
            link: self.link(),
            file,
            wasted: in_vain.unwrap_or_default(),
        }
    }

    /// How many streams there are.
    pub(crate) fn streams(&self) -> usize {
        self.policy.streams_len()
    }

    /// The way to the storage.
    pub(crate) fn link(&self) -> Link {
        self.policy.link().into()
    }

    /// What has been done: at most `most_files` files, and what was wasted since then. The engine
    /// knows the failures.
    pub(crate) fn detail(&self, now: Nanos, since: Nanos, most_files: usize) -> Detail {
        let used = self.files.all().map(|opened| (opened.uses.so_far(), opened));
        let size = |used: &Used| used.read_bytes.max(used.fetched_bytes);
        let mut used: Vec<_> = used.filter(|(used, _)| size(used) > 0).collect();
        let all = used.len();
        let order = |(used, opened): &(Used, &Arc<Opened>)| (Reverse(size(used)), opened.id);
        if most_files == 0 {
            used.clear();
        } else if most_files < all {
            used.select_nth_unstable_by_key(most_files - 1, order);
            used.truncate(most_files);
        }
        used.sort_unstable_by_key(order);
        let files: Vec<_> = used.into_iter().map(|(_, opened)| self.use_of(opened)).collect();
        let (wasted, more_wasted) = self.wasted(now, since, None, WASTED_MAX);
        Detail {
            now_us: now.0 / 1_000,
            more_files: all - files.len(),
            files,
            wasted,
            more_wasted,
            errors: Vec::new(),
            service: self.policy.service().into(),
        }
    }
}

impl Shard {
    /// What has been done with the object `key`; of several versions, with the one opened last.
    fn file(&self, key: &str) -> Option<FileUse> {
        let of_key = self.files.all().filter(|opened| opened.object.key.as_str() == key);
        of_key.max_by_key(|opened| opened.id).map(|opened| self.use_of(opened))
    }

    fn use_of(&self, opened: &Opened) -> FileUse {
        let Used { read_bytes, fetched_bytes, late_reads } = opened.uses.so_far();
        FileUse {
            key: opened.object.key.as_str().to_owned(),
            size_bytes: opened.size(),
            read_bytes,
            fetched_bytes,
            wasted_bytes: self.policy.wasted_pages(opened.id) * PAGE_BYTES,
            late_reads,
        }
    }

    /// What was wasted after `since`, of one object alone if there is a `key`: `most` pieces at
    /// most, and how many more there are.
    fn wasted(&self, now: Nanos, since: Nanos, key: Option<&str>, most: usize) -> (Vec<WastedRange>, usize) {
        let of = |piece: &Wasted| {
            let opened = self.files.get(piece.file)?;
            let own = opened.object.key.as_str();
            (piece.at > since && key.is_none_or(|key| key == own)).then_some((*piece, opened))
        };
        let mut pieces: Vec<_> = self.policy.wasted().filter_map(of).collect();
        pieces.reverse();
        let more = pieces.len().saturating_sub(most);
        let shown = pieces.into_iter().take(most).map(|(piece, opened)| {
            let within = |page: u64| (page * PAGE_BYTES).min(opened.size());
            WastedRange {
                key: opened.object.key.as_str().to_owned(),
                start_bytes: within(piece.extent.start),
                end_bytes: within(piece.extent.end),
                ago_ms: now.since(piece.at).0 / 1_000_000,
                thrashed: piece.thrashed,
            }
        });
        (shown.collect(), more)
    }
}

/// The order of two streams; those that are equal in it are told apart by their numbers.
fn order(by: Order, (one, of_one): &Known<'_>, (other, of_other): &Known<'_>) -> Ordering {
    let chosen = match by {
        Order::Idle => other.last.cmp(&one.last),
        Order::Rate => other.pages_per_s.cmp(&one.pages_per_s),
        Order::Window => other.window_pages.cmp(&one.window_pages),
        Order::Late => other.late.cmp(&one.late),
        Order::File => of_one.object.key.as_str().cmp(of_other.object.key.as_str()),
    };
    chosen.then((one.file, one.id).cmp(&(other.file, other.id)))
}

/// Pieces of waste that are told of at a time. Lower: of much at a time less is seen. Higher: more
/// bytes for each look, 100 each and a key. Source: a guess: as many as streams.
const WASTED_MAX: usize = 64;

/// The same of one object. Lower: less of it is seen. Higher: fewer streams fit into an answer of
/// 16 KiB. Source: a guess: what a person reads.
const WASTED_OF_FILE_MAX: usize = 8;
