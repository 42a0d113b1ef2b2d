//! The program that touches memory, in order or at random: its own, swapped by the kernel, or a
//! region. Every touch is checked.
//!
//! ```text
//!   fill: each page gets words of its own that do not compress; the first is a counter
//!   touch: the counter and three words are compared; some touches add to the counter
//! ```
//!
//! The memory is dealt to the threads in chunks of 16 MiB or a little less, in turn, so that each
//! thread has as many pages. A thread goes through its chunks in order, or touches them as often
//! at random. With one piece each, a thread whose pages happen to be resident would be done at
//! once.

use std::sync::Barrier;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use foreread_memory::{Bare, Region};
use hdrhistogram::Histogram;

use crate::error::Error;
use crate::process::usage;
use crate::regions::plan::{Memory, Plan, Touched};
use crate::regions::stream;

const PAGE_BYTES: usize = 4096;
const PAGE_WORDS: usize = PAGE_BYTES / 8;
/// Most pages of a chunk: 16 MiB, many times what is read at once.
const CHUNK_PAGES_MAX: usize = 4096;

/// Touches memory as `plan` says.
pub(crate) fn run(plan: &Plan) -> Result<Touched, Error> {
    match &plan.memory {
        Memory::Kernel => {
            let words: Vec<AtomicU64> = (0..plan.bytes / 8).map(|_| AtomicU64::new(0)).collect();
            fill(&words, plan.seed);
            let before = Counts::of_kernel();
            let touched = touch(plan, &words)?;
            let after = Counts::of_kernel();
            Ok(Touched {
                misses: after.misses - before.misses,
                pages_read: after.pages_read - before.pages_read,
                pages_written: after.pages_written - before.pages_written,
                ..touched
            })
        }
        Memory::Region { budget_bytes, dir } => {
            let mut region =
                Region::anonymous(plan.bytes).budget(*budget_bytes).spill(dir).create().map_err(Error::protocol)?;
            fill(region.as_atomics(), plan.seed);
            let before = region.stats().counters;
            let touched = touch(plan, region.as_atomics())?;
            let after = region.stats().counters;
            Ok(Touched {
                misses: after.faults_major - before.faults_major,
                pages_read: after.pages_read - before.pages_read,
                pages_written: after.pages_cleaned - before.pages_cleaned,
                ..touched
            })
        }
        Memory::Faults { dir, bare: true } => {
            let content = |at: usize, bytes: &mut [u8]| {
                for (n, word) in bytes.chunks_exact_mut(8).enumerate() {
                    word.copy_from_slice(
                        &expected(plan.seed, at / PAGE_BYTES + n / PAGE_WORDS, n % PAGE_WORDS).to_ne_bytes(),
                    );
                }
            };
            let bare = Bare::create(dir, plan.bytes, content).map_err(Error::protocol)?;
            faults(plan, &bare)
        }
        Memory::Faults { dir, bare: false } => {
            let budget = plan.bytes + (1 << 20);
            let mut region =
                Region::anonymous(plan.bytes).budget(budget).spill(dir).create().map_err(Error::protocol)?;
            fill(region.as_atomics(), plan.seed);
            // Every page that can be evicted is evicted; the pages that come back fit.
            region.set_budget(foreread_memory::BUDGET_BYTES_MIN).map_err(Error::protocol)?;
            let least = (foreread_memory::BUDGET_BYTES_MIN / PAGE_BYTES) as u64;
            while region.stats().gauges.mapped_pages > least {
                std::thread::sleep(Duration::from_millis(1));
            }
            region.set_budget(budget).map_err(Error::protocol)?;
            faults(plan, &region)
        }
        Memory::File { path } => stream::read(plan, path),
        Memory::View { endpoint, key, memory_bytes } => stream::view(plan, endpoint, key, *memory_bytes),
    }
}

/// Word `word` of `page`, before anything is added to it: the finisher of splitmix64, whose output
/// does not compress.
fn expected(seed: u64, page: usize, word: usize) -> u64 {
    if word == 0 {
        return 1;
    }
    let mut z = seed ^ ((page * PAGE_WORDS + word) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn fill(words: &[AtomicU64], seed: u64) {
    for (n, word) in words.iter().enumerate() {
        word.store(expected(seed, n / PAGE_WORDS, n % PAGE_WORDS), Relaxed);
    }
}

struct Counts {
    misses: u64,
    pages_read: u64,
    pages_written: u64,
}

impl Counts {
    /// Major faults of this process, and pages swapped on the machine.
    fn of_kernel() -> Self {
        let misses = usage::major_faults(std::process::id());
        let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let count = |name: &str| {
            let line = vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        Self { misses: misses.unwrap_or(0), pages_read: count("pswpin"), pages_written: count("pswpout") }
    }
}

/// The next pseudo-random number: xorshift64.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// How pages are dealt to threads: every page to one thread.
#[derive(Debug, Clone, Copy)]
struct Deal {
    pages: usize,
    threads: usize,
    chunk_pages: usize,
}

impl Deal {
    fn new(pages: usize, threads: usize) -> Self {
        let rounds = pages.div_ceil(threads * CHUNK_PAGES_MAX).max(1);
        Self { pages, threads, chunk_pages: pages.div_ceil(threads * rounds).max(1) }
    }

    /// Pages of a thread.
    fn of(self, thread: usize) -> usize {
        let chunks = (thread * self.chunk_pages..self.pages).step_by(self.threads * self.chunk_pages);
        chunks.map(|start| self.chunk_pages.min(self.pages - start)).sum()
    }

    /// The page at `place` of a thread's pages.
    fn page(self, thread: usize, place: usize) -> usize {
        let chunk = place / self.chunk_pages * self.threads + thread;
        chunk * self.chunk_pages + place % self.chunk_pages
    }
}

fn touch(plan: &Plan, words: &[AtomicU64]) -> Result<Touched, Error> {
    let deal = Deal::new(words.len() / PAGE_WORDS, plan.threads);
    let barrier = Barrier::new(plan.threads);
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    let wrong = one_thread(plan, words, thread, deal);
                    (wrong, start.elapsed())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that touches panicked")).collect::<Vec<_>>()
    });
    let mut longest = Duration::ZERO;
    for (wrong, took) in results {
        if let Some(page) = wrong {
            return Err(Error::WrongBytes { path: "memory".to_owned(), offset: (page * PAGE_BYTES) as u64 });
        }
        longest = longest.max(took);
    }
    let touches = (deal.pages * plan.cycles) as u64;
    Ok(Touched {
        seconds: longest.as_secs_f64(),
        touches,
        rss_bytes: usage::rss_anonymous_bytes().unwrap_or(0),
        ..Touched::default()
    })
}

/// Touches one thread's chunks; returns a page that did not hold what was written there, if any.
fn one_thread(plan: &Plan, words: &[AtomicU64], thread: usize, deal: Deal) -> Option<usize> {
    let pages = deal.of(thread);
    let mut random = (plan.seed + thread as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut counters = vec![0_u16; pages];
    for n in 0..pages * plan.cycles {
        let place = if plan.random { (next(&mut random) % pages as u64) as usize } else { n % pages };
        let page = deal.page(thread, place);
        let words = &words[page * PAGE_WORDS..][..PAGE_WORDS];
        let number = next(&mut random);
        let counted = words[0].load(Relaxed) == 1 + u64::from(counters[place]);
        let looked_at = [1, 1 + (number >> 40) as usize % (PAGE_WORDS - 1), PAGE_WORDS - 1];
        if !counted || looked_at.iter().any(|&at| words[at].load(Relaxed) != expected(plan.seed, page, at)) {
            return Some(page);
        }
        if number.is_multiple_of(plan.write_each) {
            counters[place] = counters[place].wrapping_add(1);
            words[0].store(1 + u64::from(counters[place]), Relaxed);
        }
    }
    None
}

/// Touches one page of each cluster of eight, in random order, and measures each touch.
fn faults(plan: &Plan, bytes: &[u8]) -> Result<Touched, Error> {
    // Pages that the preparation left resident are in the first clusters.
    let first = foreread_memory::BUDGET_BYTES_MIN / PAGE_BYTES / 8;
    let mut clusters: Vec<usize> = (first..bytes.len() / PAGE_BYTES / 8).collect();
    let mut random = plan.seed | 1;
    for n in (1..clusters.len()).rev() {
        clusters.swap(n, (next(&mut random) % (n as u64 + 1)) as usize);
    }
    let mut times = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are in order");
    for cluster in &clusters {
        let page = cluster * 8 + (next(&mut random) % 8) as usize;
        let start = Instant::now();
        let word = &bytes[page * PAGE_BYTES + 8..][..8];
        let right = word == expected(plan.seed, page, 1).to_ne_bytes();
        times.saturating_record(start.elapsed().as_nanos() as u64);
        if !right {
            return Err(Error::WrongBytes { path: "memory".to_owned(), offset: (page * PAGE_BYTES) as u64 });
        }
    }
    let touches = clusters.len() as u64;
    Ok(Touched { touches, fault_p50_ns: Some(times.value_at_quantile(0.5)), ..Touched::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_touched_by_one_thread_and_threads_have_equally_many() {
        for (mib, threads) in [(1000, 1), (1000, 4), (250, 1), (250, 4), (1, 4), (16, 3), (999, 7)] {
            let pages = mib * 256;
            let deal = Deal::new(pages, threads);
            let mut touched: Vec<usize> = (0..threads)
                .flat_map(|thread| (0..deal.of(thread)).map(move |place| deal.page(thread, place)))
                .collect();
            touched.sort_unstable();
            assert_eq!(touched, (0..pages).collect::<Vec<_>>(), "{mib} MiB, {threads} threads");
            let most = (0..threads).map(|thread| deal.of(thread)).max().unwrap();
            let least = (0..threads).map(|thread| deal.of(thread)).min().unwrap();
            assert!(
                most - least <= threads * pages.div_ceil(CHUNK_PAGES_MAX),
                "{mib} MiB, {threads}: {least} to {most}"
            );
            assert!(deal.chunk_pages <= CHUNK_PAGES_MAX);
        }
        assert!((0..4).all(|thread| Deal::new(256_000, 4).of(thread) == 64_000));
    }
}
