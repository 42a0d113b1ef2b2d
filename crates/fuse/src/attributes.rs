//! The attributes of files and directories, and how long the kernel may keep them.
//!
//! Storage has sizes and times; owner, group and modes come from the mount's options.

use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, INodeNo};

use crate::inode::ROOT;
use crate::options::MountOptions;
use crate::record::Inode;

/// Attributes that all files share.
pub(crate) struct Look {
    uid: u32,
    gid: u32,
    file_mode: u16,
    dir_mode: u16,
    mounted: SystemTime,
}

impl Look {
    pub(crate) fn new(options: &MountOptions) -> Self {
        Self {
            uid: options.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
            gid: options.gid.unwrap_or_else(|| rustix::process::getegid().as_raw()),
            file_mode: options.file_mode,
            dir_mode: options.dir_mode,
            mounted: SystemTime::now(),
        }
    }

    pub(crate) fn attributes(&self, inode: &Inode) -> FileAttr {
        let Inode { number, is_directory, size, modified } = *inode;
        let (kind, perm, nlink) = if is_directory {
            (FileType::Directory, self.dir_mode, 2)
        } else {
            (FileType::RegularFile, self.file_mode, 1)
        };
        let time = modified.unwrap_or(self.mounted);
        FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        }
    }
}

/// How long the kernel may keep attributes. Those of a file's inode never change, since an inode
/// is one version; those of a directory hold nothing that changes.
pub(crate) fn attribute_ttl(inode: &Inode) -> Duration {
    if inode.number == ROOT { ROOT_TTL } else { Duration::from_hours(1) }
}

/// How long the kernel may keep the root's attributes. Lower: it asks more often. Higher: it keeps
/// them longer after an unmount, for no gain.
const ROOT_TTL: Duration = Duration::from_secs(1);

/// The size in which programs are told to read: one folio, in bytes. Lower: more calls of programs
/// that follow it. Higher: larger buffers of theirs.
pub(crate) const BLOCK_BYTES: u32 = 128 << 10;
