//! The part and the version that a request wants: `Range`, `If-Match`, `If-None-Match`.

use std::ops::Range;

use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH, RANGE};

/// The answer that the headers select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selection {
    /// 200 and all of it.
    Whole,
    /// 206 and this part, which is not empty.
    Part(Range<u64>),
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
    /// 416.
    NotSatisfiable,
}

impl Selection {
    /// What these headers select of an object with this `etag` (without quotes) and size.
    pub(crate) fn of(headers: &HeaderMap, etag: &str, size: u64) -> Self {
        if headers.contains_key(IF_MATCH) && !any_matches(headers, &IF_MATCH, etag, false) {
            return Self::PreconditionFailed;
        }
        if any_matches(headers, &IF_NONE_MATCH, etag, true) {
            return Self::NotModified;
        }
        match ByteRange::of(headers).map(|range| range.within(size)) {
            None => Self::Whole,
            Some(Some(part)) => Self::Part(part),
            Some(None) => Self::NotSatisfiable,
        }
    }
}

/// One range of bytes as a client writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteRange {
    /// From an offset, to another one inclusive.
    Between(u64, u64),
    /// From an offset to the end.
    From(u64),
    /// The last bytes.
    Last(u64),
}

impl ByteRange {
    /// The range that the headers ask for. Several ranges, other units and nonsense mean none, as
    /// HTTP has it.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let (first, last) = headers.get(RANGE)?.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        match (first, last) {
            ("", last) => Some(Self::Last(number(last)?)),
            (first, "") => Some(Self::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Between(first, last))
            }
        }
    }

    /// The bytes of an object of `size`; `None` if there are none.
    pub(crate) fn within(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::Between(first, last) => first..size.min(last.saturating_add(1)),
            Self::From(first) => first..size,
            Self::Last(length) => size.saturating_sub(length)..size,
        };
        (range.start < range.end).then_some(range)
    }
}

fn any_matches(headers: &HeaderMap, name: &HeaderName, etag: &str, weak: bool) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).any(|tag| {
        let tag = if weak { tag.strip_prefix("W/").unwrap_or(tag) } else { tag };
        tag == "*" || tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(tag) == etag
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(headers: &[(HeaderName, &str)], size: u64) -> Selection {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        Selection::of(&headers, "abc", size)
    }

    #[test]
    fn ranges() {
        let part = |range: &str| select(&[(RANGE, range)], 100);
        assert_eq!(part("bytes=0-0"), Selection::Part(0..1));
        assert_eq!(part("bytes=90-200"), Selection::Part(90..100));
        assert_eq!(part("bytes=90-"), Selection::Part(90..100));
        assert_eq!(part("bytes=-10"), Selection::Part(90..100));
        assert_eq!(part("bytes=-1000"), Selection::Part(0..100));
        for unsatisfiable in ["bytes=100-", "bytes=100-200", "bytes=-0"] {
            assert_eq!(part(unsatisfiable), Selection::NotSatisfiable, "{unsatisfiable}");
        }
        for ignored in ["bytes=2-1", "bytes=0-1,3-4", "bytes=x-", "bytes=", "bytes=-", "lines=0-1", "bytes=+1-2"] {
            assert_eq!(part(ignored), Selection::Whole, "{ignored}");
        }
        assert_eq!(select(&[(RANGE, "bytes=0-")], 0), Selection::NotSatisfiable);
        assert_eq!(part(&format!("bytes=0-{}", u64::MAX)), Selection::Part(0..100));
    }

    #[test]
    fn conditions() {
        assert_eq!(select(&[(IF_MATCH, "\"abc\"")], 1), Selection::Whole);
        assert_eq!(select(&[(IF_MATCH, "abc")], 1), Selection::Whole);
        assert_eq!(select(&[(IF_MATCH, "*")], 1), Selection::Whole);
        assert_eq!(select(&[(IF_MATCH, "\"x\", \"abc\"")], 1), Selection::Whole);
        assert_eq!(select(&[(IF_MATCH, "\"x\"")], 1), Selection::PreconditionFailed);
        assert_eq!(select(&[(IF_MATCH, "W/\"abc\"")], 1), Selection::PreconditionFailed);
        assert_eq!(select(&[(IF_NONE_MATCH, "W/\"abc\"")], 1), Selection::NotModified);
        assert_eq!(select(&[(IF_NONE_MATCH, "\"x\"")], 1), Selection::Whole);
        assert_eq!(select(&[(IF_MATCH, "\"x\""), (RANGE, "bytes=9-")], 1), Selection::PreconditionFailed);
    }
}
