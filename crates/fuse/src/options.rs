//! How a mount looks, and which users may read it.

use tracing::level_filters::LevelFilter;

/// How a mount looks, and which users may read it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MountOptions {
    /// The source in `/proc/mounts`. Every user can read it: no secrets.
    pub source: String,
    /// Other users may read the mount. Except for root this needs `user_allow_other` in
    /// `/etc/fuse.conf`.
    pub allow_other: bool,
    /// The kernel starts no program from the mount, whatever the modes say.
    pub no_exec: bool,
    /// Owner of all files; by default the user that mounts.
    pub uid: Option<u32>,
    /// Group of all files; by default that of the user that mounts.
    pub gid: Option<u32>,
    /// Permission bits of files.
    pub file_mode: u16,
    /// Permission bits of directories.
    pub dir_mode: u16,
    /// Whether a kernel that can prune names is asked to. Without it, it is asked as kernels
    /// before Linux 6.18 are: for tests.
    pub prunes: bool,
    /// Changes which events are written; whether there is a log.
    pub log_level: Option<fn(LevelFilter) -> bool>,
}

impl Default for MountOptions {
    fn default() -> Self {
        let source = "foreread".to_owned();
        Self {
            source,
            allow_other: false,
            no_exec: false,
            uid: None,
            gid: None,
            file_mode: 0o444,
            dir_mode: 0o555,
            prunes: true,
            log_level: None,
        }
    }
}

impl MountOptions {
    /// With this source in `/proc/mounts`.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// With or without other users.
    #[must_use]
    pub fn with_allow_other(mut self, allow_other: bool) -> Self {
        self.allow_other = allow_other;
        self
    }

    /// Without programs that are started from it, or with.
    #[must_use]
    pub fn with_no_exec(mut self, no_exec: bool) -> Self {
        self.no_exec = no_exec;
        self
    }

    /// With this owner and this group.
    #[must_use]
    pub fn with_owner(mut self, uid: Option<u32>, gid: Option<u32>) -> Self {
        (self.uid, self.gid) = (uid, gid);
        self
    }

    /// With these permission bits of files and of directories.
    #[must_use]
    pub fn with_modes(mut self, file_mode: u16, dir_mode: u16) -> Self {
        (self.file_mode, self.dir_mode) = (file_mode, dir_mode);
        self
    }

    /// With what changes which events are written.
    #[must_use]
    pub fn with_log_level(mut self, set: fn(LevelFilter) -> bool) -> Self {
        self.log_level = Some(set);
        self
    }

    /// With or without pruning of names.
    #[must_use]
    pub fn with_prunes(mut self, prunes: bool) -> Self {
        self.prunes = prunes;
        self
    }
}
