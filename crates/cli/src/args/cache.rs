//! The folder of `--cache`: options of the commands that write to it.

use std::path::{Path, PathBuf};

use foreread::Cache;

use crate::args::path::absolute;
use crate::failure::Failure;
use crate::terminal::size::Size;

/// How much the folder may hold, and how it is kept.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CacheArgs {
    /// Bytes that the folder of --cache takes at most, of all processes together
    #[arg(id = "cache_size", long = "cache-size", value_name = "SIZE", default_value = "64GiB")]
    pub(crate) size: Size,

    /// Bytes that stay free on the file system of --cache: with less, content leaves
    #[arg(id = "cache_min_free", long = "cache-min-free", value_name = "SIZE", default_value = "1GiB")]
    pub(crate) min_free: Size,

    /// Encrypt what is kept in --cache with the content of this file, of 32 bytes or more
    ///
    /// `head -c 32 /dev/urandom > FILE` makes one. Without it nothing can be read from the folder.
    /// A folder is made with or without a key, and stays so.
    #[arg(id = "cache_encrypt", long = "cache-encrypt", value_name = "KEYFILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Never ask the storage for what is in --cache
    ///
    /// Otherwise it is asked where the disk holds readers up: one that spins, a throttled one, or
    /// one that others keep busy. Then what it takes costs requests again.
    #[arg(id = "cache_no_bypass", long = "cache-no-bypass")]
    pub(crate) no_bypass: bool,
}

impl CacheArgs {
    /// The cache in `folder`. Paths become absolute, since the process changes its directory.
    pub(crate) fn of(&self, folder: &Path) -> Result<Cache, Failure> {
        let key_file = self.key_file.as_deref().map(absolute).transpose()?;
        let cache = Cache::new(absolute(folder)?).with_bytes(self.size.0);
        Ok(cache.with_min_free_bytes(self.min_free.0).with_key_file(key_file).with_bypass(!self.no_bypass))
    }
}
