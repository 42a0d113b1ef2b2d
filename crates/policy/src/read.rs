//! The read path: the contract with a driver, and the wiring of files, residency and queue.
pub(crate) mod event;
pub(crate) mod path;
