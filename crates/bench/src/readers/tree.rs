//! The program that reads a tree of directories: the reader of a workload that has one.
//!
//! ```text
//!  walk     top ── getdents to its end ── d000 ── getdents to its end
//!             ── f00000.bin open, read, close ── ... ── d001 ── ...
//!  epochs   a walk for the names ── epoch ── kernel's caches dropped ── epoch, which counts
//! ```
//!
//! Plain calls, as programs make them. A directory is read by `readdir`, whose entries tell their
//! kind, so only a workload that wants attributes asks for them. A file is read until a read
//! returns nothing. Everything is checked: each name must be one of the tree's in that directory,
//! none may be missing or come twice, a file must have its length, and a sample of its bytes must
//! be right.
//!
//! The order of an epoch is known before it starts. Each reader opens paths that no directory
//! listing has given it, as the workers of a training job do: one of them makes the list
//! of files once, at the beginning.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use foreread_testbed::content;
use foreread_workload::{Child, Pattern, Tree, Visit, Workload};

use crate::error::Error;
use crate::process::usage;
use crate::readers::reading::{Part, Pass, Trodden, Walked};
use crate::readers::sample;

/// A 3 written here makes the kernel drop pages, names and inodes that it can read again.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Reads the tree at `top`. Nothing is read before `start` returns.
pub(crate) fn run(
    top: &Path,
    workload: &Workload,
    tree: Tree,
    start: impl FnOnce() -> Result<(), Error>,
) -> Result<Part, Error> {
    content::prepare();
    start()?;
    walk(top, workload, tree, &drop_caches)
}

/// The same, with another way to drop the kernel's caches.
fn walk(top: &Path, workload: &Workload, tree: Tree, forget: &Forget<'_>) -> Result<Part, Error> {
    let site = Site { top, workload, tree, forget, start: Instant::now(), fails: AtomicBool::new(false) };
    let (threads, trodden) = match workload.pattern {
        Pattern::Walk { visit } => site.walk(visit)?,
        Pattern::Epochs { passes, .. } => site.epochs(passes)?,
        _ => return Err(Error::Protocol { what: format!("{} does not walk", workload.name) }),
    };
    Ok(Part { threads, cpu_s: usage::cpu_s(std::process::id()).unwrap_or(0.0), trodden: Some(trodden) })
}

/// An error if the workload needs the kernel's caches dropped and this process may not do that.
pub(crate) fn may_drop_caches(workload: &Workload) -> Result<(), Error> {
    if matches!(workload.pattern, Pattern::Epochs { .. }) || workload.mount.cache_bytes.is_some() {
        need_drop_caches()?;
    }
    Ok(())
}

/// An error where the kernel's caches cannot be dropped.
pub(crate) fn need_drop_caches() -> Result<(), Error> {
    OpenOptions::new().write(true).open(DROP_CACHES).map_err(|cause| Error::NoCacheDrop { cause })?;
    Ok(())
}

pub(crate) fn drop_caches() -> Result<(), Error> {
    fs::write(DROP_CACHES, "3").map_err(|cause| Error::NoCacheDrop { cause })
}

/// Drops the kernel's caches.
type Forget<'a> = dyn Fn() -> Result<(), Error> + Sync + 'a;

/// What all threads share.
struct Site<'a> {
    top: &'a Path,
    workload: &'a Workload,
    tree: Tree,
    forget: &'a Forget<'a>,
    start: Instant,
    /// A thread has failed: the others stop.
    fails: AtomicBool,
}

impl Site<'_> {
    /// Walks the whole tree, with one thread.
    fn walk(&self, visit: Visit) -> Result<(Vec<Walked>, Trodden), Error> {
        let mut thread = Thread::new(self);
        let complete = thread.directory(self.top, None, visit)?;
        let (walked, mut trodden) = thread.ended();
        trodden.complete = complete;
        let seconds = walked.ended.saturating_sub(walked.started).as_secs_f64();
        trodden.passes = vec![Pass { files: trodden.files, seconds }];
        Ok((vec![walked], trodden))
    }

    /// Reads epoch by epoch, with all threads.
    fn epochs(&self, passes: u32) -> Result<(Vec<Walked>, Trodden), Error> {
        let mut lists = Thread::new(self);
        lists.directory(self.top, None, Visit::Names)?;
        let (_, mut all) = lists.ended();
        let barrier = Barrier::new(self.workload.threads as usize);
        let threads = std::thread::scope(|scope| {
            let thread = |number| {
                let barrier = &barrier;
                scope.spawn(move || self.reads_epochs(number, passes, barrier))
            };
            let threads: Vec<_> = (0..self.workload.threads).map(thread).collect();
            threads.into_iter().map(|thread| thread.join().expect("a reading thread panicked")).collect::<Vec<_>>()
        });
        let threads = threads.into_iter().collect::<Result<Vec<_>, _>>()?;
        for pass in 0..passes as usize {
            let each = || threads.iter().map(|(.., epochs)| epochs[pass]);
            let began = each().map(|epoch| epoch.began).min().unwrap_or_default();
            let ended = each().map(|epoch| epoch.ended).max().unwrap_or_default();
            let files = each().map(|epoch| epoch.files).sum();
            all.passes.push(Pass { files, seconds: ended.saturating_sub(began).as_secs_f64() });
        }
        let walked = threads.into_iter().map(|(walked, trodden, _)| {
            all.files += trodden.files;
            walked
        });
        let walked = walked.collect();
        all.complete = all.files == u64::from(self.workload.files.count) * u64::from(passes);
        Ok((walked, all))
    }

    /// Reads one thread's batches, epoch by epoch. A thread that has failed still comes to all
    /// barriers.
    fn reads_epochs(
        &self,
        number: u32,
        passes: u32,
        barrier: &Barrier,
    ) -> Result<(Walked, Trodden, Vec<Epoch>), Error> {
        let mut thread = Thread::new(self);
        let mut result = Ok(());
        let mut epochs = Vec::new();
        for pass in 0..passes {
            barrier.wait();
            if number == 0 && pass > 0 && result.is_ok() {
                result = (self.forget)();
            }
            barrier.wait();
            let (began, before) = (self.start.elapsed(), thread.trodden.files);
            if result.is_ok() {
                result = thread.batches(number);
            }
            self.fails.fetch_or(result.is_err(), Relaxed);
            let (ended, files) = (self.start.elapsed(), thread.trodden.files - before);
            epochs.push(Epoch { began, ended, files });
        }
        result?;
        let (walked, trodden) = thread.ended();
        Ok((walked, trodden, epochs))
    }
}

/// What one thread did in one epoch.
#[derive(Clone, Copy)]
struct Epoch {
    began: Duration,
    ended: Duration,
    files: u64,
}

/// One thread of the walk.
struct Thread<'a> {
    site: &'a Site<'a>,
    walked: Walked,
    trodden: Trodden,
    buffer: Vec<u8>,
}

impl<'a> Thread<'a> {
    fn new(site: &'a Site<'a>) -> Self {
        let walked = Walked::new(false, site.start.elapsed());
        let buffer = vec![0; site.workload.pattern.record_bytes() as usize];
        Self { site, walked, trodden: Trodden::default(), buffer }
    }

    fn ended(mut self) -> (Walked, Trodden) {
        self.walked.ended = self.site.start.elapsed();
        (self.walked, self.trodden)
    }

    fn time_is_up(&self) -> bool {
        let duration = Duration::from_nanos(self.site.workload.duration_ns);
        self.site.start.elapsed() >= duration || self.site.fails.load(Relaxed)
    }

    /// Counts an operation that began at `began`.
    fn done(&mut self, began: Instant) {
        self.walked.operations += 1;
        self.walked.latency_us.record(began.elapsed());
    }

    /// Reads a directory (`None`: the top) and everything in it; false if the time was up before
    /// the end.
    fn directory(&mut self, path: &Path, number: Option<u32>, visit: Visit) -> Result<bool, Error> {
        let failed =
            |operation| move |cause| Error::Read { path: path.display().to_string(), operation, offset: 0, cause };
        let tree = self.site.tree;
        let wanted = tree.names_in(number) as usize;
        let (mut found, mut seen) = (Vec::with_capacity(wanted), HashSet::with_capacity(wanted));
        let began = Instant::now();
        for entry in fs::read_dir(path).map_err(failed("open"))? {
            let entry = entry.map_err(failed("readdir"))?;
            let name = entry.file_name();
            let wrong = || Error::WrongName { path: path.join(entry.file_name()).display().to_string() };
            let child = name.to_str().and_then(|name| tree.child(number, name)).ok_or_else(wrong)?;
            let kind = entry.file_type().map_err(failed("readdir"))?;
            let is_right = match child {
                Child::Directory(_) => kind.is_dir(),
                Child::File(_) => kind.is_file(),
            };
            if !is_right || !seen.insert(child) {
                return Err(wrong());
            }
            if visit == Visit::Attributes {
                let began = Instant::now();
                let about = entry.metadata().map_err(failed("lstat"))?;
                if about.is_file() && about.len() != tree.size_bytes {
                    return Err(wrong());
                }
                self.done(began);
            }
            found.push((child, name));
        }
        if found.len() != wanted {
            return Err(Error::WrongCount { path: path.display().to_string(), wanted, found: found.len() });
        }
        self.trodden.directories += 1;
        self.trodden.names += found.len() as u64;
        if visit == Visit::Names {
            self.done(began);
        }
        for (child, name) in found {
            let mut in_time = !self.time_is_up();
            match (child, visit) {
                _ if !in_time => {}
                (Child::Directory(below), _) => in_time = self.directory(&path.join(name), Some(below), visit)?,
                (Child::File(file), Visit::Contents { .. }) if !self.has_enough() => {
                    self.file(&path.join(name), file)?;
                }
                _ => {}
            }
            if !in_time || self.has_enough() {
                return Ok(in_time);
            }
        }
        Ok(true)
    }

    /// Whether the walk has read as many files as it may.
    fn has_enough(&self) -> bool {
        self.site.workload.operations_max.is_some_and(|most| self.trodden.files >= most)
    }

    /// Reads the thread's files of one epoch.
    fn batches(&mut self, number: u32) -> Result<(), Error> {
        for file in self.site.workload.batches(number) {
            if self.time_is_up() {
                break;
            }
            self.file(&self.site.top.join(self.site.tree.file_path(file)), file)?;
        }
        Ok(())
    }

    /// Reads a file to its end.
    fn file(&mut self, path: &Path, number: u32) -> Result<(), Error> {
        let failed =
            |operation, offset| move |cause| Error::Read { path: path.display().to_string(), operation, offset, cause };
        let began = Instant::now();
        let mut file = File::open(path).map_err(failed("open", 0))?;
        let mut offset = 0;
        loop {
            let got = file.read(&mut self.buffer).map_err(failed("read", offset))?;
            if got == 0 {
                break;
            }
            self.walked.first_byte.get_or_insert_with(|| self.site.start.elapsed());
            // Another place in every file.
            let (key, read) = (self.site.tree.file_path(number), &self.buffer[..got]);
            sample::verify(&key, offset, read, offset + u64::from(number))?;
            offset += got as u64;
        }
        if offset != self.site.tree.size_bytes {
            let (len, got) = (self.site.tree.size_bytes as u32, offset as usize);
            return Err(Error::Short { path: path.display().to_string(), offset: 0, len, got });
        }
        drop(file);
        self.walked.bytes += offset;
        self.trodden.files += 1;
        self.done(began);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use foreread_testbed::content::Content;
    use foreread_workload::catalogue;

    use super::*;
    use crate::subject::server::GENERATION;

    /// The tree of a workload in a directory, after `changes` to its TOML.
    fn planted(name: &str, changes: &[(&str, &str)]) -> (tempfile::TempDir, Workload) {
        let mut text = catalogue::text(name).expect("it is in the catalogue").to_owned();
        for (from, to) in changes {
            assert!(text.contains(from), "{name} has no {from}");
            text = text.replace(from, to);
        }
        let workload = Workload::parse("test", &text).expect("the changes leave it correct");
        let dir = tempfile::tempdir().expect("a temporary directory");
        for (key, bytes) in workload.all_files() {
            let path = dir.path().join(&key);
            fs::create_dir_all(path.parent().expect("no file lies at the top")).expect("a writable directory");
            let mut content = vec![0; bytes as usize];
            Content::new(&key, GENERATION).fill(0, &mut content);
            fs::write(path, content).expect("a writable directory");
        }
        (dir, workload)
    }

    fn walked(dir: &Path, workload: &Workload) -> Result<(Walked, Trodden), Error> {
        let tree = workload.tree.expect("it has one");
        let mut part = walk(dir, workload, tree, &|| Ok(()))?;
        Ok((part.threads.remove(0), part.trodden.expect("it walks")))
    }

    const FEWER: &[(&str, &str)] = &[("= 100\n", "= 4\n"), ("= 200\n", "= 5\n")];

    #[test]
    fn a_walk_counts_what_it_finds_and_reads() {
        for (name, operations, files) in [("find", 5, 0), ("ls", 24, 0), ("grep", 20, 20)] {
            let (dir, workload) = planted(name, FEWER);
            let (walked, trodden) = walked(dir.path(), &workload).expect("everything is right");
            assert_eq!((trodden.directories, trodden.names, trodden.files), (5, 24, files), "{name}");
            assert_eq!((walked.operations, walked.bytes), (operations, files * 8192), "{name}");
            assert!(trodden.complete && trodden.passes.len() == 1, "{name}");
        }
        let (dir, workload) = planted("deep-tree", &[]);
        let (_, trodden) = walked(dir.path(), &workload).expect("everything is right");
        assert_eq!((trodden.directories, trodden.names), (37, 36 + 108));
    }

    #[test]
    fn a_walk_that_is_stopped_reads_no_more_than_it_should() {
        let (dir, workload) = planted("grep-stopped", &[FEWER, &[("= 10000\n", "= 7\n")]].concat());
        let (walked, trodden) = walked(dir.path(), &workload).expect("everything is right");
        assert_eq!((trodden.files, trodden.directories, walked.bytes), (7, 3, 7 * 8192));
    }

    #[test]
    fn every_file_is_read_in_every_epoch_and_caches_are_dropped_between() {
        let (dir, workload) = planted("epoch", &[("= 200\n", "= 4\n"), ("= 100\n", "= 50\n"), ("110KB", "5KB")]);
        let (tree, forgotten) = (workload.tree.expect("it has one"), AtomicU32::new(0));
        let forget = || {
            forgotten.fetch_add(1, Relaxed);
            Ok(())
        };
        let part = walk(dir.path(), &workload, tree, &forget).expect("all is right");
        assert_eq!(forgotten.into_inner(), 1, "between the two");
        let trodden = part.trodden.expect("it walks");
        assert_eq!(part.threads.len(), 8);
        assert_eq!((trodden.files, trodden.names), (400, 204));
        assert_eq!(trodden.passes.iter().map(|pass| pass.files).collect::<Vec<_>>(), [200, 200]);
        assert!(trodden.complete);
        fs::remove_file(dir.path().join("d003/f00049.bin")).expect("it is there");
        let failed = walk(dir.path(), &workload, tree, &|| Ok(()));
        assert!(matches!(failed, Err(Error::WrongCount { wanted: 50, found: 49, .. })), "{failed:?}");
    }

    #[test]
    fn what_is_missing_or_strange_or_wrong_is_an_error() {
        let (dir, workload) = planted("grep", FEWER);
        let path = dir.path().join("d002/f00004.bin");
        let whole = fs::read(&path).expect("it is there");
        fs::write(&path, &whole[..8000]).expect("a writable directory");
        assert!(matches!(walked(dir.path(), &workload), Err(Error::Short { got: 8000, .. })));
        fs::write(&path, vec![7; 8192]).expect("a writable directory");
        assert!(matches!(walked(dir.path(), &workload), Err(Error::WrongBytes { .. })));
        fs::remove_file(&path).expect("it is there");
        assert!(matches!(walked(dir.path(), &workload), Err(Error::WrongCount { wanted: 5, found: 4, .. })));
        fs::create_dir(&path).expect("a writable directory");
        assert!(matches!(walked(dir.path(), &workload), Err(Error::WrongName { .. })), "a directory is no file");
        fs::remove_dir(&path).expect("it is there");
        fs::write(dir.path().join("d002/else"), "").expect("a writable directory");
        assert!(matches!(walked(dir.path(), &workload), Err(Error::WrongName { .. })));
        let (dir, workload) = planted("ls", FEWER);
        fs::write(dir.path().join("d000/f00000.bin"), "short").expect("a writable directory");
        assert!(
            matches!(walked(dir.path(), &workload), Err(Error::WrongName { .. })),
            "its length is not that of the tree's files"
        );
    }
}
