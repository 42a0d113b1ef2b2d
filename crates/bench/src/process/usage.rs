//! What processes and the machine have used, from `/proc`: processor time and memory.
//!
//! A value that cannot be read is `None`; the figure that needs it is then missing.

use std::fs;

/// Processor time that process `pid` has used so far, in user and kernel mode.
pub(crate) fn cpu_s(pid: u32) -> Option<f64> {
    // proc(5): utime is field 14, stime field 15.
    let fields = stat_fields(pid)?;
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Major page faults of process `pid` so far.
pub(crate) fn major_faults(pid: u32) -> Option<u64> {
    // proc(5): majflt is field 12.
    stat_fields(pid)?.get(9)?.parse().ok()
}

/// Processor time that all processes of the machine have used so far, and that its host took away.
///
/// Interrupts are left out: they carry the benchmark's own packets, and belong to no process.
pub(crate) fn machine_cpu_s() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    // proc(5): user nice system idle iowait irq softirq steal ...
    let fields: Vec<u64> = text.lines().next()?.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
    let busy = fields.get(..3)?.iter().sum::<u64>() + fields.get(7)?;
    Some(busy as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Process `root` and all its descendants, by the parents that `/proc` names.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: Vec<(u32, u32)> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, stat_fields(pid)?.get(1)?.parse().ok()?))
        })
        .collect();
    let mut members = vec![root];
    let mut next = 0;
    while let Some(&parent) = members.get(next) {
        members.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    members
}

/// The largest resident set that process `pid` has had.
pub(crate) fn rss_max_bytes(pid: u32) -> Option<u64> {
    bytes_of(&format!("/proc/{pid}/status"), "VmHWM:")
}

/// Anonymous memory of this process, what is swapped out not counted.
pub(crate) fn rss_anonymous_bytes() -> Option<u64> {
    bytes_of("/proc/self/status", "RssAnon:")
}

/// Memory that the machine can still give: free, or in caches that can be dropped.
pub(crate) fn available_bytes() -> Option<u64> {
    bytes_of("/proc/meminfo", "MemAvailable:")
}

/// The machine's memory.
pub(crate) fn memory_bytes() -> Option<u64> {
    bytes_of("/proc/meminfo", "MemTotal:")
}

/// The fields of `/proc/PID/stat` after the name: the first one is proc(5)'s field 3.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the fields after it are fixed.
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

/// The line `name N kB` of a file.
fn bytes_of(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_time_of_this_process_are_known() {
        assert!(rss_max_bytes(std::process::id()).is_some_and(|bytes| bytes > 1 << 20));
        assert!(cpu_s(std::process::id()).is_some() && machine_cpu_s().is_some());
        assert_eq!(rss_max_bytes(0), None);
    }

    #[test]
    fn memory_of_the_machine_is_known() {
        assert!(memory_bytes() >= available_bytes() && available_bytes().is_some());
        assert!(rss_anonymous_bytes() < memory_bytes() && major_faults(std::process::id()).is_some());
    }
}
