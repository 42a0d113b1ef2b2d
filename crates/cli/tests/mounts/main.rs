//! The real binary over real mounts, against the testbed in this process: what it promises, what bad input gets, and
//! programs that know nothing of it.
//!
//! Needs /dev/fuse. A program that is not installed skips its test with a word, or fails it if `FOREREAD_REQUIRE_CLIENTS=1`.

mod bad_input;
mod cat;
mod consistency;
mod directories;
mod fixture;
mod lifecycle;
mod privileges;
mod programs;
mod record;
mod stats;
