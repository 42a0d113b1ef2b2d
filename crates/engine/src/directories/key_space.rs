//! Where the next pages of a sorted listing are likely to begin: names are read as numbers, and
//! extrapolated.
//!
//! ```text
//!   a page:        img_000120.jpg .. img_001119.jpg    as numbers: 000120 .. 001119
//!   the next one:  001119 + 999 = 002118               so a page likely begins after img_002118
//! ```
//!
//! A wrong guess costs a request and nothing else: all keys between two guesses are listed.

/// The alphabets that names are numbered in, the smallest first.
const ALPHABETS: [&[u8]; 5] = [
    b"0123456789",
    b"0123456789abcdef",
    b"0123456789ABCDEF",
    b"abcdefghijklmnopqrstuvwxyz",
    b"-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz",
];

/// The names of one page, as numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Progression {
    /// What all names begin with.
    before: String,
    alphabet: &'static [u8],
    digits: usize,
    last: u128,
    step: u128,
}

impl Progression {
    /// One step leads from `first` to `last`. `None` if the names are numbers in no alphabet.
    pub(crate) fn new(first: &str, last: &str) -> Option<Self> {
        let (a, b) = (first.as_bytes(), last.as_bytes());
        let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let changing =
            |name: &'_ [u8]| -> Vec<u8> { name.get(common..).unwrap_or_default().iter().copied().take(1).collect() };
        let used: Vec<u8> = changing(a).into_iter().chain(changing(b)).collect();
        let alphabet = *ALPHABETS.iter().find(|alphabet| used.iter().all(|byte| alphabet.contains(byte)))?;
        if used.is_empty() {
            return None;
        }
        // The digits before the first one that changes may change next.
        let start = a[..common].iter().rposition(|byte| !alphabet.contains(byte)).map_or(0, |at| at + 1);
        let most = digits_max(alphabet.len());
        let start = start.max((common + RESOLUTION).saturating_sub(most));
        let digits = (common + RESOLUTION - start).min(most);
        let number = |name: &[u8]| {
            let place = |byte: &u8| alphabet.iter().position(|a| a == byte);
            let mut value: u128 = 0;
            let mut ended = false;
            for at in start..start + digits {
                let digit = name.get(at).and_then(place).filter(|_| !ended);
                ended |= digit.is_none();
                value = value * alphabet.len() as u128 + digit.unwrap_or(0) as u128;
            }
            value
        };
        let (from, to) = (number(a), number(b));
        let step = to.checked_sub(from).filter(|step| *step > 0)?;
        let before = last.get(..start)?.to_owned();
        Some(Self { before, alphabet, digits, last: to, step })
    }

    /// The name `steps` steps after the last one, each `per_mille` thousandths as large as the
    /// page's. `None` beyond the last number.
    pub(crate) fn after(&self, steps: u32, per_mille: u32) -> Option<String> {
        let far = (self.step * u128::from(per_mille) / 1000).max(1).checked_mul(u128::from(steps))?;
        let mut value = self.last.checked_add(far)?;
        let base = self.alphabet.len() as u128;
        let mut name = vec![0; self.digits];
        for at in (0..self.digits).rev() {
            name[at] = self.alphabet[(value % base) as usize];
            value /= base;
        }
        let digits = String::from_utf8(name).ok().filter(|_| value == 0)?;
        Some(format!("{}{digits}", self.before))
    }
}

/// Digits that count, from the first one that changes on. Lower makes coarser guesses; higher
/// makes numbers that hold fewer digits before them.
const RESOLUTION: usize = 8;

/// How many digits a number holds, with room for steps to be added.
fn digits_max(base: usize) -> usize {
    let mut digits = 0;
    let mut value: u128 = 1;
    while let Some(more) = value.checked_mul(base as u128).filter(|more| *more < u128::MAX >> 32) {
        (value, digits) = (more, digits + 1);
    }
    digits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbered_names_continue_past_a_carry() {
        let pages = Progression::new("img_000120.jpg", "img_001119.jpg").unwrap();
        let next = pages.after(1, 1000).unwrap();
        assert!(("img_002100".."img_002120").contains(&next.as_str()), "{next}");
        let tenth = pages.after(10, 1000).unwrap();
        assert!(("img_011000".."img_011200").contains(&tenth.as_str()), "{tenth}");
    }

    #[test]
    fn hashes_continue_to_the_end_of_their_space() {
        let pages = Progression::new("003f9a", "0ffe21").unwrap();
        assert!(pages.after(1, 1000).unwrap().as_str() > "1f");
        assert!(pages.after(14, 1000).is_some());
        assert_eq!(pages.after(16, 1000), None);
    }

    #[test]
    fn names_that_are_no_numbers_have_no_progression() {
        assert_eq!(Progression::new("é", "ü"), None);
        assert_eq!(Progression::new("same", "same"), None);
    }

    proptest! {
        #[test]
        fn guesses_follow_the_known_names_in_order(
            mut names in prop::collection::vec("[a-z0-9A-Z_.-]{1,20}", 2),
            per_mille in 1u32..4000,
        ) {
            names.sort();
            if let Some(pages) = Progression::new(&names[0], &names[1]) {
                let guesses: Vec<_> = (1..20).map_while(|steps| pages.after(steps, per_mille)).collect();
                prop_assert!(guesses.windows(2).all(|pair| pair[0] < pair[1]), "{guesses:?}");
            }
        }
    }
}
