//! The files that a thread reads in an epoch: threads take batches of one random order in turn, as
//! the workers of a training job do.

use super::permutation::Permutation;
use crate::workload::Workload;
use crate::workload::pattern::Pattern;

impl Workload {
    /// Which files thread `thread` reads in each epoch, in order; none for a workload without
    /// epochs.
    pub fn batches(&self, thread: u32) -> Batches {
        Batches::new(self, thread)
    }
}

/// The files that one thread reads in each epoch, in order: every n-th batch of one order, for n
/// threads.
#[derive(Clone, Debug)]
pub struct Batches {
    order: Permutation,
    files: u64,
    batch: u64,
    threads: u64,
    thread: u64,
    next: u64,
}

impl Batches {
    /// The files of thread `thread`; none for a workload without epochs.
    pub(crate) fn new(workload: &Workload, thread: u32) -> Self {
        let (files, batch) = match workload.pattern {
            Pattern::Epochs { batch, .. } => (workload.files.count, batch),
            _ => (0, 1),
        };
        Self {
            order: Permutation::new(files.into(), workload.seed),
            files: files.into(),
            batch: batch.into(),
            threads: workload.threads.into(),
            thread: thread.into(),
            next: 0,
        }
    }
}

impl Iterator for Batches {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (turn, within) = (self.next / self.batch, self.next % self.batch);
        let index = (turn * self.threads + self.thread) * self.batch + within;
        // Only the last batch can be short, and no batch follows it.
        if index >= self.files {
            return None;
        }
        self.next += 1;
        Some(self.order.at(index) as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalogue;

    #[test]
    fn an_epoch_is_every_file_once_in_batches_that_threads_take_in_turn() {
        let workload = catalogue::find("epoch").unwrap();
        let threads: Vec<Vec<u32>> = (0..workload.threads).map(|thread| workload.batches(thread).collect()).collect();
        let all: BTreeSet<u32> = threads.iter().flatten().copied().collect();
        assert_eq!(all.len(), workload.files.count as usize);
        assert_eq!(threads.iter().map(Vec::len).sum::<usize>(), all.len());
        let Pattern::Epochs { batch, .. } = workload.pattern else { panic!("{:?}", workload.pattern) };
        let order = Permutation::new(workload.files.count.into(), workload.seed);
        assert_eq!(u64::from(threads[1][0]), order.at(batch.into()), "the second thread has the second batch");
        assert_eq!(catalogue::find("find").unwrap().batches(0).count(), 0);
    }
}
