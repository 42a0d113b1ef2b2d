//! A thread that writes one buffer while the next one is filled.
//!
//! ```text
//!   the writer   fill a | print a, fill b | settle a, print b, fill a | ...
//!   this thread         | write a ........| write b .................|
//! ```
//!
//! *Invariant:* one write at a time, so a block that is written again comes after its first write.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use foreread_local::Frames;
use foreread_policy::{Nanos, WritePace};

/// What is to be written.
pub(crate) struct Sheet {
    pub(crate) file: Arc<File>,
    /// The same past the page cache, where the file system can.
    pub(crate) direct: Option<Arc<File>>,
    pub(crate) buffer: Frames,
    /// The bytes of the buffer, whole blocks, and their place in the file.
    pub(crate) bytes: usize,
    pub(crate) at: u64,
}

/// A sheet that is written.
pub(crate) struct Printed {
    pub(crate) buffer: Frames,
    /// The file system took it past the page cache.
    pub(crate) was_direct: bool,
    pub(crate) result: io::Result<()>,
}

/// The thread.
pub(crate) struct Press {
    sheets: SyncSender<Sheet>,
    printed: Receiver<Printed>,
}

impl Press {
    /// Starts it. It rests between two writes while there are `reads` at the disk. It ends with
    /// this.
    pub(crate) fn start(reads: Arc<AtomicUsize>) -> io::Result<Self> {
        let (sheets, to_print) = sync_channel::<Sheet>(1);
        let (done, printed) = sync_channel(1);
        let run = move || {
            let (started, mut pace) = (Instant::now(), WritePace::default());
            let now = || Nanos(started.elapsed().as_nanos() as u64);
            for sheet in to_print {
                rest(&pace, &now, &reads);
                let began = now();
                let result = print(sheet);
                pace.wrote(began, now());
                if done.send(result).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("foreread-tier-p".into()).spawn(run)?;
        Ok(Self { sheets, printed })
    }

    /// Has a sheet written. The one before was waited for.
    pub(crate) fn print(&self, sheet: Sheet) -> io::Result<()> {
        self.sheets.send(sheet).map_err(|_| ended())
    }

    /// Waits for the sheet.
    pub(crate) fn wait(&self) -> io::Result<Printed> {
        self.printed.recv().map_err(|_| ended())
    }
}

fn ended() -> io::Error {
    io::Error::other("the thread that writes has ended")
}

/// Waits until the next write may begin. A read that ends is noticed within a step.
fn rest(pace: &WritePace, now: &impl Fn() -> Nanos, reads: &AtomicUsize) {
    loop {
        let at = now();
        let left = pace.begins_at(at, reads.load(Relaxed)).since(at).0;
        if left == 0 {
            return;
        }
        thread::sleep(Duration::from_nanos(left).min(STEP));
    }
}

fn print(sheet: Sheet) -> Printed {
    let Sheet { file, direct, buffer, bytes, at } = sheet;
    let direct = direct.map(|direct| direct.write_all_at(&buffer[..bytes], at));
    // The file system may want another alignment.
    let was_direct = !matches!(&direct, Some(Err(error)) if error.kind() == ErrorKind::InvalidInput);
    let result = match direct.filter(|_| was_direct) {
        Some(written) => written,
        None => file.write_all_at(&buffer[..bytes], at),
    };
    Printed { buffer, was_direct, result }
}

/// The longest sleep of a write that rests. Lower: more wake-ups. Higher: the end of the reads is
/// noticed later. Source: a guess: twice what a fast disk takes for a write.
const STEP: Duration = Duration::from_millis(1);
