//! What all measurements of one call have in common.

use std::path::Path;

use tempfile::TempDir;

use crate::error::Error;
use crate::process::interrupt::Interrupt;

/// The surroundings of a measurement. Dropping it removes its directory.
pub struct Setup<'a> {
    pub(crate) interrupt: Interrupt,
    pub(crate) repeat: u32,
    status: &'a dyn Fn(&str),
    scratch: TempDir,
}

impl<'a> Setup<'a> {
    /// Makes a directory for mount points and plans in the temporary directory.
    ///
    /// `repeat` is the number of valid runs of each row; the median counts. `status` is called
    /// with what is being measured, each time that it changes.
    pub fn new(interrupt: Interrupt, repeat: u32, status: &'a dyn Fn(&str)) -> Result<Self, Error> {
        let scratch = tempfile::Builder::new().prefix("foreread-bench-").tempdir();
        let scratch = scratch.map_err(Error::io("making a temporary directory"))?;
        Ok(Self { interrupt, repeat, status, scratch })
    }

    /// Where mount points, plans and files go.
    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// A new directory there, which is removed when it is dropped.
    pub(crate) fn dir(&self, action: &'static str) -> Result<TempDir, Error> {
        tempfile::tempdir_in(self.scratch()).map_err(Error::io(action))
    }

    /// Reports what is being measured.
    pub(crate) fn status(&self, what: &str) {
        (self.status)(what);
    }

    /// An error once the user has interrupted.
    pub(crate) fn check(&self) -> Result<(), Error> {
        Error::if_interrupted(&self.interrupt)
    }
}

/// An error where the kernel offers no FUSE: then nothing can be mounted.
pub fn need_fuse() -> Result<(), Error> {
    if Path::new("/dev/fuse").exists() { Ok(()) } else { Err(Error::NoFuse) }
}
