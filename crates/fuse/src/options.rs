//! How a mount looks, and which users may read it.

/// How a mount looks and who may see it.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// Shown as the source in `/proc/mounts`. No secrets: everybody can read it.
    pub source: String,
    /// Other users may read it. Without being root this needs `user_allow_other` in `/etc/fuse.conf`.
    pub allow_other: bool,
    /// Owner of everything in it; the caller by default.
    pub uid: Option<u32>,
    /// Group of everything in it; the caller's by default.
    pub gid: Option<u32>,
    /// Permission bits of files.
    pub file_mode: u16,
    /// Permission bits of directories.
    pub dir_mode: u16,
}

impl Default for MountOptions {
    fn default() -> Self {
        let source = "foreread".to_owned();
        Self { source, allow_other: false, uid: None, gid: None, file_mode: 0o444, dir_mode: 0o555 }
    }
}
