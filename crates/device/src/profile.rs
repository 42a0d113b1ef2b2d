//! A device model and its configuration, as a profile file names it.

use serde::{Deserialize, Serialize};

use crate::block::BlockDevice;
use crate::{array, disk, flash, object_store};

/// The configuration of one device: a table whose only key is the kind of model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Profile {
    /// A disk with one arm.
    Disk(disk::Config),
    /// Disks side by side.
    Array(array::Config),
    /// Flash: a solid-state drive.
    Flash(flash::Config),
    /// An object store, or any server that answers many requests at a time.
    ObjectStore(object_store::Config),
}

impl Profile {
    /// Whether it is one disk, whose arm serves no request while it moves. An array serves several
    /// requests at a time.
    pub fn is_rotational(&self) -> bool {
        matches!(self, Self::Disk(_))
    }

    /// The block device of this profile, idle; `None` for an object store.
    pub fn block_device(self) -> Option<Box<dyn BlockDevice>> {
        match self {
            Self::Disk(config) => Some(Box::new(disk::Disk::new(config))),
            Self::Array(config) => Some(Box::new(array::Array::new(config))),
            Self::Flash(config) => Some(Box::new(flash::Flash::new(config))),
            Self::ObjectStore(_) => None,
        }
    }
}
