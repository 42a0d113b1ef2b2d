//! Signs of life on a terminal for anything that takes longer than a second; silent everywhere else.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How long something may take before it is worth a word.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often what is shown moves.
const TICK: Duration = Duration::from_millis(100);

/// Shows a message, or how many of how many bytes, until it is dropped; then leaves no trace.
pub(crate) struct Progress {
    bar: ProgressBar,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// A spinner beside `message`. Starts a thread: not to be called before a fork.
    pub(crate) fn spinner(message: &str) -> Self {
        Self::start(ProgressBar::new_spinner().with_message(message.to_owned()), "{spinner} {msg} ({elapsed})")
    }

    /// A bar of `total` bytes. Starts a thread: not to be called before a fork.
    pub(crate) fn bytes(total: u64, message: &str) -> Self {
        Self::start(
            ProgressBar::new(total).with_message(message.to_owned()),
            "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta} left",
        )
    }

    /// `count` more bytes are done.
    pub(crate) fn advance(&self, count: u64) {
        self.bar.inc(count);
    }

    fn start(bar: ProgressBar, template: &str) -> Self {
        let (stop, stopped) = mpsc::channel();
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        let shown = bar.clone();
        let thread = std::thread::Builder::new().name("progress".into()).spawn(move || {
            if stopped.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    shown.tick();
                }
                shown.finish_and_clear();
            }
        });
        // A machine without a thread to spare shows no progress.
        Self { bar, stop: Some(stop), thread: thread.ok() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
