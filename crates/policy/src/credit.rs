//! Credit: what may be fetched on a guess that is often right, and is not known to be.
//!
//! ```text
//!   first ── bytes are fetched: - as many ──────────────> 0: none are fetched
//!     ^  └── a reader uses them: + 13/10 of them; growing: + 2 at first
//!     └───── readers use others of their kind: + 1/32 of those; 16 MiB at most
//!                                              + up to 3/10, by how many of a group are used
//! ```
//!
//! Whatever programs do, the bytes that were fetched and not used are at most the first credit,
//! three tenths of those that were fetched and used, and a thirty-second of the others of their
//! kind, or three tenths of those of a group of which a half is used. Credit that grows pays for
//! twice what is used, until that is twice the first credit: at most another 14/10 of it are in
//! vain, and only where twice the first credit was right.
//!
//! *Invariant:* what was fetched and not used never exceeds the credit that was given.
//!
//! This file does not know files. Each guess has an account of its own (`directories/siblings`,
//! `directories/companions`, `directories/path/crossings`, `files/whole`), so that one that is
//! wrong takes nothing from one that is right. Source: docs/decisions/0057, 0063, 0064,
//! 0088 and 0116.

/// Bytes that may be fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Credit {
    left: u64,
    /// Bytes whose use pays for twice as many.
    doubled: u64,
}

impl Credit {
    pub(crate) const fn new(first: u64) -> Self {
        Self { left: first, doubled: 0 }
    }

    /// What is used first pays for twice as many: a guess that is right soon costs fewer waits.
    pub(crate) const fn growing(first: u64) -> Self {
        Self { left: first, doubled: first * DOUBLED_PARTS }
    }

    /// So many bytes are used that were not bought, and could have been.
    pub(crate) fn used(&mut self, bytes: u64) {
        self.earn(bytes / TRIAL_PART);
    }

    /// The same, where `used` things of a group of `all` had been used before. The more there
    /// were, the likelier is it that the rest are used as well: where half were, as much may be in
    /// vain for each as for one that was bought.
    pub(crate) fn used_among(&mut self, bytes: u64, used: u64, all: u64) {
        let earned = bytes * EARNED_TENTHS * (2 * used).min(all) / (10 * all.max(1));
        self.earn(earned.max(bytes / TRIAL_PART));
    }

    /// So many bytes that were bought are used.
    pub(crate) fn hit(&mut self, bytes: u64) {
        let doubled = bytes.min(self.doubled);
        self.doubled -= doubled;
        self.earn(bytes + doubled + (bytes - doubled) * EARNED_TENTHS / 10);
    }

    /// So many bytes that were bought did not come.
    pub(crate) fn refused(&mut self, bytes: u64) {
        self.earn(bytes);
    }

    fn earn(&mut self, bytes: u64) {
        self.left = (self.left + bytes).min(CREDIT_MAX);
    }

    /// Bytes that can be bought.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Whether so many bytes can be bought.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        self.left >= bytes
    }

    /// Buys so many bytes. Returns `false` if the credit does not suffice.
    pub(crate) fn spend(&mut self, bytes: u64) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

/// Divisor of the bytes that are used and were not bought, for the credit that they earn.
/// Lower: more is fetched in vain for a loader at random. Higher: a program that opens what is
/// guessed after one that did not waits longer for the first files. Source: docs/decisions/0057.
const TRIAL_PART: u64 = 32;

/// Credit that the use of bought bytes earns beside what they cost, in tenths of them: what may
/// be wasted in the long run. Lower: fewer siblings where a part of a directory is opened. Higher:
/// more is fetched in vain. Source: docs/decisions/0057.
const EARNED_TENTHS: u64 = 3;

/// What pays for twice as many bytes, in parts of the first credit. Lower: a guess that is right
/// is bound in files that are not used yet, and readers wait. Higher: more is fetched in vain.
/// Source: docs/decisions/0088.
const DOUBLED_PARTS: u64 = 2;

/// Credit at most, in bytes. Lower: siblings of several large directories do not fit. Higher: more
/// may be fetched in vain at once, long after it was earned. Source: a guess, not measured.
const CREDIT_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_that_grows_doubles_what_is_used_at_first() {
        let mut credit = Credit::growing(1_000);
        for nth in 0..20 {
            let paid = if nth < 10 { 400 } else { 260 };
            assert!(credit.spend(200));
            let before = credit.left;
            credit.hit(200);
            assert_eq!(credit.left - before, paid, "{nth}");
        }
    }

    #[test]
    fn what_is_never_opened_costs_the_first_credit_and_a_small_part_of_what_is() {
        const FIRST: u64 = 2 << 20;
        for (tenths, most) in [(0, FIRST + 100_000_000 / TRIAL_PART), (5, FIRST + 100_000_000 * 3 / 10)] {
            let mut credit = Credit::new(FIRST);
            let (mut vain, mut paid) = (0, 0);
            for nth in 0..10_000 {
                // Some files were bought.
                if nth % 10 < tenths && paid > 0 {
                    paid -= 1;
                    credit.hit(10_000);
                } else {
                    credit.used(10_000);
                }
                if paid == 0 && credit.spend(10_000) {
                    paid += 1;
                }
                while credit.spend(10_000) {
                    vain += 10_000;
                }
            }
            assert!(vain > 2_000_000 && vain <= most, "{vain} bytes, {tenths} tenths of the opens");
        }
    }
}
