//! Layouts, and the reads through them.

use alloc::collections::BTreeSet;

use super::run::BEGUN_MAX;
use super::*;

const LIMITS: Limits = Limits {
    file_pages: u64::MAX,
    ahead_pages_max: u64::MAX,
    part_pages_max: 2_048,
    streams: 1,
    paced: false,
    staggered: false,
    gap_pages_max: 0,
    is_growing: false,
    rotational: false,
    sorted_pages_max: 0,
    records_apart: 0,
};

const NOTHING: Extent = Extent::new(u64::MAX, u64::MAX);

/// `groups` of so many columns, each of 64 pages.
fn layout(groups: u32, columns: u32) -> Layout {
    let mut layout = Layout::default();
    for (group, column) in (0..groups).flat_map(|group| (0..columns).map(move |column| (group, column))) {
        layout.push(Chunk { extent: chunk(group, column, columns), group, column });
    }
    layout
}

/// An archive of so many members, each as a column of `layout(1, members)`.
fn archive(members: u32) -> Layout {
    let mut layout = Layout::default();
    (0..members).for_each(|member| layout.push_member(chunk(0, member, members)));
    layout
}

fn chunk(group: u32, column: u32, columns: u32) -> Extent {
    let start = 64 * u64::from(group * columns + column);
    Extent::new(start, start + 64)
}

/// All that is planned, side by side as one.
fn planned(layout: &mut Layout, run: u64, ahead: u64, read: Extent) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    let limits = Limits { ahead_pages_max: ahead, ..LIMITS };
    while let Some(part) = layout.next_part(run, limits, read) {
        match extents.last_mut() {
            Some(last) if last.end == part.extent.start => last.end = part.extent.end,
            _ => extents.push(part.extent),
        }
        layout.planned(run, part.extent.end);
    }
    extents
}

fn read(layout: &mut Layout, extent: Extent) -> Vec<Extent> {
    // Each read comes some time after those of the pages before it.
    let Some(run) = layout.observe(Nanos::from_millis(extent.start), extent, true, true) else { return Vec::new() };
    planned(layout, run, 10_000, extent)
}

#[test]
fn a_chunk_comes_to_its_end_with_its_first_read() {
    let mut layout = layout(4, 3);
    assert_eq!(read(&mut layout, Extent::new(64, 80)), [Extent::new(64, 128)]);
    assert_eq!(read(&mut layout, Extent::new(321, 330)), [Extent::new(320, 384)], "its first page was there");
    assert_eq!(read(&mut layout, Extent::new(140, 141)), [], "not from its middle");
}

/// A kernel reads short members in windows that reach past them: some have the start of a chunk in
/// their middle, as a window around a fault has it.
#[test]
fn a_window_that_begins_with_a_short_member_is_no_fault() {
    let mut layout = Layout::default();
    for start in (0..1_000).step_by(5) {
        layout.push_member(Extent::new(start, start + 6));
    }
    assert_eq!(layout.observe(Nanos(0), Extent::new(105, 138), true, true), None, "at 120 begins a chunk");
    assert!(layout.observe(Nanos(1), Extent::new(504, 537), true, true).is_some(), "a fault for page 520");
}

#[test]
fn faults_of_a_mapping_begin_chunks_and_what_is_read_before_them_comes_too() {
    let mut layout = layout(8, 4);
    let around = |group, column| {
        let start = chunk(group, column, 4).start;
        Extent::new(start - 16, start + 17)
    };
    // Three windows from the first page that is read hold a chunk.
    let first = read(&mut layout, around(2, 0));
    assert_eq!(first, [Extent::new(chunk(2, 0, 4).start, around(2, 0).start + 3 * 33)]);
    read(&mut layout, around(2, 2));
    let window = read(&mut layout, around(2, 3));
    assert!(window.iter().all(|extent| extent.end < chunk(2, 3, 4).end), "it goes on: {window:?}");
    let next = read(&mut layout, around(3, 0));
    let starts: Vec<_> = next.iter().map(|extent| extent.start).collect();
    assert_eq!(starts[..4], [chunk(3, 0, 4).start, around(3, 2).start, around(4, 0).start, around(4, 2).start]);
    // A reader that calls has nothing before its chunks.
    read(&mut layout, chunk(7, 2, 4));
    assert_eq!(layout.past.around(chunk(0, 2, 4)), chunk(0, 2, 4));
}

#[test]
fn a_chunk_in_the_page_in_which_the_next_one_begins_is_told_from_it() {
    let mut layout = Layout::default();
    for (group, column, start, end) in [(0, 0, 0, 65), (0, 1, 64, 65), (1, 0, 64, 129), (1, 1, 128, 129)] {
        layout.push(Chunk { extent: Extent::new(start, end), group, column });
    }
    assert_eq!(read(&mut layout, Extent::new(64, 65)), [Extent::new(64, 65)]);
    assert_eq!(read(&mut layout, Extent::new(64, 80)), [Extent::new(64, 129)]);
}

#[test]
fn what_was_read_of_a_group_comes_with_the_next() {
    let mut layout = layout(8, 4);
    read(&mut layout, chunk(2, 0, 4));
    read(&mut layout, chunk(2, 3, 4));
    let next = read(&mut layout, chunk(3, 0, 4));
    let last_and_first = (3..7).map(|group| Extent::new(chunk(group, 3, 4).start, chunk(group + 1, 0, 4).end));
    let expected = [chunk(3, 0, 4)].into_iter().chain(last_and_first).chain([chunk(7, 3, 4)]);
    assert_eq!(next, expected.collect::<Vec<_>>());
}

#[test]
fn a_chunk_that_is_reached_from_the_one_before_it_is_read_once_reads_are_far_in_it() {
    let mut layout = Layout::default();
    let lie = [(0, 101), (100, 120), (119, 280), (279, 500)].map(|(start, end)| Extent::new(start, end));
    for (column, extent) in (0..).zip(lie) {
        layout.push(Chunk { extent, group: 0, column });
    }
    let fetched = |layout: &mut Layout, start| read(layout, Extent::new(start, start + 32));
    assert_eq!(fetched(&mut layout, 100), [Extent::new(100, 120)]);
    assert_eq!(fetched(&mut layout, 132), []);
    assert_eq!(fetched(&mut layout, 164), []);
    assert_eq!(fetched(&mut layout, 196), [Extent::new(228, 280)]);
    assert_eq!(layout.runs[0].columns_of(0), Some(&BTreeSet::from([1])));
    assert_eq!(fetched(&mut layout, 260), [Extent::new(292, 500), Extent::new(260, 311)], "its reader reads on");
    assert_eq!(layout.runs[0].columns_of(0), Some(&BTreeSet::from([1, 2])), "not the third before its end");
}

#[test]
fn one_group_says_nothing_of_others() {
    let mut layout = layout(8, 6);
    let all = (1..6).map(|column| read(&mut layout, chunk(5, column, 6))).collect::<Vec<_>>();
    assert_eq!(all[..3], [[chunk(5, 1, 6)], [chunk(5, 2, 6)], [chunk(5, 3, 6)]]);
    assert_eq!(all[3], [Extent::new(chunk(5, 4, 6).start, chunk(5, 5, 6).end)], "and the one behind four");
    assert_eq!(all[4], [chunk(5, 5, 6)], "which is there");
    assert_eq!(read(&mut layout, chunk(7, 1, 6)), [chunk(7, 1, 6)], "nor does one that does not follow");
}

#[test]
fn a_row_from_the_first_column_comes_to_the_end_of_its_group() {
    let mut layout = layout(8, 20);
    let until = |layout: &mut Layout, column| read(layout, chunk(5, column, 20)).last().map(|last| last.end);
    assert_eq!(until(&mut layout, 0), Some(chunk(5, 0, 20).end));
    assert_eq!(until(&mut layout, 1), Some(chunk(5, 3, 20).end), "as much again");
    assert_eq!(until(&mut layout, 2), Some(chunk(5, 5, 20).end));
    assert_eq!(until(&mut layout, 3), Some(chunk(5, 19, 20).end), "the rest, and not the next group");
}

#[test]
fn a_row_of_many_short_columns_comes_in_few_pieces() {
    let mut layout = layout(2, 3_000);
    let pieces = (0..3_000).map(|column| read(&mut layout, chunk(0, column, 3_000)).len()).sum::<usize>();
    assert!(pieces < 2 * 3_000, "each read has a piece of its own, and few more: {pieces}");
    assert!(layout.runs[0].begun.len() <= BEGUN_MAX);
}

#[test]
fn one_that_reads_on_into_the_next_group_farther_than_a_kernel_has_the_groups_behind() {
    let mut layout = self::layout(60, 1);
    let mut fetched = Vec::new();
    for start in (0..128).step_by(4) {
        fetched.extend(read(&mut layout, Extent::new(start, start + 4)));
    }
    assert_eq!(fetched.iter().map(|extent| extent.end).max(), Some(chunk(9, 0, 1).end), "four times two groups");
    let mut layout = self::layout(60, 1);
    for start in (0..64 + 16).step_by(4) {
        read(&mut layout, Extent::new(start, start + 4));
    }
    assert!(!layout.runs[0].is_shown(), "a kernel may have read that");
}

#[test]
fn long_windows_that_a_kernel_reads_past_a_group_show_no_second_group() {
    let mut layout = Layout::default();
    for group in 0..4 {
        let start = 20_000 * u64::from(group);
        layout.push(Chunk { extent: Extent::new(start, start + 9_001), group, column: 0 });
        layout.push(Chunk { extent: Extent::new(start + 9_000, start + 20_001), group, column: 1 });
    }
    let mut windows = |windows: core::ops::Range<u64>| {
        for window in windows {
            for start in (window * 4_000..(window + 1) * 4_000).step_by(250) {
                layout.observe(Nanos::from_millis(40 * window), Extent::new(start, start + 250), true, true);
            }
        }
        layout.runs[0].is_shown()
    };
    assert!(!windows(0..7), "the last two before its program has come to the next group");
    assert!(windows(7..9));
}

#[test]
fn requests_of_a_window_that_overtake_the_first_one_are_of_its_run() {
    let mut layout = self::layout(4, 40);
    for start in [50, 150, 100, 0] {
        layout.observe(Nanos::from_millis(7), Extent::new(start, start + 50), true, true);
    }
    assert_eq!(layout.runs[0].columns_of(0), Some(&BTreeSet::from([0, 1, 2])));
    let run = layout.observe(Nanos::from_millis(40), Extent::new(200, 250), true, true);
    assert_eq!(run, Some(layout.runs[0].id), "and the next window goes on with it");
}

#[test]
fn what_a_kernel_reads_past_a_column_is_no_other_column() {
    let mut layout = layout(8, 6);
    for (group, column) in (0..6).flat_map(|group| [(group, 1), (group, 4)]) {
        let extent = chunk(group, column, 6);
        // What was fetched ahead is read without being told of.
        let told = if group < 2 { extent.start } else { extent.start + 48 };
        for start in (told..extent.end + 24).step_by(24) {
            read(&mut layout, Extent::new(start, start + 24));
        }
    }
    assert_eq!(layout.runs[0].columns, [1, 4]);
}

/// Windows of four requests, each sent at once. The last two come past the end of the column, the
/// first of them through a short one.
#[test]
fn what_a_kernel_reads_past_a_column_in_long_windows_is_no_other_column() {
    for short in [20, 6_000] {
        let mut layout = Layout::default();
        let of_group = 6_000 * 2 + short;
        for group in 0..8 {
            let start = u64::from(group) * of_group;
            for (column, from, pages) in [(0, 0, 6_000), (1, 6_000, short), (2, 6_000 + short, 6_000)] {
                let extent = Extent::new(start + from, start + from + pages);
                layout.push(Chunk { extent, group, column });
            }
        }
        let mut fetched = alloc::collections::BTreeSet::new();
        for (group, window) in (0..7).flat_map(|group| (0..7).map(move |window| (group, window))) {
            for request in 0..4 {
                let start = group * of_group + window * 1_024 + request * 256;
                let extent = Extent::new(start, start + 256);
                let now = Nanos::from_millis(1_000 * group + 40 * window);
                let Some(run) = layout.observe(now, extent, true, true) else { continue };
                let planned = planned(&mut layout, run, 10_000, extent);
                let others = planned.iter().filter(|part| part.start % of_group >= 6_000 + short);
                fetched.extend(others.map(|part| part.start / of_group));
            }
        }
        assert!(layout.runs[0].columns.iter().all(|&column| column < 2), "{:?}", layout.runs[0].columns);
        assert!(fetched.len() <= 1, "the last column of groups {fetched:?}, {short}");
    }
}

#[test]
fn a_kernel_that_reads_past_a_group_through_a_short_chunk_shows_no_second_group() {
    let mut layout = Layout::default();
    for (group, column, start, end) in [(0, 0, 0, 30), (0, 1, 29, 201), (1, 0, 200, 230), (1, 1, 229, 401)] {
        layout.push(Chunk { extent: Extent::new(start, end), group, column });
    }
    let fetched = (0..8).flat_map(|nth| read(&mut layout, Extent::new(nth * 32, nth * 32 + 32)));
    let fetched = fetched.map(|extent| extent.end).max();
    assert!(fetched < Some(401), "not the next group: {fetched:?}");
    assert!(!layout.runs[0].is_shown());
}

#[test]
fn a_window_of_a_kernel_that_comes_in_any_order_goes_on_into_the_next_group() {
    let mut layout = Layout::default();
    for group in 0..40 {
        let start = 2_000 * u64::from(group);
        layout.push(Chunk { extent: Extent::new(start, start + 2_001), group, column: 0 });
    }
    for piece in [0, 3, 1, 2, 6, 4, 7, 5, 11, 8, 9, 10, 15, 12] {
        read(&mut layout, Extent::new(256 * piece, 256 * piece + 256));
    }
    assert!(layout.runs[0].is_shown(), "more than five pieces of the second group");
    // From here on windows begin in the middle of chunks, and what is there is not told.
    let front = layout.runs[0].front;
    let run = layout.observe(Nanos(0), Extent::new(8_100, 8_356), false, true);
    assert_eq!(run, Some(layout.runs[0].id));
    planned(&mut layout, FIRST_RUN, 20_000, NOTHING);
    assert!(layout.runs[0].front > front + 2, "{} after {front}", layout.runs[0].front);
}

#[test]
fn of_an_archive_whose_members_are_not_read_to_their_end_few_come_whole() {
    let mut layout = archive(100);
    let mut whole = 0;
    for column in (0..30).map(|nth| 3 * nth) {
        let extent = chunk(0, column, 100);
        whole += u32::from(!read(&mut layout, Extent::new(extent.start, extent.start + 2)).is_empty());
        let run = layout.runs[0].id;
        while let Some(chunk) = layout.passed(run, |_| true) {
            layout.judge(run, chunk, false);
        }
    }
    assert_eq!(whole, 9 + 2, "eight are near, and now and then one is tried");
    // One whose members are read has all of them whole.
    let mut layout = archive(100);
    for column in (0..30).map(|nth| 3 * nth) {
        assert_eq!(read(&mut layout, chunk(0, column, 100)), [chunk(0, column, 100)]);
        let run = layout.runs[0].id;
        while let Some(chunk) = layout.passed(run, |_| true) {
            layout.judge(run, chunk, true);
        }
    }
}

#[test]
fn what_adjoins_in_the_next_group_is_of_the_same_part_and_the_last_parts_are_short() {
    let mut layout = layout(200, 1);
    read(&mut layout, chunk(0, 0, 1));
    let run = layout.observe(Nanos(0), chunk(1, 0, 1), true, true).unwrap();
    layout.runs[0].ahead = 64 * 200;
    let parts: Vec<u64> = core::iter::from_fn(|| {
        let part = layout.next_part(run, LIMITS, NOTHING)?;
        layout.planned(run, part.extent.end);
        Some(part.extent.pages())
    })
    .collect();
    assert_eq!(parts.iter().sum::<u64>(), 64 * 199);
    let (longest, last) = (parts.iter().max(), parts.last());
    assert!(longest == Some(&512) && last <= Some(&256) && parts[0] == 256, "{parts:?}");
}

#[test]
fn groups_come_as_far_ahead_as_the_reader_has_shown_and_may() {
    let mut layout = layout(100, 1);
    read(&mut layout, chunk(0, 0, 1));
    let run = layout.observe(Nanos(0), chunk(1, 0, 1), true, true).unwrap();
    assert_eq!(planned(&mut layout, run, 10_000, NOTHING), [Extent::new(64, 64 + 64 * 9)], "eight, four times two");
    let run = layout.observe(Nanos(0), chunk(2, 0, 1), false, true).unwrap();
    assert_eq!(planned(&mut layout, run, 64, NOTHING), [], "no more than may be");
}

#[test]
fn a_column_that_is_read_later_is_added_and_one_that_is_not_leaves() {
    let mut layout = layout(60, 3);
    read(&mut layout, chunk(0, 0, 3));
    let run = layout.observe(Nanos(0), chunk(1, 0, 3), true, true).unwrap();
    planned(&mut layout, run, 300, NOTHING);
    let added = read(&mut layout, chunk(1, 1, 3));
    assert_eq!(added[..2], [chunk(1, 1, 3), chunk(2, 1, 3)]);
    for group in 2..20 {
        read(&mut layout, chunk(group, 1, 3));
        while let Some(chunk) = layout.passed(run, |_| true) {
            layout.judge(run, chunk, chunk.column == 1);
        }
    }
    assert_eq!(layout.runs[0].columns, [1]);
}

#[test]
fn where_chunks_are_not_read_they_do_not_come_whole() {
    let mut layout = layout(60, 1);
    for group in (0..6).map(|nth| nth * 2) {
        read(&mut layout, Extent::new(chunk(group, 0, 1).start, chunk(group, 0, 1).start + 1));
    }
    let run = layout.runs[0].id;
    while let Some(chunk) = layout.passed(run, |_| true) {
        layout.judge(run, chunk, false);
    }
    assert_eq!(read(&mut layout, chunk(12, 0, 1)), []);
}

/// How many of the reads of 32 pages wait that readers from each of `starts` on make in turn. What
/// was fetched is read without being told of, but for its first page.
fn waits(layout: &mut Layout, starts: &[u64], pages: u64) -> u32 {
    let (mut fetched, mut marks, mut waits): (Vec<Extent>, Vec<u64>, u32) = (Vec::new(), Vec::new(), 0);
    for (nth, from) in (0..pages).step_by(32).enumerate() {
        for extent in starts.iter().map(|start| Extent::new(start + from, start + from + 32)) {
            let is_there = (extent.start..extent.end).all(|page| fetched.iter().any(|fetched| fetched.contains(page)));
            let is_marked = marks.iter().any(|&mark| extent.contains(mark));
            marks.retain(|&mark| !extent.contains(mark));
            waits += u32::from(!is_there);
            if is_there && !is_marked {
                continue;
            }
            let run = layout.observe(Nanos::from_millis(30 * nth as u64), extent, !is_there, true);
            let planned = run.map_or_else(Vec::new, |run| planned(layout, run, 10_000, extent));
            marks.extend(planned.iter().map(|part| part.start));
            fetched.extend(planned);
            fetched.push(extent);
        }
    }
    waits
}

/// 15 groups of ten chunks of so many pages, each of which begins in the last page of the one
/// before.
fn adjoining(pages: u64) -> Layout {
    let mut layout = Layout::default();
    for (group, column) in (0..15).flat_map(|group| (0..10).map(move |column| (group, column))) {
        let start = pages * u64::from(group * 10 + column);
        layout.push(Chunk { extent: Extent::new(start, start + pages + 1), group, column });
    }
    layout
}

#[test]
fn readers_of_all_groups_through_short_windows_wait_in_two_of_them() {
    for starts in [&[0][..], &[0, 7_946], &[0, 7_946, 16_029]] {
        let waits = waits(&mut adjoining(137), starts, 4_500);
        assert!(waits <= 20 * starts.len() as u32, "{starts:?}: {waits}");
    }
}

/// Each begins with the same column, so the next groups are known to have that one before any has
/// read a second.
#[test]
fn readers_of_a_group_each_wait_for_few_of_its_columns() {
    let starts = [0, 10_430, 20_860];
    let waits = waits(&mut adjoining(1_043), &starts, 10_430);
    assert!(waits <= 60, "{waits} of {}", 3 * 10_430 / 32);
}

#[test]
fn columns_that_files_before_had_read_come_together() {
    let alike = |goes_on| Read { width: 6, columns: alloc::vec![1, 4, 5], goes_on, ahead: 0 };
    let mut one = layout(8, 6);
    one.is_like(Some(&alike(true)), None);
    let fetched = read(&mut one, chunk(0, 1, 6));
    assert!(one.runs[0].is_shown());
    assert_eq!(fetched[..2], [chunk(0, 1, 6), Extent::new(chunk(0, 4, 6).start, chunk(0, 5, 6).end)]);
    assert_eq!(fetched[2], chunk(1, 1, 6), "and the next group");
    // Files of which one group was read.
    let mut other = layout(8, 6);
    other.is_like(Some(&alike(false)), None);
    let fetched = read(&mut other, chunk(3, 4, 6));
    assert_eq!(fetched, [chunk(3, 4, 6), chunk(3, 1, 6), chunk(3, 5, 6)]);
    assert!(!other.runs[0].is_shown());
    // A reader of something else.
    let mut third = layout(8, 6);
    third.is_like(Some(&alike(true)), None);
    assert_eq!(read(&mut third, chunk(0, 2, 6)), [chunk(0, 2, 6)]);
}

#[test]
fn what_was_fetched_of_the_last_whole_group_is_told() {
    let mut layout = layout(8, 6);
    for (group, column) in [(0, 1), (0, 4), (1, 1), (1, 4), (2, 1)] {
        read(&mut layout, chunk(group, column, 6));
    }
    let (fetched, goes_on) = layout.fetched().expect("a run");
    assert_eq!(fetched.iter().map(|chunk| (chunk.group, chunk.column)).collect::<Vec<_>>(), [(1, 1), (1, 4)]);
    assert!(goes_on);
}

#[test]
fn groups_that_were_passed_over_come_with_the_first_of_them() {
    let mut layout = layout(16, 3);
    let mut groups = |group: u32| {
        let fetched = read(&mut layout, chunk(group, 1, 3));
        assert!(fetched.iter().all(|extent| extent.pages() == 64), "one column: {fetched:?}");
        fetched.iter().map(|extent| extent.start / 64 / 3).collect::<Vec<_>>()
    };
    assert_eq!(groups(8), [8]);
    assert_eq!(groups(9), [9, 10, 11, 12, 13, 14, 15], "two groups show its columns");
    assert_eq!(groups(3)[..6], [3, 4, 5, 6, 7, 8], "another thread reads as this one does");
    assert_eq!(groups(1), [1, 2], "the others are planned");
}

/// How many of the chunks that readers of `groups` read one after the other, all readers in turn,
/// have not been planned before.
fn awaited(layout: &mut Layout, groups: &[u32], columns: u32) -> Vec<(u32, u32)> {
    let mut fetched: Vec<Extent> = Vec::new();
    let mut awaited = Vec::new();
    for column in 0..columns {
        for (nth, &group) in groups.iter().enumerate() {
            let extent = chunk(group, column, columns);
            let absent = !fetched.iter().any(|there| there.start <= extent.start && extent.end <= there.end);
            let now = Nanos::from_millis(100 * u64::from(column) + nth as u64);
            if let Some(run) = layout.observe(now, extent, absent, absent) {
                fetched.extend(planned(layout, run, 10_000, extent));
            }
            if absent {
                awaited.push((group, column));
            }
        }
    }
    awaited
}

#[test]
fn rows_that_are_read_side_by_side_are_each_fetched_ahead() {
    for groups in [&[0][..], &[0, 5, 9, 14], &[0, 1, 2, 3], &[0, 2, 4, 6, 8, 10, 12, 14]] {
        let awaited = awaited(&mut layout(15, 10), groups, 10);
        assert!(awaited.len() <= 3 * groups.len(), "{groups:?}: {awaited:?}");
    }
}

fn call(layout: &mut Layout, start: u64, most: u64) -> u64 {
    layout.call_of(Extent::new(start, start + 32), most).end
}

#[test]
fn a_window_at_the_start_of_a_chunk_is_a_call_for_all_of_it() {
    let layout = &mut layout(8, 2);
    assert_eq!([64, 65].map(|start| call(layout, start, 1_000)), [128, 128], "its first page may be there");
    assert_eq!(call(layout, 66, 1_000), 98, "not from its middle");
    assert_eq!([64, 63, 0].map(|most| call(layout, 64, most)), [128, 96, 96], "of a longer one nothing more");
    assert_eq!(call(layout, 64 * 16, 1_000), 64 * 16 + 32, "behind the last one");
    layout.distrust = 1;
    assert_eq!(call(layout, 64, 1_000), 96, "its reader has an index of pages");
}

#[test]
fn now_and_then_a_chunk_shows_whether_it_is_read_and_others_do_not() {
    let layout = &mut layout(80, 1);
    let left: Vec<u64> = (0..70).filter(|&group| call(layout, 64 * group, 1_000) != 64 * group + 64).collect();
    assert_eq!(left, [63]);
    for group in 0..75 {
        layout.observe(Nanos(u64::from(group)), chunk(group, 0, 1), true, true);
    }
    let run = layout.runs[0].id;
    while let Some(chunk) = layout.passed(run, |_| true) {
        layout.judge(run, chunk, chunk.group != 63);
    }
    assert!(layout.distrust > 0, "all others came by calls, which say nothing");
}

#[test]
fn columns_that_become_known_come_with_the_groups_that_are_begun() {
    let mut layout = layout(15, 10);
    let groups = [0, 1, 2, 3];
    for group in groups {
        read(&mut layout, chunk(group, 4, 10));
    }
    read(&mut layout, chunk(3, 8, 10));
    let fetched = read(&mut layout, chunk(1, 6, 10));
    assert!(fetched.contains(&chunk(1, 8, 10)), "{fetched:?}");
}

#[test]
fn calls_that_end_with_their_chunks_show_no_long_windows() {
    let mut layout = layout(8, 4);
    read(&mut layout, chunk(2, 3, 4));
    // Into the next group, whose first page the kernel has.
    for column in 0..2 {
        let extent = chunk(3, column, 4);
        read(&mut layout, Extent::new(extent.start + 1, extent.end));
    }
    assert!(!layout.runs[0].rows.is_empty(), "it reads a row there: {:?}", layout.runs);
}

#[test]
fn chunks_are_judged_once_they_have_come() {
    let mut layout = layout(60, 1);
    for group in (0..6).map(|nth| nth * 2) {
        read(&mut layout, chunk(group, 0, 1));
    }
    let run = layout.runs[0].id;
    assert_eq!(layout.passed(run, |_| false), None);
    assert!(layout.passed(run, |_| true).is_some());
}
