//! Queue.
pub(crate) mod coalesce;
pub(crate) mod concurrency;
pub(crate) mod fair_queue;
pub(crate) mod hedge;
pub(crate) mod link;
pub(crate) mod requests;
