//! Traces of `src/files/layout.rs`: files that say where the chunks of their columns lie.

use foreread_policy::{Event, Extent, FileId};

use crate::reader::{Reader, STORE};

/// Groups of three columns, of 32, 48 and 80 pages, from page 1 on: each begins in the page in
/// which the one before it ends.
const GROUPS: u64 = 12;

/// The pages of a column of a group.
fn chunk(group: u64, column: usize) -> Extent {
    let start = 1 + 160 * group;
    let [from, to] = [[0, 32], [32, 80], [80, 160]][column];
    Extent::new(start + from, start + to + 1)
}

/// A reader of a file of which the driver has told where its chunks lie.
fn told() -> Reader {
    let mut reader = Reader::new(STORE, &[160 * GROUPS + 10]);
    reader.hidden("the file says where its chunks lie: 36 events", |reader| {
        for (group, column) in (0..GROUPS).flat_map(|group| (0..3).map(move |column| (group, column))) {
            let (file, extent) = (FileId(1), chunk(group, column));
            reader.tell(Event::Chunk { file, extent, group: group as u32, column: column as u32 });
        }
    });
    reader
}

fn get(reader: &mut Reader, extent: Extent) {
    reader.get(1, extent.start, extent.end);
}

#[test]
fn columns() {
    let mut reader = told();
    for group in 0..5 {
        get(&mut reader, chunk(group, 0));
        get(&mut reader, chunk(group, 2));
    }
    reader.settle();
    reader.trace.check(
        "columns_of_groups",
        "A reader takes the first and the third column of group after group, each with one read.",
    );
}

#[test]
fn columns_through_a_kernel() {
    let mut reader = told();
    for start in (0..3).flat_map(|group| {
        let Extent { start, end } = chunk(group, 1);
        // The first page came with what was read before.
        (start + 1..end).step_by(16)
    }) {
        reader.get(1, start, start + 16);
    }
    reader.trace.check(
        "columns_through_a_kernel",
        "A kernel asks for the second column of three groups, 64 KiB at a time, from its second page on.",
    );
}

#[test]
fn one_row() {
    let mut reader = told();
    for column in 0..3 {
        get(&mut reader, chunk(7, column));
    }
    reader.settle();
    reader.trace.check("columns_one_row", "A reader takes all columns of one group: no other group is fetched.");
}

#[test]
fn threads() {
    let mut reader = told();
    // Each thread asks for its first column, and then for its second.
    for (group, column) in [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)] {
        let Extent { start, end } = chunk(group, column);
        reader.read(1, start, end);
    }
    reader.settle();
    reader
        .trace
        .check("columns_threads", "Three threads take a group each, and of it the first column and then the second.");
}

#[test]
fn an_index() {
    let mut reader = told();
    for (nth, group) in [0, 1, 3, 8, 2, 9].into_iter().enumerate() {
        let Extent { start, .. } = chunk(group, 2);
        reader.get(1, start + 20, start + 22);
        if nth == 0 {
            reader.get(1, start + 50, start + 51);
        }
    }
    reader.settle();
    reader
        .trace
        .check("columns_index", "A reader with an index takes single pages of chunks: they are not fetched whole.");
}

#[test]
fn a_mapping() {
    let mut reader = told();
    for group in 0..3 {
        let Extent { start, end } = chunk(group, 2);
        // A fault, and the windows behind it.
        for window in (start - 16..end).step_by(32) {
            reader.get(1, window, window + 32);
        }
    }
    reader.trace.check(
        "columns_of_a_mapping",
        "A kernel reads around the faults of a program that has mapped the file: the third column of three groups.",
    );
}

#[test]
fn an_archive() {
    let mut reader = Reader::new(STORE, &[2_000]);
    reader.hidden("the file is an archive of 40 members of 48 pages: 41 events", |reader| {
        reader.tell(Event::Parts { file: FileId(1) });
        for member in 0..40_u32 {
            let start = 48 * u64::from(member);
            let extent = Extent::new(start, start + 49);
            reader.tell(Event::Member { file: FileId(1), extent });
        }
    });
    reader.get(1, 0, 33);
    for start in [9, 3, 21].into_iter().flat_map(|member| (48 * member..48 * member + 48).step_by(32)) {
        reader.get(1, start, start + 33);
    }
    reader.trace.check(
        "members_of_an_archive",
        "A reader looks at the first bytes of an archive, and reads three members in pieces of 132 KiB.",
    );
}

/// An archive of so many members of five pages each, whose directory was told.
fn archive(members: u64) -> Reader {
    let mut reader = Reader::new(STORE, &[5 * members + 10]);
    reader.hidden("the file is an archive of members of 5 pages", |reader| {
        reader.tell(Event::Parts { file: FileId(1) });
        for member in 0..members {
            let extent = Extent::new(5 * member, 5 * member + 6);
            reader.tell(Event::Member { file: FileId(1), extent });
        }
    });
    reader
}

/// Reads the header of each member, and what lies behind it.
fn take(reader: &mut Reader, members: &[u64]) {
    for &member in members {
        let start = 5 * member;
        reader.get(1, start, start + 1);
        reader.get(1, start, start + 6);
    }
    reader.settle();
}

#[test]
fn short_members() {
    let mut reader = archive(4_000);
    take(&mut reader, &[3_001, 17, 2_222]);
    reader.trace.check(
        "members_that_are_short",
        "A reader takes members of an archive of 80 MB: each comes with the first read of it.",
    );
}

#[test]
fn a_small_archive() {
    let mut reader = archive(300);
    take(&mut reader, &[201, 17, 122, 88, 260, 143, 9, 77, 191, 240]);
    reader.trace.check(
        "members_of_a_small_archive",
        "A reader takes members of an archive of 6 MB: after a few, the rest comes.",
    );
}
