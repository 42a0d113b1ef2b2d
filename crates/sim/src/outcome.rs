//! What is told of a run: counts and figures, its course, the service of each reader, pictures,
//! broken rules, and the least time that any policy could take.

pub(crate) mod course;
pub mod optimum;
pub mod picture;
pub(crate) mod service;
pub(crate) mod tally;
pub(crate) mod violation;
