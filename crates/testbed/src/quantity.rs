//! Sizes, rates and times as people write them: `64KiB`, `80MB/s`, `30ms`.
//!
//! `K`, `M`, `G`, `T` and `KiB` ... `TiB` are powers of 1,024; `KB` ... `TB` are powers of 1,000,
//! as on links and disks.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

/// Parses a size in bytes: `4096`, `64KiB`, `1.5GB`, `5TiB`.
pub fn size(text: &str) -> Result<u64, QuantityError> {
    let wrong = || QuantityError { text: text.to_owned(), expected: "a size such as 4096, 64KiB or 1.5GB" };
    let (number, unit) = split(text);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    scaled(number, factor).ok_or_else(wrong)
}

/// Parses a rate in bytes per second: `80MB/s`, or a plain size for as much per second.
pub fn rate(text: &str) -> Result<u64, QuantityError> {
    size(text.trim_end().strip_suffix("/s").unwrap_or(text))
        .map_err(|_| QuantityError { text: text.to_owned(), expected: "a rate such as 80MB/s or 1GiB/s" })
}

/// Parses a time: `30ms`, `1.5s`, `200us`, `2m`.
pub fn duration(text: &str) -> Result<Duration, QuantityError> {
    let wrong = || QuantityError { text: text.to_owned(), expected: "a time such as 30ms, 1.5s or 2m" };
    let (number, unit) = split(text);
    let factor: u64 = match unit {
        "ns" => 1,
        "us" | "µs" => 1000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" if number == "0" => 1,
        _ => return Err(wrong()),
    };
    scaled(number, factor).map(Duration::from_nanos).ok_or_else(wrong)
}

/// Writes a time so that [`duration`] reads it.
pub fn write_duration(duration: Duration) -> String {
    let ns = duration.as_nanos();
    let units = [(60_000_000_000, "m"), (1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    match units.iter().find(|(factor, _)| ns > 0 && ns.is_multiple_of(*factor)) {
        Some((factor, unit)) => format!("{}{unit}", ns / factor),
        None => format!("{ns}ns"),
    }
}

/// Text that is not the quantity that it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct QuantityError {
    text: String,
    expected: &'static str,
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// A decimal number times a factor, exactly, rounded down; `None` where it is no number or too
/// large.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 9 {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = digits.checked_mul(u128::from(factor))? / 10u128.pow(fraction.len() as u32);
    u64::try_from(scaled).ok()
}

/// Reads a field that is a number of bytes, or text for [`size`] or [`rate`].
pub(crate) mod bytes_field {
    use super::{Deserialize, Deserializer, Serializer, rate};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }

    impl Written {
        fn bytes<E: serde::de::Error>(self) -> Result<u64, E> {
            match self {
                Self::Number(number) => Ok(number),
                Self::Text(text) => rate(&text).map_err(E::custom),
            }
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        Written::deserialize(deserializer)?.bytes()
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    pub(crate) fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(*bytes)
    }

    pub(crate) mod optional {
        use super::{Deserialize, Deserializer, Serializer, Written};

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
            Option::<Written>::deserialize(deserializer)?.map(Written::bytes).transpose()
        }

        #[allow(clippy::ref_option, reason = "the signature that serde calls")]
        pub(crate) fn serialize<S: Serializer>(bytes: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
            match bytes {
                Some(bytes) => serializer.serialize_u64(*bytes),
                None => serializer.serialize_none(),
            }
        }
    }
}

/// Reads a field that is text for [`duration`].
pub(crate) mod duration_field {
    use super::{Deserialize, Deserializer, Duration, Serializer, duration, write_duration};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        duration(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&write_duration(*duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("64 KiB"), Ok(65_536));
        assert_eq!(size("1.5GB"), Ok(1_500_000_000));
        assert_eq!(size("5TiB"), Ok(5 << 40));
        assert_eq!(size("2g"), Ok(2 << 30));
        for wrong in ["", "x", "1x", "-1", "1..2", ".5k", "99999999T", "1 2"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!(rate("80MB/s"), Ok(80_000_000));
        assert_eq!(rate("1GiB"), Ok(1 << 30));
        assert_eq!(rate("fast").unwrap_err().to_string(), "\"fast\" is not a rate such as 80MB/s or 1GiB/s");
    }

    #[test]
    fn durations() {
        assert_eq!(duration("30ms"), Ok(Duration::from_millis(30)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("30").is_err());
        for text in ["30ms", "2m", "1500us", "7ns", "0ns"] {
            assert_eq!(write_duration(duration(text).unwrap()), text);
        }
    }
}
