//! What is told of a run: counts and figures, the service of each reader, pictures, broken rules,
//! and the least time that any policy could take.

pub mod optimum;
pub mod picture;
pub(crate) mod service;
pub(crate) mod tally;
pub(crate) mod violation;
