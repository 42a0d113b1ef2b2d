//! Sizes as users write them: `96M`, `1G`, `1GiB`, `80MB`.
//!
//! A bare letter is a power of 1024, as in `dd`, `split` and `systemd`. `KiB` is the same; `KB` is
//! a power of 1000.

use std::fmt;
use std::str::FromStr;

use foreread_testbed::quantity::{self, QuantityError};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        quantity::size(text).map(Self)
    }
}

impl fmt::Display for Size {
    /// In the largest binary unit that leaves a digit before the point, with one digit after it
    /// unless that is zero.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        let bytes = |text: &str| text.parse::<Size>().map(|size| size.0).ok();
        assert_eq!(bytes("96M"), Some(96 << 20));
        assert_eq!(bytes("1G"), Some(1 << 30));
        assert_eq!(bytes("1GiB"), Some(1 << 30));
        assert_eq!(bytes("1.5g"), Some(3 << 29));
        assert_eq!(bytes("80MB"), Some(80_000_000));
        assert_eq!(bytes("much"), None);
        assert_eq!(bytes("-1M"), None);
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
