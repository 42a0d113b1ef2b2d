//! The state that all connections share.

use std::sync::Arc;

use s3s::service::S3Service;

use super::pacer::Pacer;
use crate::counters::Accounts;
use crate::fault::plan::FaultPlan;
use crate::objects::Objects;

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) s3: S3Service,
    pub(super) bucket: String,
    pub(crate) objects: Arc<Objects>,
    pub(crate) faults: FaultPlan,
    pub(crate) accounts: Arc<Accounts>,
    pub(super) pacer: Pacer,
}
