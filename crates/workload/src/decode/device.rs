//! The storage that is read: the `[device]` table.

use std::num::NonZeroU32;

use super::section::Section;
use crate::error::Error;
use crate::workload::device::{Device, Slow, Store};

pub(super) fn device(section: &mut Section<'_>) -> Result<Device, Error> {
    const PROFILE: &str = "the name of a device model such as \"hdd-w1\"";
    if let Some(profile) = section.optional_string("profile", PROFILE)? {
        return Ok(Device::Profile(profile.value));
    }
    if let Some(emulated) = section.optional_string("emulated", PROFILE)? {
        return Ok(Device::Emulated(emulated.value));
    }
    if section.optional_bool("local")?.unwrap_or(false) {
        return Ok(Device::Local);
    }
    let one_in = section.optional_integer("slow_one_in", "a number of requests such as 50")?;
    let times = section.optional_integer("slow_times", "a factor such as 20")?;
    let slow = match (one_in, times) {
        (Some(one_in), Some(times)) => {
            Some(Slow { one_in: one_in.within(1, 1_000_000)? as u32, times: times.within(2, 10_000)? as u32 })
        }
        (None, None) => None,
        (Some(one_in), None) => return Err(one_in.breaks("`slow_times` says how slow they are")),
        (None, Some(times)) => return Err(times.breaks("`slow_one_in` says how many are slow")),
    };
    let concurrency = section.optional_integer("concurrency", "a number of requests such as 16")?;
    let concurrency = concurrency.map(|most| most.within(1, 1_000_000)).transpose()?;
    Ok(Device::Store(Store {
        slow,
        concurrency: concurrency.and_then(|most| NonZeroU32::new(most as u32)),
        first_byte_ns: section.duration("first_byte")?.value,
        connection_bytes_per_s: section.rate("connection_rate")?.at_least(1)?,
        total_bytes_per_s: section.optional_rate("total_rate")?.map(|rate| rate.at_least(1)).transpose()?,
        ceiling_min_bytes_per_s: section.optional_rate("ceiling_min")?.map(|rate| rate.value),
    }))
}
