//! Every backend against the suite, and cases that only one backend has.
//!
//! Tests against emulators need `FOREREAD_EMULATORS`: the folder into which `tests/emulators.sh`
//! installed them. Without it they print that they are skipped, and pass. With
//! `FOREREAD_REQUIRE_CLIENTS=1` a missing emulator is a failure.

mod azblob;
mod credentials;
mod emulator;
mod faults;
mod file;
mod gcs;
mod identity;
mod s3;
mod scripted;
mod seed;
mod tls;
mod web;
