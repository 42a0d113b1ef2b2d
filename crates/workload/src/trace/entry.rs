//! One entry of a recording, before files and readers are numbered.

/// One entry. Names live as long as the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry<'t> {
    pub(super) at_ns: u64,
    pub(super) reader: Name<'t>,
    pub(super) file: Name<'t>,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// The length of the file, if the format has it.
    pub(super) size: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name<'t> {
    Text(&'t str),
    Number(u64),
}

/// The result of a line. `None`: not a read.
pub(super) type Parsed<'t> = Result<Option<Entry<'t>>, &'static str>;
