//! What to do after a failure of the benchmark.

use std::fmt::Display;
use std::io;

use foreread_bench::Error;
use miette::Diagnostic;

/// A failure of the benchmark, with the next step.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Failed(pub(crate) Error);

impl Diagnostic for Failed {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        let text = match &self.0 {
            Error::SimulatedOnly { name } => return Some(Box::new(format!("run `foreread simulate {name}`"))),
            Error::Workload(_) => "`workloads/README.md` describes the form",
            Error::ProgramsOnly { .. } => "name programs, as `foreread bench programs --upstream ...` does",
            Error::TestbedOnly { .. } => "leave out --url, or the workload",
            Error::NoFuse => {
                "load the kernel's module with `modprobe fuse`; in a container, start it with `--device /dev/fuse \
                 --cap-add SYS_ADMIN`. `foreread cat` needs no mount"
            }
            Error::Interrupted => "everything that was mounted is unmounted again",
            Error::Spawn { .. } => "check that the program is installed and on the PATH",
            Error::WrongBytes { .. } | Error::WrongName { .. } | Error::WrongCount { .. } => {
                "this is a defect of the mount: please report it with the workload's name"
            }
            Error::Objects { .. } => "upload objects of that size below the prefix, or leave the workload out",
            Error::NoCgroup { .. } => {
                "run as root on a machine whose memory controller is mounted below /sys/fs/cgroup"
            }
            Error::NoCacheDrop { .. } => "run as root: only root may write to /proc/sys/vm/drop_caches",
            Error::NotOurs { .. } => "name another folder with --data: what lies there is executed",
            Error::NotMade { .. } => "name another folder with --data, or remove that one",
            Error::InUse { .. } => "wait for its end, or name another folder with --data",
            Error::WrongOutput { .. } => {
                "this is a defect of the mount, or the program prints something else at each run: please report it"
            }
            Error::NotCold { .. } => "name a directory on a disk with room in TMPDIR",
            _ => return None,
        };
        Some(Box::new(text))
    }
}

/// Signals cannot be listened for.
pub(crate) fn signals(cause: io::Error) -> Failed {
    Failed(Error::Io { action: "listening for signals", cause })
}
