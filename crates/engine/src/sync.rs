//! Synchronisation that can be replaced by a model checker's: what threads share state with in
//! `pages`, which is locks, atomic numbers, a cell that is set once, and a wake-up for one task.
//!
//! ```text
//!   pages, joint ── crate::sync ──> lock, std, tokio          in the engine
//!                        └────────> loom's                    in tests/models: the same files
//! ```
//!
//! `tests/models` compiles the files of `pages` a second time, with a `sync` of its own, and runs
//! them under every schedule. So these files name such types through this module only. `Arc` is
//! std's in both.

pub(crate) use std::sync::{OnceLock, atomic};

pub(crate) use foreread_backend::lock::{Mutex, RwLock};
pub(crate) use tokio::sync::Notify;
