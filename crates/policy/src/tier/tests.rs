//! Readers of a cache of 512 blocks, beside rules that it is compared with.

extern crate std;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use std::println;

use proptest::prelude::*;

use super::model::TierModel;
use super::*;

const SEGMENT_BLOCKS: u64 = 16;
const BLOCKS: u64 = SEGMENT_BLOCKS * 32;
const ALL: u32 = u32::MAX;

/// A cache of whole blocks.
struct Cache(TierModel);

impl Cache {
    fn new() -> Self {
        Self(TierModel::new(BLOCKS * BLOCK_PAGES, SEGMENT_BLOCKS * BLOCK_PAGES))
    }

    fn read(&mut self, block: u64) -> bool {
        let is_there = self.0.read(block, ALL);
        if !is_there {
            self.0.offer(block, ALL);
        }
        is_there
    }

    /// The part of the reads that hit.
    fn round(&mut self, blocks: impl IntoIterator<Item = u64>) -> f64 {
        let (mut hits, mut all) = (0, 0);
        for block in blocks {
            hits += u64::from(self.read(block));
            all += 1;
        }
        hits as f64 / f64::from(all)
    }

    /// Blocks that were admitted.
    fn admitted(&self) -> u64 {
        self.0.counts().admitted / BLOCK_PAGES
    }

    /// Blocks that were carried over.
    fn carried(&self) -> u64 {
        self.0.counts().carried / BLOCK_PAGES
    }
}

/// Numbers that look random: splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn shuffled(blocks: u64, seed: &mut u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..blocks).collect();
    (1..order.len()).rev().for_each(|at| order.swap(at, (random(seed) % (at as u64 + 1)) as usize));
    order
}

/// Hits of the rule that drops what is read again last, and may refuse.
fn belady(reads: &[u64], blocks: usize) -> u64 {
    let (mut next, mut last) = (vec![usize::MAX; reads.len()], BTreeMap::new());
    for (at, block) in reads.iter().enumerate().rev() {
        next[at] = last.insert(block, at).unwrap_or(usize::MAX);
    }
    let (mut kept, mut hits) = (BTreeSet::new(), 0);
    for (at, &block) in reads.iter().enumerate() {
        hits += u64::from(kept.remove(&(at, block)));
        kept.insert((next[at], block));
        if kept.len() > blocks {
            kept.pop_last();
        }
    }
    hits
}

fn lru(reads: &[u64], blocks: usize) -> u64 {
    let (mut order, mut last, mut hits) = (BTreeMap::new(), BTreeMap::new(), 0);
    for (at, &block) in reads.iter().enumerate() {
        if let Some(before) = last.insert(block, at) {
            hits += u64::from(order.remove(&before).is_some());
        }
        order.insert(at, block);
        if order.len() > blocks
            && let Some((_, gone)) = order.pop_first()
        {
            last.remove(&gone);
        }
    }
    hits
}

#[test]
fn a_scan_leaves_what_was_hot() {
    let mut cache = Cache::new();
    let hot = 0..BLOCKS * 9 / 10;
    cache.round(hot.clone());
    (0..3).for_each(|_| _ = cache.round(hot.clone()));
    let before = cache.round(hot.clone());
    cache.round(10_000..10_000 + 10 * BLOCKS);
    let after = cache.round(hot);
    println!("hits before a scan {before:.3}, after {after:.3}");
    assert!(after >= 0.9 * before && before > 0.99);
}

#[test]
fn a_loop_in_order_keeps_the_part_that_fits() {
    let (mut cache, n) = (Cache::new(), BLOCKS * 5 / 4);
    let mut hits = cache.round(0..n);
    let written = cache.admitted();
    (1..5).for_each(|_| hits += cache.round(0..n));
    let reads: Vec<u64> = (0..5).flat_map(|_| 0..n).collect();
    let best = belady(&reads, BLOCKS as usize) as f64 / n as f64;
    println!("loop in order: {:.3} of Belady's {:.3}", hits / best, best / 5.0);
    println!("written in the first epoch {written}, later {}", cache.admitted() - written);
    assert!(hits >= 0.95 * best);
    assert_eq!(cache.admitted(), written);
}

#[test]
fn a_loop_in_random_order_keeps_the_part_that_fits() {
    for (factor, part) in [(5, 1.0), (6, 0.95), (8, 0.9)] {
        let (mut cache, n, mut seed) = (Cache::new(), BLOCKS * factor / 4, factor);
        let rounds: Vec<_> = (0..5).map(|_| shuffled(n, &mut seed)).collect();
        let rates: Vec<_> = rounds.iter().map(|round| cache.round(round.iter().copied())).collect();
        let best = belady(&rounds.concat(), BLOCKS as usize) as f64 / n as f64;
        let (hits, later) = (rates.iter().sum::<f64>(), cache.admitted() - BLOCKS);
        println!("loop over {}/4 in random order: {:.3} of Belady's {:.3}", factor, hits / best, best / 5.0);
        println!("  online bound {:.3}; {rates:.3?}; {later} of {n} written later", BLOCKS as f64 / n as f64);
        let bound = BLOCKS as f64 / n as f64;
        assert!(rates[1..].iter().all(|&rate| rate >= part * bound), "{rates:?}");
        assert!(later + cache.carried() <= n / 20);
    }
}

#[test]
fn a_working_set_that_shifts_is_followed_in_three_passes() {
    for (size, before) in [(BLOCKS * 9 / 10, 5), (BLOCKS / 2, 10), (BLOCKS / 4, 2), (BLOCKS * 9 / 10, 50)] {
        let mut cache = Cache::new();
        (0..before).for_each(|_| _ = cache.round(0..BLOCKS));
        let rates: Vec<_> = (0..5).map(|_| cache.round(10_000..10_000 + size)).collect();
        println!("shift to {size} blocks after {before} rounds: {rates:.3?}");
        assert!(rates[3] >= 0.9, "{rates:?}");
    }
}

#[test]
fn skewed_reads_hit_more_than_with_lru() {
    let (n, mut seed, mut cache) = (10 * BLOCKS, 1, Cache::new());
    let mut sums = vec![0.0];
    (1..=n).for_each(|rank| sums.push(sums[rank as usize - 1] + 1.0 / rank as f64));
    let names = shuffled(n, &mut seed);
    let reads: Vec<u64> = (0..40 * BLOCKS)
        .map(|_| {
            let at = random(&mut seed) as f64 / u64::MAX as f64 * sums[n as usize];
            names[(sums.partition_point(|&sum| sum <= at) - 1).min(n as usize - 1)]
        })
        .collect();
    let ours = cache.round(reads.iter().copied());
    let rate = |hits: u64| hits as f64 / reads.len() as f64;
    let (lru, best) = (rate(lru(&reads, BLOCKS as usize)), rate(belady(&reads, BLOCKS as usize)));
    println!("Zipf 1.0 over 10x: {ours:.3}; LRU {lru:.3}; Belady {best:.3}");
    println!("  written {} and carried {} of {} blocks", cache.admitted(), cache.carried(), reads.len());
    assert!(ours >= lru);
}

proptest! {
    #[test]
    fn a_scan_evicts_nothing_and_carrying_is_bounded(
        steps in proptest::collection::vec((0..3_u8, 0..2 * BLOCKS), 1..4000),
    ) {
        let (mut cache, mut fresh) = (Cache::new(), 1 << 40);
        for (step, block) in steps {
            match step {
                0 => {
                    let (full, before) = (cache.admitted() >= BLOCKS, cache.admitted());
                    cache.read(fresh);
                    fresh += 1;
                    prop_assert!(!full || cache.admitted() == before, "a block never seen was written");
                }
                _ => _ = cache.read(block),
            }
            prop_assert!(cache.carried() * CARRIED_OF <= cache.admitted());
            prop_assert!(cache.0.kept_within(0..=u64::MAX).count() as u64 <= BLOCKS);
        }
    }
}
