//! What the user sees beside a command's own text, and the signals that the user sends.

pub(crate) mod figures;
pub(crate) mod interrupt;
pub(crate) mod log;
pub(crate) mod name;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod size;
