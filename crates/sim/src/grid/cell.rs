//! The axes of the grid, and its cells.

use std::fmt;

use foreread_device::latency::FirstByte;
use foreread_device::{Rate, object_store};
use serde::Serialize;

/// The order in which each reader of a cell reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Order {
    /// Forward through a file of its own, 128 KiB at a time.
    Sequential,
    /// Backward through a file of its own, 128 KiB at a time.
    Backward,
    /// 128 KiB at random places of one file, none twice.
    #[serde(rename = "random-128k")]
    Random128K,
    /// 4 KiB at random places of one file, none twice.
    #[serde(rename = "random-4k")]
    Random4K,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 4] = [Self::Sequential, Self::Backward, Self::Random128K, Self::Random4K];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Backward => "backward",
            Self::Random128K => "random-128k",
            Self::Random4K => "random-4k",
        }
    }

    /// Bytes of a read.
    pub fn record_bytes(self) -> u64 {
        if self == Self::Random4K { 4 << 10 } else { 128 << 10 }
    }

    /// Whether nothing can be read ahead.
    pub fn is_random(self) -> bool {
        matches!(self, Self::Random128K | Self::Random4K)
    }
}

/// One cell: a link, its readers, and the budget that they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// Time from a request to its first byte, in ns.
    pub first_byte_ns: u64,
    /// Rate of one connection, in bytes a second.
    pub connection_rate: u64,
    /// Rate of all connections, in bytes a second.
    pub total_rate: u64,
    /// Readers, all of one kind.
    pub readers: u32,
    /// The budget, in bytes.
    pub budget_bytes: u64,
    /// The order of their reads.
    pub order: Order,
}

impl Cell {
    /// The object store of the cell.
    pub(super) fn store(&self) -> object_store::Config {
        object_store::Config {
            first_byte: FirstByte::fixed(self.first_byte_ns),
            connection_rate: Rate::per_second(self.connection_rate),
            total_rate: Rate::per_second(self.total_rate),
            ..object_store::Config::default()
        }
    }

    /// The time that one record takes on an idle link, in ns: a round trip.
    pub fn round_trip_ns(&self) -> u64 {
        self.first_byte_ns + self.order.record_bytes() * 1_000_000_000 / self.connection_rate.max(1)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first_byte_ns, connection_rate, total_rate, readers, budget_bytes, order } = *self;
        write!(
            formatter,
            "first-byte={}ms,connection={}MB/s,total={}MB/s,readers={readers},budget={}MiB,order={}",
            first_byte_ns as f64 / 1e6,
            connection_rate as f64 / 1e6,
            total_rate as f64 / 1e6,
            budget_bytes >> 20,
            order.as_str()
        )
    }
}

/// The values of each axis; the cells are all combinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes {
    /// First byte, in ns.
    pub first_byte_ns: Vec<u64>,
    /// Rate of one connection, in bytes a second.
    pub connection_rate: Vec<u64>,
    /// Rate of all connections, in bytes a second.
    pub total_rate: Vec<u64>,
    /// Number of readers.
    pub readers: Vec<u32>,
    /// Budget, in bytes.
    pub budget_bytes: Vec<u64>,
    /// Order of the reads.
    pub order: Vec<Order>,
}

impl Default for Axes {
    fn default() -> Self {
        Self {
            first_byte_ns: [1, 5, 30, 100, 200].map(|ms| ms * 1_000_000).to_vec(),
            connection_rate: [5, 25, 80, 500].map(|mb| mb * 1_000_000).to_vec(),
            total_rate: [100, 1_000, 3_000, 12_000].map(|mb| mb * 1_000_000).to_vec(),
            readers: vec![1, 16, 256, 4_096],
            budget_bytes: vec![64 << 20, 1 << 30, 16 << 30],
            order: Order::ALL.to_vec(),
        }
    }
}

impl Axes {
    /// The cells, without those in which one connection is faster than all together.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &order in &self.order {
            for &budget_bytes in &self.budget_bytes {
                for &readers in &self.readers {
                    for &total_rate in &self.total_rate {
                        for &connection_rate in self.connection_rate.iter().filter(|rate| **rate <= total_rate) {
                            let cell = |&first_byte_ns: &u64| Cell {
                                first_byte_ns,
                                connection_rate,
                                total_rate,
                                readers,
                                budget_bytes,
                                order,
                            };
                            cells.extend(self.first_byte_ns.iter().map(cell));
                        }
                    }
                }
            }
        }
        cells
    }
}
