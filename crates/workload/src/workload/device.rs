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
    /// A file of the local file system, read through the library, not through a mount.
    Local,
    /// A device model by name in real time, behind the library.
    Emulated(String),
}

impl Device {
    /// The store; `None` for a device that exists as a model only.
    pub fn store(&self) -> Option<Store> {
        match self {
            Self::Store(store) => Some(*store),
            _ => None,
        }
    }

    /// Whether reads are submitted to the library, as many at a time as there are threads, and not made through a mount.
    pub fn is_submitted_to(&self) -> bool {
        matches!(self, Self::Local | Self::Emulated(_))
    }
}

/// An object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Store {
    /// From a request to the first byte of its answer.
    pub first_byte_ns: u64,
    /// What one connection carries.
    pub connection_bytes_per_s: u64,
    /// What all connections together carry; `None`: as much as the machine does.
    pub total_bytes_per_s: Option<u64>,
    /// Requests that it works on at a time; `None`: as many as come.
    pub concurrency: Option<NonZeroU32>,
    /// One request in so many is slow, and its first byte takes so many times as long.
    pub slow: Option<Slow>,
    /// A run in which the bare client reaches less than this says more about the machine than about the mount: it is
    /// void.
    pub ceiling_min_bytes_per_s: Option<u64>,
}

/// A slow tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Slow {
    /// One request in so many, by chance.
    pub one_in: u32,
    /// How many times as long its first byte takes.
    pub times: u32,
}
