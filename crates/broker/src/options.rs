//! How an engine is shared.

use std::path::PathBuf;
use std::time::Duration;

/// How an engine is shared. Will grow, so it is made from its defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ShareOptions {
    /// Whether to share at all. Without it the process has an engine of its own.
    pub share: bool,
    /// The budget, if this process is told one. The largest that a process was told holds for all.
    pub memory_bytes: Option<u64>,
    /// The budget if no process is told one.
    pub default_memory_bytes: u64,
    /// Where processes meet, a folder of this user alone that is made if it is not there. By
    /// default `$XDG_RUNTIME_DIR/foreread`, else `/tmp/foreread-UID`.
    pub folder: Option<PathBuf>,
    /// How long a process that serves may say nothing while an answer is waited for, before this
    /// process reads by itself. Waiting for storage is not silence. 10 s. Lower: a machine that is
    /// busy has processes read alone. Higher: a server that was stopped holds its clients up.
    pub silence: Duration,
}

impl Default for ShareOptions {
    fn default() -> Self {
        Self {
            share: true,
            memory_bytes: None,
            default_memory_bytes: 256 << 20,
            folder: None,
            silence: Duration::from_secs(10),
        }
    }
}

impl ShareOptions {
    /// With or without other processes.
    #[must_use]
    pub fn with_share(mut self, share: bool) -> Self {
        self.share = share;
        self
    }

    /// With a budget that this process was told.
    #[must_use]
    pub fn with_memory_bytes(mut self, memory_bytes: Option<u64>) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// With a budget that holds if no process is told one.
    #[must_use]
    pub fn with_default_memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.default_memory_bytes = memory_bytes;
        self
    }

    /// With this folder to meet in.
    #[must_use]
    pub fn with_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// With so much time for a sign of life.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }
}
