//! From text to a stack, a policy or a scheduler. An unknown name is an error that lists the known
//! ones.

use std::str::FromStr;

use super::policy_name::PolicyName;
use super::scheduler_name::SchedulerName;
use super::{NO_TIER, Stack};
use crate::error::Error;

impl FromStr for Stack {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name.split_once('/') {
            Some((policy, NO_TIER)) => Ok(Self { tier: false, ..policy.parse::<PolicyName>()?.into() }),
            Some((policy, scheduler)) => {
                Ok(Self { scheduler: Some(scheduler.parse()?), ..policy.parse::<PolicyName>()?.into() })
            }
            None => name.parse().map(|policy: PolicyName| policy.into()),
        }
    }
}

impl FromStr for PolicyName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let all = || Self::ALL.iter().chain(Self::PARTS).chain(Self::IN_TREES).chain(Self::IN_REGIONS);
        let known = || all().map(|policy| policy.as_str()).collect::<Vec<_>>().join(", ");
        let found = all().find(|policy| policy.as_str() == name);
        found.copied().ok_or_else(|| Error::NoPolicy { name: name.to_owned(), known: known() })
    }
}

impl FromStr for SchedulerName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let all = || Self::ALL.iter().map(|scheduler| scheduler.as_str());
        let known = || all().chain([NO_TIER]).collect::<Vec<_>>().join(", ");
        let found = Self::ALL.iter().find(|scheduler| scheduler.as_str() == name);
        found.copied().ok_or_else(|| Error::NoScheduler { name: name.to_owned(), known: known() })
    }
}
