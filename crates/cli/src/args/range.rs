//! Ranges of bytes as HTTP writes them: `A-B` (both inclusive), `A-` (to the end), `-N` (the last
//! N bytes).

use std::ops::Range;
use std::str::FromStr;

/// A range of an object whose size is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteRange {
    /// From the first offset to the last one, inclusive.
    Between(u64, u64),
    /// From this offset to the end.
    From(u64),
    /// This many bytes before the end.
    Last(u64),
}

/// The text is not a range.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a range of bytes: write FIRST-LAST (both inclusive), FIRST- or -COUNT")]
pub(crate) struct NotARange;

impl FromStr for ByteRange {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            if plain { digits.parse::<u64>().map_err(|_| NotARange) } else { Err(NotARange) }
        };
        let (first, last) = text.trim().split_once('-').ok_or(NotARange)?;
        match (first, last) {
            ("", count) => Ok(Self::Last(number(count)?)),
            (first, "") => Ok(Self::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                if first <= last { Ok(Self::Between(first, last)) } else { Err(NotARange) }
            }
        }
    }
}

impl ByteRange {
    /// The bytes of an object of `size` bytes, cut at its end; `None` if the range starts behind
    /// it.
    ///
    /// As in HTTP (RFC 9110, 14.1.2): a suffix longer than the object is the whole object.
    pub(crate) fn within(self, size: u64) -> Option<Range<u64>> {
        match self {
            Self::Between(first, last) if first < size => Some(first..last.saturating_add(1).min(size)),
            Self::From(first) if first < size => Some(first..size),
            Self::Last(count) if count > 0 => Some(size.saturating_sub(count)..size),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_are_parsed() {
        assert_eq!("0-0".parse(), Ok(ByteRange::Between(0, 0)));
        assert_eq!("5-9".parse(), Ok(ByteRange::Between(5, 9)));
        assert_eq!("7-".parse(), Ok(ByteRange::From(7)));
        assert_eq!("-3".parse(), Ok(ByteRange::Last(3)));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "-", "5", "9-5", "a-b", "1-2-3", "+1-2", "0x1-2", "1-99999999999999999999"] {
            assert_eq!(text.parse::<ByteRange>(), Err(NotARange), "{text:?}");
        }
    }

    #[test]
    fn is_cut_at_the_end_of_the_object() {
        assert_eq!(ByteRange::Between(0, 0).within(10), Some(0..1));
        assert_eq!(ByteRange::Between(5, 99).within(10), Some(5..10));
        assert_eq!(ByteRange::Between(0, u64::MAX).within(10), Some(0..10));
        assert_eq!(ByteRange::Between(10, 11).within(10), None);
        assert_eq!(ByteRange::From(9).within(10), Some(9..10));
        assert_eq!(ByteRange::From(10).within(10), None);
        assert_eq!(ByteRange::Last(3).within(10), Some(7..10));
        assert_eq!(ByteRange::Last(30).within(10), Some(0..10));
        assert_eq!(ByteRange::Last(0).within(10), None);
        assert_eq!(ByteRange::From(0).within(0), None);
    }
}
