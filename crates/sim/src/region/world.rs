//! The driver for regions: virtual time, threads, a pager, a device.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::drive::Drive;
use super::touches::Touches;

/// The result of a touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// The page is resident; the touch costs this much CPU time, in ns.
    There(u64),
    /// The thread waits.
    Waits,
}

/// Decides which pages are resident.
pub(crate) trait Pager {
    /// A thread writes to a page. Called once a touch, and again after each finished request while
    /// the thread waits.
    fn touch(&mut self, now_ns: u64, thread: u32, page: u64, drive: &mut Drive) -> Touch;

    /// A request is done.
    fn came(&mut self, now_ns: u64, request: u64, drive: &mut Drive);
}

struct Thread {
    touches: Touches,
    /// The page that it waits for, or is about to touch.
    at: Option<u64>,
    waits: bool,
}

/// One simulation.
pub(crate) struct World {
    pager: Box<dyn Pager>,
    drive: Drive,
    /// When each thread that does not wait goes on.
    agenda: BinaryHeap<Reverse<(u64, u32)>>,
    threads: Vec<Thread>,
    waits: u64,
}

impl World {
    pub(crate) fn new(pager: Box<dyn Pager>, drive: Drive) -> Self {
        Self { pager, drive, agenda: BinaryHeap::new(), threads: Vec::new(), waits: 0 }
    }

    /// Runs all threads to their ends; returns when the last one ended and how many touches
    /// waited.
    pub(crate) fn run(&mut self, threads: Vec<Touches>) -> (u64, u64) {
        for (number, mut touches) in threads.into_iter().enumerate() {
            let at = touches.next();
            self.threads.push(Thread { touches, at, waits: false });
            self.agenda.push(Reverse((0, number as u32)));
        }
        let mut end_ns = 0;
        loop {
            let thread_ns = self.agenda.peek().map(|&Reverse((at_ns, _))| at_ns);
            let Some(now_ns) = [thread_ns, self.drive.next_deadline()].into_iter().flatten().min() else { break };
            if thread_ns == Some(now_ns) {
                let Some(Reverse((_, number))) = self.agenda.pop() else { continue };
                let until_ns = self.agenda.peek().map(|&Reverse((at_ns, _))| at_ns);
                end_ns = end_ns.max(self.go_on(now_ns, number, until_ns));
                continue;
            }
            while let Some(request) = self.drive.done(now_ns) {
                self.pager.came(now_ns, request, &mut self.drive);
            }
            for number in 0..self.threads.len() as u32 {
                if self.threads[number as usize].waits {
                    end_ns = end_ns.max(self.go_on(now_ns, number, Some(now_ns)));
                }
            }
            if self.threads.iter().all(|thread| thread.at.is_none()) {
                break;
            }
        }
        assert!(self.threads.iter().all(|thread| thread.at.is_none()), "a thread waits, and no request is in flight");
        (end_ns, self.waits)
    }

    pub(crate) fn drive(&self) -> &Drive {
        &self.drive
    }

    /// A thread touches pages until it waits, another thread's time comes, or a request is done;
    /// returns when it stopped.
    fn go_on(&mut self, mut now_ns: u64, number: u32, until_ns: Option<u64>) -> u64 {
        let thread = &mut self.threads[number as usize];
        while let Some(page) = thread.at {
            match self.pager.touch(now_ns, number, page, &mut self.drive) {
                Touch::Waits => {
                    self.waits += u64::from(!thread.waits);
                    thread.waits = true;
                    return now_ns;
                }
                Touch::There(ns) => now_ns += ns + TOUCH_NS,
            }
            thread.waits = false;
            thread.at = thread.touches.next();
            let other_ns = [until_ns, self.drive.next_deadline()].into_iter().flatten().min();
            if other_ns.is_some_and(|other_ns| other_ns <= now_ns) {
                self.agenda.push(Reverse((now_ns, number)));
                return now_ns;
            }
        }
        now_ns
    }
}

/// CPU time of a touch, in ns: the program checks 4 KiB at 8 GB/s.
const TOUCH_NS: u64 = 500;
