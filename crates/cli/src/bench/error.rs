//! What ends a benchmark: each with the cause and the next step.
//!
//! A row that fails does not end the run: it is reported as failed and the next one starts. Only what would fail every
//! row, and Ctrl-C, end it.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use crate::interrupt::Interrupt;

use crate::workloads;

/// A failure of one measurement, or of the whole benchmark.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum Error {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Workloads(#[from] workloads::Error),

    #[error("{name} is for a device that exists as a model only")]
    #[diagnostic(help("run `foreread simulate {name}`"))]
    SimulatedOnly { name: String },

    #[error("{}: cannot be read", .path.display())]
    #[diagnostic(help("a workload is a TOML file; `workloads/README.md` describes the form"))]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("/dev/fuse does not exist, so nothing can be mounted")]
    #[diagnostic(help(
        "load the kernel's module with `modprobe fuse`; in a container, start it with `--device /dev/fuse --cap-add \
         SYS_ADMIN`. `foreread cat` needs no mount"
    ))]
    NoFuse,

    #[error("interrupted")]
    #[diagnostic(help("everything that was mounted is unmounted again"))]
    Interrupted,

    #[error("{action} failed")]
    Io {
        action: &'static str,
        #[source]
        cause: std::io::Error,
    },

    #[error("`{command}` could not be started")]
    #[diagnostic(help("check that the program is installed and on the PATH"))]
    Spawn {
        command: String,
        #[source]
        cause: std::io::Error,
    },

    #[error("`{command}` ended too early ({status}){said}")]
    Ended { command: String, status: String, said: String },

    #[error("`{command}` did not {what} within {seconds} s{said}")]
    TimedOut { command: String, what: &'static str, seconds: u64, said: String },

    #[error("a program answered with something else than was agreed: {what}")]
    Protocol { what: String },

    #[error("{path}: {operation} at offset {offset} failed")]
    Read {
        path: String,
        operation: &'static str,
        offset: u64,
        #[source]
        cause: std::io::Error,
    },

    #[error("wrong bytes in {path} at offset {offset}")]
    #[diagnostic(help("this is a defect of the mount: please report it with the workload's name"))]
    WrongBytes { path: String, offset: u64 },

    #[error("{path}: {len} bytes at offset {offset} were asked for and {got} came")]
    Short { path: String, offset: u64, len: u32, got: usize },

    #[error("{url} does not hold what {workload} reads: {wanted} files of at least {size} bytes (found {found})")]
    #[diagnostic(help("upload objects of that size below the prefix, or leave the workload out"))]
    Objects { url: String, workload: String, wanted: u32, size: u64, found: usize },

    #[error("no memory cgroup can be made, which the workload asks for")]
    #[diagnostic(help("run as root on a machine whose memory controller is mounted below /sys/fs/cgroup"))]
    NoCgroup {
        #[source]
        cause: std::io::Error,
    },

    #[error("the kernel's caches cannot be dropped, which the workload asks for")]
    #[diagnostic(help("run as root: only root may write to /proc/sys/vm/drop_caches"))]
    NoCacheDrop {
        #[source]
        cause: std::io::Error,
    },

    #[error("{name} walks a tree of its own, which only a testbed holds")]
    #[diagnostic(help("leave out --url, or the workload"))]
    TestbedOnly { name: String },

    #[error(
        "{path} is not what the tree holds there: another name or kind, one that came before, or of another length"
    )]
    #[diagnostic(help("this is a defect of the mount: please report it with the workload's name"))]
    WrongName { path: String },

    #[error("{path} was listed with {found} names, and has {wanted}")]
    #[diagnostic(help("this is a defect of the mount: please report it with the workload's name"))]
    WrongCount { path: String, wanted: usize, found: usize },

    #[error("no cold file can be made in the temporary directory: {why}")]
    #[diagnostic(help("name a directory on a disk with room in TMPDIR"))]
    NotCold { why: String },

    #[error("killed for memory: {killed} processes in the workload's memory cgroup")]
    OutOfMemory { killed: u64 },

    #[error("the testbed cannot be read by the bare client")]
    Bare(#[source] foreread_testbed::Error),
}

impl Error {
    /// For [`Result::map_err`].
    pub(crate) fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |cause| Self::Io { action, cause }
    }

    /// An error once a signal has come.
    pub(crate) fn if_interrupted(interrupt: &Interrupt) -> Result<(), Self> {
        if interrupt.came() { Err(Self::Interrupted) } else { Ok(()) }
    }

    /// The message with its causes, on one line.
    pub(crate) fn told(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }
}
