//! The default of `--memory`: a quarter of what this process may use, at most 1 GiB.
//!
//! A process may use the smallest of the machine's memory and the limits of its memory cgroup and
//! all cgroups above. Version 1 (`memory.limit_in_bytes`) and version 2 (`memory.max`) are both
//! read: hybrid systems mount both. A cgroup that cannot be read sets no limit.

use std::path::{Path, PathBuf};

use foreread_fuse::mount_table::{self, Mount};

use crate::terminal::size::Size;

/// The divisor of the default: a quarter of what the process may use.
const SHARE: u64 = 4;

/// The largest default. Higher, and a program that streams would take gigabytes of a large
/// machine.
const DEFAULT_MAX: Size = Size(1 << 30);

/// The smallest budget that is accepted.
pub(crate) const MIN: Size = Size(foreread_engine::MEMORY_BYTES_MIN);

/// The budget of an engine without `--memory`.
pub(crate) fn default_budget() -> Size {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| meminfo_bytes(&text, "MemTotal:"));
    let cgroup = read(Path::new("/proc/self/cgroup")).and_then(|membership| {
        let mounts = mount_table::read().unwrap_or_default();
        cgroup_bytes(&membership, &mounts, &read)
    });
    quarter(machine, cgroup)
}

fn quarter(machine: Option<u64>, cgroup: Option<u64>) -> Size {
    let allowed = machine.into_iter().chain(cgroup).min().unwrap_or(DEFAULT_MAX.0);
    Size(allowed / SHARE).clamp(MIN, DEFAULT_MAX)
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The smallest limit from this process's memory cgroups (`/proc/self/cgroup`) up to their mount
/// points.
fn cgroup_bytes(membership: &str, mounts: &[Mount], read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    membership
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, Path::new(fields.next()?));
            let (mount, file) = if controllers.is_empty() {
                (mounts.iter().find(|mount| mount.kind == "cgroup2")?, "memory.max")
            } else if controllers.split(',').any(|name| name == "memory") {
                (mounts.iter().find(|mount| is_memory_v1(mount))?, "memory.limit_in_bytes")
            } else {
                return None;
            };
            smallest_limit(mount, path, file, read)
        })
        .min()
}

fn is_memory_v1(mount: &Mount) -> bool {
    mount.kind == "cgroup" && mount.super_options.split(',').any(|option| option == "memory")
}

/// In a container the mount shows a part of the hierarchy (`root`), and the path may be outside
/// that part.
fn smallest_limit(mount: &Mount, path: &Path, file: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let below = path.strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let leaf: PathBuf = mount.point.join(below.strip_prefix("/").unwrap_or(below));
    leaf.ancestors()
        .take_while(|dir| dir.starts_with(&mount.point))
        .filter_map(|dir| read(&dir.join(file))?.trim().parse::<u64>().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "30 22 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
    const V2: &str = "31 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";

    fn limit(membership: &str, mountinfo: &str, files: &[(&str, &str)]) -> Option<u64> {
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        cgroup_bytes(membership, &mount_table::parse(mountinfo), &read)
    }

    #[test]
    fn version_2_takes_the_smallest_of_all_ancestors() {
        let files = [
            ("/sys/fs/cgroup/a/memory.max", "1000\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/b/c/memory.max", "2000\n"),
        ];
        assert_eq!(limit("0::/a/b/c\n", V2, &files), Some(1000));
        assert_eq!(limit("0::/other\n", V2, &files), None);
    }

    #[test]
    fn version_1_finds_its_controller_among_the_others() {
        let files = [
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "536870912\n"),
        ];
        assert_eq!(limit("9:name=systemd:/\n4:hugetlb,memory:/box\n0::/\n", V1, &files), Some(512 << 20));
    }

    #[test]
    fn a_container_sees_a_part_of_the_hierarchy() {
        let mountinfo = "30 22 0:26 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
        let files = [("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096")];
        assert_eq!(limit("4:memory:/docker/x", mountinfo, &files), Some(4096));
        assert_eq!(limit("4:memory:/", mountinfo, &files), Some(4096));
    }

    #[test]
    fn no_cgroup_is_no_limit() {
        assert_eq!(limit("", V2, &[]), None);
        assert_eq!(limit("0::/a", "", &[]), None);
        assert_eq!(limit("nonsense", V1, &[]), None);
    }

    #[test]
    fn meminfo_counts_in_kib() {
        assert_eq!(meminfo_bytes("MemTotal:        2048 kB\nMemFree:  1 kB\n", "MemTotal:"), Some(2 << 20));
        assert_eq!(meminfo_bytes("MemFree: 1 kB", "MemTotal:"), None);
    }

    #[test]
    fn a_quarter_within_bounds() {
        assert_eq!(quarter(Some(2 << 30), None), Size(512 << 20));
        assert_eq!(quarter(Some(64 << 30), Some(512 << 20)), Size(128 << 20));
        assert_eq!(quarter(Some(64 << 30), None), DEFAULT_MAX);
        assert_eq!(quarter(Some(8 << 20), None), MIN);
        assert_eq!(quarter(None, None), Size(256 << 20));
        assert!(default_budget() >= MIN);
    }
}
