//! The real binary over real mounts, against the testbed in this process: its promises, bad input,
//! and ordinary programs.
//!
//! Needs /dev/fuse. A test whose program is not installed is skipped with a message, or fails with
//! `FOREREAD_REQUIRE_CLIENTS=1`.

mod archives;
mod bad_input;
mod by_name;
mod cache;
mod cat;
mod columns;
mod configuration;
mod consistency;
mod directories;
mod doctor;
mod explain;
mod fixture;
mod lifecycle;
mod loads;
mod log;
mod memory;
mod metrics;
mod names;
mod numbers;
mod outage;
mod panics;
mod privileges;
mod programs;
mod record;
mod settings;
mod stats;
mod top;
mod traces;
mod unlisted;
mod verify;
