//! A machine that has other work than the programs of a scenario.

/// A machine that is busy with other work: of each `every_ns`, from the beginning, it does nothing
/// for `for_ns`. What comes meanwhile is noticed afterwards, all at once.
#[derive(Debug, Clone, Copy)]
pub struct Busy {
    /// The time from one pause to the next, in ns; not 0.
    pub every_ns: u64,
    /// The length of a pause in ns: less than that.
    pub for_ns: u64,
}

impl Busy {
    /// When the machine notices what happens at `at_ns`.
    pub(crate) fn notices(self, at_ns: u64) -> u64 {
        at_ns + self.for_ns.saturating_sub(at_ns % self.every_ns)
    }
}
