//! What a TOML file describes: reads that the benchmark makes itself, or a program that it runs.

use serde::Serialize;

use crate::figure::Figure;
use crate::program::Program;
use crate::workload::Workload;

/// What one file describes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "there is one for each row of a report")]
pub enum Load {
    /// Reads in a pattern.
    Reads(Workload),
    /// A program. It is run for real only.
    Program(Program),
}

impl Load {
    /// Its name on the command line and in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Reads(workload) => &workload.name,
            Self::Program(program) => &program.name,
        }
    }

    /// One sentence: what it is.
    pub fn description(&self) -> &str {
        match self {
            Self::Reads(workload) => &workload.description,
            Self::Program(program) => &program.description,
        }
    }

    /// The expected figures of a real run.
    pub fn expect(&self) -> &[Figure] {
        match self {
            Self::Reads(workload) => &workload.expect,
            Self::Program(program) => &program.expect,
        }
    }

    /// How near the simulator must come; nothing of what is not simulated.
    pub fn predict(&self) -> &[Figure] {
        match self {
            Self::Reads(workload) => &workload.simulate.predict,
            Self::Program(_) => &[],
        }
    }

    /// The reads; `None` for a program.
    pub fn reads(&self) -> Option<&Workload> {
        match self {
            Self::Reads(workload) => Some(workload),
            Self::Program(_) => None,
        }
    }
}
