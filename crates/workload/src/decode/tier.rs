//! The `[tier]` table.

use super::quantity;
use super::section::{Placed, Section};
use crate::error::Error;
use crate::workload::device::Device;
use crate::workload::files::Files;
use crate::workload::pattern::Pattern;
use crate::workload::tier::Tier;

/// The tier of a workload with these files, this pattern and this device.
pub(super) fn tier(
    section: &mut Section<'_>,
    files: &Files,
    pattern: &Pattern,
    device: &Device,
) -> Result<Tier, Error> {
    const PROFILE: &str = "the name of a device model such as \"nvme\"";
    if pattern.is_no_reads() {
        return Err(section.breaks("no file is read, so there is nothing to keep"));
    }
    if !matches!(device, Device::Profile(_)) {
        return Err(section.breaks("a tier is simulated only, in front of a `profile` of `[device]`"));
    }
    let profile = section.string("profile", PROFILE)?.value;
    let size = section.optional_size("size")?;
    let size_bytes = size.map(|size| size.at_least(SIZE_BYTES_MIN)).transpose()?;
    let warm = section.optional_strings("warm", RANGES_WANTED)?;
    let warm = warm.into_iter().map(|text| range(&text, files.size_bytes).map(|range| (text, range)));
    let warm = warm.collect::<Result<Vec<_>, _>>()?;
    let (mut all, mut end) = (0, 0);
    for (text, (from, to)) in &warm {
        if *from < end {
            return Err(text.breaks("ranges are in order, and do not overlap"));
        }
        (end, all) = (*to, u64::saturating_add(all, (to - from).saturating_mul(u64::from(files.count))));
        if size_bytes.is_some_and(|size| size < all) {
            return Err(text.breaks("more is warm, of all files together, than `size` holds"));
        }
    }
    Ok(Tier { profile, size_bytes, warm: warm.into_iter().map(|(_, range)| range).collect() })
}

/// `FROM..TO`, in a file of `size_bytes`.
fn range(text: &Placed<'_, String>, size_bytes: u64) -> Result<(u64, u64), Error> {
    let ends = text.value.split_once("..");
    let ends = ends.and_then(|(from, to)| Some((quantity::size(from)?, quantity::size(to)?)));
    let (from, to) = ends.ok_or_else(|| text.is_not(RANGES_WANTED))?;
    if from >= to || to > size_bytes {
        return Err(text.breaks("a range ends after its start, and within the file"));
    }
    if !from.is_multiple_of(PAGE_BYTES) || !(to.is_multiple_of(PAGE_BYTES) || to == size_bytes) {
        return Err(text.breaks("a range is whole pages of 4 KiB"));
    }
    Ok((from, to))
}

const RANGES_WANTED: &str = "a list of ranges such as [\"0B..512MiB\"]";

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// Fewest bytes of a tier: 32 segments of the least size.
const SIZE_BYTES_MIN: u64 = 32 << 20;
