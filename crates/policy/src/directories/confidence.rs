//! How many things may be ahead of one reader: as many as it takes that the reader need not wait, and fewer where they are not used.

/// See the module's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Confidence {
    size: u32,
    max: u32,
    /// Guesses that came to nothing, less those that did not.
    wrong: u32,
    /// Guesses that were not made since.
    unmade: u32,
}

impl Confidence {
    /// Nothing ahead, `max` at most ever.
    pub(crate) const fn closed(max: u32) -> Self {
        Self { size: 0, max, wrong: 0, unmade: 0 }
    }

    /// A guess can be made: from now on `size` may be ahead, if fewer might so far. One whose guesses were wrong too often stays as it is
    /// until it would have made many.
    pub(crate) fn open(&mut self, size: u32) {
        if self.wrong < WRONG_MAX {
            self.size = self.size.max(size).min(self.max);
        } else if self.unmade == UNMADE_MAX {
            *self = Self { size: 1, max: self.max, wrong: WRONG_MAX - 1, unmade: 0 };
        } else {
            self.unmade += 1;
        }
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn is_open(&self) -> bool {
        self.size > 0
    }

    /// What was ahead has been used. Whether its reader had to wait for it: then twice as much is worth having.
    pub(crate) fn hit(&mut self, waited: bool) {
        self.wrong = self.wrong.saturating_sub(1);
        if waited {
            self.size = (self.size * 2).min(self.max);
        }
    }

    /// A reader wanted something else than what is ahead, or did not find what should be.
    pub(crate) fn missed(&mut self) {
        self.wrong += 1;
        self.size /= 2;
        if self.wrong >= WRONG_MAX {
            self.size = 0;
        }
    }
}

/// So many more wrong guesses than right ones, and no more are made.
const WRONG_MAX: u32 = 4;

/// Guesses that are not made after that, until one is made on trial.
const UNMADE_MAX: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_while_the_reader_waits_and_no_further() {
        let mut confidence = Confidence::closed(64);
        confidence.open(8);
        confidence.hit(false);
        assert_eq!(confidence.size(), 8);
        (0..9).for_each(|_| confidence.hit(true));
        assert_eq!(confidence.size(), 64);
    }

    #[test]
    fn wrong_guesses_stop_it_for_long() {
        let mut confidence = Confidence::closed(64);
        confidence.open(64);
        (0..WRONG_MAX).for_each(|_| confidence.missed());
        (0..UNMADE_MAX).for_each(|_| confidence.open(8));
        assert!(!confidence.is_open());
        confidence.open(8);
        assert_eq!(confidence.size(), 1);
        confidence.missed();
        assert!(!confidence.is_open());
    }
}
