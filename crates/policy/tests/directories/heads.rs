//! Programs that read the ends of files which are not small: types of files, tags, headers.

use foreread_policy::{Child, DirEvent, DirId, DirOptions, DirShares, Ends, Extent, PAGE_BYTES};

use super::{Driver, OPTIONS, Tree};

/// A program that reads `ends` of files.
struct Program {
    driver: Driver,
    read: Ends,
}

impl Driver {
    /// A file is fetched: all of one that is not long, or ends of one that is not small.
    pub(super) fn fetches_ends(&mut self, file @ (dir, entry): (u64, u32), ends: Option<Ends>) {
        let Child::File { pages, .. } = self.tree[&dir][entry as usize] else { panic!("{file:?} is no file") };
        match ends {
            None => assert!(pages <= 1024 && self.ends.remove(&file).is_none()),
            Some(ends) => {
                assert!(pages > 64 && !ends.is_empty() && u64::from(ends.head) + u64::from(ends.tail) <= pages);
                self.ends.insert(file, ends);
            }
        }
    }

    /// Of two ends of a file only the head finds room, if the driver cuts.
    pub(super) fn cut(&mut self, file @ (dir, entry): (u64, u32)) {
        if let Some(ends) = self.ends.get_mut(&file).filter(|ends| self.cuts && ends.tail > 0) {
            ends.tail = 0;
            let ends = *ends;
            self.tell(DirEvent::Cut { dir: DirId(dir), entry, ends });
        }
    }

    /// Bytes that were fetched of a file.
    pub(super) fn bytes_ahead(&self, file @ (dir, entry): (u64, u32)) -> u64 {
        match (self.ends.get(&file), self.tree[&dir][entry as usize]) {
            (Some(ends), _) => ends.bytes(),
            (None, Child::File { pages, .. }) => pages * PAGE_BYTES,
            (None, Child::Directory(_)) => 0,
        }
    }
}

impl Program {
    /// In a directory of so many files of so many pages, whose names are known.
    fn new(files: usize, pages: u64, read: Ends) -> Self {
        let file = |nth| Child::File { pages, kind: 1, stem: nth as u32 + 1 };
        let tree = Tree::from([(0, (0..files).map(file).collect())]);
        let shares = DirShares { known_bytes: 64 << 20, contents_bytes: 256 << 20 };
        let mut driver = Driver::new(tree, DirOptions { shares, ..OPTIONS });
        driver.page = 100_000;
        driver.read(0);
        driver.rounds = 0;
        Self { driver, read }
    }

    /// Opens a file, reads it and closes it. Returns whether that waited.
    fn open(&mut self, entry: u32) -> bool {
        let before = self.driver.rounds;
        self.driver.open(0, entry);
        let ends = self.read;
        if !ends.is_empty() {
            self.driver.tell(DirEvent::Closed { dir: DirId(0), entry, ends });
        }
        self.driver.rounds > before
    }

    fn open_all(&mut self, order: impl IntoIterator<Item = u32>) -> usize {
        order.into_iter().filter(|&entry| self.open(entry)).count()
    }

    /// Bytes that were fetched ahead, and of those the ones that the program does not read though
    /// it opens all of these files.
    fn fetched(&self, opened: impl Fn(u32) -> bool) -> (u64, u64) {
        let read = |entry| if opened(entry) { self.read } else { Ends::default() };
        let vain = |(&(_, entry), &ends): (&(u64, u32), &Ends)| {
            let vain = |ends: u32, read: u32| u64::from(ends.saturating_sub(read)) * PAGE_BYTES;
            vain(ends.head, read(entry).head) + vain(ends.tail, read(entry).tail)
        };
        let ends = &self.driver.ends;
        (ends.values().map(|ends| ends.bytes()).sum(), ends.iter().map(vain).sum())
    }
}

const HEAD: Ends = Ends { head: 64, tail: 0 };

/// Numbers below `count` in no order.
fn shuffled(count: u32) -> impl Iterator<Item = u32> {
    // A prime that divides none of the counts.
    (0..count).map(move |nth| (u64::from(nth) * 6_047 % u64::from(count)) as u32)
}

#[test]
fn heads_of_siblings_come_ahead_in_either_order() {
    for pages in [75, 768, 76_800] {
        for (files, most) in [(20, 6), (1_000, 30)] {
            for ends in [HEAD, Ends { head: 1, tail: 0 }, Ends { head: 32, tail: 4 }] {
                let mut program = Program::new(files, pages, ends);
                let waited = program.open_all(0..files as u32);
                assert!(waited <= most, "{waited} of {files} files of {pages} pages");
                let mut backward = Program::new(files, pages, ends);
                let waited = backward.open_all((0..files as u32).rev());
                assert!(waited <= most, "{waited} of {files} files of {pages} pages, backward");
                assert_eq!(program.fetched(|_| true).1 + backward.fetched(|_| true).1, 0);
            }
        }
    }
}

#[test]
fn heads_of_ten_thousand_files_come_ahead() {
    let mut program = Program::new(10_000, 768, HEAD);
    let waited = program.open_all(0..10_000);
    assert!(waited <= 170, "{waited} of 10,000");
}

#[test]
fn of_files_in_no_order_more_come_the_more_were_opened() {
    let mut program = Program::new(1_000, 768, HEAD);
    let waited = program.open_all(shuffled(1_000));
    assert!(waited <= 700, "{waited} of 1,000");
    assert_eq!(program.fetched(|_| true).1, 0);
}

#[test]
fn a_program_that_opens_few_of_many_has_little_fetched_in_vain() {
    let mut program = Program::new(10_000, 768, HEAD);
    let opened: Vec<u32> = shuffled(10_000).take(100).collect();
    program.open_all(opened.iter().copied());
    let (_, vain) = program.fetched(|entry| opened.contains(&entry));
    let read = 100 * HEAD.bytes();
    assert!(vain <= (2 << 20) + read / 8, "{vain} bytes in vain for {read}");
}

#[test]
fn one_head_and_reads_in_the_middle_have_nothing_fetched() {
    // Heads are bought at an open, so another file is opened after them.
    for before in [&[7][..], &[7, 7, 7], &[7, 7, 500, 7]] {
        let mut program = Program::new(1_000, 76_800, HEAD);
        program.open_all(before.iter().copied());
        program.open(499);
        let is_known = before.contains(&500);
        assert_eq!(program.fetched(|_| false).0 > 0, is_known, "after {before:?}");
    }
    let reads = [(38_000, 38_032), (200, 232), (60_000, 60_001), (38_032, 38_064)];
    let read = |ends: Ends, &(start, end): &(u64, u64)| ends.read(Extent::new(start, end), 76_800);
    let mut middle = Program::new(1_000, 76_800, reads.iter().fold(Ends::default(), read));
    middle.open_all(0..1_000);
    middle.open_all(shuffled(1_000));
    assert_eq!(middle.fetched(|_| false).0, 0);
}

#[test]
fn a_file_that_is_read_again_and_again_buys_nothing_more() {
    let mut program = Program::new(1_000, 76_800, HEAD);
    program.open_all([7, 500]);
    // Each costs what it costs to fetch, and is not read.
    program.read = Ends::default();
    program.open_all(shuffled(1_000).take(300));
    let (before, _) = program.fetched(|_| false);
    program.read = HEAD;
    program.open_all((0..2_000).flat_map(|_| [7, 500]));
    program.read = Ends::default();
    program.open_all(shuffled(1_000).skip(300));
    let (after, _) = program.fetched(|_| false);
    assert!(after - before <= 4 * HEAD.bytes(), "{} bytes for two files", after - before);
}

/// What is ahead is discarded for what is longer only: the bytes of files that were opened and not
/// read leave.
#[test]
fn files_that_are_opened_and_not_closed_take_no_room_of_others() {
    let mut program = Program::new(10_000, 768, HEAD);
    // As many as can be remembered, at places behind the others: nothing is told of them.
    program.driver.open(0, 9_999);
    let discarded = program.driver.discarded;
    for entry in (5_000..9_999).rev() {
        program.driver.open(0, entry);
        if entry % 2 == 0 {
            program.driver.tell(DirEvent::Closed { dir: DirId(0), entry, ends: HEAD });
        }
    }
    let waited = program.open_all((0..5_000).rev());
    assert!(waited <= 100, "{waited} of 5,000");
    assert_eq!(program.driver.discarded, discarded, "none is discarded");
}

#[test]
fn where_one_end_finds_no_room_the_other_is_paid() {
    let mut program = Program::new(1_000, 76_800, Ends { head: 64, tail: 64 });
    program.driver.cuts = true;
    program.open_all(0..2);
    program.read = Ends::default();
    program.open_all(2..1_000);
    let (fetched, _) = program.fetched(|_| true);
    assert!((7 << 18..=8 << 18).contains(&fetched), "{fetched} bytes of heads for a credit of 2 MiB");
}

/// In a directory of which nothing is known, longer siblings come as elsewhere: if there is no
/// credit for heads, or heads would not come since the open before was elsewhere.
#[test]
fn heads_of_another_directory_keep_no_siblings_away() {
    for (pages, opened) in [(2_000, &[10, 30][..]), (200, &[10])] {
        let files = |pages| (0..50).map(|nth: u32| Child::File { pages, kind: 1, stem: nth + 1 }).collect();
        let dirs = [1, 2].map(|dir| Child::Directory(DirId(dir)));
        let tree = Tree::from([(0, dirs.to_vec()), (1, files(pages)), (2, files(200))]);
        let shares = DirShares { known_bytes: 64 << 20, contents_bytes: 256 << 20 };
        let mut driver = Driver::new(tree, DirOptions { shares, ..OPTIONS });
        for dir in 0..3 {
            driver.read(dir);
        }
        for entry in [3, 40] {
            driver.open(1, entry);
            driver.tell(DirEvent::Closed { dir: DirId(1), entry, ends: Ends { head: 150, tail: 0 } });
        }
        // Of these nothing is read: no credit is left.
        for entry in [7, 30, 20, 11, 45, 26] {
            driver.open(1, entry);
        }
        for &entry in opened {
            driver.open(2, entry);
        }
        let whole = driver.fetched.iter().filter(|file| file.0 == 2 && !driver.ends.contains_key(file)).count();
        assert!(whole > 0, "after files of {pages} pages");
    }
}

#[test]
fn a_program_that_ends_or_opens_files_without_a_read_costs_the_credit() {
    let mut program = Program::new(1_000, 768, HEAD);
    program.open_all(0..4);
    let (fetched, vain) = program.fetched(|entry| entry < 4);
    assert!(fetched > 0 && vain <= 2 << 20, "{vain} bytes in vain");
    // The next one opens all and reads none.
    program.read = Ends::default();
    program.open_all(4..1_000);
    let (fetched, _) = program.fetched(|_| true);
    assert!(fetched <= 3 << 20, "{fetched} bytes for a program that reads nothing");
}

#[test]
fn files_that_are_read_whole_or_nearly_are_ahead_within_the_credit() {
    // As `file` does, which reads seven megabytes of each.
    let mut program = Program::new(200, 76_800, Ends { head: 1_792, tail: 0 });
    let waited = program.open_all(0..200);
    assert!(waited <= 110, "{waited} of 200");
    assert_eq!(program.fetched(|_| true).1, 0);
}
