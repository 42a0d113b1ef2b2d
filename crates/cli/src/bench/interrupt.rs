//! Ctrl-C and SIGTERM: noticed by whoever waits, so that every guard on the way out unmounts and ends what it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use super::error::Error;

/// Whether the user wants it to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on, for the rest of the process's life.
    pub(crate) fn listen() -> Result<Self, Error> {
        let wanted = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.map_err(Error::io("listening for signals"))?;
        let entered = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::io("listening for signals"))?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::io("listening for signals"))?;
        drop(entered);
        let told = Arc::clone(&wanted);
        let listener = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            });
            told.store(true, Ordering::Relaxed);
        });
        listener.map_err(Error::io("listening for signals"))?;
        Ok(Self(wanted))
    }

    /// One that never comes.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// An error once a signal has come.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.came() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Whether a signal has come.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
