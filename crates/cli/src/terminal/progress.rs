//! Progress on a terminal; silent everywhere else.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Work that takes less time than this shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time between two frames.
const TICK: Duration = Duration::from_millis(100);

/// Shows a message, or a count of bytes, until it is dropped; then clears it.
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
        // Where no thread can be started, no progress is shown.
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

/// Shows what a measurement is doing, from its start on.
pub(crate) struct Status(ProgressBar);

impl Status {
    /// Starts a thread that moves the spinner.
    pub(crate) fn start() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Shows `what`, in place of the text before.
    pub(crate) fn tell(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// Prints with the spinner out of the way.
    pub(crate) fn aside<R>(&self, print: impl FnOnce() -> R) -> R {
        self.0.suspend(print)
    }

    /// Clears the spinner.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
