//! Traces of `src/queue`: which request starts next, what goes with it, and what is done when it
//! is late.

use foreread_policy::Options;

use crate::reader::{DISK, PAGE_NS, Reader, STORE, scattered};

#[test]
fn disk() {
    let mut reader = Reader::new(Options { capacity_bytes: 64 << 20, ..DISK }, &[6_144, 6_144, 100_000]);
    for file in [1, 2] {
        reader.read(file, 0, 1_024);
    }
    reader.step();
    for page in [70_000, 20_000, 50_000] {
        reader.read(3, page, page + 1);
    }
    reader.settle();
    reader.trace.check(
        "queue_disk",
        "A disk: long requests of two readers have slices in turn, short reads go between their pieces.",
    );
}

#[test]
fn coalescing() {
    let mut reader = busy_store();
    for start in [1_008, 1_000, 1_024, 1_016, 1_040] {
        reader.read(1, start, start + 8);
    }
    for _ in 0..4 {
        reader.step();
    }
    reader.trace.check(
        "queue_coalescing",
        "Five reads wait for a store that is busy; the four that are adjacent start as one request.",
    );
}

#[test]
fn limit() {
    let mut reader = busy_store();
    reader.read(1, 90_000, 90_001);
    reader.read(2, 0, 1);
    reader.read(2, 50, 51);
    reader.read(3, 0, 1);
    for _ in 0..4 {
        reader.step();
    }
    reader.trace.check(
        "queue_limit",
        "More reads than a store is given at once; a file with nothing in flight may exceed the limit.",
    );
}

/// A store with as many reads of one file in flight as it is given at a time before anything is
/// known of it.
fn busy_store() -> Reader {
    let mut reader = Reader::new(Options { capacity_bytes: 64 << 20, readahead: false, ..STORE }, &[100_000, 100, 100]);
    reader.hidden("256 reads of single pages of f1 at once: r0 to r255", |reader| {
        (0..256).for_each(|nth| reader.read(1, 20_000 + nth * 100, 20_001 + nth * 100));
    });
    reader
}

#[test]
fn hedge() {
    let mut reader = Reader::new(STORE, &[1 << 20]);
    let page = |nth: u64| scattered(nth) % (1 << 20);
    reader.hidden("70 reads of single pages at random, one after the other: 30 ms each", |reader| {
        (0..70).for_each(|nth| reader.get(1, page(nth), page(nth) + 1));
    });
    reader.get(1, page(70), page(70) + 1);
    reader.delay_ns = 600_000_000;
    reader.get(1, page(71), page(71) + 1);
    reader.get(1, page(72), page(72) + 1);
    reader
        .trace
        .check("queue_hedge", "A request whose first byte is late is sent a second time, and the second is answered.");
}

#[test]
fn narrower_link() {
    let mut reader = Reader::new(Options { capacity_bytes: 256 << 20, ..STORE }, &[1 << 20]);
    reader.link_page_ns = Some(PAGE_NS);
    let mut place = (0..).step_by(256);
    let mut next = move || place.next().expect("no end");
    reader.hidden("200 reads of 1 MiB through a link of 100 MB/s", |reader| {
        for start in (0..200).map(|_| next()) {
            reader.get(1, start, start + 256);
        }
    });
    reader.link_page_ns = Some(PAGE_NS * 10);
    reader.trace.note("the link has a tenth of that from now on");
    for start in (0..40).map(|_| next()) {
        reader.get(1, start, start + 256);
    }
    reader.trace.check(
        "queue_narrower_link",
        "A link becomes ten times narrower: less is put in flight, and then in shorter parts.",
    );
}
