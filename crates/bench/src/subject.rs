//! What a row is measured on: a client's mount, the testbed behind it, and the machine around it.

pub(crate) mod backing;
pub(crate) mod cgroup;
pub(crate) mod client;
pub(crate) mod objects;
pub(crate) mod server;
pub(crate) mod yardstick;
