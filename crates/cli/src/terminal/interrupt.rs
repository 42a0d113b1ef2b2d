//! Ctrl-C and SIGTERM raise a flag, which each loop that waits checks: every guard on the way out
//! then unmounts and ends what it holds.

use std::io;
use std::thread;

use foreread_bench::Interrupt;
use tokio::signal::unix::{SignalKind, signal};

/// Listens for the rest of the process's life.
pub(crate) fn listen() -> io::Result<Interrupt> {
    let wanted = Interrupt::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    drop(entered);
    let flag = wanted.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        });
        flag.raise();
    })?;
    Ok(wanted)
}
