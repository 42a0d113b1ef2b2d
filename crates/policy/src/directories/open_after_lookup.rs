//! Whether who asks what a file is goes on to read it.
//!
//! ```text
//!   loader    name, open, name, open, ..     an answer to the name can bring the contents of a small file, in one round trip for two
//!   du        name, name, name, ..           it must not
//! ```

/// See the module's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OpenAfterLookup {
    /// Names of small files that the storage had to be asked for, and those of them that were opened then.
    named: u32,
    opened: u32,
}

impl OpenAfterLookup {
    /// The storage has to be asked for a name. What was long ago counts less and less.
    pub(crate) fn named(&mut self) {
        self.named += 1;
        if self.named == NAMED_MAX {
            (self.named, self.opened) = (self.named / 2, self.opened / 2);
        }
    }

    /// The file of such a name is opened.
    pub(crate) fn opened(&mut self) {
        self.opened = (self.opened + 1).min(self.named);
    }

    /// Whether opens follow names. Those that were asked for last may not have come to that yet.
    pub(crate) fn holds(self) -> bool {
        self.opened >= OPENED_MIN && self.opened * 4 >= self.named * 3
    }
}

/// Names that count.
const NAMED_MAX: u32 = 64;

/// Opens that must have followed names before that is believed.
const OPENED_MIN: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_opens_what_he_asks_for_is_believed_until_he_does_not() {
        let mut follow = OpenAfterLookup::default();
        for _ in 0..4 {
            follow.named();
            assert!(!follow.holds());
            follow.opened();
        }
        assert!(follow.holds());
        let stats = (0..).take_while(|_| {
            follow.named();
            follow.holds()
        });
        assert!(stats.count() < 4);
    }
}
