//! Sizes as users write them: `96M`, `1G`, `1GiB`, `80MB`.
//!
//! A bare letter is a power of 1024, as in `dd`, `split` and `systemd`; `KiB` says so, `KB` is a power of 1000.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

/// The text is not a size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a size: write digits and a unit, such as 96M, 1G, 1GiB or 500MB")]
pub(crate) struct NotASize;

impl FromStr for Size {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        let text = text.trim();
        let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let unit = unit_bytes(unit.trim()).ok_or(NotASize)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || (fraction.is_empty() && number.contains('.')) || fraction.contains('.') {
            return Err(NotASize);
        }
        let whole = whole.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or(NotASize)?;
        // Below a byte the fraction is cut off. Eighteen digits are more than any unit here can tell apart.
        let digits = &fraction[..fraction.len().min(18)];
        let parts = digits.parse::<u128>().unwrap_or_default() * u128::from(unit) / 10_u128.pow(digits.len() as u32);
        let bytes = whole.checked_add(parts as u64).ok_or(NotASize)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Size {
    /// The largest binary unit that keeps at least one digit before the point; one digit after it unless it is zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((unit, name)) = BINARY_UNITS.iter().rev().find(|(unit, _)| self.0 >= *unit) else {
            return write!(f, "{} B", self.0);
        };
        let tenths = u128::from(self.0) * 10 / u128::from(*unit);
        match tenths % 10 {
            0 => write!(f, "{} {name}", tenths / 10),
            tenth => write!(f, "{}.{tenth} {name}", tenths / 10),
        }
    }
}

const BINARY_UNITS: [(u64, &str); 5] =
    [(1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB"), (1 << 40, "TiB"), (1 << 50, "PiB")];

fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let mut letters = unit.chars();
    let power = match letters.next() {
        None | Some('b') => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some('p') => 5,
        Some(_) => return None,
    };
    match (power, letters.as_str()) {
        (0, "") => Some(1),
        (1.., "" | "i" | "ib") => Some(1 << (10 * power)),
        (1.., "b") => Some(1000_u64.pow(power)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<u64, NotASize> {
        text.parse::<Size>().map(|size| size.0)
    }

    #[test]
    fn reads_what_users_write() {
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("512"), Ok(512));
        assert_eq!(bytes("512B"), Ok(512));
        assert_eq!(bytes("96M"), Ok(96 << 20));
        assert_eq!(bytes("96m"), Ok(96 << 20));
        assert_eq!(bytes("1G"), Ok(1 << 30));
        assert_eq!(bytes("1GiB"), Ok(1 << 30));
        assert_eq!(bytes("1 GiB"), Ok(1 << 30));
        assert_eq!(bytes("1GB"), Ok(1_000_000_000));
        assert_eq!(bytes("80KB"), Ok(80_000));
        assert_eq!(bytes("1.5G"), Ok(3 << 29));
        assert_eq!(bytes("5T"), Ok(5 << 40));
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "M", "1X", "1MM", "1Mbit", "-1", "1.2.3M", "1.", ".5G", "99999999999999999999", "99999999P"] {
            assert_eq!(bytes(text), Err(NotASize), "{text:?}");
        }
    }

    #[test]
    fn shows_the_largest_unit() {
        assert_eq!(Size(0).to_string(), "0 B");
        assert_eq!(Size(1023).to_string(), "1023 B");
        assert_eq!(Size(96 << 20).to_string(), "96 MiB");
        assert_eq!(Size(3 << 29).to_string(), "1.5 GiB");
        assert_eq!(Size(5 << 40).to_string(), "5 TiB");
        assert_eq!(Size(u64::MAX).to_string(), "16383.9 PiB");
    }
}
