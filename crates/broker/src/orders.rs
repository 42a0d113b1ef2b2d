//! Orders that this process has told another one, so that a successor can be told the rest.
//!
//! ```text
//!   told:    f3 f9 f1 f7 | f4 f2 f8      the rest: what comes after the last open
//!                        ^ at
//!   opened:  f3 f1 f9 f7                 each is looked for among the next OUT_OF_ORDER
//! ```
//!
//! *Invariant:* what the process has taken back is not in them.
//!
//! No rule about what to fetch. Files that another process opens in this one's order do not
//! shorten the rest: its successor finds the place by the opens that follow.

use foreread_backend::lock::Mutex;
use foreread_engine::Key;

use crate::wire::Call;

/// Places of an order among which an opened file is looked for: as many as policy takes for the
/// same place in an order. Lower: threads that are further apart leave the rest too long. Higher:
/// an open of a file that is not in the order costs more.
const OUT_OF_ORDER: usize = 512;

/// The orders that are told and not taken back.
#[derive(Default)]
pub(crate) struct Orders(Mutex<Vec<Told>>);

struct Told {
    keys: Vec<Key>,
    ahead_bytes: Option<u64>,
    /// The first place that was not opened.
    at: usize,
}

impl Orders {
    /// An engine of another process follows this order from now on.
    pub(crate) fn told(&self, keys: Vec<Key>, ahead_bytes: Option<u64>) {
        self.0.lock().push(Told { keys, ahead_bytes, at: 0 });
    }

    /// All orders are taken back.
    pub(crate) fn none(&self) {
        let taken_back = std::mem::take(&mut *self.0.lock());
        drop(taken_back);
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// This process opens `key`.
    pub(crate) fn opened(&self, key: &Key) {
        for told in &mut *self.0.lock() {
            let next = told.keys[told.at..].iter().take(OUT_OF_ORDER).position(|next| next == key);
            told.at += next.map_or(0, |next| next + 1);
        }
    }

    /// What a successor is told.
    pub(crate) fn rest(&self) -> Vec<Call> {
        let orders = self.0.lock();
        let rests = orders.iter().filter(|told| told.at < told.keys.len());
        rests.map(|told| Call::Expect { keys: told.keys[told.at..].to_vec(), ahead_bytes: told.ahead_bytes }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(range: std::ops::Range<u32>) -> Vec<Key> {
        range.map(|nth| Key::new(format!("{nth}"))).collect()
    }

    #[test]
    fn a_successor_is_told_what_was_not_opened() {
        let orders = Orders::default();
        assert!(orders.is_none());
        orders.told(keys(0..1000), Some(7));
        orders.told(keys(2000..2003), None);
        // Nearly in order; 3 is passed over, and 999 is too far.
        for key in [keys(0..3), keys(5..6), keys(4..5), keys(999..1000)].concat() {
            orders.opened(&key);
        }
        let second = Call::Expect { keys: keys(2000..2003), ahead_bytes: None };
        assert_eq!(orders.rest(), [Call::Expect { keys: keys(6..1000), ahead_bytes: Some(7) }, second]);
        for key in keys(2000..2003) {
            orders.opened(&key);
        }
        assert_eq!(orders.rest().len(), 1, "nothing is left of the second");
        orders.none();
        assert!(orders.is_none() && orders.rest().is_empty());
    }
}
