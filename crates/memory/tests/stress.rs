//! Threads that write and read everywhere at once while the budget changes: every byte is the one
//! written last.
//!
//! A process of its own. It makes one region after the other, each with a shadow copy of what its
//! threads wrote. Pages alternate between threads, so every cluster that comes and goes holds
//! pages of several threads. Each page also has a word that all threads add to: an addition that
//! is lost, or done on a page that is leaving, shows in the sums.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foreread_memory::{Advice, BUDGET_BYTES_MIN, Region};

const PAGE: usize = 4096;
const THREADS: usize = 8;
/// Bytes of a page that belong to its thread; the rest is shared.
const OWN: usize = PAGE - 64;

/// `xorshift64*`: numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// An address that the threads share: each uses its own part.
#[derive(Clone, Copy)]
struct Shared(*mut u8);

// SAFETY: the threads use disjoint bytes, and atomics for shared ones.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// # Safety
    ///
    /// These bytes belong to the thread, and lie in the region.
    #[expect(clippy::mut_from_ref, reason = "disjoint bytes of shared memory")]
    unsafe fn bytes(&self, from: usize, len: usize) -> &mut [u8] {
        // SAFETY: the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(from), len) }
    }

    /// The shared word of a page.
    ///
    /// # Safety
    ///
    /// The page lies in the region.
    #[expect(clippy::cast_ptr_alignment, reason = "it begins at a multiple of 64 in a page")]
    unsafe fn word(&self, page: usize) -> &AtomicU64 {
        // SAFETY: it lies behind the bytes of the page's thread, is aligned, and all threads use
        // it as an atomic.
        unsafe { &*self.0.add(page * PAGE + OWN).cast::<AtomicU64>() }
    }
}

fn stress(seed: u64, encrypted: bool, io_uring: bool) {
    let mut random = Random(seed | 1);
    let pages = 256 + random.below(8192);
    let budget = || BUDGET_BYTES_MIN / PAGE + 64;
    let budget_pages = budget() + random.below(pages);
    let dir = tempfile::tempdir().expect("a directory");
    let builder = Region::anonymous(pages * PAGE).budget(budget_pages * PAGE).spill(dir.path());
    let region = builder.encrypted(encrypted).io_uring(io_uring).create().expect("a region");
    let mut shadow = vec![0_u8; pages * PAGE];
    let (memory, copy) = (Shared(region.as_mut_ptr()), Shared(shadow.as_mut_ptr()));
    let ended = AtomicBool::new(false);
    let added: u64 = std::thread::scope(|scope| {
        let region = &region;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let random = Random(seed.wrapping_mul(31) + thread as u64 * 2 + 1);
                scope.spawn(move || one_thread(thread, pages, random, region, memory, copy))
            })
            .collect();
        let ended = &ended;
        scope.spawn(move || {
            let mut random = Random(seed + 99);
            while !ended.load(Ordering::Relaxed) {
                region.set_budget((budget() + random.below(pages)) * PAGE).expect("another budget");
                let stats = region.stats();
                assert_eq!(stats.gauges.pages_failed, 0, "{stats:?}");
                std::thread::yield_now();
            }
        });
        let added = threads.into_iter().map(|thread| thread.join().expect("a thread")).sum();
        ended.store(true, Ordering::Relaxed);
        added
    });
    let mut sum = 0;
    for page in 0..pages {
        let (got, want) = (&region[page * PAGE..][..OWN], &shadow[page * PAGE..][..OWN]);
        assert!(got == want, "seed {seed}: page {page} of {pages} differs, {:?}", region.stats());
        // SAFETY: inside the region, and the threads have ended.
        sum += unsafe { memory.word(page) }.load(Ordering::Relaxed);
    }
    assert_eq!(sum, added, "seed {seed}");
}

/// Returns the sum that the thread added to the words.
fn one_thread(thread: usize, pages: usize, mut random: Random, region: &Region, memory: Shared, copy: Shared) -> u64 {
    let mine = pages / THREADS;
    let (mut at, mut added) = (0, 0);
    for _ in 0..OPERATIONS {
        let operation = random.below(20);
        // Forward, backward, and anywhere.
        at = match operation {
            0..8 => (at + 1) % mine,
            8..12 => (at + mine - 1) % mine,
            _ => random.below(mine),
        };
        let page = at * THREADS + thread;
        let from = random.below(OWN - 1);
        let len = 1 + random.below((OWN - from).min(200));
        // SAFETY: the page belongs to this thread, in the region and in the shadow, except for the
        // shared word.
        let (bytes, shadow) = unsafe { (memory.bytes(page * PAGE + from, len), copy.bytes(page * PAGE + from, len)) };
        match operation % 4 {
            0 | 1 => assert!(bytes == shadow, "page {page} at {from}"),
            2 => {
                let value = random.next() as u8;
                bytes.fill(value);
                shadow.fill(value);
            }
            _ => {
                // SAFETY: the word of a page in the region, used as an atomic by all threads.
                unsafe { memory.word(random.below(pages)) }.fetch_add(1, Ordering::Relaxed);
                added += 1;
            }
        }
        match random.below(500) {
            // SAFETY: the bytes that are given up belong to this thread.
            0 => unsafe {
                region.discard_shared(page * PAGE..page * PAGE + OWN).expect("discarded");
                copy.bytes(page * PAGE, OWN).fill(0);
            },
            1 => region.advise(at * PAGE.., Advice::WillNeed).expect("advised"),
            2 => region.advise(at * PAGE.., Advice::Sequential).expect("advised"),
            3 => region.advise(.., Advice::Normal).expect("advised"),
            _ => {}
        }
    }
    added
}

const OPERATIONS: usize = 4000;

#[test]
fn no_byte_is_lost_or_torn() {
    let seeds = std::env::var("FOREREAD_STRESS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4_u64);
    for seed in 1..=seeds {
        stress(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), seed % 4 == 0, seed % 3 != 0);
    }
}
