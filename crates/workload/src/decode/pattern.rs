//! The `[pattern]` table.

use super::limits::{FILES_MAX, TREE_FILES_MAX};
use super::section::{Placed, Section};
use crate::error::Error;
use crate::workload::files::Files;
use crate::workload::pattern::disk_tree::{DiskTree, Shape};
use crate::workload::pattern::region::{Order, Region};
use crate::workload::pattern::{Descriptor, Pattern, Visit};
use crate::workload::tree::Tree;

/// The patterns of a workload that has a tree.
pub(super) fn walk(section: &mut Section<'_>, tree: &Tree, threads: u32) -> Result<Pattern, Error> {
    const KINDS: &str = "one of \"walk\", \"epochs\", which are what a tree is read by";
    const VISITS: &str = "one of \"names\", \"attributes\", \"contents\"";
    let kind = section.string("kind", KINDS)?;
    match kind.value.as_str() {
        "walk" if threads > 1 => Err(kind.breaks("one thread walks a tree")),
        "walk" => {
            let visit = section.string("visit", VISITS)?;
            let visit = match visit.value.as_str() {
                "names" => Visit::Names,
                "attributes" => Visit::Attributes,
                "contents" => Visit::Contents { record_bytes: record(section, tree.size_bytes)?.value as u32 },
                _ => return Err(visit.is_not(VISITS)),
            };
            Ok(Pattern::Walk { visit })
        }
        "epochs" => {
            let batch = section.integer("batch", "a number of files such as 32")?.within(1, FILES_MAX)? as u32;
            let passes = section.integer("passes", "a number of epochs such as 2")?.within(2, PASSES_MAX)? as u32;
            Ok(Pattern::Epochs { record_bytes: record(section, tree.size_bytes)?.value as u32, batch, passes })
        }
        _ => Err(kind.is_not(KINDS)),
    }
}

/// Bytes of a read.
fn record<'a>(section: &mut Section<'a>, size_bytes: u64) -> Result<Placed<'a, u64>, Error> {
    let record = section.size("record")?;
    record.within(1, RECORD_BYTES_MAX)?;
    if record.value > size_bytes {
        return Err(record.breaks("the record is larger than the file"));
    }
    Ok(record)
}

pub(super) fn pattern(section: &mut Section<'_>, files: &Files) -> Result<Pattern, Error> {
    const KINDS: &str = "one of \"sequential\", \"backward\", \"strided\", \"dealt\", \"interleaved\", \"random\", \
                         \"hot\", \"scan\", \"slow\", \"mmap-random\", \"disk-tree\", \"region\"";
    const PERCENT: &str = "a percentage such as 20";
    let size_bytes = files.size_bytes;
    let kind = section.string("kind", KINDS)?;
    if kind.value == "disk-tree" {
        return disk_tree(section).map(Pattern::DiskTree);
    }
    if kind.value == "region" {
        return region(section).map(Pattern::Region);
    }
    let record = record(section, size_bytes)?;
    let record_bytes = record.value as u32;
    Ok(match kind.value.as_str() {
        "sequential" => {
            let passes = section.optional_integer("passes", "a number of passes such as 2")?;
            let passes = passes.map_or(Ok(1), |passes| passes.within(1, PASSES_MAX))? as u32;
            Pattern::Sequential { record_bytes, passes }
        }
        "hot" => Pattern::Hot {
            record_bytes,
            areas: section.integer("areas", "a number of areas such as 100")?.within(1, AREAS_MAX)? as u32,
            area_bytes: section.size("area")?.within(record.value, size_bytes)?,
            hot_percent: section.integer("hot_percent", PERCENT)?.within(0, 100)? as u8,
            follow_percent: section.integer("follow_percent", PERCENT)?.within(0, 100)? as u8,
        },
        "backward" => Pattern::Backward { record_bytes },
        "strided" => {
            let stride = section.size("stride")?;
            if stride.value < record.value {
                return Err(stride.breaks("the stride is smaller than the record"));
            }
            Pattern::Strided { record_bytes, stride_bytes: stride.value }
        }
        "dealt" => Pattern::Dealt { record_bytes, descriptor: descriptor(section)? },
        "interleaved" => {
            let streams = section.integer("streams", "a number of streams such as 2")?;
            if streams.value < 2 || streams.value > size_bytes / record.value {
                return Err(streams.breaks("interleaving needs at least 2 streams, and a record for each in the file"));
            }
            Pattern::Interleaved { record_bytes, streams: streams.value as u32 }
        }
        "random" => {
            let descriptor = descriptor(section)?;
            let repeats = section.optional_bool("repeats")?.unwrap_or(false);
            let period_ns = section.optional_duration("period")?.map(|period| period.at_least(1)).transpose()?;
            let run = section.optional_integer("run", "a number of records such as 8")?;
            let run = run.map_or(Ok(1), |run| match size_bytes / record.value {
                records if !records.is_multiple_of(run.value.max(1)) => {
                    Err(run.breaks("a file has no whole number of runs"))
                }
                records => run.within(1, records),
            })? as u32;
            let passes = section.optional_integer("passes", "a number of passes such as 5")?;
            if let Some(passes) = passes.as_ref().filter(|_| repeats) {
                return Err(passes.breaks("records that may be read again have no passes"));
            }
            let passes = passes.map_or(Ok(1), |passes| passes.within(1, PASSES_MAX))? as u32;
            Pattern::Random { record_bytes, repeats, run, passes, descriptor, period_ns }
        }
        "scan" => {
            let hot = section.integer("hot", "a number of files such as 6")?;
            if hot.value == 0 || hot.value >= u64::from(files.count) {
                return Err(hot.breaks("some files are hot, and some are not"));
            }
            let passes = section.integer("passes", "a number of passes such as 4")?.within(1, PASSES_MAX)? as u32;
            Pattern::Scan { record_bytes, hot: hot.value as u32, passes }
        }
        "slow" => {
            let period_ns = section.duration("period")?.at_least(1)?;
            let start_every_ns = section.optional_duration("start_every")?.map_or(0, |every| every.value);
            let catches_up = section.optional_bool("catch_up")?.unwrap_or(true);
            Pattern::Slow { record_bytes, period_ns, start_every_ns, catches_up }
        }
        "mmap-random" => Pattern::MmapRandom { record_bytes },
        _ => return Err(kind.is_not(KINDS)),
    })
}

fn disk_tree(section: &mut Section<'_>) -> Result<DiskTree, Error> {
    const SHAPES: &str = "\"flat\" or \"system\"";
    let directories = section.integer("directories", "a number of directories such as 100")?;
    let shape = section.string("shape", SHAPES)?;
    let shape = match shape.value.as_str() {
        "flat" => Shape::Flat,
        "system" => Shape::System,
        _ => return Err(shape.is_not(SHAPES)),
    };
    let least = if shape == Shape::System { SYSTEM_DIRECTORIES_MIN } else { 0 };
    Ok(DiskTree {
        directories: directories.within(least, TREE_FILES_MAX)? as u32,
        shape,
        name_bytes: section.size("name")?.within(1, NAME_BYTES_MAX)? as u32,
        copied: section.optional_bool("copied")?.unwrap_or(false),
        copy_bytes: section.optional_size("copy")?.map(|copy| copy.at_least(1)).transpose()?,
    })
}

fn region(section: &mut Section<'_>) -> Result<Region, Error> {
    const ORDERS: &str = "one of \"sequential\", \"random\", \"rows\", \"mixed\"";
    let order = section.string("order", ORDERS)?;
    let order = match order.value.as_str() {
        "sequential" => Order::Sequential,
        "random" => Order::Random,
        "rows" => Order::Rows,
        "mixed" => Order::Mixed,
        _ => return Err(order.is_not(ORDERS)),
    };
    let row_pages = match order {
        Order::Rows => {
            let row = section.size("row")?;
            if !row.value.is_multiple_of(PAGE_BYTES) {
                return Err(row.breaks("a row is a multiple of 4 KiB, the pages of a region"));
            }
            (row.within(PAGE_BYTES, RECORD_BYTES_MAX)? / PAGE_BYTES) as u32
        }
        _ => 1,
    };
    let cycles = section.integer("cycles", "a number of cycles such as 5")?.within(1, PASSES_MAX)? as u32;
    Ok(Region { order, cycles, row_pages })
}

fn descriptor(section: &mut Section<'_>) -> Result<Descriptor, Error> {
    const WANTED: &str = "\"shared\" or \"own\"";
    let descriptor = section.string("descriptor", WANTED)?;
    match descriptor.value.as_str() {
        "shared" => Ok(Descriptor::Shared),
        "own" => Ok(Descriptor::Own),
        _ => Err(descriptor.is_not(WANTED)),
    }
}

/// Most passes: more than a day of them.
const PASSES_MAX: u64 = 1_000_000;

/// Most bytes of a read; a larger read tests the allocator.
const RECORD_BYTES_MAX: u64 = 1 << 30;

/// A page of a region.
const PAGE_BYTES: u64 = 4096;

/// Most hot areas.
const AREAS_MAX: u64 = 1_000_000;

/// Fewest directories of a system: those at the top, and the large ones.
const SYSTEM_DIRECTORIES_MIN: u64 = 50;

/// Most bytes of a name.
const NAME_BYTES_MAX: u64 = 255;
