//! SIGINT, SIGTERM and SIGHUP unmount.
//!
//! A mount in use cannot be unmounted at once. It is detached, so that no program can open files
//! there, and the user is told; the process serves open files until the last one is closed. A
//! second signal ends it without waiting.

use std::io;
use std::process::exit;

use foreread_engine::Observer;
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
    /// Waits for a signal, then unmounts. `place` names the mount. What another process has
    /// mounted stays mounted: the device is closed, and its reads fail from then on.
    pub(crate) async fn unmount(mut self, place: String, unmounter: Unmounter, engine: Observer) {
        self.any().await;
        tracing::info!(dir = place, "asked to end");
        if !unmounter.is_here() {
            engine.flush_cache_at_exit();
            exit(0);
        }
        if let Err(failure) = unmounter.unmount(false) {
            tracing::warn!(error = %failure, "in use: detached, and served until the last file is closed");
            eprintln!("{place}: in use; detached, and served until the last file is closed");
            eprintln!("(the same signal once more ends it now)");
            if let Err(failure) = unmounter.unmount(true) {
                tracing::error!(error = %failure, "could not be unmounted");
                eprintln!("{place}: could not be unmounted: {failure}");
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
