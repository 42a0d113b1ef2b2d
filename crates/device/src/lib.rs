//! Models of storage devices: what a request costs on them, as state machines without I/O, clock
//! or threads.
//!
//! A model has the interface of a policy, so the simulator steps it in virtual time and the
//! testbed in real time:
//!
//! ```text
//!            now, Event                        Action, with the time it is due
//!  driver ──────────────> handle() ─> model ─> poll_action() until None ─────────> driver
//!                                       │
//!                                       └────> next_deadline(): call handle() again by then
//! ```
//!
//! - `handle(now_ns, event)` takes an event. `now_ns` never goes back. A model first does
//!   everything that was due before `now_ns`, in order and each thing at its own time: a driver
//!   that wakes late gets the same actions with the same times as one that wakes on time.
//! - `poll_action()` returns the next action; call it until `None`.
//! - `next_deadline()` is when the model acts next by itself; pass its `Tick` event then.
//!
//! Arithmetic is in whole nanoseconds and bytes and randomness comes from a seed: the same events
//! give the same actions on every platform.
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
