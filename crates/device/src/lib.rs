//! Models of storage devices: what a request costs on them, as state machines without I/O, clock or threads.
//!
//! A model has the shape of a policy, so that the simulator steps it in virtual time and the testbed in real time:
//!
//! ```text
//!            now, Event                        Action, with the time it is due
//!  driver ──────────────> handle() ─> model ─> poll_action() until None ─────────> driver
//!                                       │
//!                                       └────> next_deadline(): call handle() again no later than this
//! ```
//!
//! - `handle(now_ns, event)` takes what happened. `now_ns` never goes back; a model first does everything that was due
//!   before `now_ns`, in order and each thing at its own time, so a driver that wakes late gets the same actions with the
//!   same times as one that wakes exactly.
//! - `poll_action()` gives what may be done since; call it until `None`.
//! - `next_deadline()` is when the model will act next by itself; pass the `Tick` of its events then.
//!
//! Arithmetic is in whole nanoseconds and bytes and randomness comes from a seed: the same events give the same actions on
//! every platform.
//!
//! *Invariant:* nothing here knows a clock, a socket or a byte of data; time is an argument.

#![forbid(unsafe_code)]

pub mod array;
pub mod block;
pub mod disk;
pub mod flash;
pub mod latency;
mod link;
pub mod object_store;
mod profile;
mod random;
mod rate;

pub use profile::Profile;
pub use random::Random;
pub use rate::Rate;
