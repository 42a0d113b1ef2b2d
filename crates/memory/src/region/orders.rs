//! What a program asks of its pager, from any thread, and what the pager shows of itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};

use foreread_policy::{Advice, Extent, SwapCounters};
use parking_lot::Mutex;

use crate::kernel::bell::Bell;
use crate::region::stats::Gauges;

/// Something to do.
#[derive(Debug)]
pub(crate) enum Order {
    Advise { pages: Extent, advice: Advice, done: Done },
    Budget { pages: u64, done: Done },
    Stop,
}

/// Told when it has been done.
#[derive(Debug)]
pub(crate) struct Done(SyncSender<()>);

impl Done {
    pub(crate) fn done(self) {
        // Who asked may have gone.
        let _ = self.0.send(());
    }
}

/// Between a region and its pager.
#[derive(Debug)]
pub(crate) struct Orders {
    bell: Bell,
    waiting: Mutex<Vec<Order>>,
    shown: Mutex<(Gauges, SwapCounters)>,
    closed: AtomicBool,
}

impl Orders {
    pub(crate) fn new(bell: Bell) -> Self {
        Self { bell, waiting: Mutex::default(), shown: Mutex::default(), closed: AtomicBool::new(false) }
    }

    /// Asks, and goes on.
    pub(crate) fn give(&self, order: Order) {
        self.waiting.lock().push(order);
        self.bell.ring();
    }

    /// Asks, and waits until it has been done.
    pub(crate) fn give_and_wait(&self, order: impl FnOnce(Done) -> Order) {
        let (done, told) = mpsc::sync_channel(1);
        self.give(order(Done(done)));
        if self.closed.load(Ordering::Acquire) {
            // Nobody will come for it.
            self.waiting.lock().clear();
        }
        let _ = told.recv();
    }

    /// What was asked since the last time. The bell has been silenced before.
    pub(crate) fn take(&self) -> Vec<Order> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// The pager ends.
    pub(crate) fn closed(&self) {
        self.closed.store(true, Ordering::Release);
        self.waiting.lock().clear();
    }

    pub(crate) fn show(&self, gauges: Gauges, counters: SwapCounters) {
        *self.shown.lock() = (gauges, counters);
    }

    pub(crate) fn shown(&self) -> (Gauges, SwapCounters) {
        *self.shown.lock()
    }
}
