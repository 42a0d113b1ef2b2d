//! The configuration of a testbed: its address, objects, device and faults. Built in code from
//! `Config::default()`, or read from TOML.
//!
//! ```
//! let config: foreread_testbed::Config = toml::from_str(r#"
//!     first_byte = "30ms"
//!     connection_rate = "80MB/s"
//!     faults = ["status=503,every=10,retry-after=1"]
//!     [[objects]]
//!     key = "big"
//!     size = "2GiB"
//! "#)?;
//! assert_eq!(config.objects[0].size, 2 << 30);
//! # Ok::<(), toml::de::Error>(())
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use foreread_device::Rate;
use foreread_device::latency::{FirstByte, SlowTail, Spread};
use foreread_device::object_store;
use serde::{Deserialize, Serialize};

use crate::Fault;
use crate::quantity::{bytes_field, duration_field};

/// The configuration of a testbed. The default has no object and no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The name of the only bucket.
    pub bucket: String,
    /// Synthetic objects.
    pub objects: Vec<ObjectSpec>,
    /// A directory whose files are objects too.
    pub dir: Option<PathBuf>,
    /// `http://HOST:PORT` of another server that answers instead: with its own buckets, keys and
    /// objects, behind the device and the faults of this one.
    pub upstream: Option<String>,
    /// The access key that signatures must use.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
    /// The region that the store says it is in.
    pub region: String,
    /// Whether unsigned requests may read.
    pub anonymous: bool,
    /// The time before the first byte of a response.
    #[serde(with = "duration_field")]
    pub first_byte: Duration,
    /// How much longer the first byte takes at most, each time equally likely.
    #[serde(with = "duration_field")]
    pub jitter: Duration,
    /// Instead of `jitter`: a log-normal first byte whose standard deviation multiplies by this
    /// percentage.
    pub spread_percent: Option<u32>,
    /// How many of a million requests are slow.
    pub slow_per_million: u32,
    /// How many times as long the first byte of a slow request takes.
    pub slow_multiplier: u32,
    /// What one connection carries at most, in bytes per second.
    #[serde(with = "bytes_field::optional")]
    pub connection_rate: Option<u64>,
    /// What all connections together carry at most, in bytes per second.
    #[serde(with = "bytes_field::optional")]
    pub total_rate: Option<u64>,
    /// Requests per second above which the store answers 503.
    pub request_rate: Option<NonZeroU32>,
    /// Requests served at a time; others wait.
    pub concurrency: Option<NonZeroU32>,
    /// Where the device's randomness starts.
    pub seed: u64,
    /// The faults.
    pub faults: Vec<Fault>,
    /// Speak TLS with this certificate.
    pub tls: Option<TlsFiles>,
    /// How many of the last requests the log keeps.
    pub request_log: usize,
}

/// A synthetic object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectSpec {
    /// Its key.
    pub key: String,
    /// Its size in bytes; text such as `64KiB` where it is read.
    #[serde(with = "bytes_field")]
    pub size: u64,
    /// Its generation, which its bytes, `ETag` and time of modification follow; 1 where it is not
    /// given.
    #[serde(default = "first_generation")]
    pub generation: u64,
}

impl ObjectSpec {
    /// An object in its first generation.
    pub fn new(key: impl Into<String>, size: u64) -> Self {
        Self { key: key.into(), size, generation: first_generation() }
    }
}

/// A certificate chain and its private key, in PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            bucket: "testbed".to_owned(),
            objects: Vec::new(),
            dir: None,
            upstream: None,
            access_key: "testbed".to_owned(),
            secret_key: "testbedsecret".to_owned(),
            region: "us-east-1".to_owned(),
            anonymous: false,
            first_byte: Duration::ZERO,
            jitter: Duration::ZERO,
            spread_percent: None,
            slow_per_million: 0,
            slow_multiplier: 10,
            connection_rate: None,
            total_rate: None,
            request_rate: None,
            concurrency: None,
            seed: 0,
            faults: Vec::new(),
            tls: None,
            request_log: 16_384,
        }
    }
}

impl Config {
    /// The device that this config describes.
    pub fn device(&self) -> object_store::Config {
        let spread = match self.spread_percent {
            Some(percent) => Spread::LogNormal(percent),
            None if self.jitter.is_zero() => Spread::None,
            None => Spread::Uniform(self.jitter.as_nanos() as u64),
        };
        object_store::Config {
            first_byte: FirstByte {
                base_ns: self.first_byte.as_nanos() as u64,
                spread,
                slow: SlowTail { per_million: self.slow_per_million, multiplier: self.slow_multiplier },
            },
            connection_rate: self.connection_rate.and_then(Rate::per_second),
            total_rate: self.total_rate.and_then(Rate::per_second),
            request_rate: self.request_rate,
            concurrency: self.concurrency,
            seed: self.seed,
        }
    }
}

fn first_generation() -> u64 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_survives_toml() {
        let config = Config {
            objects: vec![ObjectSpec::new("a b", 5)],
            jitter: Duration::from_millis(3),
            total_rate: Some(1_000_000_000),
            faults: vec!["reset-body=64KiB,count=2".parse().unwrap()],
            tls: Some(TlsFiles { cert: "c.pem".into(), key: "k.pem".into() }),
            ..Config::default()
        };
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), config, "{text}");
    }

    #[test]
    fn an_unknown_field_and_a_wrong_unit_are_told() {
        assert!(toml::from_str::<Config>("latency = 1").unwrap_err().to_string().contains("latency"));
        let error = toml::from_str::<Config>("first_byte = \"30\"").unwrap_err().to_string();
        assert!(error.contains("is not a time such as 30ms"), "{error}");
    }

    #[test]
    fn the_device_has_the_units_of_the_model() {
        let config =
            Config { first_byte: Duration::from_millis(30), connection_rate: Some(80_000_000), ..Config::default() };
        let device = config.device();
        assert_eq!(device.first_byte, FirstByte { slow: device.first_byte.slow, ..FirstByte::fixed(30_000_000) });
        assert_eq!(device.connection_rate.unwrap().bytes_per_second(), 80_000_000);
        assert_eq!(device.total_rate, None);
    }
}
