//! Every backend against the suite, and what only one of them can do.
//!
//! Tests against emulators need `FOREREAD_EMULATORS` to name the folder that `tests/emulators.sh` installed them into;
//! without it they say so and pass. `FOREREAD_REQUIRE_CLIENTS=1` makes a missing one a failure.

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
