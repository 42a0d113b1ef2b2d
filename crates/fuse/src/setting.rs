//! What can be changed of a mount while it stands, and its text in a question to the mount.

use std::fmt;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

/// An option of a mount that is changed while it stands, and its new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// The budget, in bytes.
    MemoryBytes(u64),
    /// How long a listing is believed.
    MetadataTtl(Duration),
    /// For how long a read has to wait until it is an event.
    Slow(Duration),
    /// Which events are written.
    LogLevel(LevelFilter),
}

impl Setting {
    /// The setting that `text` is, which may be followed by a zero byte and others.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text.split(|&byte| byte == 0).next()?).ok()?;
        let (name, value) = text.split_once('=')?;
        let micros = || value.parse().ok().map(Duration::from_micros);
        match name {
            MEMORY => value.parse().ok().map(Self::MemoryBytes),
            METADATA_TTL => micros().map(Self::MetadataTtl),
            SLOW => micros().map(Self::Slow),
            LOG_LEVEL => value.parse().ok().map(Self::LogLevel),
            _ => None,
        }
    }
}

/// The text of a question.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        match *self {
            Self::MemoryBytes(bytes) => write!(f, "{MEMORY}={bytes}"),
            Self::MetadataTtl(ttl) => write!(f, "{METADATA_TTL}={}", micros(ttl)),
            Self::Slow(slow) => write!(f, "{SLOW}={}", micros(slow)),
            Self::LogLevel(level) => write!(f, "{LOG_LEVEL}={level}"),
        }
    }
}

const MEMORY: &str = "memory";
const METADATA_TTL: &str = "metadata-ttl";
const SLOW: &str = "slow";
const LOG_LEVEL: &str = "log-level";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_as_it_is_written() {
        for setting in [
            Setting::MemoryBytes(1 << 40),
            Setting::MetadataTtl(Duration::ZERO),
            Setting::MetadataTtl(Duration::from_hours(10_000)),
            Setting::Slow(Duration::from_millis(5)),
            Setting::LogLevel(LevelFilter::OFF),
            Setting::LogLevel(LevelFilter::TRACE),
        ] {
            assert_eq!(Setting::parse(setting.to_string().as_bytes()), Some(setting));
            assert_eq!(Setting::parse(format!("{setting}\0rest").as_bytes()), Some(setting));
        }
    }

    #[test]
    fn fuzz_setting_of_a_mount() {
        let seeds: [&[u8]; 4] = [b"memory=17\0", b"metadata-ttl=0", b"slow=99", b"log-level=debug\0"];
        foreread_fuzz::fuzz("setting of a mount", &seeds, &["=", "\0", "memory", "slow"], |text| {
            if let Some(setting) = Setting::parse(text) {
                assert_eq!(Setting::parse(setting.to_string().as_bytes()), Some(setting));
            }
        });
    }
}
