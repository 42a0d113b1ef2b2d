//! The storage that a workload is measured on.

use std::num::NonZeroU32;

use serde::Serialize;

/// The storage that the workload is measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Device {
    /// An object store: the testbed in real time, its model in virtual time.
    Store(Store),
    /// A device model by name: virtual time only.
    Profile(String),
    /// A local file, read through the library, not through a mount.
    Local,
    /// A device model by name in real time, behind the library.
    Emulated(String),
}

impl Device {
    /// The store; `None` for other devices.
    pub fn store(&self) -> Option<Store> {
        match self {
            Self::Store(store) => Some(*store),
            _ => None,
        }
    }

    /// Whether reads are submitted to the library, one in flight a thread, instead of made through
    /// a mount.
    pub fn is_submitted_to(&self) -> bool {
        matches!(self, Self::Local | Self::Emulated(_))
    }
}

/// An object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Store {
    /// First-byte latency.
    pub first_byte_ns: u64,
    /// Rate of one connection.
    pub connection_bytes_per_s: u64,
    /// Rate of all connections together; `None`: the limit of the machine.
    pub total_bytes_per_s: Option<u64>,
    /// Requests served at a time; `None`: no limit.
    pub concurrency: Option<NonZeroU32>,
    /// The slow tail of the first-byte latency.
    pub slow: Option<Slow>,
    /// A run is void if the bare client reaches less: it measures the machine, not the mount.
    pub ceiling_min_bytes_per_s: Option<u64>,
}

/// A slow tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Slow {
    /// One request in this many is slow, by chance.
    pub one_in: u32,
    /// Factor of its first-byte latency.
    pub times: u32,
}
