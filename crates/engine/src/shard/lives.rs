//! The lives of policy: how often it has panicked, and how it goes on.
//!
//! ```text
//!   first life ── panic ──> the next life, with the same options
//!                             └─ the third panic within 10 s ──> plain demand reads from then on
//!                                   └─ panics as it is told what waits ──> over: reads fail
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use foreread_policy::{Counters, Event, FileId, Nanos, Options, ReadPath, RequestId};

use crate::error::{Error, ErrorKind};
use crate::planted::Planted;
use crate::records::last::Last;
use crate::stats;
use crate::survival::{Lately, PANICS_MAX};

/// What is kept from one life of policy to the next.
pub(crate) struct Lives {
    options: Options,
    folder: PathBuf,
    pub(crate) planted: Arc<Planted>,
    stats: Arc<stats::Counters>,
    last: Last,
    /// What the lives before have decided.
    counters: Counters,
    /// The latest bytes that are reserved.
    reserved: u64,
    /// The number of the next request.
    next_request: u64,
    lately: Lately,
    written: u64,
    over: bool,
}

impl Lives {
    /// The first life.
    pub(crate) fn new(options: Options, folder: PathBuf, planted: Arc<Planted>, stats: Arc<stats::Counters>) -> Self {
        Self {
            options,
            folder,
            planted,
            stats,
            last: Last::new(options),
            counters: Counters::default(),
            reserved: 0,
            next_request: 0,
            lately: Lately::default(),
            written: 0,
            over: false,
        }
    }

    pub(crate) fn options(&self) -> Options {
        self.options
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Policy is about to be told of an event.
    pub(crate) fn note(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Reserve { bytes } => self.reserved = bytes,
            Event::Capacity { bytes } => self.options.capacity_bytes = bytes,
            _ => {}
        }
        self.last.note(now, RequestId(self.next_request), event);
    }

    /// Policy has forgotten a file.
    pub(crate) fn forgotten(&mut self, file: FileId) {
        self.last.forgotten(file);
    }

    /// Policy has forgotten the parts of a file.
    pub(crate) fn parts_forgotten(&mut self, file: FileId) {
        self.last.parts_forgotten(file);
    }

    /// Policy has made a request.
    pub(crate) fn requested(&mut self, request: RequestId) {
        self.next_request = self.next_request.max(request.0 + 1);
    }

    /// Policy cannot go on: no life begins any more.
    pub(crate) fn are_over(&self) -> bool {
        self.over
    }

    /// There will be no further life.
    pub(crate) fn end(&mut self) {
        self.over = true;
        tracing::error!("policy panics whenever it is told what waits: reads that miss fail from now on");
    }

    /// `policy` has panicked with `text`. Returns its successor.
    pub(crate) fn next(&mut self, now: Nanos, policy: &ReadPath, text: &str) -> ReadPath {
        self.stats.panics.fetch_add(1, Relaxed);
        if self.written < FILES_MAX {
            self.written += 1;
            match self.last.write(&self.folder) {
                Ok(path) => tracing::error!(text, "policy has panicked; its last events are in {}", path.display()),
                Err(error) => tracing::error!(text, %error, "policy has panicked; its last events cannot be written"),
            }
        }
        self.counters = self.counters + policy.counters();
        if self.lately.again(now) && self.options.readahead {
            tracing::error!("policy has panicked {PANICS_MAX} times: no readahead from now on");
            self.stats.plain.store(true, Relaxed);
            self.options = Options { readahead: false, fair_queue: false, ..self.options };
        }
        let first = RequestId(self.next_request);
        self.last = Last::new(self.options);
        ReadPath::starting_at(self.options, first)
    }
}

/// Why reads fail when policy cannot go on.
pub(crate) fn cannot_go_on() -> Error {
    let text = "the engine cannot go on after an error of its own: mount again, and please report it";
    Error::new(ErrorKind::Io, text)
}

/// Files of events that one engine writes at most: each is up to a few megabytes.
const FILES_MAX: u64 = 3;
