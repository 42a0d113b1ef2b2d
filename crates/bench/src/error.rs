//! What ends a measurement.
//!
//! A row that fails does not end the benchmark: the row is reported as failed, and the next one
//! starts. Only a failure that every row would share, and an interruption, end it.
//!
//! The caller turns a kind into advice; this crate states the cause.

use thiserror::Error;

use crate::process::interrupt::Interrupt;

/// A failure of one measurement, or of the whole benchmark.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its variant and its fields are")]
pub enum Error {
    #[error("a workload cannot be used")]
    Workload(#[source] foreread_workload::Error),

    #[error("{name} is for a device that exists as a model only")]
    SimulatedOnly { name: String },

    #[error("{name} walks a tree of its own, which only a testbed holds")]
    TestbedOnly { name: String },

    #[error("{name} reads files whose content only a testbed makes, and --upstream is another server")]
    ProgramsOnly { name: String },

    #[error("{path} is no folder, belongs to another user, or others may write to it")]
    NotOurs { path: String },

    #[error("{path} was not made by a script of the benchmark, which would remove it")]
    NotMade { path: String },

    #[error("another benchmark uses {path}")]
    InUse { path: String },

    #[error("{program} prints `{}`, and with its data in a local folder `{}`", shown(.found), shown(.wanted))]
    WrongOutput { program: String, found: String, wanted: String },

    #[error("/dev/fuse does not exist, so nothing can be mounted")]
    NoFuse,

    #[error("interrupted")]
    Interrupted,

    #[error("{action} failed")]
    Io {
        action: &'static str,
        #[source]
        cause: std::io::Error,
    },

    #[error("`{command}` could not be started")]
    Spawn {
        command: String,
        #[source]
        cause: std::io::Error,
    },

    #[error("`{command}` ended too early ({status}){said}")]
    Ended { command: String, status: String, said: String },

    #[error("`{command}` did not {what} within {seconds} s{said}")]
    TimedOut { command: String, what: &'static str, seconds: u64, said: String },

    #[error("a program's answer cannot be used: {what}")]
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
    WrongBytes { path: String, offset: u64 },

    #[error("{path}: a read of {len} bytes at offset {offset} returned {got}")]
    Short { path: String, offset: u64, len: u32, got: usize },

    #[error("{url} does not hold what {workload} reads: {wanted} files of at least {size} bytes (found {found})")]
    Objects { url: String, workload: String, wanted: u32, size: u64, found: usize },

    #[error("the memory cgroup that the workload asks for cannot be made")]
    NoCgroup {
        #[source]
        cause: std::io::Error,
    },

    #[error("the kernel's caches cannot be dropped, as the workload asks for")]
    NoCacheDrop {
        #[source]
        cause: std::io::Error,
    },

    #[error("{path} is not in the tree: wrong name, kind or length, or listed twice")]
    WrongName { path: String },

    #[error("{path} was listed with {found} names, and has {wanted}")]
    WrongCount { path: String, wanted: usize, found: usize },

    #[error("no cold file can be made in the temporary directory: {why}")]
    NotCold { why: String },

    #[error("killed for memory: {killed} processes in the workload's memory cgroup")]
    OutOfMemory { killed: u64 },

    #[error("{path}: cannot be verified")]
    Unverifiable {
        path: String,
        #[source]
        cause: std::io::Error,
    },

    #[error("{path}: there is no file to compare with")]
    NothingToCompare { path: String },

    #[error("{path}: the source of the comparison cannot be read: {said}")]
    Source { path: String, said: String },

    #[error("{path}: no answer within {seconds} s")]
    NoAnswer { path: String, seconds: u64 },

    #[error("the testbed cannot be read by the bare client")]
    Bare(#[source] foreread_testbed::Error),
}

/// The start of what a program has printed.
fn shown(text: &str) -> String {
    const MOST: usize = 200;
    let text = text.trim();
    if text.chars().count() > MOST { text.chars().take(MOST).chain("...".chars()).collect() } else { text.to_owned() }
}

impl Error {
    /// For [`Result::map_err`].
    pub(crate) fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |cause| Self::Io { action, cause }
    }

    /// For [`Result::map_err`], of an answer that is not as agreed.
    pub(crate) fn protocol(what: impl std::fmt::Display) -> Self {
        Self::Protocol { what: what.to_string() }
    }

    /// An error once the user has interrupted.
    pub(crate) fn if_interrupted(interrupt: &Interrupt) -> Result<(), Self> {
        if interrupt.is_raised() { Err(Self::Interrupted) } else { Ok(()) }
    }

    /// The message with its causes, on one line.
    pub(crate) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }
}
