//! Segment files that are open for reading: at most 256, and the one used longest ago is closed
//! for the next.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use foreread_local::LocalFile;
use foreread_local::lock::Mutex;
use rustix::fs::{Mode, OFlags};

use crate::folder::Folder;
use crate::guard::Guard;

/// Files that are open.
#[derive(Default)]
pub(crate) struct Files(Mutex<Open>);

#[derive(Default)]
struct Open {
    files: HashMap<u64, (u64, Arc<Segment>)>,
    clock: u64,
}

/// A segment that is open.
pub(crate) struct Segment {
    pub(crate) file: Arc<LocalFile>,
    pub(crate) guard: Guard,
}

impl Files {
    /// A segment, opened if it is not.
    pub(crate) fn get(&self, number: u64, folder: &Folder) -> io::Result<Arc<Segment>> {
        let mut open = self.0.lock();
        open.clock += 1;
        let now = open.clock;
        if let Some((used, segment)) = open.files.get_mut(&number) {
            *used = now;
            return Ok(Arc::clone(segment));
        }
        drop(open);
        let path = folder.segment(number);
        let cached = File::open(&path)?;
        let guard = folder.guard_of(&cached, number)?;
        let cached = OwnedFd::from(cached);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT;
        let file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(direct) => LocalFile::with_direct(cached, direct),
            Err(_) => LocalFile::new(cached),
        };
        let segment = Arc::new(Segment { file: Arc::new(file), guard });
        let mut open = self.0.lock();
        if open.files.len() >= FILES_MAX {
            let oldest = open.files.iter().min_by_key(|(_, (used, _))| *used).map(|(&number, _)| number);
            oldest.map(|oldest| open.files.remove(&oldest));
        }
        open.files.insert(number, (now, Arc::clone(&segment)));
        Ok(segment)
    }

    /// Closes the file of a segment that left.
    pub(crate) fn close(&self, number: u64) {
        let closed = self.0.lock().files.remove(&number);
        drop(closed);
    }
}

/// Segment files that are open, with up to two descriptors each. Lower: files are opened again and
/// again. Higher: a program whose limit is 1,024 descriptors lacks them. Source: half of that
/// limit.
const FILES_MAX: usize = 256;
