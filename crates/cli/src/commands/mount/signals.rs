//! SIGINT, SIGTERM and SIGHUP unmount.
//!
//! A mount in use cannot be unmounted at once. It is detached, so that no program can open files
//! there, and the user is told; the process serves open files until the last one is closed. A
//! second signal ends it without waiting.

use std::io;
use std::path::PathBuf;
use std::process::exit;

use foreread_fuse::Unmounter;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from now on; signals that arrive before [`Signals::unmount`] runs are kept.
pub(crate) fn listen(runtime: &Handle) -> io::Result<Signals> {
    let _inside = runtime.enter();
    Ok(Signals {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
        hangup: signal(SignalKind::hangup())?,
    })
}

/// The signals that end a mount.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Waits for a signal, then unmounts `dir`.
    pub(crate) async fn unmount(mut self, dir: PathBuf, unmounter: Unmounter) {
        self.any().await;
        tracing::info!(dir = %dir.display(), "asked to end");
        if let Err(failure) = unmounter.unmount(false) {
            tracing::warn!(error = %failure, "in use: detached, and served until the last file is closed");
            eprintln!("{}: in use; detached, and served until the last file is closed", dir.display());
            eprintln!("(the same signal once more ends it now)");
            if let Err(failure) = unmounter.unmount(true) {
                tracing::error!(error = %failure, "could not be unmounted");
                eprintln!("{}: could not be unmounted: {failure}", dir.display());
            }
        }
        self.any().await;
        tracing::warn!("asked to end a second time: open files are abandoned");
        exit(1);
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
