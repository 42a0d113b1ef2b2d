//! Orders of a program to its pager, from any thread; and the counts that the pager shows.
//!
//! ```text
//!   program: give ──> list, ring the bell ──> pager: take, execute, done ──> program: goes on
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};

use foreread_local::lock::Mutex;
use foreread_policy::{Advice, Extent, RegionCounters};

use crate::kernel::bell::Bell;
use crate::region::stats::Gauges;

/// What the pager is to do.
#[derive(Debug)]
pub(crate) enum Order {
    Advise {
        pages: Extent,
        advice: Advice,
        done: Done,
    },
    Budget {
        pages: u64,
        done: Done,
    },
    /// The spill has room for so many slots. The answer: for how many it must have room.
    Room {
        slots: u64,
        needed: Arc<AtomicU64>,
        done: Done,
    },
    Stop,
}

/// Tells the program that the order has been executed.
#[derive(Debug)]
pub(crate) struct Done(SyncSender<()>);

impl Done {
    pub(crate) fn done(self) {
        // The program may have stopped waiting.
        let _ = self.0.send(());
    }
}

/// Shared by a region and its pager.
#[derive(Debug)]
pub(crate) struct Orders {
    bell: Bell,
    waiting: Mutex<Vec<Order>>,
    shown: Mutex<(Gauges, RegionCounters)>,
    closed: AtomicBool,
}

impl Orders {
    pub(crate) fn new(bell: Bell) -> Self {
        Self { bell, waiting: Mutex::default(), shown: Mutex::default(), closed: AtomicBool::new(false) }
    }

    /// Gives an order, and goes on.
    pub(crate) fn give(&self, order: Order) {
        self.waiting.lock().push(order);
        self.bell.ring();
    }

    /// Gives an order, and waits until it has been executed.
    pub(crate) fn give_and_wait(&self, order: impl FnOnce(Done) -> Order) {
        let (done, told) = mpsc::sync_channel(1);
        self.give(order(Done(done)));
        if self.closed.load(Ordering::Acquire) {
            // The pager takes no more orders.
            self.waiting.lock().clear();
        }
        let _ = told.recv();
    }

    /// The orders since the last call. The bell has been silenced before.
    pub(crate) fn take(&self) -> Vec<Order> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// The pager ends: no order is executed from now on.
    pub(crate) fn closed(&self) {
        self.closed.store(true, Ordering::Release);
        self.waiting.lock().clear();
    }

    pub(crate) fn show(&self, gauges: Gauges, counters: RegionCounters) {
        *self.shown.lock() = (gauges, counters);
    }

    pub(crate) fn shown(&self) -> (Gauges, RegionCounters) {
        *self.shown.lock()
    }
}
