//! The threads of a workload, its own and those beside, each with its operations.

use super::Op;
use crate::workload::Workload;

impl Workload {
    /// All threads: its own, then those beside.
    pub fn readers(&self) -> impl Iterator<Item = Reader<'_>> {
        let beside = self.beside.iter().map(|beside| (&**beside, true, self.files.count));
        let groups = std::iter::once((self, false, 0)).chain(beside);
        groups.flat_map(|(group, beside, first_file)| {
            (0..group.threads).map(move |thread| Reader { group, beside, thread, first_file })
        })
    }

    /// The threads of process `process` (below [`Workload::processes`]): every n-th thread, for n
    /// processes.
    pub fn readers_of(&self, process: u32) -> impl Iterator<Item = Reader<'_>> {
        self.readers().skip(process as usize).step_by(self.processes as usize)
    }
}

/// One thread of a workload, or of what runs beside it.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The workload, or the one beside, that it is a thread of.
    pub group: &'a Workload,
    /// Whether it reads beside.
    pub beside: bool,
    thread: u32,
    first_file: u32,
}

impl<'a> Reader<'a> {
    /// Its reads, in order. Files are numbered as in [`Workload::all_files`].
    pub fn operations(&self) -> impl Iterator<Item = Op> + 'a {
        let first_file = self.first_file;
        self.group.operations(self.thread).map(move |op| Op { file: op.file + first_file, ..op })
    }
}
