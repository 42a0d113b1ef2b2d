//! The state that all connections share.

use std::sync::Arc;

use s3s::service::S3Service;

use super::pacer::Pacer;
use super::upstream::Upstream;
use crate::Fault;
use crate::counters::Accounts;
use crate::fault::plan::FaultPlan;
use crate::objects::Objects;

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) s3: S3Service,
    /// Answers in place of `s3` and plain HTTP, where there is one.
    pub(super) upstream: Option<Upstream>,
    pub(super) bucket: String,
    pub(crate) objects: Arc<Objects>,
    pub(crate) faults: FaultPlan,
    pub(crate) accounts: Arc<Accounts>,
    pub(super) pacer: Pacer,
}

impl State {
    /// The first of these faults that cannot be made of another server's answers, if one answers.
    pub(super) fn impossible<'f>(&self, faults: &'f [Fault]) -> Option<&'f Fault> {
        faults.iter().find(|fault| self.upstream.is_some() && fault.effect.is_of_objects())
    }
}
