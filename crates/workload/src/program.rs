//! A program that is run over a mount as its users run it, and the figures that it must reach.
//!
//! `workloads/README.md` describes the file; `decode/program.rs` reads it.

use serde::Serialize;

use crate::figure::Figure;
use crate::workload::Mount;
use crate::workload::device::Store;

/// One program. Only [`crate::Load::parse`] makes it, and checks every rule that the fields name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Program {
    /// Its name on the command line and in reports; the file's stem.
    pub name: String,
    /// One sentence: what it does.
    pub description: String,
    /// A run that takes longer is ended, and has failed.
    pub duration_ns: u64,
    /// What a shell runs. Its variable `DATA` is the mount; the tools are on its `PATH`. It must
    /// print the same with the data in a local folder.
    pub command: String,
    /// The same program without a mount, which reads the store itself: it has the variables
    /// `ENDPOINT` and `BUCKET`, and the store's credentials.
    pub own: Option<String>,
    /// Whether it is run a second time through the same mount, with the kernel's caches dropped.
    pub again: bool,
    /// Whether it is measured through a mount of a user without privileges as well.
    pub without_root: bool,
    /// Whose clock counts.
    pub timed: Timed,
    /// The script that makes the folder which the program reads; a key of
    /// [`crate::catalogue::DATA`], or the name of a file in the folder `data` beside the TOML.
    pub data: String,
    /// The script that installs what the program needs, in the same way; of the folder `tools`.
    pub tools: Option<String>,
    /// The storage.
    pub store: Store,
    /// The mount.
    pub mount: Mount,
    /// The expected figures, in the order of the file. Empty: reported without judgement.
    pub expect: Vec<Figure>,
}

/// Whose clock counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Timed {
    /// That of the benchmark: from the start of the program to the end of its output.
    Whole,
    /// That of the program, which prints seconds as the last line of its output: for one that
    /// loads libraries from a local disk first.
    Itself,
}
