//! Sizes, durations and rates as people write them: `128KiB`, `30ms`, `80MB/s`.
//!
//! Whole numbers only: a smaller unit replaces a fraction. `KiB` is 1,024 bytes and `KB` is 1,000,
//! as in the standards; a bare `K`, `M` or `G` is refused because it is read both ways.

/// What a size looks like, for messages.
pub(crate) const SIZE_WANTED: &str = "a size such as \"128KiB\", \"2GiB\" or \"100MB\"";
/// What a duration looks like, for messages.
pub(crate) const DURATION_WANTED: &str = "a duration such as \"30ms\", \"160us\" or \"10s\"";
/// What a rate looks like, for messages.
pub(crate) const RATE_WANTED: &str = "a rate such as \"80MB/s\"";

const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const DURATION_UNITS: &[(&str, u64)] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    quantity(text, SIZE_UNITS)
}

/// Nanoseconds.
pub(crate) fn duration(text: &str) -> Option<u64> {
    quantity(text, DURATION_UNITS)
}

/// Bytes a second.
pub(crate) fn rate(text: &str) -> Option<u64> {
    size(text.strip_suffix("/s")?)
}

fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim_start();
    let &(_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_told_apart() {
        assert_eq!(size("128KiB"), Some(131_072));
        assert_eq!(size("128 KB"), Some(128_000));
        assert_eq!(duration("160ms"), Some(160_000_000));
        assert_eq!(rate("80MB/s"), Some(80_000_000));
    }

    #[test]
    fn ambiguous_or_too_large_quantities_are_refused() {
        for text in ["", "KiB", "12", "12K", "1.5MiB", "-1MiB", "1 MiB/s", "99999999999GiB"] {
            assert_eq!(size(text), None, "{text}");
        }
        assert_eq!(duration("3 minutes"), None);
        assert_eq!(rate("80MB"), None);
    }
}
