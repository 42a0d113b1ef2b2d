//! How uses lose their worth: by half for each capacity of pages that is used meanwhile, in steps
//! that are the same for all values.
//!
//! ```text
//!   used pages  |----|----|----|----|  16 steps for each capacity
//!   value       1   .958 .917 .878     at 16 steps: a half
//! ```
//!
//! *Invariant:* values are brought to the present at the borders of the same steps, so two that
//! were used in the same steps compare as their uses do, however often each was looked at.
//!
//! The file does not know what is valued. Source: LRFU (Lee et al., IEEE Trans. Computers 2001),
//! with integers.

/// The step at which so many pages have been used.
pub(super) fn step(used_pages: u64, capacity_pages: u64) -> u64 {
    (u128::from(used_pages) * STEPS as u128 / u128::from(capacity_pages)) as u64
}

/// What is left of a value after so many steps.
pub(super) fn decayed(value: u64, steps: u64) -> u64 {
    let halvings = steps / STEPS as u64;
    if halvings >= 64 {
        return 0;
    }
    let part = u128::from(PARTS[(steps % STEPS as u64) as usize]);
    ((u128::from(value) * part) >> 16) as u64 >> halvings
}

/// The value of one use of one page. Lower: old uses are rounded to nothing sooner. Higher: the
/// value of a ghost overflows sooner. Source: arithmetic; 32 pages take 13 of 32 bits.
pub(super) const USE: u64 = 256;

/// Steps in which a value halves. Lower: values jump at borders, by chance in favour of one.
/// Higher: a longer table. Source: a guess; at 16 a jump is four percent, which the margin of
/// admission covers.
const STEPS: usize = 16;

/// 2^(-i/16), times 65,536.
const PARTS: [u32; STEPS] =
    [65536, 62757, 60096, 57548, 55108, 52772, 50534, 48392, 46340, 44376, 42494, 40693, 38967, 37315, 35733, 34218];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_halves_in_sixteen_steps() {
        assert_eq!((decayed(1000, 0), decayed(1000, 16), decayed(1000, 32)), (1000, 500, 250));
        assert_eq!((decayed(1 << 20, 8), decayed(u64::MAX, 64 * 16)), (741_440, 0));
        assert!((0..200).all(|steps| decayed(1 << 30, steps + 1) < decayed(1 << 30, steps)));
        assert_eq!((step(0, 100), step(100, 100), step(150, 100)), (0, 16, 24));
    }
}
