//! The grid: every combination of link, readers, budget and order of reads, and which part of the
//! feasible throughput policy reaches in each.
//!
//! ```text
//!   Axes ──cells──> Cell ──> feasible: the least of four limits       \
//!                    │                                                 Outcome ──> misses
//!                    └─────> run: ramp | steady | pause | ramp again  /
//!                             random: the same readers under `none`, too
//! ```
//!
//! `cell` names the axes, `feasible` computes what the cell allows, `run` simulates it, `wanted`
//! says what it must reach, `step` changes the link of a cell in mid-run. `docs/book/links.md`
//! derives the formula.
//!
//! *Invariant:* what is feasible follows from the cell alone, never from a policy.

mod cell;
mod feasible;
mod run;
mod step;
mod wanted;

pub use cell::{Axes, Cell, Order};
pub use feasible::Feasible;
pub use run::{Length, Outcome};
pub use step::{Recovery, Step};
