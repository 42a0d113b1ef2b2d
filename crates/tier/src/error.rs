//! Why a folder cannot be used as a cache.

use std::io;
use std::path::PathBuf;

/// The folder cannot be used. The text names the folder, the cause and the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another user could change what is read from it.
    #[error("{} belongs to user {owner}, and this program runs as user {user}: choose another folder", .folder.display())]
    Owner {
        /// The folder.
        folder: PathBuf,
        /// The user that owns it.
        owner: u32,
        /// The user of this program.
        user: u32,
    },
    /// A newer program wrote it, or none that is known. Nothing in it was touched.
    #[error("{} has an unknown format ({found:?}): use a newer foreread or another folder; nothing was changed", .folder.display())]
    Format {
        /// The folder.
        folder: PathBuf,
        /// The first line of its file `FORMAT`.
        found: String,
    },
    /// It holds files of something else. Nothing in it was touched.
    #[error("{} is not a cache and not empty ({found} is in it): choose an empty or a new folder", .folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
        /// One of the files in it.
        found: String,
    },
    /// It is encrypted, and no key was given.
    #[error("{} is encrypted: give the key file that it was made with, or choose another folder", .folder.display())]
    Encrypted {
        /// The folder.
        folder: PathBuf,
    },
    /// It is encrypted with another key. Nothing in it was touched.
    #[error("{} is encrypted with another key: give the key file that it was made with, or choose another folder", .folder.display())]
    OtherKey {
        /// The folder.
        folder: PathBuf,
    },
    /// A key was given, and what is there is not encrypted. Nothing in it was touched.
    #[error("{} was made without encryption: choose another folder for what is encrypted, or remove this one", .folder.display())]
    NotEncrypted {
        /// The folder.
        folder: PathBuf,
    },
    /// The key cannot be read.
    #[error("the key file {} cannot be read ({source}): check the path and who may read it", .path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The key is too short, or the file is something else.
    #[error("the key file {} has to hold 32 to 4,096 bytes: make one with `head -c 32 /dev/urandom > FILE`", .path.display())]
    KeyLength {
        /// The file.
        path: PathBuf,
    },
    /// It is a file.
    #[error("{} is not a folder: choose another path, or remove what is there", .folder.display())]
    NotAFolder {
        /// The path.
        folder: PathBuf,
    },
    /// There is no cache, and none was to be made.
    #[error("{} is not a cache of foreread: nothing was cached there yet, or the path is wrong", .folder.display())]
    NotACache {
        /// The folder.
        folder: PathBuf,
    },
    /// It cannot be created.
    #[error("{} cannot be created ({source}): create it, or choose a folder that this user can write to", .folder.display())]
    Create {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It cannot be written to.
    #[error("{} cannot be written to ({source}): allow it, or choose another folder", .folder.display())]
    ReadOnly {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Anything else.
    #[error("{} cannot be used as a cache ({source}): choose another folder", .folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
