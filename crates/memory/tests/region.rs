//! What a region promises to a program that has one.

use foreread_memory::{Advice, BUDGET_BYTES_MIN, Error, Region};

const PAGE: usize = 4096;

/// A value that no other page has.
fn mark(page: usize) -> [u8; 16] {
    let mut mark = [0; 16];
    mark[..8].copy_from_slice(&(page as u64 + 1).to_le_bytes());
    mark[8..].copy_from_slice(&(page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    mark
}

fn write_marks(region: &mut Region) {
    for (page, bytes) in region.chunks_mut(PAGE).enumerate() {
        bytes[100..116].copy_from_slice(&mark(page));
    }
}

fn check_marks(region: &Region, order: impl Iterator<Item = usize>) {
    for page in order {
        let bytes = &region[page * PAGE..(page + 1) * PAGE];
        assert_eq!(bytes[100..116], mark(page), "page {page}");
        assert!(bytes[..100].iter().chain(&bytes[116..]).all(|byte| *byte == 0), "page {page}");
    }
}

fn region(pages: usize, budget_pages: usize) -> Region {
    let dir = tempfile::tempdir().expect("a directory");
    Region::anonymous(pages * PAGE).budget(budget_pages * PAGE).spill(dir.path()).create().expect("a region")
}

#[test]
fn a_region_holds_zeroes_and_then_the_bytes_written() {
    let mut region = region(4096, 512);
    assert_eq!(region.len(), 4096 * PAGE);
    assert!(region.iter().step_by(PAGE / 2).all(|byte| *byte == 0));
    write_marks(&mut region);
    check_marks(&region, 0..4096);
    check_marks(&region, (0..4096).rev());
    check_marks(&region, (0..4096).map(|n| n * 1237 % 4096));
    let stats = region.stats();
    assert!(stats.counters.pages_read > 0 && stats.counters.pages_cleaned > 0, "{stats:?}");
    assert!(stats.gauges.mapped_pages + stats.gauges.staged_pages <= 512, "{stats:?}");
    assert_eq!(stats.gauges.pages_failed, 0);
}

#[test]
fn so_does_an_encrypted_region_and_one_that_uses_threads() {
    for (encrypted, io_uring) in [(true, true), (true, false), (false, false)] {
        let dir = tempfile::tempdir().expect("a directory");
        let builder = Region::anonymous(1024 * PAGE).budget(160 * PAGE).spill(dir.path());
        let mut region = builder.encrypted(encrypted).io_uring(io_uring).create().expect("a region");
        assert!(io_uring || !region.stats().io_uring);
        write_marks(&mut region);
        check_marks(&region, 0..1024);
        check_marks(&region, (0..1024).map(|n| n * 331 % 1024));
        assert!(region.stats().counters.pages_read > 0);
    }
}

#[test]
fn a_length_need_not_be_whole_pages() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut region = Region::anonymous(PAGE + 1).budget(BUDGET_BYTES_MIN).spill(dir.path()).create().expect("a region");
    region[PAGE] = 9;
    assert_eq!((region.len(), region[PAGE], region[PAGE - 1]), (PAGE + 1, 9, 0));
}

#[test]
fn discarded_bytes_are_zero_and_the_rest_is_unchanged() {
    let mut region = region(1024, 160);
    write_marks(&mut region);
    region.discard(10 * PAGE + 50..700 * PAGE + 110).expect("discarded");
    check_marks(&region, (0..10).chain(701..1024));
    assert_eq!(region[10 * PAGE..][..200], [0; 200]);
    assert!(region[11 * PAGE..700 * PAGE].iter().all(|byte| *byte == 0));
    // The rest of the mark that the discard cut.
    assert_eq!(region[700 * PAGE + 110..][..6], mark(700)[10..]);
    region.discard(..).expect("discarded");
    assert!(region.iter().all(|byte| *byte == 0));
    write_marks(&mut region);
    check_marks(&region, 0..1024);
}

#[test]
fn a_page_of_zeroes_is_not_written_to_the_spill() {
    let mut region = region(2048, 160);
    write_marks(&mut region);
    region.fill(0);
    // Every page has left memory since then.
    let before = region.stats().counters;
    assert!(region.iter().step_by(PAGE).all(|byte| *byte == 0));
    assert!(region.iter().step_by(PAGE).all(|byte| *byte == 0));
    let stats = region.stats();
    assert!(stats.gauges.pages_blank >= 1024, "{stats:?}");
    assert!(stats.counters.pages_read - before.pages_read <= 512, "{before:?} {stats:?}");
}

#[test]
fn the_budget_can_be_changed() {
    let mut region = region(2048, 1024);
    write_marks(&mut region);
    let held = |region: &Region| region.stats().gauges.mapped_pages + region.stats().gauges.staged_pages;
    assert!(held(&region) > 512);
    region.set_budget(160 * PAGE).expect("a smaller one");
    check_marks(&region, 0..2048);
    assert!(held(&region) <= 160, "{:?}", region.stats());
    region.set_budget(1500 * PAGE).expect("a larger one");
    check_marks(&region, 0..2048);
    assert!(held(&region) > 1000, "{:?}", region.stats());
    assert!(matches!(region.set_budget(PAGE), Err(Error::Invalid { .. })));
}

#[test]
fn advice_changes_no_contents() {
    let mut region = region(1024, 200);
    write_marks(&mut region);
    for advice in [Advice::Sequential, Advice::Random, Advice::WillNeed, Advice::Normal] {
        region.advise(100 * PAGE.., advice).expect("advised");
        check_marks(&region, 0..1024);
    }
    assert!(matches!(region.advise(..=1024 * PAGE, Advice::Normal), Err(Error::Invalid { .. })));
}

#[test]
fn invalid_sizes_and_places_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let none = Region::anonymous(0).budget(1 << 20).spill(dir.path()).create();
    assert!(matches!(none, Err(Error::Invalid { .. })));
    assert!(matches!(Region::anonymous(1 << 20).create(), Err(Error::Invalid { .. })));
    let little = Region::anonymous(1 << 20).budget(BUDGET_BYTES_MIN - 1).spill(dir.path()).create();
    assert!(matches!(little, Err(Error::Invalid { .. })));
    let endless = Region::anonymous(1 << 44).budget(1 << 20).spill(dir.path()).create();
    assert!(matches!(endless, Err(Error::Invalid { .. })));
    let nowhere = Region::anonymous(1 << 20).budget(1 << 20).spill(dir.path().join("none")).create();
    assert!(matches!(nowhere, Err(Error::Spill { .. })));
}

#[test]
fn threads_that_wait_for_one_page_have_one_read() {
    let mut region = region(256, 160);
    write_marks(&mut region);
    for round in 0..64 {
        let page = round * 37 % 256;
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let region = &region;
                scope.spawn(move || check_marks(region, std::iter::once(page)));
            }
        });
    }
    let stats = region.stats();
    // Each request brought pages that were neither resident nor in flight, so requests are not
    // repeated.
    let asked = stats.counters.reads_demand + stats.counters.reads_speculative;
    assert_eq!(asked, stats.gauges.requests_read, "{stats:?}");
    assert!(stats.counters.reads_demand <= 64, "{stats:?}");
}
