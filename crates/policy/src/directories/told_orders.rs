//! Told orders: the orders in which programs have said that they will open files.
//!
//! ```text
//!   one order   f3 f9 f1 f7 f4 f2 f8 f0 f6 f5 ...   next: what was not opened, from the tail on
//!                o  o  ^tail  o                     o: opened
//!   opened now, within NEAR of the tail     expected: the tail moves on where it can
//!               elsewhere in it             another program's; 16 in a row move the tail there
//!               not in it                   another program's
//!   SLACK opened behind the tail            the file at the tail was passed over
//!   the last one is opened                  the order begins again: its next epoch
//! ```
//!
//! Each program that tells an order has one of its own, and what may be ahead of it. Workers of
//! the program open the files, so which of the orders an open follows is not known: it counts for
//! each that has the file near its tail. Two programs may go through the same files in different
//! orders: a file that is elsewhere in an order says nothing against it.
//!
//! *Invariants:* there are at most [`ORDERS_MAX`] orders, and files of them as many as may be; the
//! order that was followed least recently goes first. An order is followed until it is taken back,
//! whatever becomes of its files: it was told, not guessed.
//!
//! This file does not decide what is fetched (`path/contents`). Source: docs/decisions/0083.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::directories::confidence::Confidence;
use crate::directories::open_order::{AHEAD_FIRST, AHEAD_MAX, FileRef};
use crate::units::DirId;

/// All orders that were told and not taken back, the one that was followed last at the end.
#[derive(Debug)]
pub(crate) struct ToldOrders {
    orders: Vec<ToldOrder>,
    /// Files in all of them at most.
    most: usize,
    /// Files that were opened, in any order or in none.
    opens: u64,
}

/// One order, and the place in it that its readers have reached.
#[derive(Debug)]
pub(crate) struct ToldOrder {
    files: Vec<FileRef>,
    /// The place of each file that was not opened yet.
    places: BTreeMap<FileRef, usize>,
    /// The first place that is still expected.
    tail: usize,
    /// Files opened behind the tail.
    beyond: usize,
    /// Opens elsewhere in it since the last one near the tail.
    strays: u32,
    /// A file of it was opened.
    begun: bool,
    /// How many files had been opened when the last one of it was, or when it was told.
    followed_at: u64,
    /// What may be ahead, in bytes, if the program said that.
    pub(crate) ahead_bytes: Option<u64>,
    confidence: Confidence,
}

impl ToldOrders {
    /// No order. All together may have `most` files.
    pub(crate) fn new(most: usize) -> Self {
        Self { orders: Vec::new(), most, opens: 0 }
    }

    /// All together may have `most` files from now on.
    pub(crate) fn set_most(&mut self, most: usize) {
        self.most = most;
        self.fit();
    }

    /// A program tells an order, or more of the one that was told last if none of that was opened.
    pub(crate) fn tell(&mut self, files: &[FileRef], ahead_bytes: Option<u64>, continues: bool) {
        if let Some(order) = self.orders.last_mut().filter(|order| continues && !order.begun) {
            order.add(files);
        } else {
            let mut order = ToldOrder::new(ahead_bytes);
            order.add(files);
            order.followed_at = self.opens;
            self.orders.push(order);
        }
        self.fit();
    }

    /// All orders are taken back.
    pub(crate) fn clear(&mut self) {
        self.orders = Vec::new();
    }

    fn fit(&mut self) {
        while self.orders.len() > ORDERS_MAX || self.orders.len() > 1 && self.len() > self.most {
            self.orders.remove(0);
        }
        if let Some(order) = self.orders.first_mut().filter(|order| order.files.len() > self.most) {
            order.cut(self.most);
        }
    }

    /// `file` is opened, `fetched` ahead of that or not, and a reader has to wait for it or not.
    /// Returns whether an order expected it.
    pub(crate) fn opened(&mut self, file: FileRef, fetched: bool, is_absent: bool, waits: bool) -> bool {
        self.opens += 1;
        let mut last = None;
        for (at, order) in self.orders.iter_mut().enumerate() {
            if order.opened(file) {
                order.judge(fetched, is_absent, waits);
                order.followed_at = self.opens;
                last = Some(at);
            }
        }
        if let Some(at) = last {
            let order = self.orders.remove(at);
            self.orders.push(order);
        }
        last.is_some()
    }

    /// The orders, the one that was followed last first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ToldOrder> {
        self.orders.iter().rev()
    }

    /// What all of them may have ahead, in bytes, if each says that.
    pub(crate) fn ahead_bytes(&self) -> Option<u64> {
        let mut said = self.orders.iter().map(|order| order.ahead_bytes);
        let first = said.next()??;
        said.try_fold(first, |all, bytes| Some(all.saturating_add(bytes?)))
    }

    /// The entries of `dir` have other names from now on: forgets its files.
    pub(crate) fn forget(&mut self, dir: DirId) {
        for order in &mut self.orders {
            order.forget(dir);
        }
    }

    /// The number of files in all of them.
    pub(crate) fn len(&self) -> usize {
        self.orders.iter().map(|order| order.files.len()).sum()
    }

    /// The number of orders that are followed: one of the last [`QUIET_OPENS`] files was of it, or
    /// it was told since. A program that has stopped may not have taken its order back.
    pub(crate) fn followed(&self) -> usize {
        self.orders.iter().filter(|order| self.opens - order.followed_at < QUIET_OPENS).count()
    }
}

impl ToldOrder {
    fn new(ahead_bytes: Option<u64>) -> Self {
        let mut confidence = Confidence::closed(AHEAD_MAX);
        confidence.open(AHEAD_FIRST);
        let (files, places) = (Vec::new(), BTreeMap::new());
        Self { files, places, tail: 0, beyond: 0, strays: 0, begun: false, followed_at: 0, ahead_bytes, confidence }
    }

    fn add(&mut self, files: &[FileRef]) {
        self.places.extend(files.iter().copied().zip(self.files.len()..));
        self.files.extend_from_slice(files);
    }

    /// Forgets all but the first `most` files.
    fn cut(&mut self, most: usize) {
        for (at, file) in self.files.drain(most..).enumerate() {
            if self.places.get(&file) == Some(&(most + at)) {
                self.places.remove(&file);
            }
        }
        self.files.shrink_to_fit();
        self.tail = self.tail.min(most);
    }

    /// Returns whether the file was expected.
    fn opened(&mut self, file: FileRef) -> bool {
        let Some(&place) = self.places.get(&file) else { return false };
        if !(self.tail..self.tail + NEAR).contains(&place) {
            self.strays += 1;
            if self.strays < STRAYS_MAX {
                return false;
            }
            (self.tail, self.beyond) = (place, 0);
        }
        (self.strays, self.begun) = (0, true);
        self.places.remove(&file);
        self.beyond += 1;
        while self.beyond > 0 && (!self.is_left(self.tail) || self.beyond > SLACK) {
            // A file that was passed over is expected no longer.
            let is_opened = !self.is_left(self.tail) && self.files.get(self.tail) != Some(&GONE);
            self.beyond -= usize::from(is_opened);
            self.tail += 1;
        }
        if self.tail >= self.files.len() {
            let files = self.files.iter().copied().zip(0..);
            self.places = files.filter(|&(file, _)| file != GONE).collect();
            (self.tail, self.beyond) = (0, 0);
        }
        true
    }

    /// Whether the file of a place was not opened.
    fn is_left(&self, place: usize) -> bool {
        self.files.get(place).is_some_and(|file| self.places.get(file) == Some(&place))
    }

    /// Learns how many files to have ahead. A file that did not stay says that they are too many,
    /// but nothing of the order.
    fn judge(&mut self, fetched: bool, is_absent: bool, waits: bool) {
        if fetched && is_absent {
            self.confidence.missed();
            if !self.confidence.is_open() {
                self.confidence = Confidence::closed(AHEAD_MAX);
                self.confidence.open(1);
            }
        } else {
            self.confidence.hit(waits);
        }
    }

    /// Files that may be ahead at most; any number where the program has said how many bytes.
    pub(crate) fn files_ahead(&self) -> usize {
        if self.ahead_bytes.is_some() { usize::MAX } else { self.confidence.size() as usize }
    }

    /// The files that are expected and were not opened yet, in order: of the next places.
    pub(crate) fn expected(&self) -> impl Iterator<Item = FileRef> {
        let files = (self.tail..).zip(&self.files[self.tail..]).take(SEARCHED_MAX);
        files.filter(|(place, file)| self.places.get(*file) == Some(place)).map(|(_, &file)| file)
    }

    fn forget(&mut self, dir: DirId) {
        let gone: Vec<_> = self.places.range((dir, 0)..=(dir, u32::MAX)).map(|(&file, _)| file).collect();
        for file in gone {
            if let Some(place) = self.places.remove(&file) {
                self.files[place] = GONE;
            }
        }
    }
}

/// A file that is not there any more.
const GONE: FileRef = (DirId(u64::MAX), u32::MAX);

/// Files behind the tail that readers may be at: eight readers with 64 files each. Lower: readers
/// further apart have files passed over. Higher: a file that is passed over is expected for
/// longer. Source: a guess, not measured.
const SLACK: usize = 512;

/// Places behind the tail that count as expected. Lower: readers further apart are not followed.
/// Higher: another program's opens count. Source: a guess, not measured: twice the readers' own.
const NEAR: usize = 2 * SLACK;

/// Places that are searched for files that are expected. Lower: less of an order is ahead where
/// most of its next files are gone or were opened. Higher: each event searches more. Source: a
/// guess, not measured.
const SEARCHED_MAX: usize = 4 * NEAR;

/// Orders that are followed at most. Lower: of many programs some are not read ahead for. Higher:
/// each open looks into more orders. Source: a guess, not measured; loaders have 8 workers.
const ORDERS_MAX: usize = 16;

/// Files opened since one of an order was, from which on others have its room. Lower: a program
/// that pauses is read ahead for less. Higher: orders that were left without being taken back
/// leave less to the others for longer. Source: a guess, not measured.
const QUIET_OPENS: u64 = 1024;

/// Opens elsewhere in an order, one after the other, after which the order goes on there. Lower: a
/// program that goes through the same files in another order moves it. Higher: a program that
/// skips a part of its order is read ahead for later. Source: a guess, not measured.
const STRAYS_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn file(n: u64) -> FileRef {
        (DirId(n % 7), (n * 31 % 10_007) as u32)
    }

    fn files(range: impl Iterator<Item = u64>) -> Vec<FileRef> {
        range.map(file).collect()
    }

    fn next(orders: &ToldOrders) -> Vec<FileRef> {
        orders.iter().next().expect("an order").expected().take(3).collect()
    }

    fn open(orders: &mut ToldOrders, n: u64) -> bool {
        orders.opened(file(n), false, true, true)
    }

    #[test]
    fn an_order_is_expected_from_its_start_to_its_end_and_again() {
        let mut orders = ToldOrders::new(1000);
        orders.tell(&files(0..100), None, false);
        assert_eq!(next(&orders), files(0..3));
        // Readers are a little apart, and one file is opened twice.
        for n in [1, 0, 3, 3, 2] {
            open(&mut orders, n);
        }
        assert_eq!(next(&orders), files(4..7));
        (4..99).for_each(|n| assert!(open(&mut orders, n)));
        assert_eq!(next(&orders), files(99..100));
        open(&mut orders, 99);
        assert_eq!(next(&orders), files(0..3));
        orders.clear();
        assert_eq!((orders.orders.len(), orders.len()), (0, 0));
    }

    #[test]
    fn an_order_that_is_told_in_pieces_is_one_until_it_is_begun() {
        let mut orders = ToldOrders::new(1000);
        orders.tell(&files(0..10), None, true);
        orders.tell(&files(10..20), None, true);
        assert_eq!(orders.orders.len(), 1);
        open(&mut orders, 0);
        orders.tell(&files(20..30), None, true);
        assert_eq!(orders.orders.len(), 2);
    }

    #[test]
    fn an_order_that_is_not_followed_leaves_its_room_to_others() {
        let mut orders = ToldOrders::new(100_000);
        (0..5).for_each(|nth| orders.tell(&files(nth * 10_000..nth * 10_000 + 100), Some(1), false));
        orders.tell(&files(60_000..62_000), Some(1), false);
        assert_eq!(orders.followed(), 6);
        (60_000..60_000 + QUIET_OPENS).for_each(|n| assert!(open(&mut orders, n)));
        assert_eq!(orders.followed(), 1);
        assert!(open(&mut orders, 10_000), "it goes on");
        assert_eq!(orders.followed(), 2);
    }

    /// Of the same files, in different orders: each open is elsewhere in the other's.
    #[test]
    fn two_programs_are_both_followed() {
        let mut orders = ToldOrders::new(100_000);
        let (one, other): (Vec<_>, Vec<_>) = ((0..5000).collect(), (0..5000).map(|n| n * 1117 % 5000).collect());
        orders.tell(&files(one.iter().copied()), None, false);
        orders.tell(&files(other.iter().copied()), None, false);
        for nth in 0..2000 {
            // One is faster.
            for n in [one[2 * nth], one[2 * nth + 1], other[nth]] {
                open(&mut orders, n);
            }
            let nexts: Vec<_> = orders.iter().filter_map(|order| order.expected().next()).collect();
            let left =
                |order: &[u64], from: usize| order[from..].iter().map(|&n| file(n)).take(600).collect::<Vec<_>>();
            assert_eq!(nexts.len(), 2);
            for order in [left(&one, 2 * nth + 2), left(&other, nth + 1)] {
                assert!(nexts.iter().any(|next| order.contains(next)), "after {nth}");
            }
        }
    }

    #[test]
    fn a_reader_that_skips_a_part_is_found_again() {
        let mut orders = ToldOrders::new(100_000);
        orders.tell(&files(0..5000), None, false);
        (3000..3016).for_each(|n| _ = open(&mut orders, n));
        assert_eq!(next(&orders), files(3016..3019));
    }

    #[test]
    fn files_that_do_not_stay_lessen_what_is_ahead_and_end_nothing() {
        let mut orders = ToldOrders::new(1000);
        orders.tell(&files(0..100), None, false);
        (0..20).for_each(|n| assert!(orders.opened(file(n), true, true, false)));
        assert_eq!(orders.iter().next().map(ToldOrder::files_ahead), Some(1));
        (20..25).for_each(|n| assert!(orders.opened(file(n), true, false, true)));
        assert_eq!(orders.iter().next().map(ToldOrder::files_ahead), Some(32));
    }

    #[test]
    fn orders_are_bounded_and_forget_directories() {
        let mut orders = ToldOrders::new(250);
        (0..30).for_each(|nth| orders.tell(&files(nth * 10..nth * 10 + 10), Some(nth), false));
        assert_eq!((orders.orders.len(), orders.ahead_bytes()), (16, Some((14..30).sum())));
        // The one that was followed least recently is the first that goes.
        open(&mut orders, 140);
        orders.tell(&files(1000..1200), None, false);
        assert_eq!((orders.len(), orders.ahead_bytes()), (250, None));
        assert!(orders.iter().any(|order| order.ahead_bytes == Some(14)));
        orders.tell(&files(2000..2300), None, false);
        assert_eq!((orders.orders.len(), orders.len()), (1, 250));
        (0..7).for_each(|dir| orders.forget(DirId(dir)));
        assert_eq!(next(&orders), []);
    }
}
