//! What this machine allows: the kernel, FUSE, `io_uring`, userfaultfd, limits, memory, clock and
//! network.

use std::fs::{self, File};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use foreread::backend::{ConnectOptions, Mechanism, Submitter, connect};
use rustix::process::{Resource, geteuid, getrlimit};

use super::finding::Finding;
use crate::args::memory;
use crate::commands::mount::permission;
use crate::terminal::size::Size;

/// All findings about this machine.
pub(super) fn findings() -> Vec<Finding> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut findings = vec![kernel(&release)];
    findings.extend(fuse());
    findings.extend([io_uring(), userfaultfd(), files(), budget(), clock(SystemTime::now())]);
    findings.extend(network(Path::new("/sys/class/net")));
    findings.extend(proxies());
    findings
}

/// The kernel's release, by what a mount uses of it.
fn kernel(release: &str) -> Finding {
    let found = format!("Linux {release}");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < KERNEL_OF_LONG_READS {
        let next = "reads of a mount are at most 128 KiB each: Linux 4.20 and later ask for up to 1 MiB";
        Finding::advice("kernel", found, next)
    } else if version < KERNEL_OF_PRUNING {
        let next = "names are forgotten one by one: Linux 6.18 and later are asked for all at once";
        Finding::advice("kernel", found, next)
    } else {
        Finding::good("kernel", found)
    }
}

/// Linux 4.20: `FUSE_MAX_PAGES`.
const KERNEL_OF_LONG_READS: (u32, u32) = (4, 20);

/// Linux 6.18: `FUSE_NOTIFY_PRUNE` (docs/decisions/0047).
const KERNEL_OF_PRUNING: (u32, u32) = (6, 18);

fn fuse() -> Vec<Finding> {
    match permission::check(false) {
        Err(error) => return vec![Finding::of_error("mounting", &error)],
        Ok(()) if geteuid().is_root() => {
            return vec![Finding::good(
                "mounting",
                "/dev/fuse can be opened; as root, the kernel is asked for long reads",
            )];
        }
        Ok(()) => {}
    }
    let next = "only root may ask the kernel for longer ones: programs that read little at a time are quicker then";
    let reads =
        Finding::advice("mounting", "/dev/fuse can be opened; the kernel reads ahead by 128 KiB at a time", next);
    let others = permission::check(true).err().map(|_| {
        let next = "for --allow-other, root writes the line `user_allow_other` to /etc/fuse.conf";
        Finding::advice("other users", "they cannot see your mounts", next)
    });
    [Some(reads), others].into_iter().flatten().collect()
}

/// Whether local files can be read by `io_uring`.
fn io_uring() -> Finding {
    let options = ConnectOptions::default().with_local(Mechanism::IoUring);
    let folder = std::env::temp_dir();
    let mechanism = connect(&folder.to_string_lossy(), &options)
        .ok()
        .and_then(|connected| connected.backend.submission().map(Submitter::mechanism));
    if mechanism == Some(Mechanism::IoUring) {
        return Finding::good("io_uring", "local files are read by it");
    }
    let next = match fs::read_to_string("/proc/sys/kernel/io_uring_disabled").as_deref().map(str::trim) {
        Ok("1" | "2") => "the setting kernel.io_uring_disabled forbids it: 0 allows it",
        _ => {
            "the kernel or a container's seccomp profile forbids it: threads read local files, at a fraction of the rate"
        }
    };
    Finding::advice("io_uring", "it cannot be used here", next)
}

/// Whether system calls may read into memory regions.
fn userfaultfd() -> Finding {
    let setting = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap_or_default();
    let has_device = File::options().read(true).write(true).open("/dev/userfaultfd").is_ok();
    if geteuid().is_root() || has_device || setting.trim() == "1" {
        Finding::good("userfaultfd", "memory regions can be used, by system calls as well")
    } else {
        let next = "for read(2) into a region: vm.unprivileged_userfaultfd = 1, or access to /dev/userfaultfd";
        Finding::advice("userfaultfd", "memory regions can be used, but not by system calls", next)
    }
}

/// Whether enough files may be open: each connection is one.
fn files() -> Finding {
    let limit = getrlimit(Resource::Nofile).current;
    let found = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("{limit} at a time"));
    if limit.is_some_and(|limit| limit < FILES_MIN) {
        Finding::advice("open files", found, format!("`ulimit -n {FILES_MIN}`: each connection to the storage is one"))
    } else {
        Finding::good("open files", found)
    }
}

/// Connections that a fast link takes, and as many open files again.
const FILES_MIN: u64 = 1024;

fn budget() -> Finding {
    let budget = memory::default_budget();
    let found = format!("a mount has {budget} unless --memory says otherwise");
    if budget < BUDGET_MIN {
        let next = "it is a quarter of what the machine or its cgroup allows; in little memory fast links stay unused";
        Finding::advice("memory", found, next)
    } else {
        Finding::good("memory", found)
    }
}

/// A budget that keeps 1 GB/s at 30 ms and many readers.
const BUDGET_MIN: Size = Size(128 << 20);

/// Whether the clock can be right.
fn clock(now: SystemTime) -> Finding {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if seconds < RELEASED {
        let next =
            "set the clock: stores refuse signatures of another quarter of an hour, and certificates are not valid yet";
        Finding::wrong("clock", "it is behind the day on which this program was made", next)
    } else {
        Finding::good("clock", "it is past the day on which this program was made")
    }
}

/// 25 November 2026.
const RELEASED: u64 = 1_795_564_800;

/// The interfaces that are up, without the loopback: those with short packets.
fn network(interfaces: &Path) -> Option<Finding> {
    let mut least: Option<(u32, String)> = None;
    for interface in fs::read_dir(interfaces).ok()?.flatten() {
        let name = interface.file_name().to_string_lossy().into_owned();
        let read = |file: &str| fs::read_to_string(interface.path().join(file)).unwrap_or_default();
        let mtu = read("mtu").trim().parse().ok();
        if name == "lo" || read("operstate").trim() != "up" {
            continue;
        }
        least = [least, mtu.map(|mtu| (mtu, name))].into_iter().flatten().min();
    }
    let (mtu, name) = least?;
    let found = format!("packets of {mtu} bytes on {name}");
    Some(if mtu < MTU_MIN {
        Finding::advice("network", found, "short packets cost processor: a tunnel on the way may be the cause")
    } else {
        Finding::good("network", found)
    })
}

/// Lower than that is no Ethernet, nor the inside of most tunnels.
const MTU_MIN: u32 = 1280;

/// A proxy that all requests go through.
fn proxies() -> Option<Finding> {
    let name = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
        .into_iter()
        .find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))?;
    let next = "NO_PROXY leaves a host out: a proxy is a second hop for each byte";
    Some(Finding::advice("proxy", format!("{name} is set, so requests go through a proxy"), next))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn a_kernel_is_judged_by_what_a_mount_uses_of_it() {
        for (release, verdict) in [
            ("6.18.5", Verdict::Good),
            ("7.0.0-rc1", Verdict::Good),
            ("6.17.12-generic", Verdict::Advice),
            ("4.19.0-amd64", Verdict::Advice),
        ] {
            assert_eq!(kernel(release).verdict, verdict, "{release}");
        }
        assert!(kernel("4.19.0").next.expect("advice").contains("128 KiB"));
    }

    #[test]
    fn a_clock_that_was_never_set_is_wrong() {
        assert_eq!(clock(UNIX_EPOCH + Duration::from_secs(1_000)).verdict, Verdict::Wrong);
        assert_eq!(clock(SystemTime::now()).verdict, Verdict::Good);
    }

    #[test]
    fn the_interface_with_the_shortest_packets_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(network(dir.path()), None);
        for (name, mtu, state) in [("lo", 512, "up"), ("eth0", 1500, "up"), ("tun0", 1200, "up"), ("off", 576, "down")]
        {
            let folder = dir.path().join(name);
            fs::create_dir(&folder).expect("a folder");
            fs::write(folder.join("mtu"), format!("{mtu}\n")).expect("a file");
            fs::write(folder.join("operstate"), format!("{state}\n")).expect("a file");
        }
        let finding = network(dir.path()).expect("a finding");
        assert_eq!((finding.verdict, &*finding.found), (Verdict::Advice, "packets of 1200 bytes on tun0"));
    }
}
