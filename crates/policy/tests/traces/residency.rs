//! Traces of `src/residency`: the budget, what it is spent on, and what is evicted first.

use foreread_policy::{Event, FileId, Options};

use crate::reader::{Reader, STORE, scattered};

/// Room for four folios of 128 KiB beside what speculation may not have.
const SMALL: Options = Options { capacity_bytes: 1 << 20, ..STORE };

#[test]
fn eviction_order() {
    let mut reader = Reader::new(Options { readahead: false, ..SMALL }, &[10_000]);
    reader.hidden("seven reads of single folios, from pages 320, 640, .. 2240: the memory is full", |reader| {
        (1..=7).for_each(|nth| reader.get(1, nth * 320, nth * 320 + 32));
    });
    // Used again: it stays when its turn comes.
    reader.get(1, 320, 352);
    // A folio that is not read to its end.
    reader.get(1, 2_560, 2_576);
    for start in [2_880, 3_200, 640, 3_520, 3_840, 4_160, 640, 320, 4_480, 4_800, 5_120, 960] {
        reader.get(1, start, start + 32);
    }
    reader.trace.check(
        "residency_eviction_order",
        "Reads of single folios, without readahead, with room for seven: which one is evicted.",
    );
}

#[test]
fn thrash() {
    let mut reader = Reader::new(SMALL, &[2_000, 2_000]);
    (0..128).step_by(32).for_each(|start| reader.get(1, start, start + 32));
    reader.settle();
    // A crowd of readers waits at once: the folios that were read ahead and not read make room.
    (0..5).for_each(|nth| reader.read(2, 1_000 + scattered(nth) % 30 * 32, 1_032 + scattered(nth) % 30 * 32));
    reader.settle();
    (128..416).step_by(32).for_each(|start| reader.get(1, start, start + 32));
    reader.trace.check(
        "residency_thrash",
        "Demand evicts pages that were read ahead and not read; their stream has a smaller window.",
    );
}

#[test]
fn waiting_grant() {
    let mut reader = Reader::new(SMALL, &[4_000, 4_000]);
    for start in [0, 128, 256] {
        reader.read(1, start, start + 128);
    }
    reader.read(2, 0, 64);
    reader.settle();
    reader.trace.check(
        "residency_waiting_grant",
        "Reads of 1.75 MiB with room for 1 MiB: grants come as pages are read, the last read waits.",
    );
}

#[test]
fn demand_cancels() {
    let mut reader = Reader::new(SMALL, &[4_000, 4_000]);
    reader.tell(Event::Prefetch { file: FileId(1) });
    reader.read(2, 1_000, 1_192);
    reader.settle();
    reader.trace.check(
        "residency_demand_cancels",
        "A prefetch in 1 MiB: its grant waits for room; then demand that lacks room cancels it.",
    );
}
